"""Steps that work record by record, watched: a chain of them is made anew for each portion of records.

Between two portions no record is in the chain. So a step that nobody watches then is the very one that it is where the job can't be watched, and
one that is watched gets a form of its own for just that: a record costs what is looked at. Which conditions count is looked up once for a
portion and all of its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from inspect import GEN_CREATED, getgeneratorstate
from itertools import chain
from typing import Any

from lineage_emitter.worker.by_record import ByRecord, FlatMap
from lineage_emitter.worker.partition_inputs import NumberedRecords
from lineage_emitter.worker.portions import portions
from lineage_emitter.worker.segment import Segment
from lineage_emitter.worker.watch_conditions import ConditionSet
from lineage_emitter.worker.watched_run import RunWatch, WatchedOperator, WatchedRun

Records = Iterable[Any]
Form = Callable[[Iterator[Any], ConditionSet], Iterator[Any]]
"""What becomes of a portion of records by the conditions that count for it."""


class WatchedStep(WatchedRun):
    """What one run of a segment watches of a step."""

    def __init__(
        self, operator: WatchedOperator, segment: Segment, split: int, step: ByRecord
    ) -> None:
        super().__init__(operator, segment, split)
        self._step = self._timed_step = step
        self.made_by_function()

    def take_up_times(self, watches: list[RunWatch]) -> None:
        """Time records by these from now on."""
        super().take_up_times(watches)
        step, stopwatch = self._step, self.stopwatch
        if stopwatch.is_needed:
            timed = stopwatch.timed_many if isinstance(step, FlatMap) else stopwatch.timed
            step = step.around(timed)
        self._timed_step = step

    def made_of(self, records: Iterator[Any], in_force: ConditionSet) -> Iterator[Any]:
        """What the step makes of a portion of records, timed by conditions."""
        self.is_in_own_thread()
        self.time_by(in_force)
        self.is_begun = True
        return self._timed_step.run(records)


class WatchedSteps(NumberedRecords):
    """Records behind a chain of steps, which is made anew for each portion of ``source``.

    ``look``: gives the conditions that count for a portion. ``kind``: of the iterator that PySpark has there.
    """

    def __init__(
        self,
        source: Records,
        forms: Sequence[Form],
        runs: Sequence[WatchedRun],
        look: Callable[[], ConditionSet],
        kind: type,
    ) -> None:
        self._portions = _made_of_portions(source, forms, runs, look)
        super().__init__(chain.from_iterable(self._portions), kind)
        self._source = source
        self._forms = forms
        self._runs = runs

    @classmethod
    def behind(cls, records: Records, run: WatchedStep, step: ByRecord) -> WatchedSteps:
        """The records that a step makes of records."""
        if isinstance(records, WatchedSteps) and not records.is_begun:
            source, forms, runs = records._source, records._forms, records._runs
        else:
            source, forms, runs = records, (), ()
        look = run.conditions_in_force
        if isinstance(step, FlatMap):
            # It may make many of one: who watches is looked for between these, too.
            many = cls(source, (*forms, run.made_of), runs, look, step.kind)
            return cls.given(many, run, step.kind)
        return cls(source, (*forms, run.made_of, run.given), (*runs, run), look, step.kind)

    @classmethod
    def given(cls, records: Records, run: WatchedRun, kind: type) -> WatchedSteps:
        """Records that are there, as they are."""
        return cls(records, (run.given,), (run,), run.conditions_in_force, kind)

    @property
    def is_begun(self) -> bool:
        """Whether somebody has begun to take the records."""
        return getgeneratorstate(self._portions) != GEN_CREATED


def _made_of_portions(
    source: Records,
    forms: Sequence[Form],
    runs: Sequence[WatchedRun],
    look: Callable[[], ConditionSet],
) -> Generator[Iterator[Any], None, None]:
    """What each portion becomes. ``runs``: those that have given their last record at the end."""
    for portion in portions(source):
        made, in_force = portion, look()
        for form in forms:
            made = form(made, in_force)
        yield made
    for run in runs:
        run.is_done = True
