#!/bin/sh
# Makes .venv ready: Java and uv where they are missing, the locked packages, the members as editables.
#   setup.sh [FOLDER LOCK]    another environment, of another lock
# Safe to repeat; `make setup` skips it while its inputs stand as they were.
set -eu
cd "$(dirname "$0")/.."
. scripts/apt.sh

env=${1:-.venv}
lock=${2:-requirements.lock}

fail() {
    printf 'setup: %s\n' "$1" >&2
    exit 1
}

find_python() {
    for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    fail 'no Python of 3.11 or newer found; install one, or name it: make setup PYTHON=/path/to/python3'
}

python=$(find_python)
scripts/java.sh ensure

uv=.tools/bin/uv
uv_version=$(sed -n 's/^uv==\([^ ]*\).*/\1/p' scripts/uv.lock.txt)
if [ "$("$uv" --version 2>/dev/null | cut -d' ' -f2)" != "$uv_version" ]; then
    rm -rf .tools
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        # Debian and Ubuntu keep venv in a package of its own, named after the Python it belongs to.
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        apt_install "python$version-venv" ||
            fail "this Python has no venv module; install the package python$version-venv, then try again"
    fi
    "$python" -m venv .tools
    .tools/bin/python -m pip install --quiet --disable-pip-version-check \
        --require-hashes --only-binary :all: -r scripts/uv.lock.txt
fi

# The environment is the one that is named, whichever the caller has active; no Python is downloaded.
unset VIRTUAL_ENV CONDA_PREFIX
export UV_PYTHON_DOWNLOADS=never

if ! "$env/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    "$uv" venv --quiet --clear --python "$python" "$env"
fi
# Build constraints: what builds a package that comes as source is locked too.
"$uv" pip sync --quiet --python "$env/bin/python" --require-hashes \
    --build-constraints "$lock" "$lock"

set --
for member in $("$env/bin/python" scripts/lock.py members); do
    set -- "$@" --editable "$member"
done
"$uv" pip install --quiet --python "$env/bin/python" --offline --no-deps --no-build-isolation "$@"
