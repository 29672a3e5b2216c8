#!/usr/bin/env bash
# Fails if a go.mod is not tidy, or if the main module depends on controller-runtime, even indirectly.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly unwanted=sigs.k8s.io/controller-runtime

for dir in . examples/memcached hack/release hack/tools hack/tools/helm hack/tools/lint hack/tools/prometheus test/bench test/kstatus test/neighbours; do
  if ! go -C "${dir}" mod tidy -diff >/dev/null; then
    echo "${dir}/go.mod is not tidy: run go mod tidy in ${dir}, and commit its changes." >&2
    exit 1
  fi
done
why="$(go mod why -m "${unwanted}")"
if [[ "${why}" != *"does not need module ${unwanted}"* ]]; then
  printf '%s\nThe main module must not depend on %s.\n' "${why}" "${unwanted}" >&2
  exit 1
fi
modules="$(go list -m -f '{{.Path}}' all)"
if grep -qxF "${unwanted}" <<<"${modules}"; then
  echo "The main module must not depend on ${unwanted}: go mod graph shows which module requires it." >&2
  exit 1
fi
