#!/bin/sh
# test-kube.sh [PYTEST WORDS]: the tests of tests/kube on the cluster of kubectl's context, with the kubectl and
# helm of the PATH. Images must be there: make images images-load.
# CLUSTER_PROGRAM may name a program that has a cluster of its own, on which tests run instead. Its commands: up, down,
# `exec COMMAND` (with the cluster's network, kubectl and helm), `pv NAME SIZE` (a volume for a claim).
set -eu
cd "$(dirname "$0")/.."

if [ -z "${CLUSTER_PROGRAM:-}" ]; then
    exec .venv/bin/pytest -q tests/kube "$@"
fi
if ! "$CLUSTER_PROGRAM" status >/dev/null 2>&1; then
    trap '"$CLUSTER_PROGRAM" down' EXIT
    "$CLUSTER_PROGRAM" up
fi
LINEAGE_KUBE_PV="$CLUSTER_PROGRAM pv" "$CLUSTER_PROGRAM" exec .venv/bin/pytest -q tests/kube "$@"
