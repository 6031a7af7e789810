{{/* The CronJobs of this release: name, command and schedule of each, as YAML. */}}
{{- define "lineage-master.maintenance" -}}
{{- $values := .Values.maintenance -}}
{{- $jobs := list -}}
{{- if and .Values.lake.url $values.archive.olderThan (not (include "lineage-master.lakeAlone" .)) -}}
{{- $jobs = append $jobs (dict "name" "archive" "schedule" $values.archive.schedule "command" (list "lineage" "archive" "--older-than" $values.archive.olderThan)) -}}
{{- end -}}
{{- if $values.expire.olderThan -}}
{{- $jobs = append $jobs (dict "name" "expire" "schedule" $values.expire.schedule "command" (list "lineage" "expire" "--older-than" $values.expire.olderThan)) -}}
{{- end -}}
{{- if .Values.lake.url -}}
{{- $jobs = append $jobs (dict "name" "compact" "schedule" $values.compact.schedule "command" (list "lineage" "compact" "--keep-hours" (toString $values.compact.keepHours))) -}}
{{- end -}}
{{- toYaml $jobs -}}
{{- end -}}

{{/* "true" when there is one. */}}
{{- define "lineage-master.hasMaintenance" -}}
{{- if include "lineage-master.maintenance" . | fromYamlArray -}}true{{- end -}}
{{- end -}}
