"""Which tasks of an operator were slow, beside its other tasks, and which of their records made them so.

After Teoh et al., PerfDebug (SoCC 2019), which names the records behind the latency of tasks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from lineage_query.suspects.health import Deviation
from lineage_query.suspects.outliers import VALUES_MIN, find_outliers

RECORDS_MORE = 2
"""With as many times the records of the median task, that is said."""


@dataclass(frozen=True, slots=True)
class TaskTime:
    """How long the function of an operator took with the records of one run of a task; of DataFrames a task as such, with what it read.

    ``is_whole``: with all of them: the watch counted before the first one, and the function gave all that it had.
    """

    number: int
    node: str
    label: str
    partition: int
    records: int
    seconds: float
    is_whole: bool

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on."""
        return {
            "task": self.number,
            "operator": self.label,
            "partition": self.partition,
            "records": self.records,
            "seconds": self.seconds,
            "is_whole": self.is_whole,
        }


@dataclass(frozen=True, slots=True)
class TaskReads:
    """What a task read: parts of files."""

    node: str
    label: str
    partition: int
    parts: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on."""
        return {"operator": self.label, "partition": self.partition, "reads": list(self.parts)}


@dataclass(frozen=True, slots=True)
class RankedTime:
    """A task, and how its time stands beside those of the other tasks of its operator; None: it can't be compared."""

    time: TaskTime
    deviation: Deviation | None

    @property
    def text(self) -> str:
        """In words and numbers."""
        time = self.time
        if self.deviation is not None:
            return f"partition {time.partition}: {self.deviation.reason}"
        part = "" if time.is_whole else "; it was watched in part"
        return (
            f"partition {time.partition}: {time.seconds:,.4g} s with {time.records:,} records{part}"
        )

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on."""
        reason = None if self.deviation is None else self.deviation.to_json()
        return {"task": self.time.number, "deviation": reason}


def rank_times(times: Sequence[TaskTime]) -> list[RankedTime]:
    """All tasks, those of most time first. Compared are whole ones of the same operator."""
    whole: defaultdict[str, list[TaskTime]] = defaultdict(list)
    for time in times:
        if time.is_whole:
            whole[time.node].append(time)
    deviations: dict[int, Deviation] = {}
    for compared in whole.values():
        if len(compared) >= VALUES_MIN:
            deviations |= _deviations(compared)
    ranked = [RankedTime(time, deviations.get(time.number)) for time in times]
    return sorted(ranked, key=lambda one: (-one.time.seconds, one.time.number))


def _share(records: int, typical: float) -> str:
    """How many more records than usual, where it has so many that this may be why."""
    if typical <= 0 or records < RECORDS_MORE * typical:
        return ""
    return f" ({records / typical:,.1f} times those of the median task)"


def _deviations(times: Sequence[TaskTime]) -> dict[int, Deviation]:
    outliers = find_outliers([time.seconds for time in times])
    typical = median(time.records for time in times)
    return {
        time.number: Deviation(
            f"s with its {time.records:,} records{_share(time.records, typical)}",
            time.seconds,
            "tasks",
            len(times),
            outliers.median,
            float(outliers.distances[n]),
            outliers.tests(n),
            (time.node, time.node),
        )
        for n, time in enumerate(times)
    }
