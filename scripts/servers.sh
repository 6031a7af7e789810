#!/bin/sh
# What the servers of tests and of `lineage stack` need from the system: Java, Maven (fetches Kafka and
# Neo4j) and Redis (where a container engine answers, its images are used instead). Tests also want Prometheus,
# and the browser that they drive; CHROMIUM may name another.
#   servers.sh ensure     get by apt what is missing
set -eu
cd "$(dirname "$0")"
. ./apt.sh
PROMETHEUS=../.tools/prometheus

# ensure PROGRAM PACKAGE
ensure() {
    ! command -v "$1" >/dev/null 2>&1 || return 0
    apt_install "$2" || true
    command -v "$1" >/dev/null 2>&1 || {
        printf 'The tests need %s and it was not found. Install it (Debian, Ubuntu: apt install %s),\n' "$1" "$2" >&2
        echo 'then try again.' >&2
        exit 1
    }
}

# Not installed: Debian would start a service that listens on all addresses.
ensure_prometheus() {
    ! command -v promtool >/dev/null 2>&1 || return 0
    [ ! -x "$PROMETHEUS/usr/bin/promtool" ] || return 0
    apt_unpack prometheus "$PROMETHEUS" || {
        echo 'The tests of alerts and dashboards need promtool and prometheus, which were not found. Put them on' >&2
        echo 'PATH (Debian, Ubuntu: the package prometheus), then try again.' >&2
        exit 1
    }
}

case "${1:-}" in
ensure)
    ./java.sh ensure
    ensure mvn maven
    ensure redis-server redis-server
    ensure_prometheus
    [ -x "${CHROMIUM:-}" ] || ensure chromium chromium
    ;;
*)
    sed -n '2,5p' servers.sh >&2
    exit 2
    ;;
esac
