"""Run one command and measure all of its processes (Linux).

    python -m benchmarks.measure REPORT.json -- COMMAND ...

The measuring process is the reaper of every orphan below it, so its RUSAGE_CHILDREN holds the CPU
time of the driver, the JVM and PySpark's daemon, however they end. The daemon ignores the end of
its workers (SIGCHLD), so the kernel adds theirs nowhere: what a worker had used is taken from the
last sample of it, unless this process reaped it. All other samples must not exceed what was reaped.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

PR_SET_CHILD_SUBREAPER = 36
SAMPLE_INTERVAL_S = 0.1
"""A worker that ends takes up to this much CPU time with it, unseen."""
ORPHANS_TIMEOUT_S = 60.0
CPU_TOLERANCE_S = 0.5
DRIVER, JVM, DAEMON, WORKER = "driver", "jvm", "daemon", "worker"


class MeasureError(Exception):
    """The measurement can't be trusted."""


@dataclass
class Samples:
    """What was seen of the processes below this one, by process id."""

    cpu_s: dict[int, float] = field(default_factory=dict)
    worker_peak_bytes: dict[int, int] = field(default_factory=dict)
    """The kernel's high-water mark of resident memory: no peak between samples is missed."""
    worker_private_bytes: dict[int, int] = field(default_factory=dict)
    """Largest sample of memory that is the worker's own, not shared with the daemon it forked from."""
    peak_bytes: dict[str, int] = field(default_factory=dict)
    """As ``worker_peak_bytes``, of the largest process of a kind: driver, jvm, daemon, worker."""

    def take(self) -> None:
        """Look once at all of them; those that end meanwhile are left out."""
        for process in psutil.Process().children(recursive=True):
            try:
                times = process.cpu_times()
                self.cpu_s[process.pid] = times.user + times.system
                kind = _kind(process)
                if kind is not None:
                    peak = high_water_bytes(process.pid)
                    self.peak_bytes[kind] = max(peak, self.peak_bytes.get(kind, 0))
                if kind == WORKER:
                    self._look_at_worker(process.pid)
            except (psutil.Error, OSError):
                continue

    def _look_at_worker(self, pid: int) -> None:
        self.worker_peak_bytes[pid] = high_water_bytes(pid)
        private = _kilobytes(f"/proc/{pid}/smaps_rollup", ("Private_Clean:", "Private_Dirty:"))
        self.worker_private_bytes[pid] = max(private, self.worker_private_bytes.get(pid, 0))


def high_water_bytes(pid: int) -> int:
    """Resident memory of a process at its peak, by the kernel."""
    return _kilobytes(f"/proc/{pid}/status", ("VmHWM:",))


def _kilobytes(path: str, names: tuple[str, ...]) -> int:
    """Bytes that the named lines of a file below /proc say together."""
    lines = Path(path).read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(names))


def _kind(process: psutil.Process) -> str | None:
    """A worker is what a daemon module forked: same command line as its parent."""
    line = process.cmdline()
    program = Path(line[0]).name if line else ""
    if program == "java":
        return JVM
    if not program.startswith("python"):
        return None  # a shell on its way to becoming the JVM
    if "-m" not in line or not any(word.endswith(".daemon") for word in line):
        return DRIVER
    parent = process.parent()
    return WORKER if parent is not None and parent.cmdline() == line else DAEMON


def measure(command: list[str]) -> dict[str, object]:
    """Run ``command`` to its end, and that of all it left behind.

    Raises:
        MeasureError: not Linux, orphans that don't end, or CPU time that went missing.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise MeasureError("this process can't become the reaper of its orphans")
    samples = Samples()
    started_at, started = time.time(), time.perf_counter()
    child = subprocess.Popen(command)
    while child.poll() is None:
        samples.take()
        _wait_at_most(child, SAMPLE_INTERVAL_S)
    wall_s, ended_at = time.perf_counter() - started, time.time()
    reaped = _reap_orphans(samples)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    lost_s = sum(
        cpu_s
        for pid, cpu_s in samples.cpu_s.items()
        if pid in samples.worker_peak_bytes and pid not in reaped
    )
    cpu_s = used.ru_utime + used.ru_stime + lost_s
    sampled_s = sum(samples.cpu_s.values())
    if sampled_s > cpu_s + CPU_TOLERANCE_S:
        raise MeasureError(f"{cpu_s:.1f} s of CPU found but {sampled_s:.1f} s seen")
    return {
        "exit_code": child.returncode,
        "started_at": started_at,
        "ended_at": ended_at,
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "cpu_workers_sampled_s": lost_s,
        "worker_peak_bytes": max(samples.worker_peak_bytes.values(), default=0),
        "worker_private_bytes": max(samples.worker_private_bytes.values(), default=0),
        "peak_bytes": samples.peak_bytes,
    }


def _wait_at_most(child: subprocess.Popen[bytes], timeout_s: float) -> None:
    try:
        child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return


def _reap_orphans(samples: Samples) -> set[int]:
    """Wait for the JVM and the rest, which the driver leaves to themselves; their process ids."""
    deadline = time.monotonic() + ORPHANS_TIMEOUT_S
    reaped: set[int] = set()
    while True:
        samples.take()
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return reaped
        if pid:
            reaped.add(pid)
        else:
            if time.monotonic() > deadline:
                raise MeasureError("processes of the job are still running")
            time.sleep(0.02)


def main() -> int:
    """Command line entry; the command's own exit code."""
    report, dashes, *command = sys.argv[1:]
    if dashes != "--" or not command:
        print(__doc__, file=sys.stderr)
        return 2
    measured = measure(command)
    Path(report).write_text(json.dumps(measured), encoding="utf-8")
    return int(str(measured["exit_code"]))


if __name__ == "__main__":
    sys.exit(main())
