"""What Spark reports of micro-batches, and what follows for those that come later."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lineage_emitter.dataframes.delta import Versions

_BEGINNING = datetime(1970, 1, 1, tzinfo=timezone.utc)
_CERTAIN_MS = (datetime(1600, 1, 1, tzinfo=timezone.utc) - _BEGINNING) // timedelta(milliseconds=1)
TIMES_MAX = 10_000
"""Of a query; of more, two batches each are taken for one."""
_NEVER_MS = -(1 << 63)
"""Of a batch without rows."""
ROUNDING_MS = 5
"""Durations are rounded down, and a sink looks for a batch a moment after it was given one."""
EARLIER_RUN = "rows of batches before {}, which an earlier run of the query made"
UNKNOWN_LATE = "it is not known whether rows of batch {} were dropped as late"


@dataclass(frozen=True, slots=True)
class Progress:
    """What Spark reports of a batch that it has run.

    ``began_at``: in unix seconds. ``given_ms``: a time at which it had been given to its sink, in ms since 1970; that of its begin where that is not known. ``has_run``: whether tasks of it are known to have run, which a sink that has the batch
    already spares. ``has_input``: whether its streams gave anything. ``latest_ms``: the latest event time of its rows, in ms since 1970, rounded down;
    None: it is not known, or it has no rows.
    """

    number: int
    began_at: float
    has_run: bool
    has_input: bool
    watermark: str
    late: int
    latest_ms: int | None = None
    given_ms: int = 0

    @classmethod
    def of(cls, text: str) -> Progress:
        """Read a report."""
        report: Mapping[str, Any] = json.loads(text)
        began_at = _time_of(report["timestamp"]).timestamp()
        states = report.get("stateOperators", ())
        return cls(
            number=int(report["batchId"]),
            began_at=began_at,
            given_ms=int(began_at * 1000) + _until_given_ms(report.get("durationMs", {})),
            has_run=any(
                int(count)
                for count in (
                    report.get("numInputRows", 0),
                    *(state.get("numStateStoreInstances", 0) for state in states),
                )
            ),
            has_input=any(
                source.get("startOffset") != source.get("endOffset")
                for source in report.get("sources", ())
            ),
            watermark=str(report.get("eventTime", {}).get("watermark", "")),
            late=sum(int(state.get("numRowsDroppedByWatermark", 0)) for state in states),
            latest_ms=_latest_in(report.get("eventTime", {})),
        )


def _until_given_ms(durations: Mapping[str, int]) -> int:
    """How long after its begin a batch had been given to its sink; 0: that is not known.

    Behind the sink comes the commit alone, and a little that Spark does not measure: this is rather too long than too short.
    """
    try:
        whole, rest = durations["triggerExecution"], ("addBatch", "commitOffsets")
        return max(int(whole) - sum(int(durations[part]) for part in rest) + ROUNDING_MS, 0)
    except KeyError:
        return 0


def _latest_in(times: Mapping[str, str]) -> int | None:
    """The latest event time of a report, in ms since 1970; None: it has none that is certain."""
    try:
        latest = _ms_of(times["max"])
    except (KeyError, ValueError):
        return None
    # Spark writes older ones by another calendar.
    return latest if latest >= _CERTAIN_MS else None


def _ms_of(text: str) -> int:
    """A time as Spark reports it, in ms since 1970."""
    return (_time_of(text) - _BEGINNING) // timedelta(milliseconds=1)


def _time_of(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


@dataclass(slots=True)
class LatestTimes:
    """The latest event times of the rows of batches, one after the other: so it is known which batches can't have a row of some time or later.

    One thread adds batches, another one asks.
    """

    _of_batches: deque[tuple[int, int | None]] = field(default_factory=deque)
    """From ``_first`` on: the last of some batches, and their latest time, in ms; None: not known."""
    _first: int = 0
    """The first batch that may have rows behind ``_since_us``."""
    _since_us: int | None = None
    _next: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, number: int, progress: Progress | None) -> None:
        """A batch was run."""
        latest = None if progress is None else progress.latest_ms
        if latest is None and progress is not None and not progress.has_input:
            latest = _NEVER_MS
        with self._lock:
            if number != self._next:
                # Of those between them nothing is known.
                self._of_batches.append((number - 1, None))
            self._next = number + 1
            self._of_batches.append((number, latest))
            if len(self._of_batches) > TIMES_MAX:
                self._of_batches = deque(self._by_two())

    def _by_two(self) -> Iterator[tuple[int, int | None]]:
        times = list(self._of_batches)
        for (number, first), (last, second) in zip_longest(
            times[::2], times[1::2], fillvalue=(-1, _NEVER_MS)
        ):
            latest = None if first is None or second is None else max(first, second)
            yield max(number, last), latest

    def first_behind(self, since_us: int) -> int:
        """The first batch that may have rows whose time is behind ``since_us``, in microseconds since 1970.

        What is forgotten on the way is known no more: for an earlier time than before it is the very first batch.
        """
        with self._lock:
            if self._since_us is not None and since_us < self._since_us:
                return 0
            self._since_us = since_us
            while self._of_batches:
                number, latest = self._of_batches[0]
                # Rounded down: a row may be later by less than a millisecond.
                if latest is None or (latest + 1) * 1000 > since_us:
                    break
                self._of_batches.popleft()
                self._first = number + 1
            return self._first


@dataclass(slots=True)
class BatchStarts:
    """Where batches begin in the only stream of a query (Spark's objects), as long as later ones may have rows of them."""

    _of_batches: dict[int, Any | None] = field(default_factory=dict)

    def behind(
        self, since_us: int, number: int, start: Any | None, times: LatestTimes
    ) -> Any | None:
        """Where a batch begins, ``number`` at the latest, before which all rows are older than a time; None: at the beginning.

        Args:
            since_us: the time, in microseconds since 1970.
            number: of a batch.
            start: where it begins itself.
            times: of batches.
        """
        self._of_batches[number] = start
        first = min(times.first_behind(since_us), number)
        begins = max((at for at in self._of_batches if at <= first), default=None)
        if begins is None:
            return None
        kept = [at for at in self._of_batches if at >= begins]
        # Of many, every second will do: more is read then.
        kept = kept[::2] if len(kept) > TIMES_MAX else kept
        self._of_batches = {at: self._of_batches[at] for at in kept}
        return self._of_batches[begins]


@dataclass(slots=True)
class Known:
    """What is known of a run of a query when a batch is recorded.

    ``first``: the first batch; None: none was recorded. ``began``: it has run, and was not spared. ``counts_late``: groups lack rows that
    were dropped as late.
    ``writes``: a batch up to this one has run, so this run has planned all later ones. ``ran``: this one has; its sink may have spared others,
    which it has of an earlier run, or of another query that writes to the same place.
    ``run_problem``: why it is not known by which plan rows of earlier batches came into the state; empty: by this run's.
    ``late_problem``: why rows of earlier batches may lack in groups that are due, which were dropped as late; empty: none do.
    ``late_rows``: why any rows may have been dropped as late; empty: none were.
    ``versions``: what tables of Delta Lake had, by path, before the batch began. ``times``: of its rows, up to this batch.
    """

    first: int | None = None
    began: bool = False
    counts_late: bool = False
    writes: bool = False
    ran: bool = False
    run_problem: str = ""
    late_problem: str = ""
    late_rows: str = ""
    versions: Versions = field(default_factory=dict)
    times: LatestTimes = field(default_factory=LatestTimes)

    def add(
        self, number: int, progress: Progress | None, *, is_first: bool, late_count: bool
    ) -> None:
        """A batch was run. ``late_count``: whether groups lack rows that were dropped as late."""
        self.ran = progress is not None and progress.has_run
        self.counts_late = late_count
        if is_first:
            self.first, self.began = number, self.ran
        self.writes = self.writes or self.ran
        self.run_problem = self.run_problem or self._of_run(number, progress, is_first)
        self.late_rows = self.late_rows or _of_late_rows(number, progress)
        if late_count:
            self.late_problem = self.late_rows

    def _of_run(self, number: int, progress: Progress | None, is_first: bool) -> str:
        if is_first and number:
            return EARLIER_RUN.format(number)
        if not self.writes and (progress is None or progress.has_input):
            return f"rows of batch {number}, which an earlier run of the query may have made"
        return ""


def _of_late_rows(number: int, progress: Progress | None) -> str:
    if progress is None or (progress.has_input and not progress.has_run):
        return UNKNOWN_LATE.format(number)
    return f"{progress.late} rows of batch {number} were dropped as late" if progress.late else ""
