#!/bin/sh
# The project's container images.
#   images.sh build [NAME...]   linker, writer, query-api, spark: all, or those that are named
#   images.sh stand-ins         Kafka, Redis, Neo4j (and Node.js, to build with) where no registry can be reached
#   images.sh load              all that is built, into the cluster of kubectl's context: kind, k3d or minikube
#   images.sh sizes             bytes of each, compressed
# ENGINE builds: docker, or podman where there is no docker. VERSION is the tag, IMAGE_PREFIX stands before
# the names (registry.example.org/lineage-master/). CLUSTER_PROGRAM may name a program that builds and loads in the
# engine's place: PROGRAM build-image TAG CONTEXT -f FILE..., PROGRAM load TAG...
# Base images are those of the digests in the Dockerfiles (`make digests` renews them); stand-ins and CLUSTER_PROGRAM,
# which are for machines that reach no registry, take what is there under the same tags.
set -eu
cd "$(dirname "$0")/.."

VERSION=${VERSION:-0.1.0}
IMAGE_PREFIX=${IMAGE_PREFIX:-lineage-master/}
ALL='linker writer query-api spark'
STAND_INS='node:22-bookworm-slim redis:7.4 apache/kafka:4.1.0 neo4j:5.26.12-community'

fail() {
    printf 'images: %s\n' "$1" >&2
    exit 1
}

engine() {
    for candidate in ${ENGINE:-docker podman}; do
        if "$candidate" version >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    fail "${ENGINE:-docker} does not answer: start it, or name another: ENGINE=podman"
}

tag() {
    echo "$IMAGE_PREFIX$1:$VERSION"
}

# by_tag DOCKERFILE - options that name its base images without their digests
by_tag() {
    sed -n 's/^ARG \([A-Z]*_IMAGE\)=\(.*\)@sha256:.*/--build-arg \1=\2/p' "$1"
}

# build_image TAG DOCKERFILE [OPTION...]
build_image() {
    tag=$1 file=$2
    shift 2
    if [ -n "${CLUSTER_PROGRAM:-}" ]; then
        # shellcheck disable=SC2046 # words
        "$CLUSTER_PROGRAM" build-image "$tag" . -f "$file" $(by_tag "$file") "$@"
    else
        engine=$(engine)
        "$engine" build -t "$tag" -f "$file" "$@" .
    fi
}

build() {
    for name in ${*:-$ALL}; do
        file=services/$name/Dockerfile
        [ "$name" != spark ] || file=infra/images/spark/Dockerfile
        [ -e "$file" ] || fail "there is no image $name; there are $ALL"
        build_image "$(tag "$name")" "$file" --build-arg "VERSION=$VERSION" \
            --build-arg "REVISION=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)"
    done
}

stand_ins() {
    for tag in $STAND_INS; do
        name=${tag##*/}
        file=tests/kube/images/${name%%:*}/Dockerfile
        # shellcheck disable=SC2046 # words
        build_image "$tag" "$file" $(by_tag "$file")
    done
}

load() {
    tags=
    for name in $ALL; do tags="$tags $(tag "$name")"; done
    if [ -n "${CLUSTER_PROGRAM:-}" ]; then
        # shellcheck disable=SC2086 # words
        "$CLUSTER_PROGRAM" load $tags redis:7.4 apache/kafka:4.1.0 neo4j:5.26.12-community
        return
    fi
    context=$(kubectl config current-context) || fail 'kubectl has no context: make a cluster first (kind create cluster)'
    # shellcheck disable=SC2086
    case $context in
    kind-*) kind load docker-image --name "${context#kind-}" $tags ;;
    k3d-*) k3d image import --cluster "${context#k3d-}" $tags ;;
    minikube) for one in $tags; do minikube image load "$one"; done ;;
    *) fail "$context is no kind, k3d or minikube: push the images to a registry, with IMAGE_PREFIX=REGISTRY/" ;;
    esac
}

sizes() {
    engine=$(engine)
    for name in $ALL; do
        printf '%12d  %s\n' "$("$engine" save "$(tag "$name")" | gzip | wc -c)" "$(tag "$name")"
    done
}

case "${1:-}" in
build | load | sizes)
    command=$1
    shift
    "$command" "$@"
    ;;
stand-ins) stand_ins ;;
*)
    sed -n '2,11p' scripts/images.sh | cut -c3-
    exit 2
    ;;
esac
