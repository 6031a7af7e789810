#!/bin/bash
# As the official image's: NAME_FILE gives NAME, NEO4J_a_b__c=X becomes a.b_c=X in neo4j.conf, NEO4J_AUTH is
# the first password.
set -euo pipefail
conf=$NEO4J_HOME/conf/neo4j.conf

for name in $(compgen -e | grep '^NEO4J_.*_FILE$' || true); do
    export "${name%_FILE}=$(<"${!name}")"
    unset "$name"
done

set_in_conf() {
    # A new file: in the folder, not in /tmp, which may be on another disk.
    grep -v "^$1=" "$conf" >"$conf.new" || true
    printf '%s=%s\n' "$1" "$2" >>"$conf.new"
    mv "$conf.new" "$conf"
}

grep -q '^server.default_listen_address=' "$conf" || set_in_conf server.default_listen_address 0.0.0.0
grep -q '^server.memory.pagecache.size=' "$conf" || set_in_conf server.memory.pagecache.size 512M
for name in $(compgen -e | grep '^NEO4J_' || true); do
    case $name in
    NEO4J_AUTH | NEO4J_HOME | NEO4J_EDITION | NEO4J_PLUGINS | NEO4J_DEBUG | NEO4J_CONF) continue ;;
    esac
    set_in_conf "$(sed 's/^NEO4J_//; s/__/\x01/g; s/_/./g; s/\x01/_/g' <<<"$name")" "${!name}"
done

if [[ ${1:-} == neo4j ]]; then
    if [[ ${NEO4J_AUTH:-} == none ]]; then
        set_in_conf dbms.security.auth_enabled false
    elif [[ -n ${NEO4J_AUTH:-} && ! -e /data/databases/system ]]; then
        neo4j-admin dbms set-initial-password "${NEO4J_AUTH#neo4j/}"
    fi
    unset NEO4J_AUTH
fi
exec "$@"
