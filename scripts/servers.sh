#!/bin/sh
# What the servers of tests and of `lineage stack` need from the system: Java, Maven (fetches Kafka and
# Neo4j) and Redis. Where a container engine answers, its images are used instead.
#   servers.sh ensure     install by apt what is missing
set -eu
cd "$(dirname "$0")"
. ./apt.sh

# ensure PROGRAM PACKAGE
ensure() {
    ! command -v "$1" >/dev/null 2>&1 || return 0
    apt_install "$2" || true
    command -v "$1" >/dev/null 2>&1 || {
        printf 'The servers of the tests need %s and it was not found. Install it (Debian, Ubuntu: apt install %s),\n' "$1" "$2" >&2
        echo 'then try again.' >&2
        exit 1
    }
}

case "${1:-}" in
ensure)
    ./java.sh ensure
    ensure mvn maven
    ensure redis-server redis-server
    ;;
*)
    sed -n '2,4p' servers.sh >&2
    exit 2
    ;;
esac
