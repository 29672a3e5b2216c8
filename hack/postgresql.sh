#!/usr/bin/env bash
# Says in one sentence what is missing to test with a real PostgreSQL server.
set -euo pipefail
shopt -s nullglob
found=(/usr/lib/postgresql/*/bin/postgres)
if ((${#found[@]} == 0)) && ! command -v postgres >/dev/null; then
  echo "PostgreSQL is missing: install the package postgresql; the tests run its server themselves, as a user other than root." >&2
  exit 1
fi
