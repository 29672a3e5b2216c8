#!/usr/bin/env bash
# Starts a local Kubernetes. Its state is in the directory .cluster of this checkout. `make cluster-up` first builds
# bin/kubernetes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec bin/kubernetes up --dir .cluster
