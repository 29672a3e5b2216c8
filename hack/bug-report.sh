#!/usr/bin/env bash
# Collects the information for a bug report about Windlass, without the content of Secrets and ConfigMaps:
#   hack/bug-report.sh [-n NAMESPACE] [KIND/NAME…]
# It writes the file windlass-bug-report.tar.gz. KIND/NAME are the objects that the bug is about, in NAMESPACE.
# OPERATOR_NAMESPACE is the namespace of the operator, windlass-system by default.
set -euo pipefail

operator="${OPERATOR_NAMESPACE:-windlass-system}" namespace=default
if [[ "${1:-}" == -n ]]; then namespace="$2" && shift 2; fi
if [[ "${1:-}" == -* ]]; then sed -n '2,5s/^# \{0,1\}//p' "$0" && exit 2; fi
kubectl="$(command -v kubectl || echo "$(dirname "${BASH_SOURCE[0]}")/../bin/kubectl")"
dir="$(mktemp -d)"
trap 'rm -rf "${dir}"' EXIT
mkdir "${dir}/windlass-bug-report"

# collect FILE ARG… writes the output of kubectl, or its error, to FILE.
collect() {
  local file="${dir}/windlass-bug-report/$1"
  shift
  { echo "# kubectl $*"; "${kubectl}" "$@" 2>&1 || true; } >>"${file}"
}

readonly kinds=(ats.cnat.programming-kubernetes.info apps.windlass.dev databases.windlass.dev externaldatabases.windlass.dev)
collect versions.txt version
collect versions.txt get nodes -o custom-columns=NAME:.metadata.name,VERSION:.status.nodeInfo.kubeletVersion,RUNTIME:.status.nodeInfo.containerRuntimeVersion
collect operator.txt -n "${operator}" get deployments,pods,services,leases,networkpolicies,poddisruptionbudgets -o wide
collect operator.txt -n "${operator}" describe deployments,pods
collect operator.txt -n kube-system get lease windlass-controller -o yaml
collect operator.txt get crds -o 'custom-columns=NAME:.metadata.name,STORED:.status.storedVersions,CONDITIONS:.status.conditions[*].reason'
collect log.txt -n "${operator}" logs -l app.kubernetes.io/name=windlass --all-containers --prefix --tail=20000
collect log-previous.txt -n "${operator}" logs -l app.kubernetes.io/name=windlass --all-containers --prefix --tail=20000 --previous
for kind in "${kinds[@]}" platforms.windlass.dev; do
  collect objects.txt get "${kind}" --all-namespaces -o 'custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,GENERATION:.metadata.generation,OBSERVED:.status.observedGeneration,PHASE:.status.phase,REASON:.status.conditions[?(@.type=="Ready")].reason'
done
for object in "$@"; do
  collect "${object//\//-}.txt" -n "${namespace}" get "${object}" -o yaml
  collect "${object//\//-}.txt" -n "${namespace}" get events --field-selector "involvedObject.name=${object#*/}"
done
if (($# > 0)); then
  collect namespace.txt -n "${namespace}" get deployments,statefulsets,services,ingresses,pods,persistentvolumeclaims,horizontalpodautoscalers,poddisruptionbudgets -o yaml
  collect namespace.txt -n "${namespace}" get httproutes,grpcroutes -o yaml # the cluster may lack these kinds
  collect namespace.txt -n "${namespace}" get secrets,configmaps # names only
  collect namespace.txt -n "${namespace}" get events --sort-by=.lastTimestamp
fi

tar -C "${dir}" -czf windlass-bug-report.tar.gz windlass-bug-report
echo "windlass-bug-report.tar.gz has the log of the operator, the names of all objects$( (($# > 0)) && echo ", and the objects in namespace ${namespace} but no content of Secrets and ConfigMaps"). Read it before you send it: specs can contain what you do not want to share."
