"""When the jobs of an application ran, and how long their tasks, from Spark's own event log."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class AppTimes:
    """Unix seconds. ``jobs_*``: submission of the first job, completion of the last."""

    app_started: float
    app_ended: float
    jobs_started: float
    jobs_ended: float

    @property
    def app_s(self) -> float:
        """From a ready SparkContext to its stop."""
        return self.app_ended - self.app_started

    @property
    def jobs_s(self) -> float:
        """From the first job to the end of the last, and what the driver does between them."""
        return self.jobs_ended - self.jobs_started


def log_settings(events: Path) -> dict[str, str]:
    """Spark's settings of an application that logs its events into ``events``."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.resolve().as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def submit_arguments(events: Path, cores: int) -> str:
    """PYSPARK_SUBMIT_ARGS for a job on this machine that logs its events into ``events``."""
    words = [f"--conf {name}={value}" for name, value in log_settings(events).items()]
    return " ".join([f"--master local[{cores}]", *words, "pyspark-shell"])


def read_times(events: Path) -> AppTimes:
    """Times of the one application that logged into ``events``.

    Raises:
        ValueError: there is not exactly one log, or it lacks an event.
    """
    times: dict[str, list[float]] = {}
    for event in _logged(events):
        _note(times, event)
    try:
        return AppTimes(
            times["ApplicationStart"][0],
            times["ApplicationEnd"][-1],
            min(times["JobStart"]),
            max(times["JobEnd"]),
        )
    except KeyError as missing:
        raise ValueError(f"the log in {events} has no event {missing}") from missing


def task_times(events: Path) -> dict[str, float]:
    """Milliseconds that all tasks of each job group ran, of the one application that logged into ``events``.

    Raises:
        ValueError: there is not exactly one log.
    """
    group_of: dict[int, str] = {}
    times: defaultdict[str, float] = defaultdict(float)
    for event in _logged(events):
        if event["Event"] == "SparkListenerJobStart":
            group = event["Properties"].get("spark.jobGroup.id", "")
            group_of |= dict.fromkeys(event["Stage IDs"], group)
        elif event["Event"] == "SparkListenerTaskEnd":
            metrics = event.get("Task Metrics") or {}
            times[group_of[event["Stage ID"]]] += metrics.get("Executor Run Time", 0)
    return times


def _logged(events: Path) -> Iterator[dict[str, Any]]:
    logs = [path for path in events.iterdir() if not path.name.startswith(".")]
    if len(logs) != 1:
        raise ValueError(f"{events} holds {len(logs)} event logs, not one")
    with logs[0].open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _note(times: dict[str, list[float]], event: dict[str, Any]) -> None:
    kind = str(event["Event"]).removeprefix("SparkListener")
    field = {
        "ApplicationStart": "Timestamp",
        "ApplicationEnd": "Timestamp",
        "JobStart": "Submission Time",
        "JobEnd": "Completion Time",
    }.get(kind)
    if field is not None:
        times.setdefault(kind, []).append(event[field] / 1000)
