"""Processor time and memory of servers over a while (Linux)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.measure import high_water_bytes

PEAK_RESET = "5"
"""What /proc/PID/clear_refs takes to set the high-water mark of resident memory to what is resident now."""


@dataclass(frozen=True)
class Usage:
    """What processes used."""

    seconds: float
    cpu_s: Mapping[str, float]
    """By server: user and system time."""
    peak_mb: Mapping[str, float]
    """By server: resident memory at its peak, all of its processes added up."""


class Meter:
    """Reads servers, by name and process id, from its making on; each with all that it started."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids
        for pid in pids.values():
            for process in _family(pid):
                Path(f"/proc/{process.pid}/clear_refs").write_text(PEAK_RESET, encoding="ascii")
        self._began = time.monotonic()
        self._before = {name: cpu_s(pid) for name, pid in pids.items()}

    def read(self) -> Usage:
        """What they used since."""
        return Usage(
            time.monotonic() - self._began,
            {name: cpu_s(pid) - self._before[name] for name, pid in self._pids.items()},
            {
                name: sum(high_water_bytes(process.pid) for process in _family(pid)) / 1e6
                for name, pid in self._pids.items()
            },
        )


def cpu_s(pid: int) -> float:
    """User and system time of a process and all it started, since its start."""
    times = [process.cpu_times() for process in _family(pid)]
    return sum(time.user + time.system for time in times)


def _family(pid: int) -> Sequence[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]
