#!/usr/bin/env bash
# step.sh NAME COMMAND [ARGUMENT...] runs a command, and prints its duration.
set -euo pipefail

name="$1"
shift
echo "==> ${name}"
SECONDS=0
status=0
"$@" || status=$?
if ((status == 0)); then
  echo "==> ${name}: done in ${SECONDS} s"
else
  echo "==> ${name}: failed after ${SECONDS} s" >&2
fi
exit "${status}"
