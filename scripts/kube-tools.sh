#!/bin/sh
# The programs that check the charts: helm, helm-unittest, helm-docs, kubeconform, kube-score.
#   kube-tools.sh ensure     build by Go, into .tools/bin, those that are not on the PATH in this version
#   kube-tools.sh list       their versions and where they are found
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/.tools/bin:$PATH

# program, module, version, package in it; replacements repeat those of the module's own go.mod, which Go
# ignores outside of the module
programs() {
    cat <<'TABLE'
helm          helm.sh/helm/v3                         v3.22.0  cmd/helm
helm-unittest github.com/helm-unittest/helm-unittest  v1.1.2   cmd/helm-unittest  github.com/vmware-labs/yaml-jsonpath=github.com/helm-unittest/yaml-jsonpath@v0.4.0
helm-docs     github.com/norwoodj/helm-docs           v1.14.2  cmd/helm-docs
kubeconform   github.com/yannh/kubeconform            v0.8.0   cmd/kubeconform
kube-score    github.com/zegl/kube-score              v1.20.0  cmd/kube-score
TABLE
}

# has PROGRAM MODULE VERSION - whether the PATH has it in this version
has() {
    found=$(command -v "$1") || return 1
    # Without Go its version is unknown, and no other one be built: it will have to do.
    command -v go >/dev/null 2>&1 || return 0
    go version -m "$found" 2>/dev/null | grep -qE "(mod|dep)[[:space:]]+$2[[:space:]]+$3([[:space:]]|\$)"
}

# build PROGRAM MODULE VERSION PACKAGE [REPLACEMENT] - from a module of its own, as `go install` refuses
# modules with replacements
build() {
    command -v go >/dev/null 2>&1 || {
        echo "Checking the charts needs $1 $3: put it on the PATH, or install Go (https://go.dev/dl) to have it built." >&2
        exit 1
    }
    echo "building $1 $3" >&2
    work=$(mktemp -d)
    (
        cd "$work"
        export GOFLAGS="$(go env GOFLAGS) -buildvcs=false -trimpath" CGO_ENABLED=0
        go mod init build.local/tool
        [ -z "${5:-}" ] || go mod edit "-replace=$5"
        go get "$2@$3"
        go build -mod=mod -ldflags '-s -w' -o "$OUT/$1" "$2/$4"
    ) >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        exit 1
    }
    rm -rf "$work"
}

case "${1:-}" in
ensure)
    OUT=$PWD/.tools/bin
    mkdir -p "$OUT"
    programs | while read -r name module version package replacement; do
        has "$name" "$module" "$version" || build "$name" "$module" "$version" "$package" "$replacement"
    done
    ;;
list)
    programs | while read -r name _ version _; do
        printf '%-14s %-9s %s\n' "$name" "$version" "$(command -v "$name" || echo 'not found')"
    done
    ;;
*)
    sed -n '2,4p' "$0" >&2
    exit 2
    ;;
esac
