#!/usr/bin/env bash
# mutants.sh [NAME...] shows that the plans of test/faults find bugs. It applies each patch in test/faults/mutants, or
# only the named ones, to a copy of the tree. Then it runs the scenarios in the head of the patch ("Scenarios: ...")
# until a plan fails. Some bugs appear only after an action of a user, which no plan has. The head of such a patch
# names a unit test instead ("Test: PACKAGE NAME"). The script fails if a bug is not found.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "${root}"
mutants=("$@")
if ((${#mutants[@]} == 0)); then
  mapfile -t mutants < <(cd test/faults/mutants && ls -- *.patch | sed 's/\.patch$//')
fi

copy="$(mktemp -d)"
trap 'rm -rf "${copy}"' EXIT
git ls-files --cached --others --exclude-standard -z | tar -c --null -T - | tar -x -C "${copy}"
mkdir -p "${copy}/bin"
ln -sf "${root}/bin/kubernetes" "${copy}/bin/kubernetes"

missed=()
for name in "${mutants[@]}"; do
  patch="${root}/test/faults/mutants/${name}.patch"
  scenarios="$(sed -n 's/^Scenarios: //p' "${patch}")"
  patch --quiet --fuzz=0 -d "${copy}" -p1 <"${patch}"
  if read -r package test < <(sed -n 's/^Test: //p' "${patch}"); then
    if (cd "${copy}" && go vet "${package}" && ! go test -timeout 2m -run "^${test}\$" "${package}" >"${copy}/log" 2>&1); then
      echo "${name}: ${test}"
    else
      missed+=("${name}")
      echo "${name}: NOT FOUND"
    fi
    patch --quiet --fuzz=0 --reverse -d "${copy}" -p1 <"${patch}"
    continue
  fi
  (cd "${copy}" && go test -c -tags integration -o bin/mutant.test ./test/faults)
  if (cd "${copy}" && bin/mutant.test -test.run '^TestFaults$' -test.timeout 0 \
    -faults.all -faults.first -faults.scenarios "${scenarios}" >"${copy}/log" 2>&1); then
    missed+=("${name}")
    echo "${name}: NOT FOUND"
  elif ! grep -q ' failed$\|--- FAIL: TestFaults/' "${copy}/log"; then
    cat "${copy}/log"
    echo "${name}: the tests could not run"
    exit 1
  else
    # The first failure is a plan, or a scenario without a fault.
    echo "${name}: $({ sed -n 's/ failed$//p' "${copy}/log"; sed -n 's|.*--- FAIL: TestFaults/\([^ ]*\).*|\1, without a fault|p' "${copy}/log"; } | head -n 1)"
  fi
  patch --quiet --fuzz=0 --reverse -d "${copy}" -p1 <"${patch}"
done
echo "${#mutants[@]} mutants, $((${#mutants[@]} - ${#missed[@]})) found"
((${#missed[@]} == 0))
