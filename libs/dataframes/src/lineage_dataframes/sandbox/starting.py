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

from pyspark import SparkConf, SparkContext, SparkFiles

from lineage_core.environment.private_files import ensure_private_folder
from lineage_core.recipe.document import Source
from lineage_core.recipe.names import DELTA, ICEBERG, JDBC, KAFKA
from lineage_dataframes.errors import NoSparkError, NotComputedError
from lineage_dataframes.sandbox import daemon, kernel, withheld
from lineage_dataframes.sandbox.names import NAMES, NETWORK, PORTS, ROOTS, SANDBOX, WORKERS
from lineage_dataframes.sandbox.policy import (
    IVY,
    NETWORK_VARIABLE_PREFIXES,
    NOT_LINUX,
    VARIABLE_PREFIXES,
    VARIABLES,
    Policy,
    SandboxSettings,
    default_roots,
    ivy_folder,
    program_folders,
    runs_in_process,
    spark_home,
    system_files,
)
from lineage_store.paths import split_scheme
from lineage_store.url import cache_folder

DAEMONS_MAX = 8
"""Daemons of Python workers that run at once: one for each environment that functions have."""
GIVEN, WRITTEN = "given", "written"
"""Folders of a sandbox: of this process, which its Spark may read, and of its Spark."""
EXIT_TIMEOUT_S = 20.0
"""Seconds that Java has to end where another one is to take its place."""


@dataclass(frozen=True)
class Sandbox:
    """A confined Java. ``folder``: with what it exchanges with this process; ``lacks``: what could not be held."""

    wanted: SandboxSettings
    policy: Policy
    folder: Path
    lacks: tuple[str, ...]
    process: Any = None

    @property
    def written(self) -> Path:
        """The folder that it may write to. What lies there may become a link at any time."""
        return self.folder / WRITTEN

    @property
    def given(self) -> Path:
        """The folder that this process writes to, and it may only read."""
        return self.folder / GIVEN

    def settings(self) -> dict[str, str]:
        """Settings of Spark without which it would not run confined."""
        settings = {
            "spark.local.dir": str(self.written / "tmp"),
            # Java connects to itself there: it fetches the jars that its settings name.
            "spark.driver.port": str(self.policy.ports[0]),
            "spark.sql.warehouse.dir": str(self.written / "warehouse"),
            "spark.python.daemon.module": daemon.__name__,
            "spark.python.unix.domain.socket.enabled": "false",
        }
        ivy = ivy_folder()
        if ivy:
            settings[IVY] = ivy[0]
        return settings


_confined: list[Sandbox] = []
"""What confines the Java of this process, if anything does."""


def active_sandbox() -> Sandbox | None:
    """What confines the Java of this process; None: nothing does."""
    process = getattr(SparkContext._gateway, "proc", None)
    return next((sandbox for sandbox in _confined if sandbox.process is process), None)


def given_folder() -> Path | None:
    """Where this process writes what its Spark is to read; None: anywhere."""
    sandbox = active_sandbox()
    return None if sandbox is None else sandbox.given


def written_folder() -> Path | None:
    """Where its Spark writes; None: anywhere. This process writes nothing there, and reads it without following links."""
    sandbox = active_sandbox()
    return None if sandbox is None else sandbox.written


def missing_restrictions() -> tuple[str, ...]:
    """What the settings request and this machine does not give to the Spark that runs.

    Raises:
        NoSparkError: a setting has no value of its kind.
    """
    sandbox = active_sandbox()
    if sandbox is not None:
        return sandbox.lacks
    if sys.platform == "linux" or SandboxSettings.of(os.environ, None).mode == "off":
        return ()
    return (NOT_LINUX,)


def prepare_sandbox(master: str, roots: Sequence[str] | None) -> Sandbox | None:
    """What is to confine a Spark that starts now; None where nothing is to. See `SandboxSettings` for ``roots``.

    Raises:
        NoSparkError: a setting has no value of its kind, or what is required can't be held.
    """
    requested = SandboxSettings.of(os.environ, roots)
    if requested.mode == "off":
        _end_confined()
        return None
    required = requested.mode == "required"
    if not runs_in_process(master):
        if required:
            raise NoSparkError(f"{SANDBOX}=required, and the Spark of {master} is elsewhere")
        _end_confined()
        return None
    active = active_sandbox()
    if active is not None and active.wanted == requested and active.process.poll() is None:
        return active
    _end_confined()
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        if required:
            raise NoSparkError(f"{SANDBOX}=required, and this process has a Java already")
        return None
    lacks = requested.lacks(master)
    if lacks and required:
        raise NoSparkError(
            f"{SANDBOX}=required, and this machine can't hold it: {'; '.join(lacks)}"
        )
    if sys.platform != "linux":
        return None
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="lineage-spark-")))
    given, written = folder / GIVEN, folder / WRITTEN
    for part in (given, written, written / "tmp", written / "workers"):
        part.mkdir(mode=0o700)
    return Sandbox(requested, _policy(requested, given, written), folder, lacks)


def check_active() -> None:
    """See that a Spark of this process that runs already is confined where it has to be.

    Raises:
        NoSparkError: it is not.
    """
    if active_sandbox() is None and SandboxSettings.of(os.environ, None).mode == "required":
        raise NoSparkError(f"{SANDBOX}=required, and this process has a Spark already")


def check_unconfined() -> None:
    """See that a Spark may start here that is not confined, as the next one is.

    Raises:
        NoSparkError: the settings require that it is.
    """
    if SandboxSettings.of(os.environ, None).mode == "required":
        raise NoSparkError(f"{SANDBOX}=required, and a Spark that writes tables is not confined")
    _end_confined()


def launch_java(sandbox: Sandbox, settings: Mapping[str, str]) -> None:
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
        with tempfile.TemporaryDirectory(prefix="lineage-start-", dir=_program_folder()) as start:
            gateway: Any = launch_gateway(conf, {"executable": str(_program(sandbox, Path(start)))})
        SparkContext._ensure_initialized(gateway=gateway)
        undone.pop_all()
    _confined.append(replace(sandbox, process=gateway.proc))
    atexit.register(remove_folder, sandbox.folder)


def _program_folder() -> str | None:
    """A folder for programs: None for that of temporary files, from where many machines run none."""
    if os.statvfs(tempfile.gettempdir()).f_flag & os.ST_NOEXEC:
        return str(ensure_private_folder(cache_folder() / "java", ours=True))
    return None


def remove_folder(folder: Path) -> None:
    """Remove the folder of a sandbox, as far as Python goes down in it."""
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)


def adapt_context(context: SparkContext) -> None:
    """Have Python workers of a confined Spark run in this Python, and send no sums: there is no way for these.

    PySpark looks for modules in the folder of the context's files, where Spark's Java may write: this process does not.
    """
    files = SparkFiles.getRootDirectory()
    sys.path[:] = [folder for folder in sys.path if folder != files]
    untyped_context: Any = context
    untyped_context.pythonExec = sys.executable
    untyped_context._javaAccumulator = None


def explain_problem(problem: Exception, reason: str, *, may_be_denied: bool = False) -> str:
    """What Spark says of a problem, and which setting lifts it where it may be for want of a right.

    ``may_be_denied``: it may be, whatever the words are.
    """
    if active_sandbox() is None:
        return reason
    text = str(problem)
    withheld_match = _WITHHELD.search(text)
    if withheld_match is not None:
        return withheld_match[1]
    if may_be_denied or _DENIALS.search(text):
        return (
            f"{reason} (the Spark that traces is confined: {ROOTS} names folders that it may read, {NETWORK}=true gives it "
            f"the network, {SANDBOX}=off all rights)"
        )
    return reason


def confined_reason(problem: Exception) -> str:
    """Why a problem may be that of the confined Spark alone, and not of the rows; empty where it is not."""
    text = str(problem)
    if active_sandbox() is None or not (_WITHHELD.search(text) or _DENIALS.search(text)):
        return ""
    return explain_problem(problem, text.strip().split("\n", 1)[0])


_WITHHELD = re.compile(rf"{withheld.WithheldError.__name__}: (.*)")
_DENIALS = re.compile(
    r"Permission denied|Operation not permitted|AccessDenied|AccessControlException|UnknownHost|name resolution|"
    r"[Cc]onnection refused|Network is unreachable|Unable to (?:connect|load AWS credentials)"
)
"""What Java, Python and drivers say where the kernel refuses a file or the network."""


def check_reach(sources: Iterable[Source]) -> None:
    """See that the Spark of this process can read sources.

    Raises:
        NotComputedError: they lie elsewhere and it has no network, or outside of what it may read. Another may.
    """
    sandbox = active_sandbox()
    if sandbox is None:
        return
    places = set[str]()
    for source in sources:
        if source.format == JDBC:
            # Of Oracle's servers some are named behind "@" alone.
            url = os.environ.get("LINEAGE_JDBC_URL", "")
            if not sandbox.wanted.network and ("//" in url or "@" in url):
                raise NotComputedError(_no_network_text(source.name or "a database"))
            continue
        if source.format == KAFKA:
            if not sandbox.wanted.network:
                raise NotComputedError(_no_network_text(source.name or "a topic"))
            continue
        # A table is read by its log, which is not among its files.
        tables = source.paths if source.format in {DELTA, ICEBERG} else ()
        metadata = (source.options[option] for option in ("metadata",) if option in source.options)
        for path in (*(file.path for file in source.files), *tables, *metadata):
            kind, rest = split_scheme(path)
            if kind == "file":
                places.add(rest)
            elif not sandbox.wanted.network:
                raise NotComputedError(_no_network_text(path))
    for place in sorted(places):
        if not sandbox.policy.reads(place):
            raise NotComputedError(
                f"{place} lies outside of what the Spark that traces may read; {ROOTS} names folders"
            )


def _no_network_text(address: str) -> str:
    return f"the Spark that traces has no network, and {address} is elsewhere; {NETWORK}=true gives it one"


def _policy(requested: SandboxSettings, given: Path, written: Path) -> Policy:
    roots = default_roots() if requested.roots is None else requested.roots
    ivy = ivy_folder()
    write = [str(written), "/dev/null"]
    if ivy:
        Path(ivy[0]).mkdir(mode=0o700, parents=True, exist_ok=True)
        write.append(os.path.realpath(ivy[0]))
    ports = _free_ports()
    prefixes = (*VARIABLE_PREFIXES, *(NETWORK_VARIABLE_PREFIXES if requested.network else ()))
    names = withheld.withheld_names(
        os.environ, lambda name: name in VARIABLES or name.startswith(prefixes)
    )
    return Policy(
        landlock=kernel.landlock_abi(),
        seccomp=kernel.has_seccomp(),
        network=requested.network,
        read=(*roots, *system_files(), str(cache_folder() / "java"), str(given)),
        execute=tuple(program_folders()),
        write=tuple(write),
        ports=tuple(ports),
        variables=tuple(VARIABLES),
        prefixes=prefixes,
        set={
            "TMPDIR": str(written / "tmp"),
            PORTS: ",".join(map(str, ports[1:])),
            NAMES: names,
            WORKERS: str(written / "workers"),
            # Its own name and address are of no use to it, and looking them up takes the network.
            **({} if requested.network else {"SPARK_LOCAL_IP": "127.0.0.1"}),
        },
    )


def _free_ports() -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(1 + DAEMONS_MAX)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]


def _program(sandbox: Sandbox, folder: Path) -> Path:
    """A program that does what Spark's own `spark-submit` does, and is confined."""
    policy = folder / "policy.json"
    document = {name: getattr(sandbox.policy, name) for name in Policy.__dataclass_fields__}
    # The rest of a path with blanks would be a word of its own.
    document["java_options"] = f'-Djava.io.tmpdir="{sandbox.written / "tmp"}" -XX:-UsePerfData'
    document["start"] = str(folder)
    policy.write_text(json.dumps(document), encoding="utf-8")
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
    sandbox = active_sandbox()
    _confined.clear()
    if sandbox is None:
        return
    _leave_gateway()
    with suppress(Exception):
        sandbox.process.stdin.close()
        sandbox.process.wait(EXIT_TIMEOUT_S)
    remove_folder(sandbox.folder)


def kill_java() -> None:
    """End the Java that this process has started, whatever it is busy with, so that another one may start."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return
    process.kill()
    process.wait()
    sandbox = active_sandbox()
    _confined.clear()
    _leave_gateway()
    if sandbox is not None:
        remove_folder(sandbox.folder)


def _leave_gateway() -> None:
    gateway: Any = SparkContext._gateway
    with suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
