#!/usr/bin/env bash
# Fails if generated files are stale, or if a generator leaves anything behind.
# It generates in a copy and compares the copy with itself, so a working tree
# with other changes is fine, and nothing in it is touched.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
cd "${root}"
mkdir -p bin/tools
copy="$(mktemp -d "${root}/bin/verify-codegen.XXXXXX")"
trap 'rm -rf "${copy}"' EXIT

git ls-files -z --cached --others --exclude-standard |
  while IFS= read -r -d '' file; do
    if [[ -e "${file}" ]]; then printf '%s\0' "${file}"; fi
  done | tar --create --null --files-from=- --file=- | tar --extract --directory="${copy}"
mkdir -p "${copy}/bin"
ln -s "${root}/bin/tools" "${copy}/bin/tools"

# The copy's own index is the state before. Files that a generator adds are
# added with intent only, so that the diff shows them too.
in_copy() { git -C "${copy}" -c core.excludesFile= -c core.autocrlf=false "$@"; }
in_copy init --quiet --template=
in_copy add --all
if ! output="$("${copy}/hack/update-codegen.sh" 2>&1)"; then
  printf '%s\n' "${output}" >&2
  exit 1
fi
in_copy add --all --intent-to-add
if ! in_copy --no-pager diff --stat --exit-code; then
  echo "Generated files are stale: run hack/update-codegen.sh and commit what it changes." >&2
  exit 1
fi
