"""Starts the Spark that traces as a process that is confined, as far as this machine and the settings have it.

A process has one Java. It stays confined as it was started: where others roots are wanted later, another one is started.
"""

from __future__ import annotations

import atexit
import json
import os
import shlex
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext

from lineage_core.recipe import JDBC, Source
from lineage_frames.changed import local_path
from lineage_frames.errors import NoSparkError, NotComputedError
from lineage_frames.sandbox import daemon, kernel
from lineage_frames.sandbox.policy import (
    IVY,
    NETWORK,
    OF_THE_NETWORK,
    PREFIXES,
    ROOTS,
    SANDBOX,
    VARIABLES,
    Policy,
    Wanted,
    default_roots,
    ivy_folder,
    programs,
    system_files,
)
from lineage_store.opening import cache_folder

PORTS = 8
"""Daemons of Python workers that run at once: one for each environment that functions have."""
END_S = 20.0
"""Seconds that Java has to end where another one is to take its place."""
_NET_SINCE, _SIGNALS_SINCE = 4, 6


@dataclass(frozen=True)
class Sandbox:
    """A confined Java. ``folder``: which it may write to; ``lacks``: what could not be held."""

    wanted: Wanted
    policy: Policy
    folder: Path
    lacks: tuple[str, ...]
    process: Any = None

    def settings(self) -> dict[str, str]:
        """Settings of Spark without which it would not run confined."""
        settings = {
            "spark.local.dir": str(self.folder / "tmp"),
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.python.daemon.module": daemon.__name__,
            "spark.python.unix.domain.socket.enabled": "false",
        }
        ivy = ivy_folder()
        if ivy:
            settings[IVY] = ivy[0]
        return settings


_confined: list[Sandbox] = []
"""What confines the Java of this process, if anything does."""


def running() -> Sandbox | None:
    """What confines the Java of this process; None: nothing does."""
    process = getattr(SparkContext._gateway, "proc", None)
    return next((one for one in _confined if one.process is process), None)


def scratch_folder() -> Path | None:
    """Where this process writes what its Spark is to read, or to write beside it; None: anywhere."""
    sandbox = running()
    return None if sandbox is None else sandbox.folder


def lacking() -> tuple[str, ...]:
    """What the settings ask for and this machine does not give."""
    sandbox = running()
    return () if sandbox is None else sandbox.lacks


def prepare(master: str, roots: Sequence[str] | None) -> Sandbox | None:
    """What is to confine a Spark that starts now; None where nothing is to. See `Wanted` for ``roots``.

    Raises:
        NoSparkError: a setting has no value of its kind, or what is required can't be held.
    """
    wanted = Wanted.of(os.environ, roots)
    if wanted.mode == "off":
        _end_confined()
        return None
    required = wanted.mode == "required"
    if not (master == "local" or master.startswith("local[")):
        if required:
            raise NoSparkError(f"{SANDBOX}=required, and the Spark of {master} is elsewhere")
        _end_confined()
        return None
    there = running()
    if there is not None and there.wanted == wanted and there.process.poll() is None:
        return there
    _end_confined()
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        if required:
            raise NoSparkError(f"{SANDBOX}=required, and this process has a Java already")
        return None
    abi, seccomp = kernel.landlock_abi(), kernel.has_seccomp()
    lacks = tuple(_lacks(abi, seccomp=seccomp, network=wanted.network))
    if lacks and required:
        raise NoSparkError(
            f"{SANDBOX}=required, and this machine can't hold it: {'; '.join(lacks)}"
        )
    if not abi and not seccomp and sys.platform != "linux":
        return None
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="lineage-spark-")))
    (folder / "tmp").mkdir(mode=0o700)
    return Sandbox(wanted, _policy(wanted, folder, abi, seccomp=seccomp), folder, lacks)


def check_active() -> None:
    """See that a Spark of this process that runs already is confined where it has to be.

    Raises:
        NoSparkError: it is not.
    """
    if running() is None and Wanted.of(os.environ, None).mode == "required":
        raise NoSparkError(f"{SANDBOX}=required, and this process has a Spark already")


def launch(sandbox: Sandbox, settings: Mapping[str, str]) -> None:
    """Start the Java of this process, confined.

    Raises:
        OSError: it can't be started.
    """
    if sandbox.process is not None:
        return
    from pyspark.java_gateway import launch_gateway

    with ExitStack() as undone:
        undone.callback(shutil.rmtree, sandbox.folder, ignore_errors=True)
        conf = SparkConf(loadDefaults=False)
        for name, value in settings.items():
            conf.set(name, value)
        # Handed over by a file that nobody reads: PySpark gives the Java's environment itself.
        with tempfile.TemporaryDirectory(prefix="lineage-start-") as start:
            gateway: Any = launch_gateway(conf, {"executable": str(_program(sandbox, Path(start)))})
        SparkContext._ensure_initialized(gateway=gateway)
        undone.pop_all()
    _confined.append(replace(sandbox, process=gateway.proc))
    atexit.register(remove, sandbox.folder)


def remove(folder: Path) -> None:
    """Remove what a confined Spark wrote."""
    shutil.rmtree(folder, ignore_errors=True)


def settle(context: SparkContext) -> None:
    """Have Python workers of a confined Spark run in this Python, and send no sums: there is no way for these."""
    held: Any = context
    held.pythonExec = sys.executable
    held._javaAccumulator = None


def check_reach(sources: Iterable[Source]) -> None:
    """See that the Spark of this process can read sources.

    Raises:
        NotComputedError: they lie elsewhere and it has no network, or outside of what it may read. Another may.
    """
    sandbox = running()
    if sandbox is None:
        return
    places = set[str]()
    for source in sources:
        if source.format == JDBC:
            if not sandbox.wanted.network and "//" in os.environ.get("LINEAGE_JDBC_URL", ""):
                raise NotComputedError(_closed(source.name or "a database"))
            continue
        for file in source.files:
            local = local_path(file.path)
            if local is not None:
                places.add(str(local))
            elif not sandbox.wanted.network:
                raise NotComputedError(_closed(file.path))
    for place in sorted(places):
        if not sandbox.policy.reads(place):
            raise NotComputedError(
                f"{place} lies outside of what the Spark that traces may read; {ROOTS} names folders"
            )


def _closed(place: str) -> str:
    return f"the Spark that traces has no network, and {place} is elsewhere; {NETWORK}=true gives it one"


def _lacks(abi: int, *, seccomp: bool, network: bool) -> Iterable[str]:
    if not abi:
        yield "no Landlock: it reads and writes all files that this user may"
    elif abi < _SIGNALS_SINCE:
        yield "an old Landlock: it may send signals to this user's processes"
    if not network and abi < _NET_SINCE:
        yield "no Landlock for the network: it may connect to any address by TCP"
    if not seccomp:
        yield "no seccomp, or not known for this kind of machine: calls of the kernel and kinds of sockets are not restricted"


def _policy(wanted: Wanted, folder: Path, abi: int, *, seccomp: bool) -> Policy:
    roots = default_roots() if wanted.roots is None else wanted.roots
    ivy = ivy_folder()
    write = [str(folder), "/dev/null"]
    if ivy:
        Path(ivy[0]).mkdir(mode=0o700, parents=True, exist_ok=True)
        write.append(os.path.realpath(ivy[0]))
    ports = _free_ports()
    return Policy(
        landlock=abi,
        seccomp=seccomp,
        network=wanted.network,
        read=(*roots, *system_files(), str(cache_folder() / "java")),
        execute=tuple(programs()),
        write=tuple(write),
        ports=tuple(ports),
        variables=tuple(VARIABLES),
        prefixes=(*PREFIXES, *(OF_THE_NETWORK if wanted.network else ())),
        set={
            "TMPDIR": str(folder / "tmp"),
            daemon.PORTS: ",".join(map(str, ports)),
            # Its own name and address are of no use to it, and asking for them takes the network.
            **({} if wanted.network else {"SPARK_LOCAL_IP": "127.0.0.1"}),
        },
    )


def _free_ports() -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(PORTS)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _program(sandbox: Sandbox, folder: Path) -> Path:
    """A program that does what Spark's own `spark-submit` does, and is confined."""
    policy = folder / "policy.json"
    held = {name: getattr(sandbox.policy, name) for name in Policy.__dataclass_fields__}
    # The rest of a path with blanks would be a word of its own.
    held["java_options"] = f'-Djava.io.tmpdir="{sandbox.folder / "tmp"}" -XX:-UsePerfData'
    held["start"] = str(folder)
    policy.write_text(json.dumps(held), encoding="utf-8")
    spark = os.environ.get("SPARK_HOME") or str(Path(sys.modules["pyspark"].__file__ or "").parent)
    words = [sys.executable, "-I", "-S", kernel.__file__, str(policy), f"{spark}/bin/spark-submit"]
    program = folder / "spark-submit"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    program.chmod(stat.S_IRWXU)
    return program


def _end_confined() -> None:
    """End the confined Java of this process, if there is one."""
    sandbox = running()
    _confined.clear()
    if sandbox is None:
        return
    gateway: Any = SparkContext._gateway
    with suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    with suppress(Exception):
        sandbox.process.stdin.close()
        sandbox.process.wait(END_S)
    remove(sandbox.folder)
