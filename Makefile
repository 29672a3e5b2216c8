SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# The version for metrics must be a semantic version, even in a repository without tags.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null || \
	echo "v0.0.0-$$(git rev-parse --verify --quiet --short=12 HEAD 2>/dev/null || echo unknown)")
version_package := k8s.io/component-base/version
LDFLAGS := -s -w -X $(version_package).gitVersion=$(VERSION) \
	-X $(version_package).gitCommit=$(shell git rev-parse --verify --quiet HEAD) \
	-X $(version_package).buildDate=$(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null)

# IMAGE is the name of the image in its archive, in install.yaml and in the chart, without a tag. PUSH is the NAME:TAG
# under which the image is pushed; empty means not to push.
IMAGE ?= windlass-controller
PUSH ?=
# FUZZTIME is how long each fuzz target runs. The timeouts are for one run of the tests.
FUZZTIME ?= 30s
# The number of unusual objects of each kind that `make fuzz` creates.
OBJECTS ?= 10000
INTEGRATION_TIMEOUT ?= 45m
E2E_TIMEOUT ?= 30m
# The number of tests on the real API server that run at a time in each of two packages. Tests wait most of the time.
PARALLEL ?= 4
# SEED selects the eightieth of the plans that `make test-faults` runs, and the objects of `make fuzz`. PLAN is the only
# plan that `make faults` runs; empty means all plans.
SEED ?= 1
PLAN ?=
# RACE enables the race detector for the plans. Without the race detector, the plans take a third of the time.
RACE ?= -race
# CHANGES is a number that selects the quarter of the long tests that `make test` runs: of the tests that call
# framework.InQuarter, and of the cases and scenarios from framework.Quarter. `make test-all` runs all of them.
CHANGES ?= $(shell git rev-list --count HEAD 2>/dev/null || echo 0)
# SUITE is the directory below test of `make test-one`, and RUN the regular expression that selects its tests.
SUITE ?= integration
RUN ?= .
# The commit or tag from which `make test-upgrade` upgrades. Empty means the last release.
FROM ?=
# How `make e2e` installs the operator: from artifacts or, after `make release`, from the manifests or the chart in dist.
INSTALL ?= artifacts
# Flags of bin/bench.
BENCH ?=

STEP := hack/step.sh
# The modules with Go code in addition to the main module.
MODULES := examples/memcached hack/release test/bench test/kstatus test/neighbours
PIPE := bash -o pipefail -c
# Filter of test output: it removes the line of each package without tests.
hide_empty := | sed -u "/\[no test files\]/d"
# Filter of the output of tests on a real API server: it keeps the name of each test, its figures and its failures.
hide_steps := | sed -uE "/\[no test files\]|^=== (RUN|PAUSE|CONT|NAME) |^ *--- PASS: [^ ]*\//d"
# -trimpath keeps the path of this checkout out of compiled packages, so that Go can use its build cache in every
# checkout. The checks of generated files compile in a temporary checkout.
export GOFLAGS := $(shell go env GOFLAGS) -trimpath

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z0-9\/-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

##@ Build

.PHONY: build
build: prerequisites ## Build bin/controller and the kubectl plugin bin/kubectl-windlass, static binaries.
	@CGO_ENABLED=0 $(STEP) "build bin/controller and bin/kubectl-windlass" \
		go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/ ./cmd/controller ./cmd/kubectl-windlass
	@ln -sf kubectl-windlass bin/kubectl_complete-windlass

.PHONY: image
image: prerequisites bin/release ## Build the image for all platforms into dist/: make image [PUSH=NAME:TAG].
	@$(STEP) "build the image" bin/release image --version '$(VERSION)' --commit "$$(git rev-parse HEAD)" \
		--date "$$(git log -1 --format=%cI)" --ldflags '$(LDFLAGS)' --name '$(IMAGE)' --push '$(PUSH)'

.PHONY: release
release: prerequisites bin/release ## Fill dist/ with a release: make release VERSION=v0.2.0 IMAGE=NAME [PUSH=NAME:v0.2.0].
	@hack/release.sh check '$(VERSION)' '$(IMAGE)' '$(PUSH)'
	@rm -rf dist
	@$(MAKE) image
	@$(STEP) "release $(VERSION)" hack/release.sh fill '$(VERSION)' '$(IMAGE)'

.PHONY: ldflags
ldflags:
	@echo '$(LDFLAGS)'

.PHONY: example
example: prerequisites ## Build bin/memcached-operator from examples/memcached.
	@$(STEP) "build bin/memcached-operator" go -C examples/memcached build -trimpath -o $(CURDIR)/bin/memcached-operator .

.PHONY: generate
generate: prerequisites ## Generate code and manifests from pkg/apis.
	@$(STEP) "generate" hack/update-codegen.sh

.PHONY: clean
clean: cluster-down ## Stop the local cluster, and remove everything that was built.
	rm -rf bin dist

##@ Check

.PHONY: test
test: prerequisites postgresql verify lint test-unit test-integration test-neighbours test-faults ## Run all checks and tests; needs only Go, git, make and gcc.

.PHONY: test-all
test-all: ## Run all tests of `make test`, and not only a quarter of the long ones.
	@$(MAKE) test CHANGES=

.PHONY: prerequisites
prerequisites:
	@hack/prerequisites.sh

.PHONY: postgresql
postgresql: prerequisites
	@hack/postgresql.sh

.PHONY: verify
verify: prerequisites ## Check that generated files and go.mod are up to date.
	@$(STEP) "generated files" hack/verify-codegen.sh
	@$(STEP) "modules" hack/verify-modules.sh

.PHONY: lint
lint: prerequisites bin/golangci-lint ## Check style, import direction and names.
	@$(STEP) "names and lengths of files" hack/lint-files.sh
	@$(STEP) "format, in all modules" bin/golangci-lint fmt --diff
	@$(STEP) "lint" bin/golangci-lint run ./...
	@for module in $(MODULES); do \
		$(STEP) "lint of $$module" env -C $$module $(CURDIR)/bin/golangci-lint run ./... || exit 1; \
	done

.PHONY: test-unit
# `make lint` runs vet.
test-unit: prerequisites ## Run the unit tests, with the race detector.
	@$(STEP) "unit tests" $(PIPE) 'go test -race -vet=off ./... $(hide_empty)'
	@for module in $(MODULES); do \
		$(STEP) "unit tests of $$module" $(PIPE) "go -C $$module test -race -vet=off ./... "'$(hide_empty)' || exit 1; \
	done

.PHONY: test-integration
test-integration: postgresql build example bin/kubernetes bin/gotestsum bin/prometheus ## Run the tests on a real API server, started from bin/kubernetes.
	@$(STEP) "integration tests" $(PIPE) \
		'CHANGES=$(CHANGES) bin/gotestsum --format standard-verbose -- \
			-race -vet=off -count=1 -p 2 -parallel $(PARALLEL) -tags integration -timeout $(INTEGRATION_TIMEOUT) ./test/integration ./test/plan ./test/sharding ./test/security ./test/fuzz ./test/monitoring ./test/postgres ./pkg/postgresql ./pkg/kinds/database $(hide_steps)'

.PHONY: test-neighbours
test-neighbours: postgresql build bin/kubernetes bin/gotestsum ## Run GitOps tools, policies, autoscalers, a drain and a restore beside the operator.
	@$(STEP) "neighbours" $(PIPE) 'cd test/neighbours && CHANGES=$(CHANGES) $(CURDIR)/bin/gotestsum --format standard-verbose -- \
		-race -vet=off -count=1 -parallel 8 -tags integration -timeout $(INTEGRATION_TIMEOUT) ./... $(hide_steps)'

.PHONY: test-one
test-one: postgresql build example bin/kubernetes bin/prometheus ## Run some tests of one suite: make test-one SUITE=security RUN=TestName.
	@cd test/$(SUITE) && go test -race -count=1 -v -tags '$(if $(filter e2e,$(SUITE)),e2e,integration)' \
		-timeout $(INTEGRATION_TIMEOUT) -run '$(RUN)' .

.PHONY: test-upgrade
test-upgrade: postgresql build bin/kubernetes ## Upgrade from another version: make test-upgrade FROM=COMMIT.
	@$(STEP) "upgrade" env UPGRADE_FROM=$(FROM) \
		go test -race -count=1 -tags integration -run '^TestUpgradeAndRollbackRestartNothing$$' ./test/integration

# The tests have no timeout, because a long duration is not a failure.
faults := env GOGC=400 bin/faults.test -test.run '^TestFaults$$' -test.timeout 0

.PHONY: test-faults
test-faults: postgresql bin/faults.test bin/kubernetes ## Run an eightieth of the plans of `make faults`, selected by SEED, in a quarter of its scenarios.
	@$(STEP) "faults, an eightieth" env CHANGES=$(CHANGES) $(faults) -faults.seed $(SEED)

.PHONY: faults
faults: postgresql bin/faults.test bin/kubernetes ## Run all plans, with a fault at every request and event: make faults [PLAN=NAME].
	@$(STEP) "faults" $(faults) -faults.all -faults.plan '$(PLAN)'

.PHONY: chaos
chaos: build bin/kubernetes ## Kill, stop, freeze, add and roll out replicas that share shards, for about ten minutes.
	@$(STEP) "chaos" go test -race -count=1 -v -tags integration -timeout 0 -run '^TestChaos$$' ./test/sharding \
		-sharding.duration 10m -sharding.writes 10000 -sharding.ats 1000 -sharding.limits -sharding.seed $$(date +%s)

.PHONY: mutants
mutants: postgresql bin/kubernetes ## Show that `make faults` finds the bugs in test/faults/mutants.
	@$(STEP) "mutants" hack/mutants.sh

.PHONY: e2e
e2e: build $(if $(filter helm,$(INSTALL)),bin/helm) ## Run the tests on your own cluster: make e2e KUBECONFIG=FILE [INSTALL=artifacts|manifests|helm].
	@if [[ -z "$${KUBECONFIG:-}" ]]; then echo "KUBECONFIG is not set: run make e2e KUBECONFIG=FILE." >&2; exit 1; fi
	@$(STEP) "end-to-end tests" \
		env E2E_INSTALL=$(INSTALL) go test -count=1 -v -tags e2e -timeout $(E2E_TIMEOUT) ./test/e2e/...

.PHONY: bench
bench: build bin/kubernetes ## Compare with controller-runtime, and with the limit; writes docs/benchmarks.md.
	@$(STEP) "build bin/bench" go -C test/bench build -o $(CURDIR)/bin/bench .
	@$(STEP) "benchmarks" bin/bench $(BENCH)

.PHONY: fuzz
fuzz: postgresql build bin/kubernetes ## Run each fuzz target for FUZZTIME (30s), create OBJECTS (10000) unusual objects of each kind, and change each field.
	@$(STEP) "fuzz" hack/fuzz.sh $(FUZZTIME)
	@$(STEP) "odd objects" $(PIPE) 'go test -race -count=1 -v -tags integration -timeout 0 -run TestOddObjectsDoNotAffectOtherTenants \
		./test/fuzz -fuzz.objects $(OBJECTS) -fuzz.seed $(SEED) $(hide_steps)'
	@$(STEP) "changes of fields" $(PIPE) 'go test -race -count=1 -v -tags integration -timeout 0 \
		-run "TestRevertedFieldChange|TestReconcileCorrectsEachDrift|TestPlanIsWhatHappens" ./test/integration ./test/plan $(hide_steps)'

##@ Try

.PHONY: demo
demo: build bin/kubernetes ## Show Windlass at work: local cluster, controller, examples.
	@hack/demo.sh

.PHONY: cluster-up
cluster-up: bin/kubernetes ## Start a local Kubernetes in this checkout.
	@hack/cluster-up.sh

.PHONY: cluster-down
cluster-down: ## Stop the local Kubernetes and remove its data.
	@hack/cluster-down.sh

##@ Tools

bin/kubernetes: $(shell find hack/cluster -type f) | prerequisites ## Build the local Kubernetes (some minutes the first time).
	@$(STEP) "build bin/kubernetes" hack/cluster/build.sh
	@touch $@

.PHONY: bin/faults.test
bin/faults.test: prerequisites
	@$(STEP) "build bin/faults.test" go test $(RACE) -vet=off -c -tags integration -o $@ ./test/faults

.PHONY: bin/release
bin/release: prerequisites
	@$(STEP) "build bin/release" go -C hack/release build -o $(CURDIR)/$@ .

bin/golangci-lint: hack/tools/lint/go.mod hack/tools/lint/go.sum | prerequisites
	@$(STEP) "build bin/golangci-lint" \
		go -C hack/tools/lint build -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

bin/helm: hack/tools/helm/go.mod hack/tools/helm/go.sum | prerequisites
	@$(STEP) "build bin/helm" go -C hack/tools/helm build -o $(CURDIR)/$@ helm.sh/helm/v4/cmd/helm
	@touch $@

# The build tag omits the service discovery of Prometheus, which needs the client libraries of all clouds.
bin/prometheus: hack/tools/prometheus/go.mod hack/tools/prometheus/go.sum | prerequisites
	@$(STEP) "build bin/prometheus and bin/promtool" go -C hack/tools/prometheus build -tags remove_all_sd -ldflags '-s -w' \
		-o $(CURDIR)/bin/ github.com/prometheus/prometheus/cmd/promtool github.com/prometheus/prometheus/cmd/prometheus
	@touch $@

bin/gotestsum: hack/tools/go.mod hack/tools/go.sum | prerequisites
	@$(STEP) "build bin/gotestsum" go -C hack/tools build -o $(CURDIR)/$@ gotest.tools/gotestsum
	@touch $@
