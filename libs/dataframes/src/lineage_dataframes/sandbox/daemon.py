"""PySpark's worker daemon where Spark is confined: it listens on a port that Spark may connect to, and connects to nothing.

Its workers do not listen either, for Spark's connections are accepted before they are forked, and start no processes.

Set as ``spark.python.daemon.module``. What its workers run may be the code of a job: they write nothing that Java loads or reads.
A worker serves one task, and what it leaves in its memory and in files ends with it: the next task may be another application's.
"""

from __future__ import annotations

import errno
import gc
import os
import shutil
import socket
import tempfile
import types
from contextlib import suppress
from importlib import import_module
from typing import Any

from lineage_core.environment.archives import forget_archives
from lineage_dataframes.sandbox.kernel import (
    has_seccomp,
    landlock_abi,
    refuse_connections,
    refuse_listening,
    refuse_processes,
    restrict_files,
)
from lineage_dataframes.sandbox.names import LIBRARIES, PORTS, WORKERS
from lineage_dataframes.sandbox.withheld import WithheldError, watch_environment, watch_process


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


def load_libraries() -> None:
    """Load, before any worker is forked, what each would load for its one task."""
    for name in filter(None, os.environ.pop(LIBRARIES, "").split(",")):
        # One that looks up a withheld variable ends the functions that load it, not others.
        with suppress(ImportError, WithheldError):
            import_module(name)
    forget_archives()
    # What is loaded now stays: collections in the workers neither visit nor copy it.
    gc.collect()
    gc.freeze()


def confine_writes(folder: str) -> None:
    """Let this process write to one folder alone, of all that Java may write to.

    Raises:
        OSError: the kernel refuses.
    """
    os.environ["TMPDIR"] = folder
    abi = landlock_abi()
    if abi:
        restrict_files(abi, ["/"], ["/"], [folder, os.devnull], None)


def confine_workers(folder: str) -> None:
    """Confine each process that is forked from here on.

    It writes to a folder of its own alone, which is made in ``folder``; waits for no others that connect to it; and starts no
    others, which would outlive it.
    """
    os.register_at_fork(after_in_child=lambda: _confine_worker(folder))


def _confine_worker(folder: str) -> None:
    try:
        _remove_folders_of_ended(folder)
        # Its names are found nowhere: what a function left in another task is not there for it.
        confine_writes(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=folder))
        tempfile.tempdir = None
        if has_seccomp():
            refuse_listening()
            refuse_processes()
        watch_process()
    except BaseException:
        # What is raised here would only be printed.
        os._exit(1)


def _remove_folders_of_ended(folder: str) -> None:
    """Remove the folders of workers that are no more: they could not remove their own."""
    for name in os.listdir(folder):
        try:
            os.kill(int(name.partition("-")[0]), 0)
        except ProcessLookupError:
            # Folders in folders may be more than Python goes down.
            with suppress(RecursionError):
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        except PermissionError:
            continue


def run_daemon() -> None:
    """Be the daemon."""
    # Not above: who starts Spark needs this module's name alone, and the daemon's imports take a while.
    import pyspark.daemon

    watch_environment()
    load_libraries()
    folder = os.environ.pop(WORKERS)
    confine_writes(folder)
    if has_seccomp():
        refuse_connections()
    confine_workers(folder)
    daemon: Any = pyspark.daemon
    daemon.socket = types.SimpleNamespace(
        **{**vars(socket), "socket": PortSocket},
    )
    daemon.manager()


if __name__ == "__main__":
    run_daemon()
