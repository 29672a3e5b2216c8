#!/usr/bin/env bash
# Starts a local Kubernetes, whose state is in .cluster of this checkout. `make cluster-up` builds it first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec bin/kubernetes up --dir .cluster
