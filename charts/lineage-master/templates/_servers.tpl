{{/* Kafka, Redis and Neo4j: where they are, and how our processes log in. Secrets are files, never values. */}}

{{- define "lineage-master.kafkaBootstrap" -}}
{{- if include "lineage-master.tryout" (list . "kafka") -}}
{{- printf "%s:9092" (include "lineage-master.host" (list . "kafka")) -}}
{{- else -}}
{{- .Values.kafka.bootstrapServers -}}
{{- end -}}
{{- end -}}

{{- define "lineage-master.redisUrl" -}}
{{- if include "lineage-master.tryout" (list . "redis") -}}
{{- printf "redis://%s:6379/0" (include "lineage-master.host" (list . "redis")) -}}
{{- else -}}
{{- .Values.redis.url -}}
{{- end -}}
{{- end -}}

{{- define "lineage-master.neo4jUri" -}}
{{- if include "lineage-master.tryout" (list . "neo4j") -}}
{{- printf "neo4j://%s:7687" (include "lineage-master.host" (list . "neo4j")) -}}
{{- else -}}
{{- .Values.neo4j.uri -}}
{{- end -}}
{{- end -}}

{{/* "true" where lineage is in a lake alone: there is no Neo4j. */}}
{{- define "lineage-master.lakeAlone" -}}
{{- if not (include "lineage-master.neo4jUri" .) -}}true{{- end -}}
{{- end -}}

{{/* "true" for a part that opens the lake: (list $ "writer"). In front of a lake the writer fills Neo4j. */}}
{{- define "lineage-master.opensLake" -}}
{{- $root := index . 0 -}}
{{- if and $root.Values.lake.url (or (ne (index . 1) "writer") (include "lineage-master.lakeAlone" $root)) -}}true{{- end -}}
{{- end -}}

{{/* Consumer groups follow the topics' prefix: releases with topics of their own never share a group. */}}
{{- define "lineage-master.linkerGroup" -}}
{{- .Values.linker.group | default (printf "%slineage-linker" .Values.kafka.topicPrefix) -}}
{{- end -}}

{{- define "lineage-master.writerGroup" -}}
{{- .Values.writer.group | default (printf "%slineage-writer" .Values.kafka.topicPrefix) -}}
{{- end -}}

{{/* A part's login at Kafka, empty for the try-out's: (list $ "linker") gives YAML. */}}
{{- define "lineage-master.kafkaUser" -}}
{{- if not (include "lineage-master.tryout" (list (index . 0) "kafka")) -}}
{{- toYaml (index (index . 0).Values.kafka.users (index . 1)) -}}
{{- end -}}
{{- end -}}

{{/* Environment of a client of Kafka: (list $ "linker"), the name of its user. */}}
{{- define "lineage-master.kafkaEnv" -}}
{{- $root := index . 0 -}}
{{- $kafka := $root.Values.kafka -}}
{{- $user := include "lineage-master.kafkaUser" . | fromYaml -}}
- {name: LINEAGE_KAFKA, value: {{ include "lineage-master.kafkaBootstrap" $root | quote }}}
{{- with $kafka.topicPrefix }}
- {name: LINEAGE_TOPIC_PREFIX, value: {{ . | quote }}}
{{- end }}
{{- if $user }}
- {name: LINEAGE_KAFKA_SECURITY_PROTOCOL, value: {{ $kafka.securityProtocol }}}
{{- if hasPrefix "SASL" $kafka.securityProtocol }}
- {name: LINEAGE_KAFKA_SASL_MECHANISM, value: {{ $kafka.saslMechanism }}}
- {name: LINEAGE_KAFKA_SASL_USERNAME, value: {{ $user.username | quote }}}
- {name: LINEAGE_KAFKA_SASL_PASSWORD_FILE, value: /run/secrets/lineage/kafka/password}
{{- end }}
{{- if hasSuffix "SSL" $kafka.securityProtocol }}
{{- if $kafka.ca.existingSecret }}
- {name: LINEAGE_KAFKA_SSL_CA_FILE, value: /run/secrets/lineage/kafka/ca.crt}
{{- end }}
{{- if eq $kafka.securityProtocol "SSL" }}
- {name: LINEAGE_KAFKA_SSL_CERTIFICATE_FILE, value: /run/secrets/lineage/kafka/user.crt}
- {name: LINEAGE_KAFKA_SSL_KEY_FILE, value: /run/secrets/lineage/kafka/user.key}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The same client's files, as sources of a projected volume. */}}
{{- define "lineage-master.kafkaFiles" -}}
{{- $root := index . 0 -}}
{{- $kafka := $root.Values.kafka -}}
{{- $user := include "lineage-master.kafkaUser" . | fromYaml -}}
{{- if $user }}
{{- if and (hasSuffix "SSL" $kafka.securityProtocol) $kafka.ca.existingSecret }}
- secret:
    name: {{ $kafka.ca.existingSecret }}
    items: [{key: {{ $kafka.ca.key }}, path: kafka/ca.crt}]
{{- end }}
{{- if hasPrefix "SASL" $kafka.securityProtocol }}
- secret:
    name: {{ $user.existingSecret }}
    items: [{key: {{ $user.passwordKey }}, path: kafka/password}]
{{- else if eq $kafka.securityProtocol "SSL" }}
- secret:
    name: {{ $user.existingSecret }}
    items:
      - {key: {{ $user.certificateKey }}, path: kafka/user.crt}
      - {key: {{ $user.privateKeyKey }}, path: kafka/user.key}
{{- end }}
{{- end }}
{{- end -}}

{{/* The login of a component: (list . "linker") or "queryApi"; YAML. */}}
{{- define "lineage-master.redisUser" -}}
{{- $redis := (index . 0).Values.redis -}}
{{- $user := ternary $redis.queryApi $redis (eq (index . 1) "queryApi") -}}
{{- if include "lineage-master.tryout" (list (index . 0) "redis") -}}
{{- $name := ternary "query-api" "linker" (eq (index . 1) "queryApi") -}}
{{- $key := ternary "redis-query-api-password" "redis-password" (eq (index . 1) "queryApi") -}}
{{- dict "name" $name "secret" (include "lineage-master.name" (list (index . 0) "tryout")) "key" $key | toYaml -}}
{{- else -}}
{{- dict "name" $user.username "secret" $user.existingSecret "key" $user.passwordKey | toYaml -}}
{{- end -}}
{{- end -}}

{{- define "lineage-master.redisEnv" -}}
{{- $root := index . 0 -}}
{{- $redis := $root.Values.redis -}}
{{- $user := include "lineage-master.redisUser" . | fromYaml -}}
{{- $tryout := include "lineage-master.tryout" (list $root "redis") -}}
- {name: LINEAGE_REDIS, value: {{ include "lineage-master.redisUrl" $root | quote }}}
{{- with $user.name }}
- {name: LINEAGE_REDIS_USERNAME, value: {{ . | quote }}}
{{- end }}
{{- if $user.secret }}
- {name: LINEAGE_REDIS_PASSWORD_FILE, value: /run/secrets/lineage/redis/password}
{{- end }}
{{- if not $tryout }}
{{- if $redis.ca.existingSecret }}
- {name: LINEAGE_REDIS_CA_FILE, value: /run/secrets/lineage/redis/ca.crt}
{{- end }}
{{- if $redis.certificate.existingSecret }}
- {name: LINEAGE_REDIS_CERTIFICATE_FILE, value: /run/secrets/lineage/redis/tls.crt}
- {name: LINEAGE_REDIS_KEY_FILE, value: /run/secrets/lineage/redis/tls.key}
{{- end }}
{{- end }}
{{- end -}}

{{- define "lineage-master.redisFiles" -}}
{{- $root := index . 0 -}}
{{- $redis := $root.Values.redis -}}
{{- $user := include "lineage-master.redisUser" . | fromYaml -}}
{{- if $user.secret }}
- secret:
    name: {{ $user.secret }}
    items: [{key: {{ $user.key }}, path: redis/password}]
{{- end }}
{{- if not (include "lineage-master.tryout" (list $root "redis")) }}
{{- with $redis.ca.existingSecret }}
- secret:
    name: {{ . }}
    items: [{key: {{ $redis.ca.key }}, path: redis/ca.crt}]
{{- end }}
{{- with $redis.certificate.existingSecret }}
- secret:
    name: {{ . }}
    items:
      - {key: {{ $redis.certificate.certificateKey }}, path: redis/tls.crt}
      - {key: {{ $redis.certificate.privateKeyKey }}, path: redis/tls.key}
{{- end }}
{{- end }}
{{- end -}}

{{/* A part's login at Neo4j: (list $ "writer", "maintenance" or "queryApi") gives YAML. */}}
{{- define "lineage-master.neo4jUser" -}}
{{- $neo4j := (index . 0).Values.neo4j -}}
{{- $own := $neo4j.queryApi -}}
{{- if include "lineage-master.tryout" (list (index . 0) "neo4j") -}}
{username: neo4j, secret: {{ include "lineage-master.name" (list (index . 0) "tryout") }}, key: neo4j-password}
{{- else if and (eq (index . 1) "queryApi") $own.existingSecret -}}
{{- dict "username" $own.username "secret" $own.existingSecret "key" $own.passwordKey | toYaml -}}
{{- else -}}
{{- dict "username" $neo4j.username "secret" $neo4j.existingSecret "key" $neo4j.passwordKey | toYaml -}}
{{- end -}}
{{- end -}}

{{/* The store of a part: (list $ "writer", "maintenance" or "queryApi"). */}}
{{- define "lineage-master.storeEnv" -}}
{{- $root := index . 0 -}}
{{- $user := include "lineage-master.neo4jUser" . | fromYaml -}}
{{- $tryout := include "lineage-master.tryout" (list $root "neo4j") -}}
{{- $alone := include "lineage-master.lakeAlone" $root -}}
{{- $lake := include "lineage-master.opensLake" . -}}
{{- $uri := include "lineage-master.neo4jUri" $root -}}
{{- if and $uri (not $tryout) $root.Values.neo4j.database }}{{- $uri = printf "%s?database=%s" $uri $root.Values.neo4j.database }}{{- end -}}
- {name: LINEAGE_STORE, value: {{ list $uri (ternary $root.Values.lake.url "" (eq $lake "true")) | compact | join "," | quote }}}
{{- if $lake }}
{{- with $root.Values.lake.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- if and $user.secret (not $alone) }}
- {name: LINEAGE_NEO4J_USER, value: {{ $user.username | quote }}}
- {name: LINEAGE_NEO4J_PASSWORD_FILE, value: /run/secrets/lineage/neo4j/password}
{{- end }}
{{- if and (not $tryout) (not $alone) $root.Values.neo4j.ca.existingSecret }}
- {name: LINEAGE_NEO4J_CA_FILE, value: /run/secrets/lineage/neo4j/ca.crt}
{{- end }}
{{- end -}}

{{- define "lineage-master.storeFiles" -}}
{{- $root := index . 0 -}}
{{- if not (include "lineage-master.lakeAlone" $root) -}}
{{- $user := include "lineage-master.neo4jUser" . | fromYaml -}}
{{- if $user.secret }}
- secret:
    name: {{ $user.secret }}
    items: [{key: {{ $user.key }}, path: neo4j/password}]
{{- end }}
{{- if and (not (include "lineage-master.tryout" (list $root "neo4j"))) $root.Values.neo4j.ca.existingSecret }}
- secret:
    name: {{ $root.Values.neo4j.ca.existingSecret }}
    items: [{key: {{ $root.Values.neo4j.ca.key }}, path: neo4j/ca.crt}]
{{- end }}
{{- end }}
{{- end -}}

{{/* Volumes of a part for a lake in a folder, and where they are mounted: (list $ "writer"). */}}
{{- define "lineage-master.lakeVolumes" -}}
{{- if and (include "lineage-master.opensLake" .) (index . 0).Values.lake.extraVolumes -}}
{{- toYaml (index . 0).Values.lake.extraVolumes -}}
{{- end -}}
{{- end -}}

{{- define "lineage-master.lakeMounts" -}}
{{- if and (include "lineage-master.opensLake" .) (index . 0).Values.lake.extraVolumeMounts -}}
{{- toYaml (index . 0).Values.lake.extraVolumeMounts -}}
{{- end -}}
{{- end -}}
