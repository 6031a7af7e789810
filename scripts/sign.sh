#!/bin/sh
# Signs a release with cosign 3 and one key: the images that were pushed, by digest, each with its bill of materials,
# and the chart as a package (build/charts). Nothing is sent but to the images' registry.
#   COSIGN_KEY      the key: a file (its password: COSIGN_PASSWORD), or a key of a KMS (awskms://..., hashivault://...).
#                   Without it nothing is signed.
#   IMAGE_PREFIX    where the images were pushed (registry.example.org/lineage-master/), VERSION: their tag
# docs/guide/security.md says how to verify what it signs.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:$PWD/.tools/bin

VERSION=${VERSION:-0.1.0}
IMAGES='linker writer query-api spark'

fail() {
    printf 'sign: %s\n' "$1" >&2
    exit 1
}

if [ -z "${COSIGN_KEY:-}" ]; then
    echo 'sign: not signed: no key (COSIGN_KEY)'
    exit 0
fi
# Without a registry in front, a name is one of Docker Hub's.
case "${IMAGE_PREFIX:-}" in
*[.:]*/*) ;;
*) fail 'images are signed where they were pushed: name the registry, IMAGE_PREFIX=registry.example.org/lineage-master/' ;;
esac
case "$(cosign version 2>/dev/null | sed -n 's/^GitVersion: *//p')" in
v3.*) ;;
*) fail 'cosign 3 is not on the PATH: go install github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3' ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# No public log learns of a signature: who has the public key can verify it without one.
cosign signing-config create --out "$work/offline.json"
make --silent sbom >&2
rm -rf build/charts
helm package charts/lineage-master --destination build/charts >&2

# signed COMMAND WORDS...
signed() {
    command=$1
    shift
    cosign "$command" --yes --key "$COSIGN_KEY" --signing-config "$work/offline.json" "$@" >&2
}

for name in $IMAGES; do
    digest=$(cosign triangulate --type digest "$IMAGE_PREFIX$name:$VERSION")
    case $digest in *@sha256:*) ;; *) fail "$IMAGE_PREFIX$name:$VERSION has no digest" ;; esac
    signed sign "$digest"
    signed attest --type cyclonedx --predicate "build/sbom/$name.cdx.json" "$digest"
    echo "$digest"
done
for chart in build/charts/*.tgz; do
    signed sign-blob --bundle "$chart.sigstore.json" "$chart"
    echo "$chart"
done
