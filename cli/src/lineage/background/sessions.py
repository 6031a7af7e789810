"""Background sessions of this user: which clients each serves, where it listens, and which ones run.

Clients that differ in anything that may change an answer (store, user, programs, versions, environment, settings of
Spark, Java) use different sessions: the name of a session is the digest of all that. Sessions listen on Unix sockets in a
folder of mode 700. A running session holds a lock on the file that describes it; a client holds a second lock, so that
a session serves one client at a time.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import socket
import stat
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from lineage_core.environment.private_files import ensure_private_folder, private_opener
from lineage_core.tracing.trace_result import TraceError
from lineage_store.url import absolute_store, is_embedded

VARIABLE = "LINEAGE_SESSION_S"
"""Seconds that a session waits for the next query; 0: no session is started or used."""
DEFAULT_S = 600.0
MASTER = "LINEAGE_SPARK_MASTER"
"""Spark's master for these queries, or a server of Spark Connect; by default this machine, with all its cores."""
SESSIONS_MAX = 2
"""Sessions of one user at once; each holds a JVM."""

SECRETS = ("LINEAGE_FUNCTIONS_KEY", "LINEAGE_JDBC_", "LINEAGE_TOPICS_")
"""Prefixes of variables that rule out a session: a session neither runs code of recipes nor holds credentials."""

ELSEWHERE = {
    "_", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES", "TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION",
    "TERM_SESSION_ID", "WINDOWID", "DISPLAY", "WAYLAND_DISPLAY", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY",
    "SSH_AUTH_SOCK", "SSH_AGENT_PID", "TMUX", "TMUX_PANE", "STY", "XDG_SESSION_ID", "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS", "VTE_VERSION", "PS1", "PROMPT_COMMAND", "LS_COLORS", "LESS", "PAGER", "EDITOR",
    "VISUAL", "NO_COLOR", "INVOCATION_ID", "JOURNAL_STREAM", "LINEAGE_STORE",
}  # fmt: skip
"""Variables that change no answer; the store is compared separately. Any other variable with another value means another session."""

PROGRAMS = (
    "lineage",
    "lineage_core",
    "lineage_dataframes",
    "lineage_service",
    "lineage_store",
    "pyspark",
)
_PEER = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class BackgroundSession:
    """A running session. ``name``: the digest of what its clients have in common."""

    name: str
    pid: int
    store: str
    began: str
    idle_s: float


def sessions_folder() -> Path:
    """Where the sessions of this user listen."""
    state = os.environ.get("XDG_STATE_HOME", "") or str(Path.home() / ".local" / "state")
    return Path(state) / "lineage" / "sessions"


def idle_s() -> float:
    """Seconds that a session waits for the next query.

    Raises:
        TraceError: the setting is no number.
    """
    setting = os.environ.get(VARIABLE, "")
    try:
        seconds = float(setting or DEFAULT_S)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < float("inf"):
        raise TraceError(f"{VARIABLE} is no number of seconds: {setting!r}")
    return seconds


def session_for(url: str) -> str | None:
    """The name of the session for this command and store; None where the command must use its own Spark.

    Raises:
        TraceError: the setting is no number.
    """
    if not idle_s() or not hasattr(socket, "SO_PEERCRED") or not is_embedded(url):
        return None
    if any(name.startswith(SECRETS) for name in os.environ):
        return None
    # A session would hold a cluster for queries that may never come; a Spark Connect server runs anyway.
    if not os.environ.get(MASTER, "local").startswith("local"):
        return None
    try:
        return _digest(_identity(url))
    except OSError:
        return None


@contextmanager
def socket_address(name: str) -> Iterator[str]:
    """The address of a session's socket, with a short path of its folder: the system allows about a hundred bytes.

    Raises:
        OSError: there is no folder.
    """
    folder = os.open(sessions_folder(), os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{socket_of(name).name}"
    finally:
        os.close(folder)


def socket_of(name: str) -> Path:
    """Where a session listens."""
    return sessions_folder() / f"{name}.sock"


def record_of(name: str) -> Path:
    """The file that describes a session; a running session holds a lock on it."""
    return sessions_folder() / f"{name}.json"


def log_of(name: str) -> Path:
    """The log of a session."""
    return sessions_folder() / f"{name}.log"


@contextmanager
def turn(name: str) -> Iterator[bool]:
    """Whether this command may query or start the session now; no other command does so within the body.

    Raises:
        OSError: the folder can't be made, or is another user's.
    """
    with locked(ensure_private_folder(sessions_folder(), ours=True) / f"{name}.turn") as mine:
        yield mine


@contextmanager
def locked(file: Path) -> Iterator[bool]:
    """Hold the lock on a file; False: another process does.

    Raises:
        OSError: the file can't be opened.
    """
    with open(file, "ab", opener=private_opener) as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def running() -> list[BackgroundSession]:
    """The sessions of this user on this machine that run.

    Raises:
        OSError: the folder can't be read.
    """
    folder = sessions_folder()
    if not folder.exists():
        return []
    sessions = (_running(file) for file in sorted(folder.glob("*.json")))
    return [session for session in sessions if session is not None]


def remove_ended(older_s: float) -> None:
    """Remove files of ended sessions that were last written more than ``older_s`` seconds ago.

    Raises:
        OSError: one can't be removed.
    """
    names = {session.name for session in running()}
    for file in sessions_folder().iterdir():
        if file.stem not in names and time.time() - file.stat().st_mtime > older_s:
            file.unlink(missing_ok=True)


def peer_uid(connection: socket.socket) -> int:
    """The id of the user on the other side of a Unix socket, from the kernel."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(peer)[1])


def _running(file: Path) -> BackgroundSession | None:
    try:
        with file.open("rb") as record:
            status = os.fstat(record.fileno())
            if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
                return None
            try:
                fcntl.flock(record, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return BackgroundSession(**json.load(record))
    except (OSError, ValueError, TypeError):
        return None
    return None


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:24]


def _identity(url: str) -> dict[str, object]:
    variables = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    return {
        "store": absolute_store(url),
        "machine": platform.node(),
        "user": [os.geteuid(), os.getegid(), sorted(os.getgroups())],
        "files_seen": os.readlink("/proc/self/ns/mnt"),
        "python": [sys.executable, sys.version, sys.prefix],
        "programs": [_program(name) for name in PROGRAMS],
        "zone": _state(Path("/etc/localtime")),
        "java": _java(variables),
        "settings": [_listed(folder) for folder in _settings_folders(variables)],
        "variables": variables,
    }


def _program(name: str) -> object:
    """The state of an installed package: any change to its files means another session."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return name
    states: list[object] = []
    for place in spec.submodule_search_locations:
        folder = Path(place)
        # The folder that it is installed in changes with each package that is installed beside it.
        states.append(_state(folder.parent))
        files = folder.rglob("*.py") if name.startswith("lineage") else folder.glob("*.py")
        states += [_state(file) for file in sorted(files)]
    return states


def _java(variables: dict[str, str]) -> object:
    home = variables.get("JAVA_HOME")
    folders = [f"{home}/bin"] if home else variables.get("PATH", "").split(os.pathsep)
    for folder in folders:
        program = Path(folder, "java")
        if program.exists():
            return _state(program.resolve())
    return None


def _settings_folders(variables: dict[str, str]) -> list[Path]:
    named = [Path(value) for name, value in sorted(variables.items()) if name.endswith("_CONF_DIR")]
    spec = find_spec("pyspark")
    homes = [variables.get("SPARK_HOME"), spec and spec.origin and Path(spec.origin).parent]
    return [*named, *(Path(home, "conf") for home in homes if home)]


def _listed(folder: Path) -> object:
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return [str(folder), *(_state(file) for file in files)]


def _state(file: Path) -> object:
    try:
        status = file.stat()
    except OSError:
        return str(file)
    return [str(file), status.st_size, status.st_mtime_ns, status.st_ino]
