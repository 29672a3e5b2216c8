#!/usr/bin/env bash
# Stops the local Kubernetes of this checkout, and the controller that `make demo` started on it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ -s .cluster/controller.pid ]]; then
  pid=$(cat .cluster/controller.pid)
  if grep -qs bin/controller "/proc/${pid}/cmdline"; then kill "${pid}"; fi
fi
if [[ -x bin/kubernetes ]]; then exec bin/kubernetes down --dir .cluster; fi
