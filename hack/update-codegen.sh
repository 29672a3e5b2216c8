#!/usr/bin/env bash
# Makes what is generated from pkg/apis: deepcopy and register functions beside
# the types, clients in pkg/generated, and the CRDs in artifacts/crds.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
cd "${root}"
module="$(go list -m)"
boilerplate="${root}/hack/boilerplate.go.txt"

# kube_codegen.sh builds its generators into GOBIN, from the module in
# KUBE_CODEGEN_ROOT. Both are ours, so that the versions are those which
# hack/tools/go.mod pins, and nothing lands outside the checkout.
export GOBIN="${root}/bin/tools"
go -C hack/tools mod download k8s.io/code-generator
# shellcheck source=/dev/null
source "$(go -C hack/tools list -m -f '{{.Dir}}' k8s.io/code-generator)/kube_codegen.sh"
KUBE_CODEGEN_ROOT="${root}/hack/tools"

mkdir -p pkg/generated/{applyconfiguration,clientset,informers,listers} artifacts/crds
kube::codegen::gen_helpers --boilerplate "${boilerplate}" pkg/apis
kube::codegen::gen_register --boilerplate "${boilerplate}" pkg/apis
kube::codegen::gen_client --with-watch --with-applyconfig \
  --boilerplate "${boilerplate}" \
  --output-dir pkg/generated --output-pkg "${module}/pkg/generated" \
  pkg/apis

echo "Generating CRDs"
go -C hack/tools install sigs.k8s.io/controller-tools/cmd/controller-gen ./crdlimits
rm -f artifacts/crds/*_*.yaml
"${GOBIN}/controller-gen" crd paths=./pkg/apis/... output:crd:dir=artifacts/crds
"${GOBIN}/crdlimits" hack/crd-conversion.yaml artifacts/crds/*_*.yaml
