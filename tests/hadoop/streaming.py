"""Hadoop Streaming: on Hadoop's local runner, over the classes of Hadoop that PySpark has, or on a cluster in one process."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from lineage.stack.ports import free_ports
from lineage.stack.programs import java
from tests.support import jvm
from tests.support.fetched_jars import fetched_jars

HERE = Path(__file__).parent
OPENED = "--add-opens=java.base/java.lang=ALL-UNNAMED"
"""YARN changes classes when they are loaded."""
LOCAL = {"mapreduce.framework.name": "local", "fs.defaultFS": "file:///"}


def streaming_command(
    folder: Path, *options: str, settings: Mapping[str, str] = LOCAL, is_cluster: bool = False
) -> list[str]:
    """What starts a job; its files are below ``folder``."""
    pyspark_jars = Path(pyspark.__file__).parent / "jars"
    jars = [fetched_jars(HERE / "cluster")] if is_cluster else [pyspark_jars, fetched_jars(HERE)]
    settings = {**settings, "hadoop.tmp.dir": str(folder / "hadoop")}
    return [
        *_java(folder, jars),
        "org.apache.hadoop.streaming.HadoopStreaming",
        *_words(settings),
        *options,
    ]


@contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """A cluster that runs for the while; gives the settings of jobs that run on it."""
    ports = iter(free_ports(6))
    settings = {
        "fs.defaultFS": "file:///",
        "yarn.resourcemanager.hostname": "localhost",
        **{
            f"yarn.resourcemanager.{name}address": f"localhost:{next(ports)}"
            for name in ("", "scheduler.", "resource-tracker.", "admin.", "webapp.")
        },
        "yarn.app.mapreduce.am.command-opts": f"-Xmx256m {OPENED}",
        "yarn.app.mapreduce.am.staging-dir": str(folder / "staging"),
    }
    own = {
        "hadoop.tmp.dir": str(folder / "yarn"),
        "yarn.minicluster.fixed.ports": "true",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        "yarn.scheduler.capacity.maximum-am-resource-percent": "1",
        "yarn.scheduler.capacity.root.queues": "default",
        "yarn.scheduler.capacity.root.default.capacity": "100",
        "mapreduce.jobhistory.address": "localhost:0",
        "mapreduce.jobhistory.admin.address": "localhost:0",
        "mapreduce.jobhistory.webapp.address": f"localhost:{next(ports)}",
    }
    address = settings["yarn.resourcemanager.address"]
    command = [
        *_java(folder, [fetched_jars(HERE / "cluster")]),
        *("org.apache.hadoop.mapreduce.MiniHadoopClusterManager", "-nodfs"),
        *("-rmport", address.rpartition(":")[2], *_words(settings | own)),
    ]
    environment = {**os.environ, "USER": "tests"}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as manager:
        try:
            assert manager.stdout is not None
            said = []
            for line in manager.stdout:
                said.append(line)
                if "Started MiniMRCluster" in line:
                    break
            else:
                raise AssertionError("".join(said[-40:]))
            threading.Thread(target=manager.stdout.read, daemon=True).start()
            yield {
                **settings,
                "mapreduce.framework.name": "yarn",
                "yarn.is.minicluster": "true",
                "yarn.app.mapreduce.am.resource.mb": "512",
                "mapreduce.map.memory.mb": "512",
                "mapreduce.reduce.memory.mb": "512",
            }
        finally:
            manager.terminate()
            manager.wait(60)


def _java(folder: Path, jars: list[Path]) -> list[str]:
    classes = ":".join(f"{path}/*" for path in jars)
    options = (*jvm.OPTIONS.split(), f"-Djava.io.tmpdir={folder}", OPENED)
    return [str(java()), *options, "-cp", classes]


def _words(settings: Mapping[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in ("-D", f"{name}={value}")]
