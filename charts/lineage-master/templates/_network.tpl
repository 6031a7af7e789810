{{/* Parts of NetworkPolicies. */}}

{{- define "lineage-master.toDns" -}}
- to:
    {{- toYaml .Values.networkPolicy.dns.to | nindent 4 }}
  ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
{{- end -}}

{{/* To pods of this release: (list $ "kafka" 9092). */}}
{{- define "lineage-master.toOwn" -}}
- to:
    - podSelector:
        matchLabels:
          {{- include "lineage-master.selector" (list (index . 0) (index . 1)) | nindent 10 }}
  ports:
    - {protocol: TCP, port: {{ index . 2 }}}
{{- end -}}

{{/* To a server of this release, or to where the values say that it is: (list $ "kafka" address port). */}}
{{- define "lineage-master.toServer" -}}
{{- $root := index . 0 -}}{{- $server := index . 1 -}}
{{- if include "lineage-master.tryout" (list $root $server) -}}
{{ include "lineage-master.toOwn" (list $root $server (index . 3)) }}
{{- else -}}
{{- $ports := list -}}
{{- range regexFindAll ":[0-9]+([,/?]|$)" (index . 2) -1 }}{{- $ports = append $ports (regexFind "[0-9]+" .) }}{{- end -}}
- to:
    {{- toYaml (index $root.Values.networkPolicy $server).to | nindent 4 }}
  ports:
    {{- range $ports | default (list (index . 3)) | uniq }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end -}}
{{- end -}}

{{/* From pods of this release: (list $ "linker" "writer" ...) as items of a rule's from. */}}
{{- define "lineage-master.fromOwn" -}}
{{- $root := first . -}}
{{- range rest . }}
- podSelector:
    matchLabels:
      {{- include "lineage-master.selector" (list $root .) | nindent 6 }}
{{- end }}
{{- end -}}

{{/* (dict "root" $ "component" "linker" "hook" "pre-install" "ingress" "- ..." "egress" "- ...") */}}
{{- define "lineage-master.policy" }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "lineage-master.metadata" (list .root .component) | nindent 2 }}
  {{- with .hook }}
  annotations:
    # There before the Job that it is for, and gone with it.
    helm.sh/hook: {{ . }}
    helm.sh/hook-weight: "-5"
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
  {{- end }}
spec:
  podSelector:
    matchLabels:
      {{- include "lineage-master.selector" (list .root .component) | nindent 6 }}
  policyTypes: [Ingress, Egress]
  {{- if .ingress | trim }}
  ingress:
    {{- .ingress | trim | nindent 4 }}
  {{- else }}
  ingress: []
  {{- end }}
  {{- if .egress | trim }}
  egress:
    {{- .egress | trim | nindent 4 }}
  {{- else }}
  egress: []
  {{- end }}
{{- end -}}

{{- define "lineage-master.metricsIngress" -}}
{{- with (index . 0).Values.networkPolicy.metrics.from }}
- from:
    {{- toYaml . | nindent 4 }}
  ports:
    - {protocol: TCP, port: {{ index $ 1 }}}
{{- end }}
{{- end -}}

{{- define "lineage-master.apiIngress" -}}
{{- $peers := list -}}
{{- range list .Values.networkPolicy.queryApi.from .Values.networkPolicy.metrics.from }}
{{- if . }}{{- $peers = append $peers (toYaml .) }}{{- end }}
{{- end -}}
{{- if include "lineage-master.testToken" . }}
{{- $peers = append $peers (include "lineage-master.fromOwn" (list . "test") | trim) }}
{{- end -}}
{{/* A rule without peers would let everybody in. */}}
{{- if $peers -}}
- from:
    {{- join "\n" $peers | nindent 4 }}
  ports:
    - {protocol: TCP, port: 8080}
{{- end -}}
{{- end -}}

{{/* To peers outside of the release that the values name: (list $ "issuer" ...). */}}
{{- define "lineage-master.toNamed" -}}
{{- $root := first . -}}
{{- range rest . }}
{{- $peer := index $root.Values.networkPolicy . }}
{{- if $peer.to }}
- to:
    {{- toYaml $peer.to | nindent 4 }}
  ports:
    - {protocol: TCP, port: {{ $peer.port }}}
    {{- range $peer.morePorts }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "lineage-master.kafkaIngress" -}}
- from:
    {{- include "lineage-master.fromOwn" (list . "kafka" "linker" "writer" "query-api" "topics" "test") | trim | nindent 4 }}
    {{- with .Values.tryout.kafka.clients }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - {protocol: TCP, port: 9092}
{{- end -}}

{{- define "lineage-master.redisIngress" -}}
- from:
    {{- include "lineage-master.fromOwn" (list . "linker") | trim | nindent 4 }}
    {{- if .Values.queryApi.sharedRate }}
    {{- include "lineage-master.fromOwn" (list . "query-api") | trim | nindent 4 }}
    {{- end }}
  ports:
    - {protocol: TCP, port: 6379}
{{- end -}}

{{- define "lineage-master.neo4jIngress" -}}
- from:
    {{- include "lineage-master.fromOwn" (list . "writer" "query-api" "schema") | trim | nindent 4 }}
    {{- if include "lineage-master.hasMaintenance" . }}
    {{- include "lineage-master.fromOwn" (list . "maintenance") | trim | nindent 4 }}
    {{- end }}
    {{- with .Values.tryout.neo4j.clients }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - {protocol: TCP, port: 7687}
{{- end -}}
