# Sourced, not run: gets Debian or Ubuntu packages.

# apt_update - false when there is no way to become root, or no network.
apt_update() {
    if [ "$(id -u)" -eq 0 ]; then
        as_root=
    elif command -v sudo >/dev/null 2>&1; then
        as_root=sudo
    else
        return 1
    fi
    $as_root apt-get update -qq >&2
}

# apt_install PACKAGE... - as root or through sudo; false when this system has no apt, no way to become root,
# or no such package.
apt_install() {
    command -v apt-get >/dev/null 2>&1 || return 1
    printf 'installing with apt: %s\n' "$*" >&2
    # Fresh images come without package lists.
    apt_update || return 1
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >&2
}

# apt_unpack PACKAGE FOLDER - what a package holds, below a folder: nothing is installed and no service of
# it starts. False when this system has no apt or no such package.
apt_unpack() {
    command -v apt-get >/dev/null 2>&1 || return 1
    unpacked=$(mktemp -d)
    printf 'unpacking with apt: %s\n' "$1" >&2
    # Fresh images come without package lists, and lists that are old name packages that are gone.
    if apt_download "$1" "$unpacked" || { apt_update && apt_download "$1" "$unpacked"; }; then
        rm -rf "$2"
        mkdir -p "$2"
        dpkg-deb --extract "$unpacked"/*.deb "$2"
        found=$?
    else
        found=1
    fi
    rm -rf "$unpacked"
    return "$found"
}

# apt_download PACKAGE FOLDER - the package's file. (As root, apt would download as a user of its own, who
# has no business in the folder.)
apt_download() {
    (cd "$2" && apt-get download -qq -o APT::Sandbox::User=root "$1" >&2)
}
