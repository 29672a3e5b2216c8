#!/usr/bin/env bash
# Generates code and CRDs from pkg/apis, in this module and in the modules below examples: deepcopy and register
# functions next to the types, clients in pkg/generated, and CRDs in artifacts/crds. In this module, the script also
# generates docs/messages.md from the messages that the kinds declare, docs/flags.md from the flags of the controller,
# and templates of the Helm chart from artifacts.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
boilerplate="${root}/hack/boilerplate.go.txt"

# kube_codegen.sh builds its generators from the module in KUBE_CODEGEN_ROOT, and installs them into GOBIN. Both
# directories are in this checkout, so that hack/tools/go.mod pins the versions, and nothing is written elsewhere.
export GOBIN="${root}/bin/tools"
go -C "${root}/hack/tools" mod download k8s.io/code-generator
# shellcheck source=/dev/null
source "$(go -C "${root}/hack/tools" list -m -f '{{.Dir}}' k8s.io/code-generator)/kube_codegen.sh"
KUBE_CODEGEN_ROOT="${root}/hack/tools"
go -C "${root}/hack/tools" install sigs.k8s.io/controller-tools/cmd/controller-gen ./crdlimits

generate() { # generate MODULE-DIRECTORY [OPTION OF gen_client...]
  cd "${root}/$1"
  mkdir -p pkg/generated/{clientset,informers,listers} artifacts/crds
  kube::codegen::gen_helpers --boilerplate "${boilerplate}" pkg/apis
  kube::codegen::gen_register --boilerplate "${boilerplate}" pkg/apis
  kube::codegen::gen_client --with-watch "${@:2}" \
    --boilerplate "${boilerplate}" \
    --output-dir pkg/generated --output-pkg "$(go list -m)/pkg/generated" \
    pkg/apis
  echo "Generating CRDs"
  rm -f artifacts/crds/*_*.yaml
  "${GOBIN}/controller-gen" crd paths=./pkg/apis/... output:crd:dir=artifacts/crds
  "${GOBIN}/crdlimits" "${root}/hack/crd-conversion.yaml" artifacts/crds/*_*.yaml
}

generate . --with-applyconfig
go -C "${root}" run ./hack/messages >"${root}/docs/messages.md"
(cd "${root}" && go run ./cmd/controller --help | go run ./hack/flags) >"${root}/docs/flags.md"
(cd "${root}" && go run ./hack/chart)
for module in "${root}"/examples/*/go.mod; do
  if [[ -e "${module}" ]]; then generate "examples/$(basename "$(dirname "${module}")")"; fi
done
