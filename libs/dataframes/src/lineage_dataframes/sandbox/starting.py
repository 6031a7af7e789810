"""Starts the Spark that traces as a process that is confined, as far as this machine and the settings have it.

A process has one Java. It stays confined as it was started: where others roots are wanted later, another one is started.
"""

from __future__ import annotations

import atexit
import json
import os
import re
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

from lineage_core.environment.private_files import ensure_private_folder
from lineage_core.recipe.document import DELTA, ICEBERG, JDBC, Source
from lineage_dataframes.errors import NoSparkError, NotComputedError
from lineage_dataframes.sandbox import daemon, kernel, withheld
from lineage_dataframes.sandbox.names import NAMES, NETWORK, PORTS, ROOTS, SANDBOX
from lineage_dataframes.sandbox.policy import (
    IVY,
    NOT_LINUX,
    OF_THE_NETWORK,
    PREFIXES,
    VARIABLES,
    Policy,
    Wanted,
    default_roots,
    is_here,
    ivy_folder,
    programs,
    spark_home,
    system_files,
)
from lineage_store.paths import split_scheme
from lineage_store.url import cache_folder

DAEMONS = 8
"""Daemons of Python workers that run at once: one for each environment that functions have."""
END_S = 20.0
"""Seconds that Java has to end where another one is to take its place."""


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
            # Java connects to itself there: it fetches the jars that its settings name.
            "spark.driver.port": str(self.policy.ports[0]),
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
    """What the settings ask for and this machine does not give to the Spark that runs.

    Raises:
        NoSparkError: a setting has no value of its kind.
    """
    sandbox = running()
    if sandbox is not None:
        return sandbox.lacks
    if sys.platform == "linux" or Wanted.of(os.environ, None).mode == "off":
        return ()
    return (NOT_LINUX,)


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
    if not is_here(master):
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
    lacks = wanted.lacks(master)
    if lacks and required:
        raise NoSparkError(
            f"{SANDBOX}=required, and this machine can't hold it: {'; '.join(lacks)}"
        )
    if sys.platform != "linux":
        return None
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="lineage-spark-")))
    (folder / "tmp").mkdir(mode=0o700)
    return Sandbox(wanted, _policy(wanted, folder), folder, lacks)


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
        with tempfile.TemporaryDirectory(
            prefix="lineage-start-", dir=_where_programs_run()
        ) as start:
            gateway: Any = launch_gateway(conf, {"executable": str(_program(sandbox, Path(start)))})
        SparkContext._ensure_initialized(gateway=gateway)
        undone.pop_all()
    _confined.append(replace(sandbox, process=gateway.proc))
    atexit.register(remove, sandbox.folder)


def _where_programs_run() -> str | None:
    """A folder for programs: None for that of temporary files, from where many machines run none."""
    if os.statvfs(tempfile.gettempdir()).f_flag & os.ST_NOEXEC:
        return str(ensure_private_folder(cache_folder() / "java", ours=True))
    return None


def remove(folder: Path) -> None:
    """Remove what a confined Spark wrote."""
    shutil.rmtree(folder, ignore_errors=True)


def settle(context: SparkContext) -> None:
    """Have Python workers of a confined Spark run in this Python, and send no sums: there is no way for these."""
    held: Any = context
    held.pythonExec = sys.executable
    held._javaAccumulator = None


def explained(problem: Exception, said: str, *, sure: bool = False) -> str:
    """What Spark says of a problem, and which setting lifts it where it may be for want of a right.

    ``sure``: it may be, whatever the words are.
    """
    if running() is None:
        return said
    text = str(problem)
    asked = _WITHHELD.search(text)
    if asked is not None:
        return asked[1]
    if sure or _REFUSED.search(text):
        return (
            f"{said} (the Spark that traces is confined: {ROOTS} names folders that it may read, {NETWORK}=true gives it "
            f"the network, {SANDBOX}=off all rights)"
        )
    return said


_WITHHELD = re.compile(rf"{withheld.WithheldError.__name__}: (.*)")
_REFUSED = re.compile(
    r"Permission denied|Operation not permitted|AccessDenied|AccessControlException|UnknownHost|name resolution|"
    r"[Cc]onnection refused|Network is unreachable|Unable to (?:connect|load AWS credentials)"
)
"""What Java, Python and drivers say where the kernel refuses a file or the network."""


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
            # Of Oracle's servers some are named behind "@" alone.
            url = os.environ.get("LINEAGE_JDBC_URL", "")
            if not sandbox.wanted.network and ("//" in url or "@" in url):
                raise NotComputedError(_closed(source.name or "a database"))
            continue
        # A table is read by its log, which is not among its files.
        tables = source.paths if source.format in {DELTA, ICEBERG} else ()
        metadata = (source.options[one] for one in ("metadata",) if one in source.options)
        for path in (*(file.path for file in source.files), *tables, *metadata):
            kind, rest = split_scheme(path)
            if kind == "file":
                places.add(rest)
            elif not sandbox.wanted.network:
                raise NotComputedError(_closed(path))
    for place in sorted(places):
        if not sandbox.policy.reads(place):
            raise NotComputedError(
                f"{place} lies outside of what the Spark that traces may read; {ROOTS} names folders"
            )


def _closed(place: str) -> str:
    return f"the Spark that traces has no network, and {place} is elsewhere; {NETWORK}=true gives it one"


def _policy(wanted: Wanted, folder: Path) -> Policy:
    roots = default_roots() if wanted.roots is None else wanted.roots
    ivy = ivy_folder()
    write = [str(folder), "/dev/null"]
    if ivy:
        Path(ivy[0]).mkdir(mode=0o700, parents=True, exist_ok=True)
        write.append(os.path.realpath(ivy[0]))
    ports = _free_ports()
    prefixes = (*PREFIXES, *(OF_THE_NETWORK if wanted.network else ()))
    names = withheld.names_of(
        os.environ, lambda name: name in VARIABLES or name.startswith(prefixes)
    )
    return Policy(
        landlock=kernel.landlock_abi(),
        seccomp=kernel.has_seccomp(),
        network=wanted.network,
        read=(*roots, *system_files(), str(cache_folder() / "java")),
        execute=tuple(programs()),
        write=tuple(write),
        ports=tuple(ports),
        variables=tuple(VARIABLES),
        prefixes=prefixes,
        set={
            "TMPDIR": str(folder / "tmp"),
            PORTS: ",".join(map(str, ports[1:])),
            NAMES: names,
            # Its own name and address are of no use to it, and asking for them takes the network.
            **({} if wanted.network else {"SPARK_LOCAL_IP": "127.0.0.1"}),
        },
    )


def _free_ports() -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(1 + DAEMONS)]
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
    words = [
        sys.executable,
        "-I",
        "-S",
        kernel.__file__,
        str(policy),
        f"{spark_home()}/bin/spark-submit",
    ]
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
    _leave_gateway()
    with suppress(Exception):
        sandbox.process.stdin.close()
        sandbox.process.wait(END_S)
    remove(sandbox.folder)


def kill_java() -> None:
    """End the Java that this process has started, whatever it is busy with, so that another one may start."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return
    process.kill()
    process.wait()
    sandbox = running()
    _confined.clear()
    _leave_gateway()
    if sandbox is not None:
        remove(sandbox.folder)


def _leave_gateway() -> None:
    gateway: Any = SparkContext._gateway
    with suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
