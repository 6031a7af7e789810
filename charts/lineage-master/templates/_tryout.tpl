{{/* What the try-out's servers have in common. */}}

{{/* For kube-score: images of others run as their own users, whose numbers are low; and one pod needs no name of
its own, but clients need a name that is there while the pod is not (so no headless Service). */}}
{{- define "lineage-master.serverScore" -}}
kube-score/ignore: container-security-context-user-group-id,statefulset-has-servicename
{{- end -}}

{{- define "lineage-master.serverSet" -}}
replicas: 1
serviceName: {{ include "lineage-master.name" . }}
selector:
  matchLabels:
    {{- include "lineage-master.selector" . | nindent 4 }}
# Claims go with the release, so that nothing is left behind.
persistentVolumeClaimRetentionPolicy:
  whenDeleted: {{ ternary "Retain" "Delete" (index . 0).Values.tryout.keepData }}
  whenScaled: Retain
{{- end -}}

{{/* How to ask a server. One that does not answer is busy or recovers: to restart it would make that longer. */}}
{{- define "lineage-master.serverProbes" -}}
startupProbe:
  {{- . | nindent 2 }}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 120
readinessProbe:
  {{- . | nindent 2 }}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{/* Where data lies that goes with the pod: (list $ .Values.tryout.kafka). */}}
{{- define "lineage-master.serverVolume" -}}
{{- $persistence := (index . 1).persistence -}}
{{- if not $persistence.enabled }}
- name: data
  emptyDir: {sizeLimit: {{ $persistence.size }}}
{{- end }}
{{- end -}}

{{/* Where data lies that stays. */}}
{{- define "lineage-master.serverClaim" -}}
{{- $persistence := (index . 1).persistence -}}
{{- if $persistence.enabled }}
volumeClaimTemplates:
  - metadata:
      name: data
    spec:
      accessModes: [ReadWriteOnce]
      {{- with $persistence.storageClass }}
      storageClassName: {{ . }}
      {{- end }}
      resources: {requests: {storage: {{ $persistence.size }}}}
{{- end }}
{{- end -}}

{{/* (list $ "kafka" 9092) */}}
{{- define "lineage-master.serverService" -}}
{{- $me := list (index . 0) (index . 1) -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "lineage-master.metadata" $me | nindent 2 }}
spec:
  ports:
    - {name: {{ ternary "bolt" (index . 1) (eq (index . 1) "neo4j") }}, port: {{ index . 2 }}, targetPort: {{ ternary "bolt" (index . 1) (eq (index . 1) "neo4j") }}, protocol: TCP}
  selector:
    {{- include "lineage-master.selector" $me | nindent 4 }}
{{- end -}}
