#!/usr/bin/env bash
# Builds bin/kubernetes. The build cache of Go decides which packages are compiled.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
readonly target=../../bin/kubernetes

# kubectl compares its version with the version of the server.
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
IFS=. read -r major minor _ <<<"${version#v}"
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  flags+=" -X ${package}.gitVersion=${version} -X ${package}.gitMajor=${major} -X ${package}.gitMinor=${minor}"
done

mkdir -p ../../bin
[[ -e ${target} ]] || echo "Building Kubernetes ${version} from Go modules: about 5 minutes on two cores, seconds the next time."
CGO_ENABLED=0 go build -trimpath -ldflags "${flags}" -o "${target}" . &
build=$!
trap 'kill "${build}" 2>/dev/null || true' EXIT
for ((waited = 1; ; waited++)); do
  if ! kill -0 "${build}" 2>/dev/null; then break; fi
  if ((waited % 10 == 0)); then echo "  still compiling after ${waited} s"; fi
  sleep 1
done
trap - EXIT
wait "${build}"

cat >../../bin/kubectl <<'SCRIPT'
#!/bin/sh
exec "$(dirname "$0")/kubernetes" kubectl "$@"
SCRIPT
chmod +x ../../bin/kubectl
