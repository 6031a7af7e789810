{{/* The query API: its environment, and who may log in. */}}

{{- define "lineage-master.queryApiEnv" -}}
{{- $api := .Values.queryApi -}}
{{ include "lineage-master.storeEnv" (list . "queryApi") }}
{{- if $api.deadLetters }}
{{ include "lineage-master.kafkaEnv" (list . "queryApi") }}
{{- end }}
{{- if $api.sharedRate }}
{{ include "lineage-master.redisEnv" (list . "queryApi") }}
{{- end }}
- {name: LINEAGE_API_HOST, value: 0.0.0.0}
- {name: LINEAGE_API_PORT, value: "8080"}
{{- if $api.hosts }}
# Probes and scrapes come by the pod's address.
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- name: LINEAGE_API_HOSTS
  value: {{ include "lineage-master.apiHosts" . | quote }}
{{- end }}
{{- with $api.roots }}
- {name: LINEAGE_API_ROOTS, value: {{ join "," . | quote }}}
{{- end }}
{{- if include "lineage-master.tokensSecret" . }}
- {name: LINEAGE_API_TOKENS, value: /run/secrets/lineage/api/tokens.toml}
{{- end }}
{{- if $api.grants.existingSecret }}
- {name: LINEAGE_API_GRANTS, value: /run/secrets/lineage/api/grants.toml}
{{- end }}
{{- with $api.auth.oidc.issuer }}
- {name: LINEAGE_OIDC_ISSUER, value: {{ . | quote }}}
- {name: LINEAGE_OIDC_AUDIENCE, value: {{ $api.auth.oidc.audience | quote }}}
- {name: LINEAGE_OIDC_ROLE_CLAIM, value: {{ $api.auth.oidc.roleClaim | quote }}}
{{- end }}
{{- with $api.auth.oidc.clientId }}
- {name: LINEAGE_OIDC_CLIENT_ID, value: {{ . | quote }}}
- {name: LINEAGE_OIDC_SCOPES, value: {{ $api.auth.oidc.scopes | quote }}}
{{- end }}
{{- if and .Values.monitoring.podMonitor.enabled (not .Values.ingress.enabled) (not $api.grants.existingSecret) (not (hasKey $api.settings "LINEAGE_API_METRICS_APPLICATIONS")) }}
# The dashboard of applications shows the latest of them. An Ingress would show their names to everybody, and
# metrics know no callers.
- {name: LINEAGE_API_METRICS_APPLICATIONS, value: "20"}
{{- end }}
- {name: LINEAGE_CACHE, value: /var/cache/lineage}
- {name: LINEAGE_LOG_LEVEL, value: {{ $api.logLevel }}}
{{- end -}}

{{- define "lineage-master.apiHosts" -}}
{{- $service := include "lineage-master.name" (list . "query-api") -}}
{{- $own := list $service (printf "%s.%s" $service .Release.Namespace) (include "lineage-master.host" (list . "query-api")) "localhost" "$(POD_IP)" -}}
{{- $ingress := ternary (list .Values.ingress.host) list .Values.ingress.enabled -}}
{{- concat .Values.queryApi.hosts $ingress $own | uniq | join "," -}}
{{- end -}}

{{/* The Secret with the file of tokens and its key, if there is one: YAML. */}}
{{- define "lineage-master.tokensSecret" -}}
{{- $auth := .Values.queryApi.auth -}}
{{- if $auth.tokens.existingSecret -}}
{{- dict "name" $auth.tokens.existingSecret "key" $auth.tokens.key | toYaml -}}
{{- else if include "lineage-master.madeToken" . -}}
{{- dict "name" (include "lineage-master.name" (list . "api-token")) "key" "tokens.toml" | toYaml -}}
{{- end -}}
{{- end -}}

{{/* "true" when a try-out makes the token of an admin. */}}
{{- define "lineage-master.madeToken" -}}
{{- $auth := .Values.queryApi.auth -}}
{{- if and .Values.tryout.enabled (not $auth.tokens.existingSecret) (not $auth.oidc.issuer) -}}true{{- end -}}
{{- end -}}

{{- define "lineage-master.apiFiles" -}}
{{- with include "lineage-master.tokensSecret" . | fromYaml }}
- secret:
    name: {{ .name }}
    items: [{key: {{ .key }}, path: api/tokens.toml}]
{{- end }}
{{- with .Values.queryApi.grants }}
{{- if .existingSecret }}
- secret:
    name: {{ .existingSecret }}
    items: [{key: {{ .key }}, path: api/grants.toml}]
{{- end }}
{{- end }}
{{- end -}}

{{- define "lineage-master.apiVolumes" -}}
- name: cache
  emptyDir: {sizeLimit: {{ .Values.queryApi.cacheSize }}}
{{- with .Values.lake.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "lineage-master.apiMounts" -}}
- {name: cache, mountPath: /var/cache/lineage}
{{- with .Values.lake.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The Secret of the token that `helm test` asks with, if there is one: YAML. */}}
{{- define "lineage-master.testToken" -}}
{{- if .Values.test.enabled -}}
{{- if .Values.test.token.existingSecret -}}
{{- dict "name" .Values.test.token.existingSecret "key" .Values.test.token.key | toYaml -}}
{{- else if include "lineage-master.madeToken" . -}}
{{- dict "name" (include "lineage-master.name" (list . "api-token")) "key" "token" | toYaml -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "lineage-master.testFiles" -}}
{{- include "lineage-master.kafkaFiles" (list . "emitter") }}
{{- with include "lineage-master.testToken" . | fromYaml }}
- secret:
    name: {{ .name }}
    items: [{key: {{ .key }}, path: api/token}]
{{- end }}
{{- end -}}
