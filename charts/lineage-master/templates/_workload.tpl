{{/* What all pods have in common: no rights, no token, nothing writable but what is mounted. */}}

{{/* (dict "uid" 10001) */}}
{{- define "lineage-master.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .uid }}
runAsGroup: {{ .uid }}
# Mounted secrets belong to this group.
fsGroup: {{ .uid }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "lineage-master.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Top of every pod spec of ours: (list $ account). */}}
{{- define "lineage-master.podBase" -}}
serviceAccountName: {{ index . 1 }}
# Nothing here talks to Kubernetes.
automountServiceAccountToken: false
# Variables named after Services (KAFKA_PORT, NEO4J_PORT ...) would be taken for settings.
enableServiceLinks: false
{{- with (index . 0).Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Where pods go: (list $ "linker" .Values.linker). */}}
{{- define "lineage-master.scheduling" -}}
{{- $values := index . 2 -}}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  {{- if $values.topologySpreadConstraints }}
  {{- toYaml $values.topologySpreadConstraints | nindent 2 }}
  {{- else }}
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    # A wish: on a cluster of one node all of them run there.
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "lineage-master.selector" (list (index $ 0) (index $ 1)) | nindent 8 }}
  {{- end }}
  {{- end }}
{{- end -}}

{{/* Settings by name, as environment. */}}
{{- define "lineage-master.settings" -}}
{{- range $name, $value := . }}
- {name: {{ $name }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- end -}}

{{/*
A Deployment of one of our services.
  root, component, values: what it is
  port: of /healthz, /readyz, /metrics (and of the API)
  env: its environment; files: sources of its secrets
  mounts, volumes: further ones; probeHeaders, lifecycle: further words for probes and container
*/}}
{{- define "lineage-master.deployment" -}}
{{- $root := .root -}}
{{- $values := .values -}}
{{- $me := list $root .component -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "lineage-master.metadata" $me | nindent 2 }}
spec:
  {{- if eq $values.autoscaling.mode "none" }}
  replicas: {{ $values.replicas }}
  {{- end }}
  revisionHistoryLimit: 3
  strategy:
    type: RollingUpdate
    # A new one works before an old one stops: records never wait, and two that share the work for a
    # while do no harm (what both do has the same ids).
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  selector:
    matchLabels:
      {{- include "lineage-master.selector" $me | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "lineage-master.selector" $me | nindent 8 }}
        app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        kubectl.kubernetes.io/default-container: {{ .component }}
        {{- if $root.Values.monitoring.scrapeAnnotations }}
        prometheus.io/scrape: "true"
        prometheus.io/port: {{ .port | quote }}
        prometheus.io/path: /metrics
        {{- end }}
        {{- with $values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      {{- include "lineage-master.podBase" (list $root (include "lineage-master.serviceAccount" (list $root .component $values))) | nindent 6 }}
      securityContext:
        {{- include "lineage-master.podSecurity" (dict "uid" 10001) | nindent 8 }}
      {{- include "lineage-master.scheduling" (list $root .component $values) | nindent 6 }}
      terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
      containers:
        - name: {{ .component }}
          image: {{ include "lineage-master.image" (list $root $values.image) }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          {{- with $values.command }}
          command:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          securityContext:
            {{- include "lineage-master.containerSecurity" . | nindent 12 }}
          env:
            {{- .env | nindent 12 }}
            {{- include "lineage-master.settings" $values.settings | nindent 12 }}
            {{- with $values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - {name: http, containerPort: {{ .port }}, protocol: TCP}
          # Python and its libraries are up within seconds; a node that is busy gets a minute.
          startupProbe:
            {{- include "lineage-master.httpGet" (dict "path" "/healthz" "headers" .probeHeaders) | nindent 12 }}
            periodSeconds: 1
            timeoutSeconds: 2
            failureThreshold: 60
          # Whether the process answers, and nothing else: restarting it would not bring a server back.
          livenessProbe:
            {{- include "lineage-master.httpGet" (dict "path" "/healthz" "headers" .probeHeaders) | nindent 12 }}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          # Whether the servers that it needs answer; each of them is given some seconds.
          readinessProbe:
            {{- include "lineage-master.httpGet" (dict "path" "/readyz" "headers" .probeHeaders) | nindent 12 }}
            periodSeconds: 5
            timeoutSeconds: 9
            failureThreshold: 2
          {{- with .lifecycle }}
          lifecycle:
            {{- . | nindent 12 }}
          {{- end }}
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
            {{- if .files | trim }}
            - {name: secrets, mountPath: /run/secrets/lineage, readOnly: true}
            {{- end }}
            {{- with .mounts }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- with $values.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: tmp
          emptyDir: {sizeLimit: 64Mi}
        {{- include "lineage-master.secretsVolume" .files | nindent 8 }}
        {{- with .volumes }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with $values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end -}}

{{- define "lineage-master.secretsVolume" -}}
{{- if . | trim }}
- name: secrets
  projected:
    # Readable by the pod's group, 0440.
    defaultMode: 288
    sources:
      {{- . | trim | nindent 6 }}
{{- end }}
{{- end -}}

{{- define "lineage-master.httpGet" -}}
httpGet:
  path: {{ .path }}
  port: http
  {{- with .headers }}
  httpHeaders:
    {{- . | nindent 4 }}
  {{- end }}
{{- end -}}
