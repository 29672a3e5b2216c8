#!/usr/bin/env bash
# Checks rules for which golangci-lint has no linter: banned words in the names of files, directories, functions and
# types, and the length of files.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly max_lines=300 max_test_lines=500
# A banned word is a name of its own, or the end of a name: util_test.go, testutil/, podHelper.
readonly words='(util|helper|manager)s?|common|impl'
readonly camel_words='(Util|Helper|Manager)s?|Common|Impl'

failed=0
report() { # report MESSAGE prints MESSAGE for each place that it reads from stdin.
  local line
  while IFS= read -r line; do
    printf '%s: %s\n' "${line}" "$1" >&2
    failed=1
  done
}

sources() {
  git ls-files --cached --others --exclude-standard "$@" | grep -vE '(^|/)pkg/generated/' | sort -u
}

# go_sources lists the Go files that are not generated. It omits files that are deleted but still in the index.
go_sources() {
  local file
  while IFS= read -r file; do
    if [[ -e "${file}" && "${file##*/}" != zz_generated.* ]]; then echo "${file}"; fi
  done < <(sources '*.go')
}

readonly banned="the name contains util, helper, common, manager or impl, which say nothing: choose a name that says what it does"
report "${banned}" < <(sources | grep -iE "(^|[/_.-])[a-z0-9]*(${words})([/_.-]|$)" || true)

mapfile -t files < <(go_sources)
if ((${#files[@]} > 0)); then
  # Functions, methods and types; then types in a type ( ... ) block.
  name="([A-Za-z0-9_]*(${camel_words})|(${words}))([A-Z0-9_][A-Za-z0-9_]*)?"
  report "${banned}" < <(grep -nHE \
    -e "^(func (\([^)]*\) )?|type )${name}([^A-Za-z0-9_]|$)" \
    -e "^	${name}(\[.*\])? (struct|interface|func)\b" \
    "${files[@]}" || true)
  for file in "${files[@]}"; do
    max="${max_lines}"
    if [[ "${file}" == *_test.go ]]; then max="${max_test_lines}"; fi
    lines="$(wc -l <"${file}")"
    if ((lines > max)); then
      report "longer than ${max} lines: split it by subject" <<<"${file}:${lines}"
    fi
  done
fi
exit "${failed}"
