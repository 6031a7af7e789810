{{/* Names and labels. Everything is named after the release, so that two releases fit in one namespace. */}}

{{- define "lineage-master.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Of a part: (list $ "linker"). */}}
{{- define "lineage-master.name" -}}
{{- printf "%s-%s" (include "lineage-master.fullname" (index . 0)) (index . 1) -}}
{{- end -}}

{{- define "lineage-master.selector" -}}
app.kubernetes.io/name: {{ (index . 0).Chart.Name }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "lineage-master.labels" -}}
{{ include "lineage-master.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ printf "%s-%s" (index . 0).Chart.Name (index . 0).Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* metadata of an object of a part: (list $ "linker"); another name or further labels go in the object. */}}
{{- define "lineage-master.metadata" -}}
name: {{ include "lineage-master.name" . }}
namespace: {{ (index . 0).Release.Namespace }}
labels:
  {{- include "lineage-master.labels" . | nindent 2 }}
{{- end -}}

{{/* An image of ours: (list $ .Values.linker.image). */}}
{{- define "lineage-master.image" -}}
{{- $root := index . 0 -}}{{- $image := index . 1 -}}
{{- $name := $image.repository -}}
{{- if $root.Values.image.registry -}}{{- $name = printf "%s/%s" (trimSuffix "/" $root.Values.image.registry) $name -}}{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name ($image.tag | default $root.Values.image.tag | default $root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* An image of others: (list $ .Values.tryout.kafka.image). */}}
{{- define "lineage-master.serverImage" -}}
{{- $image := index . 1 -}}
{{- if $image.registry -}}{{- printf "%s/" (trimSuffix "/" $image.registry) -}}{{- end -}}
{{- $image.repository }}:{{ $image.tag -}}
{{- end -}}

{{- define "lineage-master.serviceAccount" -}}
{{- $account := (index . 2).serviceAccount -}}
{{- $account.name | default (include "lineage-master.name" (list (index . 0) (index . 1))) -}}
{{- end -}}

{{/* "true" when a try-out server is in the release: (list $ "kafka"). */}}
{{- define "lineage-master.tryout" -}}
{{- $server := index (index . 0).Values.tryout (index . 1) -}}
{{- if kindIs "bool" $server.enabled -}}
{{- if $server.enabled -}}true{{- end -}}
{{- else if (index . 0).Values.tryout.enabled -}}true{{- end -}}
{{- end -}}

{{/* Name inside the cluster of a Service: good in other namespaces, too. */}}
{{- define "lineage-master.host" -}}
{{- printf "%s.%s.svc" (include "lineage-master.name" .) (index . 0).Release.Namespace -}}
{{- end -}}
