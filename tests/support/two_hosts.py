"""A standalone cluster of Spark on this machine whose workers claim to be two hosts.

Spark runs a task a second time beside a slow one on another host alone.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.support.job_runs import environment

HOSTS = ("127.0.0.2", "127.0.0.3")
SPARK_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
READY_S, END_S = 120.0, 60.0


@contextmanager
def two_hosts(folder: Path) -> Iterator[str]:
    """URL of the cluster's master. ``folder``: where its processes work, and tell their logs."""
    running: list[subprocess.Popen[bytes]] = []

    def start(kind: str, host: str, *arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
        command = [SPARK_CLASS, f"org.apache.spark.deploy.{kind}", "--host", host]
        log = folder / f"{kind}-{host}.log"
        with log.open("wb") as told:
            process = subprocess.Popen(
                [*command, "--port", "0", "--webui-port", "0", *arguments],
                cwd=folder,
                env=environment({"SPARK_LOCAL_IP": host}),
                stdout=subprocess.DEVNULL,
                stderr=told,
            )
        running.append(process)
        return process, log

    try:
        url = _said(start("master.Master", "127.0.0.1"), r"Starting Spark master at (\S+)")
        for host in HOSTS:
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / host))
            _said(
                start("worker.Worker", host, *size, url), r"Successfully registered (with) master"
            )
        yield url
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait(END_S)


def _said(started: tuple[subprocess.Popen[bytes], Path], pattern: str) -> str:
    """What a server says on its log once it is ready."""
    process, log = started
    due = time.monotonic() + READY_S
    while True:
        over = process.poll() is not None or time.monotonic() > due
        text = log.read_text(encoding="utf-8", errors="replace")
        found = re.search(pattern, text)
        if found:
            return found[1]
        assert not over, text
        time.sleep(0.05)
