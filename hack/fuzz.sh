#!/usr/bin/env bash
# fuzz.sh [DURATION] runs each fuzz target for DURATION, which defaults to 30s.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
duration="${1:-30s}"
git grep --untracked -E '^func Fuzz[A-Za-z0-9_]*\(' -- '*_test.go' |
  sed -E 's/^(.*):func (Fuzz[A-Za-z0-9_]*)\(.*/\1 \2/' |
  while read -r file target; do
    echo "==> ${target} in ${file}"
    go test "./$(dirname "${file}")" -run '^$' -fuzz "^${target}\$" -fuzztime "${duration}"
  done
