#!/usr/bin/env bash
# release.sh VERSION IMAGE adds to dist/, which has the image already, the other files of a release: manifests, Helm
# chart, release notes and checksums. A version without a pre-release part, such as v0.2.0, needs a clean checkout.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
version="$1"
image="$2"

if [[ ! "${version}" =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]]; then
  echo "VERSION must be a semantic version such as v0.2.0, not ${version}." >&2
  exit 1
fi
if [[ "${version}" != *-* && -n "$(git status --porcelain)" ]]; then
  echo "The checkout has changes: commit them before you release ${version}." >&2
  exit 1
fi
bin/release manifests --version "${version}" --name "${image}"
bin/release chart --version "${version}" --name "${image}"
bin/release notes --version "${version}" >dist/RELEASE_NOTES.md
cd dist
files=(install.yaml RELEASE_NOTES.md "windlass-controller-${version}".{tar,spdx.json} "windlass-${version#v}.tgz")
sha256sum "${files[@]}" >SHA256SUMS
cat SHA256SUMS
