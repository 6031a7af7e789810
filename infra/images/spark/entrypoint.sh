#!/bin/bash
# What a container does: the part of a driver or of an executor, as Spark on Kubernetes asks for it, or any
# command. tini is its first process: Spark's own would leave the Python workers of ended tasks as zombies.
set -euo pipefail

classpath=${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*
classpath=${HADOOP_CONF_DIR:+$HADOOP_CONF_DIR:}$classpath${SPARK_EXTRA_CLASSPATH:+:$SPARK_EXTRA_CLASSPATH}

# Options of the JVM, which come as SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ...
java_options() {
    env | sed -n 's/^SPARK_JAVA_OPT_\([0-9]*\)=/\1 /p' | sort -n | cut -d' ' -f2-
}

case ${1:-} in
driver)
    shift
    set -- spark-submit --deploy-mode client --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
executor)
    mapfile -t options < <(java_options)
    set -- "$JAVA_HOME/bin/java" "${options[@]}" \
        "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$classpath" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" \
        --executor-id "$SPARK_EXECUTOR_ID" \
        --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" \
        --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
        --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
'') set -- lineage --help ;;
esac
exec /usr/bin/tini -s -- "$@"
