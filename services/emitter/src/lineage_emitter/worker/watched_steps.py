"""Steps that work record by record, watched: a chain of them is made anew for each portion of records.

Between two portions no record is in the chain. So a step that nobody watches then is the very one that it is without watchpoints, and
one that is watched gets a form of its own for just that: a record costs what is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from inspect import GEN_CREATED, getgeneratorstate
from itertools import chain
from typing import Any

from lineage_emitter.worker.by_record import ByRecord, FlatMap
from lineage_emitter.worker.partition_inputs import NumberedRecords, is_collection
from lineage_emitter.worker.portions import portions
from lineage_emitter.worker.segment import Segment
from lineage_emitter.worker.values import ValueTexts
from lineage_emitter.worker.watch_conditions import Watch
from lineage_emitter.worker.watch_hits import Hits
from lineage_emitter.worker.watched_run import WatchedRun
from lineage_store.watch_folder import WatchableNode

Records = Iterable[Any]


class WatchedStep(WatchedRun):
    """What one run of a segment watches of a step."""

    def __init__(
        self,
        folder: str,
        facts: WatchableNode,
        texts: ValueTexts | None,
        segment: Segment,
        split: int,
        step: ByRecord,
    ) -> None:
        super().__init__(folder, facts, texts, segment, split)
        self._step = self._timed_step = step
        self.made_by_function()

    def take_up(self, watches: list[tuple[Watch, Hits]]) -> None:
        """These count from now on."""
        super().take_up(watches)
        step, stopwatch = self._step, self.stopwatch
        is_timed_by_call = stopwatch.is_needed and not isinstance(step, FlatMap)
        self._timed_step = step.around(stopwatch.timed) if is_timed_by_call else step

    def made_of(self, records: Iterator[Any]) -> Iterator[Any]:
        """What the step makes of a portion of records, timed where that is watched for now."""
        self.is_in_own_thread()
        self.poll()
        self.is_begun = True
        step = self._timed_step
        if isinstance(step, FlatMap) and self.stopwatch.is_needed:
            return chain.from_iterable(self._timed_collections(step, records))
        return step.run(records)

    def _timed_collections(self, step: FlatMap, records: Iterator[Any]) -> Iterator[Iterable[Any]]:
        """What the function gives for each record: it is at work on what it gives lazily until that is taken."""
        stopwatch = self.stopwatch
        try:
            for collection in stopwatch.outputs(step.collections(stopwatch.inputs(records))):
                yield collection if is_collection(collection) else stopwatch.parts(collection)
        finally:
            stopwatch.finish()


class WatchedSteps(NumberedRecords):
    """Records behind a chain of steps, which is made anew for each portion of ``source``; ``kind``: of the iterator that PySpark has there."""

    def __init__(
        self,
        source: Records,
        forms: Sequence[Callable[[Iterator[Any]], Iterator[Any]]],
        runs: Sequence[WatchedRun],
        kind: type,
    ) -> None:
        self._portions = _made_of_portions(source, forms, runs)
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
        if isinstance(step, FlatMap):
            # It may make many of one: who watches is looked for between these, too.
            return cls.given(cls(source, (*forms, run.made_of), runs, step.kind), run, step.kind)
        return cls(source, (*forms, run.made_of, run.given), (*runs, run), step.kind)

    @classmethod
    def given(cls, records: Records, run: WatchedRun, kind: type) -> WatchedSteps:
        """Records that are there, as they are."""
        return cls(records, (run.given,), (run,), kind)

    @property
    def is_begun(self) -> bool:
        """Whether somebody has begun to take the records."""
        return getgeneratorstate(self._portions) != GEN_CREATED


def _made_of_portions(
    source: Records,
    forms: Sequence[Callable[[Iterator[Any]], Iterator[Any]]],
    runs: Sequence[WatchedRun],
) -> Generator[Iterator[Any], None, None]:
    """What each portion becomes. ``runs``: those that have given their last record at the end."""
    for first, others in portions(source):
        made: Iterator[Any] = chain((first,), others)
        for form in forms:
            made = form(made)
        yield made
    for run in runs:
        run.is_done = True
