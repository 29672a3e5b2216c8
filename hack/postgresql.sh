#!/usr/bin/env bash
# Sees to it that the tests find a PostgreSQL server: the one that POSTGRESQL_BIN names, the one
# of this machine or, on Debian and Ubuntu, one from their packages, which this script unpacks below
# bin/postgresql. That needs no root, installs nothing, and changes nothing outside of bin/.
set -euo pipefail
shopt -s nullglob

cd "$(dirname "${BASH_SOURCE[0]}")/.."
target="${PWD}/bin/postgresql"
installed=(/usr/lib/postgresql/*/bin/postgres)
if [[ -n "${POSTGRESQL_BIN:-}" || -x "${target}/bin/postgres" ]] || ((${#installed[@]} > 0)) || command -v postgres >/dev/null; then
  exit 0
fi

fail() {
  echo "PostgreSQL is missing$1: install the package postgresql; the tests run its server themselves, as a user other than root." >&2
  exit 1
}
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
  fail ""
fi

# apt works on lists, caches and locks of its own, and knows from dpkg what is installed.
state="${target}.apt"
rm -rf "${state}" "${target}" "${target}.new"
trap 'rm -rf "${state}" "${target}.new"' EXIT
mkdir -p "${state}"/{lists,cache/archives}/partial "${target}.new"/{unpacked,bin}
apt=(apt-get -qq -o "Dir::State::Lists=${state}/lists" -o "Dir::State::extended_states=${state}/extended_states" -o "Dir::Cache=${state}/cache"
  -o Dir::State::status=/var/lib/dpkg/status -o Debug::NoLocking=true -o APT::Sandbox::User=)
echo "PostgreSQL is missing; fetching its packages into bin/postgresql"
"${apt[@]}" update >/dev/null || fail ", and the package lists could not be fetched"

# What a server needs: its programs and the libraries that are not installed. Packages that only
# set up or administer a machine are left out, and so is the compiler of queries, which is large.
mapfile -t names < <("${apt[@]}" install --simulate --no-install-recommends postgresql |
  awk '$1 == "Inst" && $2 ~ /^(postgresql-[0-9]+|postgresql-client-[0-9]+|lib.*)$/ && $2 !~ /^(libllvm|lib.*-perl$)/ { print $2 }')
((${#names[@]} > 0)) || fail ", and no package of it was found"
(cd "${state}" && "${apt[@]}" download "${names[@]}") || fail ", and its packages could not be fetched"
for package in "${state}"/*.deb; do
  dpkg-deb --extract "${package}" "${target}.new/unpacked"
done
rm -f "${target}.new"/unpacked/usr/lib/postgresql/*/lib/llvmjit.so

# Each program gets a wrapper that tells it where its libraries are.
# Some packages have them in /usr/lib, and some in /lib.
triplet="$(dpkg-architecture -q DEB_HOST_MULTIARCH 2>/dev/null || echo "$(uname -m)-linux-gnu")"
libraries="${target}/unpacked/usr/lib/${triplet}:${target}/unpacked/lib/${triplet}"
for program in "${target}.new"/unpacked/usr/lib/postgresql/*/bin/*; do
  wrapper="${target}.new/bin/$(basename "${program}")"
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "${libraries}" "${program/${target}.new/${target}}" >"${wrapper}"
  chmod 755 "${wrapper}"
done
mv "${target}.new" "${target}"
"${target}/bin/postgres" --version || fail ", and what its packages have does not run here"
if [[ "$(id -u)" == 0 ]] && ! setpriv --reuid=65534 --regid=65534 --clear-groups "${target}/bin/postgres" --version >/dev/null 2>&1; then
  fail ", and the user nobody, as whom the tests run it, may not enter ${target}"
fi
