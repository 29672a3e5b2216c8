#!/usr/bin/env bash
# release.sh check VERSION IMAGE PUSH checks whether a version can be released: see the README.
# release.sh fill VERSION IMAGE adds the other files of a release to dist/, which must contain the image: manifests,
# Helm chart, kubectl plugin, release notes and checksums.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
command="$1" version="$2" image="$3"

fail() {
  echo "$1" >&2
  exit 1
}

# check checks the conditions without which a release would fail after the image is pushed. A pre-release, such as
# v0.2.0-rc.1, may be built from any commit and any state of the checkout.
check() {
  local push="$1"
  local number='(0|[1-9][0-9]*)' word='(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)' # https://semver.org
  if [[ ! "${version}" =~ ^v${number}\.${number}\.${number}(-${word}(\.${word})*)?$ ]]; then
    fail "VERSION must be a semantic version such as v0.2.0, not ${version}."
  fi
  bin/release notes --version "${version}" >/dev/null
  if [[ -n "${push}" && "${push}" != "${image}:${version}" ]]; then
    fail "PUSH must be ${image}:${version}, which the manifests name, not ${push}."
  fi
  if [[ "${version}" == *-* ]]; then
    return
  fi
  if [[ "${image}" != */* ]]; then
    fail "IMAGE must name a registry, from which nodes pull the image, such as registry.example.com/${image}."
  fi
  if [[ -n "$(git status --porcelain)" ]]; then
    fail "The checkout has changes: commit them before you release ${version}."
  fi
  if ! git tag --points-at HEAD | grep -qxF -- "${version}"; then
    fail "The commit has no tag ${version}: run git tag ${version}."
  fi
}

# plugin PLATFORM... builds the kubectl plugin for platforms such as linux/amd64. Two builds of the same commit
# with the same version of Go are equal. kubectl runs the link to complete command lines.
plugin() {
  local platform suffix name link work
  work=$(mktemp -d)
  for platform in "$@"; do
    suffix=""
    [[ "${platform}" != windows/* ]] || suffix=".exe"
    name="kubectl-windlass${suffix}"
    link="kubectl_complete-windlass${suffix}"
    CGO_ENABLED=0 GOFLAGS=-trimpath GOOS="${platform%/*}" GOARCH="${platform#*/}" go build -trimpath -buildvcs=false \
      -ldflags "$(make -s ldflags VERSION="${version}")" -o "${work}/${name}" ./cmd/kubectl-windlass
    if [[ "${platform}" == windows/* ]]; then
      ln "${work}/${name}" "${work}/${link}" # only administrators may extract symbolic links
    else
      ln -s "${name}" "${work}/${link}"
    fi
    tar -C "${work}" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - "${name}" "${link}" |
      gzip -9n >"dist/kubectl-windlass-${version}-${platform/\//-}.tar.gz"
    rm "${work}/${name}" "${work}/${link}"
  done
  rmdir "${work}"
}

fill() {
  bin/release manifests --version "${version}" --name "${image}"
  bin/release manifests --version "${version}" --name "${image}" --components monitoring --out dist/install-with-monitoring.yaml
  bin/release chart --version "${version}" --name "${image}"
  bin/release notes --version "${version}" >dist/RELEASE_NOTES.md
  plugin linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64
  cd dist
  sha256sum -- * >../SHA256SUMS
  mv ../SHA256SUMS .
  cat SHA256SUMS
}

case "${command}" in
  check) check "$4" ;;
  fill) fill ;;
esac
