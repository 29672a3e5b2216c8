#!/usr/bin/env bash
# Checks that this machine can build and test Windlass. It prints one sentence for each missing prerequisite.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
failed=0
missing() {
  echo "$1" >&2
  failed=1
}

want="$(awk '$1 == "go" { print $2 }' go.mod)"
if ! command -v go >/dev/null; then
  missing "Go is missing: install version ${want} or later, and add it to PATH."
elif ! have="$(go env GOVERSION 2>&1)"; then
  missing "Go does not run here (version ${want} or later is required): ${have}"
elif [[ "$(printf '%s\n' "${want}" "${have#go}" | sort -V | head -n 1)" != "${want}" ]]; then
  missing "Go ${have#go} is too old: install version ${want} or later."
fi
if ! command -v git >/dev/null; then
  missing "git is missing: install the package git."
elif ! git rev-parse --git-dir >/dev/null 2>&1; then
  missing "This is not a git checkout: get Windlass with git clone."
fi
if ! gcc -E -include stdlib.h - </dev/null >/dev/null 2>&1; then
  missing "gcc or its C headers are missing: install the packages gcc and libc6-dev, which the race detector of Go needs."
fi
exit "${failed}"
