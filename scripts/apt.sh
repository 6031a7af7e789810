# Sourced, not run: installs Debian or Ubuntu packages, as root or through sudo.

# apt_install PACKAGE... - false when this system has no apt, no way to become root, or no such package.
apt_install() {
    command -v apt-get >/dev/null 2>&1 || return 1
    if [ "$(id -u)" -eq 0 ]; then
        as_root=
    elif command -v sudo >/dev/null 2>&1; then
        as_root=sudo
    else
        return 1
    fi
    printf 'installing with apt: %s\n' "$*" >&2
    # Fresh images come without package lists.
    $as_root apt-get update -qq >&2 || return 1
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >&2
}
