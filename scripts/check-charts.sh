#!/usr/bin/env bash
# Checks the charts: lint, unit tests, strict schemas of the oldest and the newest Kubernetes, kube-score,
# and whether the README is what helm-docs makes. Programs: scripts/kube-tools.sh; Go fetches the schemas.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH=$PWD/.tools/bin:$PATH

chart=charts/lineage-master
schemas=.tools/schemas
scripts/kube-tools.sh ensure
.venv/bin/python scripts/kube_schemas.py "$schemas"
rendered=$(mktemp -d)
trap 'rm -rf "$rendered"' EXIT

# Helm tells of the alerts and dashboards, which are links to infra/grafana.
quiet() { "$@" 2> >(grep -v 'found symbolic link in path' >&2); }

# The files of examples that make an installation together, and what each is called below.
examples=$chart/examples
declare -A installations=(
    [try-out]="kind"
    [operators]="production kafka-strimzi redis-operator neo4j-chart oidc-ingress"
    [lake]="production kafka-strimzi redis-operator lake-alone oidc-ingress"
    [managed]="production kafka-sasl redis-operator neo4j-chart tokens autoscaling lake"
)

status=0
failed() {
    printf 'check-charts: %s\n' "$1" >&2
    status=1
}

quiet helm lint --strict --quiet --kube-version 1.36.0 "$chart" --values "$examples/kind.yaml" || failed 'helm lint'
helm-unittest "$chart" >"$rendered/unittest" 2>&1 || {
    cat "$rendered/unittest"
    failed 'unit tests of the chart'
}
grep '^Tests:' "$rendered/unittest"

for name in "${!installations[@]}"; do
    values=()
    for file in ${installations[$name]}; do values+=(--values "$examples/$file.yaml"); done
    # kubeVersion of the chart is checked, too: the oldest is what the schemas are of.
    for version in oldest:1.30.0 newest:1.36.0; do
        manifests=$rendered/$name-${version%:*}.yaml
        quiet helm template lineage "$chart" --namespace lineage --kube-version "${version#*:}" "${values[@]}" >"$manifests" || {
            failed "$name can't be rendered"
            continue
        }
        kubeconform -strict -summary \
            -schema-location "$schemas/${version%:*}/{{.ResourceKind}}{{.KindSuffix}}.json" \
            -schema-location "$schemas/operators/{{.ResourceKind}}{{.KindSuffix}}.json" \
            "$manifests" || failed "$name does not fit the schemas of Kubernetes ${version#*:}"
    done
    # IfNotPresent is right for tags that are never used twice.
    kube-score score --output-format ci --ignore-test container-image-pull-policy \
        "$rendered/$name-newest.yaml" >"$rendered/score" || {
        grep '^\[CRITICAL\]' "$rendered/score" >&2
        failed "kube-score finds what is critical in $name"
    }
done

# Each example has its place above; one that is new must get one.
for file in "$examples"/*.yaml; do
    name=$(basename "$file" .yaml)
    [[ " ${installations[*]} " == *" $name "* ]] || failed "$file is part of no installation that is checked"
done

cp "$chart/README.md" "$rendered/README.md" 2>/dev/null || touch "$rendered/README.md"
helm-docs --chart-search-root charts --log-level warning --output-file README.md
cmp --silent "$chart/README.md" "$rendered/README.md" || failed "$chart/README.md was not what helm-docs makes; it is now"

exit "$status"
