#!/bin/bash
# kafka-run-class.sh CLASS ARGUMENTS: a program of Kafka's.
set -euo pipefail
# shellcheck disable=SC2086 # options are words
exec java ${KAFKA_HEAP_OPTS:--Xmx256m} -XX:-UsePerfData ${KAFKA_OPTS:-} \
    "-Dlog4j.configuration=file:/etc/kafka/docker/${KAFKA_LOGGING:-tools-log4j}.properties" \
    -Dlog4j2.StatusLogger.level=OFF -cp '/opt/kafka/libs/*' "$@"
