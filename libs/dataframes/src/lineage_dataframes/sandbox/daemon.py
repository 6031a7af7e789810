"""PySpark's worker daemon where Spark is confined: it listens on a port that Spark may connect to, and connects to nothing.

Its workers do not listen either, for Spark's connections are accepted before they are forked, and start no processes.

Set as ``spark.python.daemon.module``. What its workers run may be the code of a job: they write nothing that Java loads or reads.
"""

from __future__ import annotations

import errno
import os
import socket
import types
from typing import Any

from lineage_dataframes.sandbox.kernel import (
    has_seccomp,
    landlock_abi,
    refuse_connections,
    refuse_listening,
    refuse_processes,
    restrict_files,
)
from lineage_dataframes.sandbox.names import PORTS, WORKERS
from lineage_dataframes.sandbox.withheld import watch_process


class PortSocket(socket.socket):
    """A socket that takes one of these ports where any would do."""

    def bind(self, address: Any) -> None:
        """As any socket's.

        Raises:
            OSError: all ports are taken.
        """
        host, port, *rest = address
        ports = [int(number) for number in os.environ.get(PORTS, "").split(",") if number]
        if port or not ports:
            super().bind(address)
            return
        for worker_port in ports:
            try:
                super().bind((host, worker_port, *rest))
                return
            except OSError as problem:
                if problem.errno != errno.EADDRINUSE:
                    raise
        raise OSError(errno.EADDRINUSE, "all ports for workers are taken")


def confine_writes() -> None:
    """Let this process write to the folder of workers alone, of all that Java may write to.

    Raises:
        OSError: the kernel refuses.
    """
    folder, abi = os.environ.pop(WORKERS, ""), landlock_abi()
    if not folder:
        return
    os.environ["TMPDIR"] = folder
    if abi:
        restrict_files(abi, ["/"], ["/"], [folder, os.devnull], None)


def confine_workers() -> None:
    """Let no process that is forked from here on wait for others that connect to it, or start others: they would outlive it."""
    os.register_at_fork(after_in_child=_confine_worker)


def _confine_worker() -> None:
    try:
        refuse_listening()
        refuse_processes()
    except OSError:
        # What is raised here would only be printed.
        os._exit(1)


def run_daemon() -> None:
    """Be the daemon."""
    # Not above: who starts Spark needs this module's name alone, and the daemon's imports take a while.
    import pyspark.daemon

    confine_writes()
    if has_seccomp():
        refuse_connections()
        confine_workers()
    daemon: Any = pyspark.daemon
    daemon.socket = types.SimpleNamespace(
        **{**vars(socket), "socket": PortSocket},
    )
    watch_process()
    daemon.manager()


if __name__ == "__main__":
    run_daemon()
