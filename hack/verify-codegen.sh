#!/usr/bin/env bash
# Fails if generated files are outdated, or if a generator leaves other files behind. It runs the generators in a copy
# of the tree, and compares the copy before and after. The working tree may have other changes, and stays unchanged.
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

# The git index of the copy has the state before. The option --intent-to-add makes the diff show new files too.
in_copy() { git -C "${copy}" -c core.excludesFile= -c core.autocrlf=false "$@"; }
in_copy init --quiet --template=
in_copy add --all
if ! output="$("${copy}/hack/update-codegen.sh" 2>&1)"; then
  printf '%s\n' "${output}" >&2
  exit 1
fi
in_copy add --all --intent-to-add
if ! in_copy --no-pager diff --stat --exit-code; then
  echo "Generated files are outdated: run hack/update-codegen.sh, and commit its changes." >&2
  exit 1
fi
