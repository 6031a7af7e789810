#!/bin/sh
# sbom.sh FOLDER: a bill of materials for each image, of the packages that we put there: those of the lock that
# the image installs, with hashes, and what the web page is built from. For the base
# image's own packages ask a scanner of images (docker scout sbom, syft).
set -eu
cd "$(dirname "$0")/.."
folder=$1
mkdir -p "$folder"
pins=$(mktemp)
trap 'rm -f "$pins"' EXIT

# python NAME MEMBER [GROUP...]: what the Dockerfile of that name installs.
python() {
    name=$1
    shift
    .venv/bin/python scripts/lock.py subset "$@" >"$pins"
    .venv/bin/cyclonedx-py requirements --output-reproducible --pyproject "$1/pyproject.toml" \
        --mc-type application --output-file "$folder/$name.cdx.json" "$pins"
}

scripts/node.sh ensure
python linker services/linker
python writer services/writer
python query-api services/query-api
python spark cli bench
(cd services/query-api/web && ../../../scripts/node.sh exec npm sbom --package-lock-only --omit dev --sbom-format cyclonedx) >"$folder/page.cdx.json"
ls "$folder"
