#!/usr/bin/env bash
# Ensures that the tests find a PostgreSQL server: in the directory POSTGRESQL_BIN, or installed on this machine. If
# there is no server, and this machine runs Debian or Ubuntu, the script unpacks the packages below bin/postgresql. It
# does not need root, and changes nothing outside of bin/.
set -euo pipefail
shopt -s nullglob

cd "$(dirname "${BASH_SOURCE[0]}")/.."
target="${PWD}/bin/postgresql"
installed=(/usr/lib/postgresql/*/bin/postgres)
if [[ -n "${POSTGRESQL_BIN:-}" || -x "${target}/bin/postgres" ]] || ((${#installed[@]} > 0)) || command -v postgres >/dev/null; then
  exit 0
fi

fail() {
  echo "PostgreSQL is missing$1: install the package postgresql. The tests start the server themselves, not as root." >&2
  exit 1
}
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
  fail ""
fi

# apt uses its own lists, caches and locks below bin/, and the status of dpkg for the installed packages.
state="${target}.apt"
rm -rf "${state}" "${target}" "${target}.new"
trap 'rm -rf "${state}" "${target}.new"' EXIT
mkdir -p "${state}"/{lists,cache/archives}/partial "${target}.new"/{unpacked,bin}
apt=(apt-get -qq -o "Dir::State::Lists=${state}/lists" -o "Dir::State::extended_states=${state}/extended_states" -o "Dir::Cache=${state}/cache"
  -o Dir::State::status=/var/lib/dpkg/status -o Debug::NoLocking=true -o APT::Sandbox::User=)
echo "PostgreSQL is missing: downloading its packages to bin/postgresql"
"${apt[@]}" update >/dev/null || fail ", and the package lists could not be downloaded"

# A server needs its programs, and the libraries that are not installed. The list omits packages that only administer a
# machine, and the large JIT compiler (LLVM).
mapfile -t names < <("${apt[@]}" install --simulate --no-install-recommends postgresql |
  awk '$1 == "Inst" && $2 ~ /^(postgresql-[0-9]+|postgresql-client-[0-9]+|lib.*)$/ && $2 !~ /^(libllvm|lib.*-perl$)/ { print $2 }')
((${#names[@]} > 0)) || fail ", and apt has no package of it"
(cd "${state}" && "${apt[@]}" download "${names[@]}") || fail ", and its packages could not be downloaded"
for package in "${state}"/*.deb; do
  dpkg-deb --extract "${package}" "${target}.new/unpacked"
done
rm -f "${target}.new"/unpacked/usr/lib/postgresql/*/lib/llvmjit.so

# A wrapper for each program sets the path of its libraries. Some packages have libraries in /usr/lib, and some in
# /lib.
triplet="$(dpkg-architecture -q DEB_HOST_MULTIARCH 2>/dev/null || echo "$(uname -m)-linux-gnu")"
libraries="${target}/unpacked/usr/lib/${triplet}:${target}/unpacked/lib/${triplet}"
for program in "${target}.new"/unpacked/usr/lib/postgresql/*/bin/*; do
  wrapper="${target}.new/bin/$(basename "${program}")"
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "${libraries}" "${program/${target}.new/${target}}" >"${wrapper}"
  chmod 755 "${wrapper}"
done
mv "${target}.new" "${target}"
"${target}/bin/postgres" --version || fail ", and the program in its packages does not run here"
if [[ "$(id -u)" == 0 ]] && ! setpriv --reuid=65534 --regid=65534 --clear-groups "${target}/bin/postgres" --version >/dev/null 2>&1; then
  fail ", and the user nobody, which runs the server in the tests, cannot read ${target}"
fi
