#!/bin/sh
# The Java that PySpark runs on: 17 or 21, with the module jdk.incubator.vector (Spark starts with
# --add-modules=jdk.incubator.vector; a cut-down runtime without it fails at once).
#   java.sh home          print the JAVA_HOME of a Java that fits; fails when there is none
#   java.sh ensure        install one by apt when there is none
#   java.sh exec CMD...   run CMD with that JAVA_HOME
set -eu
. "$(dirname "$0")/apt.sh"

fits() {
    [ -x "$1/bin/java" ] || return 1
    # "openjdk 17.0.15 2025-04-15": the second word's first number.
    major=$("$1/bin/java" --version 2>/dev/null | sed -n '1s/^[^ ]* \([0-9]*\).*/\1/p')
    [ "$major" = 17 ] || [ "$major" = 21 ] || return 1
    "$1/bin/java" --list-modules 2>/dev/null | grep -q '^jdk\.incubator\.vector@'
}

# The caller's JAVA_HOME first, then the java on the path, then what the system has.
find_home() {
    on_path=$(command -v java 2>/dev/null || true)
    [ -z "$on_path" ] || on_path=$(dirname "$(dirname "$(readlink -f "$on_path")")")
    for home in "${JAVA_HOME:-}" "$on_path" /usr/lib/jvm/*; do
        if [ -n "$home" ] && fits "$home"; then
            printf '%s\n' "$home"
            return
        fi
    done
    return 1
}

ensure() {
    ! find_home >/dev/null || return 0
    # 17 is the tested one; newer Debian releases carry only 21.
    apt_install openjdk-17-jre-headless || apt_install openjdk-21-jre-headless || true
    find_home >/dev/null || {
        echo 'PySpark needs Java 17 or 21 and none was found. Install one (Debian: openjdk-17-jre-headless)' >&2
        echo 'or point JAVA_HOME at it, then try again.' >&2
        exit 1
    }
}

case "${1:-}" in
home)
    find_home
    ;;
ensure)
    ensure
    ;;
exec)
    shift
    JAVA_HOME=$(find_home) || {
        echo 'no Java 17 or 21 found; `make setup` installs one' >&2
        exit 1
    }
    export JAVA_HOME
    exec "$@"
    ;;
*)
    sed -n '2,6p' "$0" >&2
    exit 2
    ;;
esac
