"""When the jobs of an application ran, from Spark's own event log."""

from __future__ import annotations

import json
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


def submit_arguments(events: Path, cores: int) -> str:
    """PYSPARK_SUBMIT_ARGS for a job on this machine that logs its events into ``events``."""
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.resolve().as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    words = [f"--conf {name}={value}" for name, value in conf.items()]
    return " ".join([f"--master local[{cores}]", *words, "pyspark-shell"])


def read_times(events: Path) -> AppTimes:
    """Times of the one application that logged into ``events``.

    Raises:
        ValueError: there is not exactly one log, or it lacks an event.
    """
    logs = [path for path in events.iterdir() if not path.name.startswith(".")]
    if len(logs) != 1:
        raise ValueError(f"{events} holds {len(logs)} event logs, not one")
    times: dict[str, list[float]] = {}
    with logs[0].open(encoding="utf-8") as lines:
        for line in lines:
            _note(times, json.loads(line))
    try:
        return AppTimes(
            times["ApplicationStart"][0],
            times["ApplicationEnd"][-1],
            min(times["JobStart"]),
            max(times["JobEnd"]),
        )
    except KeyError as missing:
        raise ValueError(f"{logs[0]} has no event {missing}") from missing


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
