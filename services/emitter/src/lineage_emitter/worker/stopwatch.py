"""How long a function of a chain takes with each record that it gets.

The function has a record from when it got it until it takes the next one. What others take meanwhile does not count: the functions
behind it, while they have what it gave, and capture itself. Waiting counts, as does any pause of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from time import perf_counter
from typing import Any, Generic, TypeVar

from lineage_emitter.worker.latency import Tally
from lineage_emitter.worker.partition_inputs import is_collection
from lineage_emitter.worker.segment import Segment

Owner = TypeVar("Owner")
"""Of a bound."""


def _nothing() -> None:
    pass


class Stopwatch(Generic[Owner]):
    """Of one function in one run of a segment, in the thread of the segment.

    Args:
        segment: which runs the function.
        report: takes the owner of a bound, a record that took as long, and its seconds so far; once a record and bound. Raises nothing.
    """

    def __init__(self, segment: Segment, report: Callable[[Owner, Any, float], None]) -> None:
        self._segment = segment
        self._report = report
        self._bounds: list[tuple[float, Owner]] = []
        self._tallies: Sequence[Tally] = ()
        self.is_needed = False
        """Whether records are timed."""
        self._record: Any = None
        self._reported: list[Owner] = []
        """Of the record at work."""
        self._began_s: float | None = None
        """When the function got it, put off by what others took since; None: none is timed now."""
        self._left_s: float | None = None
        """Since when others have what the function gave."""
        self._misses_outputs = False
        self._count_calls: Callable[[], None] = _nothing
        """Adds the calls of a function of one record to what counts them."""

    def _now_s(self) -> float:
        return perf_counter() - self._segment.capture_s

    def set_bounds(
        self, bounds: Sequence[tuple[float, Owner]], tallies: Sequence[Tally] = ()
    ) -> None:
        """Seconds from which on a record is reported, and to whom; what counts the time of each. None of them: no record is timed."""
        self._count_calls()
        self._bounds = list(bounds)
        self._tallies = tallies
        self.is_needed = bool(self._bounds or tallies)
        if not self.is_needed:
            self._began_s = self._record = None

    def timed(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A function that has a record just while it is called, until bounds change: what it gives is all there then."""
        return self._timed(function, gives_many=False)

    def timed_many(self, function: Callable[[Any], Iterable[Any]]) -> Callable[[Any], Any]:
        """A function that gives many for a record, until bounds change: it is at work on what it gives lazily until that is taken."""
        return self._timed(function, gives_many=True)

    def _timed(self, function: Callable[[Any], Any], *, gives_many: bool) -> Callable[[Any], Any]:
        # Each step takes as long as a short function: calls are counted here, and added up later.
        records, seconds, least_s = 0, 0.0, self._least_s

        def count() -> None:
            nonlocal records, seconds
            for tally in self._tallies:
                tally.records += records
                tally.seconds += seconds
            records, seconds = 0, 0.0

        def call(record: Any) -> Any:
            nonlocal records, seconds, least_s
            given: Any = ()
            began_s = perf_counter()
            try:
                given = function(record)
            finally:
                taken_s = perf_counter() - began_s
                is_lazy = gives_many and not is_collection(given)
                if not is_lazy:
                    records += 1
                    seconds += taken_s
                    if taken_s >= least_s:
                        count()
                        self._report_call(record, taken_s)
                        least_s = self._least_s
            return self._parts(given, record, taken_s) if is_lazy else given

        self._count_calls = count
        return call

    @property
    def _least_s(self) -> float:
        """With less a record is neither reported nor kept."""
        bounds_s = (*(bound_s for bound_s, _ in self._bounds), *(t.bound_s for t in self._tallies))
        return min(bounds_s, default=inf)

    def _report_call(self, record: Any, taken_s: float) -> None:
        with self._segment.capturing():
            for bound_s, owner in self._bounds:
                if taken_s >= bound_s:
                    self._report(owner, record, taken_s)
            for tally in self._tallies:
                if taken_s >= tally.bound_s:
                    tally.keep(record, taken_s)

    def inputs(self, records: Iterable[Any]) -> Iterator[Any]:
        """The records of a portion, on their way to the function."""
        # Each call takes as long as a short function: the two most frequent steps stand here.
        segment = self._segment
        for record in records:
            if self.is_needed and not self._misses_outputs:
                self._record, self._left_s = record, None
                if self._reported:
                    self._reported = []
                self._began_s = perf_counter() - segment.capture_s
            yield record
            began_s = self._began_s
            if began_s is None:
                continue
            if self._bounds:
                self.finish()
                continue
            left_s = self._left_s
            taken_s = (perf_counter() - segment.capture_s if left_s is None else left_s) - began_s
            for tally in self._tallies:
                tally.records += 1
                tally.seconds += taken_s
                if taken_s >= tally.bound_s:
                    self._keep(tally, taken_s)
            self._began_s = self._record = None

    def miss_outputs(self) -> None:
        """What the function gives now passes by: no record that it gets meanwhile is timed, whatever bounds come."""
        self._misses_outputs = True

    def await_outputs(self) -> None:
        """What the function gives next passes :meth:`outputs`."""
        self._misses_outputs = False

    def outputs(self, records: Iterator[Any]) -> Iterator[Any]:
        """The records of a portion, which the function gave."""
        if not self.is_needed:
            self.miss_outputs()
            return records
        return self._leaving(records)

    def _parts(self, parts: Iterable[Any], record: Any, taken_s: float) -> Iterator[Any]:
        """What the function gives for a record while others take it; ``taken_s``: of the function until it gave this."""
        self._record, self._reported, self._left_s = record, [], None
        self._began_s = self._now_s() - taken_s
        try:
            yield from self._leaving(parts)
        finally:
            self.finish()

    def _leaving(self, records: Iterable[Any]) -> Iterator[Any]:
        segment = self._segment
        self.resume()
        try:
            for record in records:
                # As `leave` and `resume` do.
                self._left_s = perf_counter() - segment.capture_s
                if self._bounds:
                    self.check()
                yield record
                left_s, began_s = self._left_s, self._began_s
                if left_s is not None and began_s is not None:
                    self._began_s = began_s + perf_counter() - segment.capture_s - left_s
                self._left_s = None
        finally:
            # The function failed on the record, say.
            self.check()

    def leave(self) -> None:
        """The function gave something: time does not count until :meth:`resume`."""
        self._left_s = perf_counter() - self._segment.capture_s
        if self._bounds:
            self.check()

    def resume(self) -> None:
        """The function goes on."""
        if self._left_s is not None and self._began_s is not None:
            self._began_s += perf_counter() - self._segment.capture_s - self._left_s
        self._left_s = None

    def check(self) -> None:
        """Report the record at work where it has taken as long as a bound."""
        if self._began_s is None:
            return
        taken_s = self._until_s() - self._began_s
        for bound_s, owner in self._bounds:
            if taken_s >= bound_s and not any(owner is other for other in self._reported):
                self._reported.append(owner)
                with self._segment.capturing():
                    self._report(owner, self._record, taken_s)

    def finish(self) -> None:
        """The function has done with the record at work: it takes the next one, or none any more."""
        self._count_calls()
        if self._began_s is None:
            return
        if self._bounds:
            self.check()
        if self._tallies:
            self._count(self._until_s() - self._began_s)
        self._began_s = self._record = None

    def _count(self, taken_s: float) -> None:
        for tally in self._tallies:
            tally.records += 1
            tally.seconds += taken_s
            if taken_s >= tally.bound_s:
                self._keep(tally, taken_s)

    def _keep(self, tally: Tally, taken_s: float) -> None:
        with self._segment.capturing():
            tally.keep(self._record, taken_s)

    def _until_s(self) -> float:
        return self._now_s() if self._left_s is None else self._left_s

    def stop(self) -> None:
        """No record is timed from now on."""
        self.set_bounds(())
