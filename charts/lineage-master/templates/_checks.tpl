{{/* What the schema of the values can't say. The first thing that is wrong ends the rendering with a sentence. */}}

{{- define "lineage-master.check" -}}
{{- $values := .Values -}}
{{- range list (list "kafka" "kafka.bootstrapServers" $values.kafka.bootstrapServers "HOST:PORT,HOST:PORT") (list "redis" "redis.url" $values.redis.url "redis://HOST:PORT/0") (list "neo4j" "neo4j.uri" $values.neo4j.uri "neo4j://HOST:PORT") -}}
{{- $tryout := include "lineage-master.tryout" (list $ (index . 0)) -}}
{{- $isLake := and (eq (index . 0) "neo4j") (ne $values.lake.url "") -}}
{{- if and (not $tryout) (not (index . 2)) (not $isLake) -}}
{{- fail (printf "\n%s is not set: give the address as %s, or have a server of this release with tryout.%s.enabled=true (not for production)" (index . 1) (index . 3) (index . 0)) -}}
{{- else if and $tryout (index . 2) -}}
{{- fail (printf "\n%s is set, and tryout.%s is enabled, too: choose one of them" (index . 1) (index . 0)) -}}
{{- end -}}
{{- end -}}
{{- if not (include "lineage-master.tryout" (list . "kafka")) -}}
{{- $protocol := $values.kafka.securityProtocol -}}
{{- if and (hasPrefix "SASL" $protocol) (not $values.kafka.saslMechanism) -}}
{{- fail (printf "\nkafka.securityProtocol is %s: set kafka.saslMechanism to PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512" $protocol) -}}
{{- end -}}
{{- range $name, $user := $values.kafka.users -}}
{{- $wanted := or (has $name (list "linker" "writer")) (and (eq $name "topics") $values.topics.create) (and (eq $name "queryApi") $values.queryApi.deadLetters) (and (eq $name "emitter") (include "lineage-master.testToken" $)) -}}
{{- if and $wanted (ne $protocol "PLAINTEXT") (not $user.existingSecret) -}}
{{- fail (printf "\nkafka.securityProtocol is %s: kafka.users.%s.existingSecret must name the Secret of its login" $protocol $name) -}}
{{- end -}}
{{- if and $wanted (hasPrefix "SASL" $protocol) (not $user.username) -}}
{{- fail (printf "\nkafka.securityProtocol is %s: set kafka.users.%s.username" $protocol $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $values.openLineage.url (include "lineage-master.lakeAlone" .) -}}
{{- fail "\nopenLineage.url is set, and lineage goes into a lake alone: the writer tells OpenLineage from Neo4j; unset it, and use `lineage openlineage APP`" -}}
{{- end -}}
{{- $auth := $values.queryApi.auth -}}
{{- if not (or $auth.tokens.existingSecret $auth.oidc.issuer $values.tryout.enabled) -}}
{{- fail "\nthe query API lets nobody in: set queryApi.auth.tokens.existingSecret (a Secret with a file made by `lineage token`) or queryApi.auth.oidc.issuer" -}}
{{- end -}}
{{- if and $values.queryApi.grants.existingSecret (ne (toString (default 0 (get $values.queryApi.settings "LINEAGE_API_METRICS_APPLICATIONS"))) "0") -}}
{{- fail "\nqueryApi.grants.existingSecret is set: leave LINEAGE_API_METRICS_APPLICATIONS out of queryApi.settings, for /metrics tells names of applications to whoever reads it" -}}
{{- end -}}
{{- if and $auth.oidc.issuer (not $auth.oidc.audience) -}}
{{- fail "\nqueryApi.auth.oidc.issuer is set: queryApi.auth.oidc.audience must be, too" -}}
{{- end -}}
{{- if and $values.queryApi.sharedRate $values.redis.existingSecret (not $values.redis.queryApi.existingSecret) (not (include "lineage-master.tryout" (list . "redis"))) -}}
{{- fail "\nqueryApi.sharedRate is true and Redis has logins: redis.queryApi.existingSecret must name the Secret of the query API's own, which reaches no key of the linker" -}}
{{- end -}}
{{- if and $auth.oidc.clientId (not (regexMatch "^(https://|http://(localhost|127[.]0[.]0[.]1)([:/]|$))" $auth.oidc.issuer)) -}}
{{- fail "\nqueryApi.auth.oidc.clientId is set: queryApi.auth.oidc.issuer must be, too, and begin with https://" -}}
{{- end -}}
{{- if and $values.ingress.enabled (not $values.ingress.host) -}}
{{- fail "\ningress.enabled is true: set ingress.host" -}}
{{- end -}}
{{- range list "linker" "writer" "queryApi" -}}
{{- $scaling := (index $values .).autoscaling -}}
{{- if gt (int $scaling.minReplicas) (int $scaling.maxReplicas) -}}
{{- fail (printf "\n%s.autoscaling.minReplicas is more than maxReplicas" .) -}}
{{- end -}}
{{- end -}}
{{- if $values.networkPolicy.enabled -}}
{{- range list "kafka" "redis" "neo4j" -}}
{{- $isThere := not (and (eq . "neo4j") (include "lineage-master.lakeAlone" $)) -}}
{{- if and $isThere (not (include "lineage-master.tryout" (list $ .))) (not (index $values.networkPolicy .).to) -}}
{{- fail (printf "\nnetworkPolicy.enabled is true: networkPolicy.%s.to must say where %s is (peers as in a NetworkPolicy), or set networkPolicy.enabled=false" . .) -}}
{{- end -}}
{{- end -}}
{{- if and $values.openLineage.url (not $values.networkPolicy.openLineage.to) -}}
{{- fail "\nnetworkPolicy.enabled is true and openLineage.url is set: networkPolicy.openLineage.to must say where the backend is, or set networkPolicy.enabled=false" -}}
{{- end -}}
{{- if and (contains "://" $values.lake.url) (not $values.networkPolicy.lake.to) -}}
{{- fail "\nnetworkPolicy.enabled is true and lake.url is set: networkPolicy.lake.to must say where its storage is, or set networkPolicy.enabled=false" -}}
{{- end -}}
{{- if and $auth.oidc.issuer (not $values.networkPolicy.issuer.to) -}}
{{- fail "\nnetworkPolicy.enabled is true and queryApi.auth.oidc.issuer is set: networkPolicy.issuer.to must say where the issuer is, or set networkPolicy.enabled=false" -}}
{{- end -}}
{{- end -}}
{{- end -}}
