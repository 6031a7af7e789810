"""Processes that outlive the command that started them, found again by pid *and* start time.

A pid alone names whatever process has it now: after a crash or a reboot that may be a stranger. So a
pid file holds the start time too, and no signal is sent unless both still fit. Linux only (/proc, pidfd).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lineage_core.environment.private_files import private_opener

LOG_BYTES_MAX = 16 << 20
"""A log larger than this is set aside (one generation) when its process starts again."""
POLL_S = 0.05
PRIVATE_UMASK = 0o077
"""What servers store and log may be personal data."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process as it was when it started.

    ``started`` is opaque text that no other process with the same pid can have.
    """

    pid: int
    started: str

    def is_running(self) -> bool:
        """Whether this process runs (a zombie does not)."""
        current = _look(self.pid)
        if current is None or current.started != self.started:
            return False
        if current.ended:
            _reap(self.pid)
        return not current.ended

    def send(self, number: signal.Signals) -> bool:
        """Send a signal to the process; False when it runs no more."""
        return self._send(number, whole_session=False)

    def kill(self, *, limit_s: float = 30.0) -> bool:
        """SIGKILL to the process and all it started; returns whether it is gone."""
        self._send(signal.SIGKILL, whole_session=True)
        return self.wait(limit_s)

    def stop(self, *, limit_s: float) -> bool:
        """SIGTERM, and SIGKILL after ``limit_s`` seconds; returns whether it ended by itself."""
        self.send(signal.SIGTERM)
        if self.wait(limit_s):
            return True
        self.kill()
        return False

    def wait(self, limit_s: float) -> bool:
        """Wait until the process has ended; False when it runs on after ``limit_s`` seconds."""
        deadline = time.monotonic() + limit_s
        while self.is_running():
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_S)
        return True

    def _send(self, number: signal.Signals, *, whole_session: bool) -> bool:
        try:
            # Opened before the check, so that the descriptor refers to the process that is checked.
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.is_running():
                return False
            if whole_session:
                os.killpg(self.pid, number)
            else:
                signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True


def start(
    command: Sequence[str], *, environment: Mapping[str, str], folder: Path, log: Path
) -> Process:
    """Start a process in a session of its own: neither a closed terminal nor Ctrl-C reaches it.

    Args:
        command: program and arguments.
        environment: added to the caller's own environment.
        folder: working directory.
        log: stdout and stderr are appended to it.

    Raises:
        OSError: the program can't be started.
    """
    if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
        log.replace(log.with_name(log.name + ".1"))
    with open(log, "ab", opener=private_opener) as output:
        child = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=PRIVATE_UMASK,
        )
    started = start_of(child.pid)
    # From here on pid and start time identify the process, whatever its parent. The child is meant to keep
    # running: prevent the warning of subprocess about that.
    child.returncode = 0
    return Process(child.pid, started or "ended at once")


def start_of(pid: int) -> str | None:
    """The start time of a process, which distinguishes it from others with the same pid; None: no such process."""
    current = _look(pid)
    return None if current is None else current.started


def save(process: Process, file: Path) -> None:
    """Write a pid file, whole or not at all."""
    draft = file.with_name(file.name + ".new")
    draft.write_text(json.dumps({"pid": process.pid, "started": process.started}) + "\n")
    draft.replace(file)


def load(file: Path) -> Process | None:
    """The process of a pid file, running or not; None when there is no (readable) file."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return Process(int(content["pid"]), str(content["started"]))
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class _Look:
    started: str
    ended: bool


def _look(pid: int) -> _Look | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold anything, so fields count from the last parenthesis: the state is the
    # first after it (field 3), then the threads (20), the start in clock ticks since boot (22).
    fields = stat.rpartition(")")[2].split()
    # The first thread of a process may be a zombie while others still hold its files and sockets.
    ended = fields[0] in "ZX" and int(fields[17]) <= 1
    return _Look(f"{_boot()}:{fields[19]}", ended)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _reap(pid: int) -> None:
    """Take leave of a child that has ended; of somebody else's child that one takes leave."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
