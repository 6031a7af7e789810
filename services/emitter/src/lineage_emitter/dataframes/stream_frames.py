"""The frames that functions of ``foreachBatch`` are given, as micro-batches of their queries.

To Spark such a frame is an RDD. Which batch's rows it has is remembered when the function is called, so that what the
function writes is recorded with what the batch read.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lineage_core.recipe.document import StreamBatch
from lineage_emitter.dataframes.current_time import current_time_columns
from lineage_emitter.dataframes.earlier_runs import EarlierRun, RunNotes, continued
from lineage_emitter.dataframes.jvm import frame_of
from lineage_emitter.dataframes.plan_text import compiled
from lineage_emitter.dataframes.stream_plans import (
    BatchPlan,
    UntracedBatchError,
    helper,
    plan_of_batch,
    plan_of_frame,
    reported_batches,
)
from lineage_emitter.dataframes.stream_reports import (
    EARLIER_RUN,
    UNKNOWN_LATE,
    BatchStarts,
    Known,
    LatestTimes,
)
from lineage_emitter.dataframes.stream_state import (
    STATE_CLASS,
    Firsts,
    Offsets,
    is_late_by_batch_before,
    offsets_of_batch,
    watermarks_of,
    with_firsts,
)
from lineage_emitter.dataframes.topic_ids import SeenTopics

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

BATCHES_MAX = 256
"""Batches whose frames a program may still write behind the end of its function; and runs of queries of which something is known."""
QUERY_ID = "sql.streaming.queryId"
"""A property of the thread that runs a query."""
_BATCHES = "_lineage_stream_batches"
_RUNS = "_lineage_stream_runs"
NO_OFFSETS = "the offsets of batch {} are no longer in the query's checkpoint"
_lock = threading.Lock()


@dataclass(slots=True)
class FrameRun:
    """A run of a query whose batches a function gets.

    ``query``, ``run``: their ids. ``first``: the first batch that the function was given: with 0 the run has made all of its state. ``notes``: of earlier
    runs. ``mark_of``: gives the mark that equal plans have, of a batch that reads rows of earlier ones; empty: it can't be told from others.
    """

    query: str
    run: str
    first: int
    notes: RunNotes
    mark_of: Callable[[SparkSession, BatchPlan], str]
    mark: str = ""
    """Of its plan, once it is known."""
    times: LatestTimes = field(default_factory=LatestTimes)
    starts: BatchStarts = field(default_factory=BatchStarts)
    firsts: Firsts = field(default_factory=dict)
    reported: int = -1
    """The last batch whose report was read."""
    earlier: EarlierRun | None = field(init=False)
    """The run that this one goes on from, where that was noted."""
    committed: int = field(init=False)
    """The last batch that is known to be committed."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while a note is written: by the query's own thread, and by that which records."""

    def __post_init__(self) -> None:
        self.earlier = self.notes.read(self.query, self.run) if self.first else None
        self.committed = self.first - 1

    def read_reports(self, execution: Any) -> None:
        """Learn the times of the batches that Spark has reported since. ``execution``: the query (Spark's object)."""
        for progress in reported_batches(execution, self.reported)[1]:
            self.times.add(progress.number, progress)
            self.reported = progress.number

    def known(self, spark: SparkSession, number: int) -> Known:
        """What is known of a batch while its function runs: Spark reports it when that has returned."""
        late = UNKNOWN_LATE.format(number)
        counts_late = not is_late_by_batch_before(spark)
        return Known(
            first=self.first,
            began=True,
            counts_late=counts_late,
            run_problem=EARLIER_RUN.format(self.first) if self.first else "",
            late_problem=late if counts_late else "",
            late_rows=late,
        )

    def check_plan(self, spark: SparkSession, batch: BatchPlan, known: Known) -> bool:
        """See that all batches before one ran by its plan; whether that is sure.

        Raises:
            UntracedBatchError: an earlier run has run some of them, by another plan or one that is not known.
        """
        self.mark = self.mark or self.mark_of(spark, batch)
        earlier = continued(self.earlier, known)
        if known.run_problem and (
            earlier is None
            or not self.mark
            or earlier.earlier.plan != self.mark
            or earlier.known.run_problem
        ):
            raise UntracedBatchError("Batch", known.run_problem, batch.sources)
        return earlier is None or earlier.is_sure

    def commit(self, number: int) -> None:
        """A batch is committed."""
        with self._lock:
            self.committed = max(self.committed, number)
        self.note()

    def note(self) -> None:
        """Note which batches were run, and committed, by the plan of this run, as far as that is sure."""
        if not self.mark:
            return
        first, earlier = self.first, self.earlier
        if earlier is not None and earlier.plan == self.mark and earlier.last >= first - 1:
            first = earlier.first
        with self._lock:
            late = UNKNOWN_LATE.format(self.committed)
            noted = EarlierRun(self.run, self.mark, first, self.committed, late)
            self.notes.write(self.query, noted)


@dataclass(frozen=True, slots=True)
class FrameBatch:
    """A micro-batch. ``plan``: of it, as Spark runs it (its object). ``seen``: topics, before it read them. ``execution``: its query (Spark's object)."""

    fact: StreamBatch
    plan: Any
    seen: SeenTopics
    execution: Any
    run: FrameRun

    def plan_in(self, spark: SparkSession) -> BatchPlan:
        """The plan of the rows that the function was given.

        Raises:
            UntracedBatchError: they can't be traced.
        """
        plans = helper()
        if not plans.stateful(plans.rows(self.plan)):
            return plan_of_frame(spark, self.plan, self.seen, self._streams)
        log, number, run = self.execution.offsetLog(), self.fact.number, self.run
        found = offsets_of_batch(log, number)
        if found is None:
            raise UntracedBatchError("Batch", NO_OFFSETS.format(number))
        offsets = with_firsts(found, run.firsts, log, number, has_run=True)
        own = run.known(spark, number)
        earlier = continued(run.earlier, own)
        known = own if earlier is None else earlier.known
        run.read_reports(self.execution)
        batch = plan_of_batch(
            spark,
            self.execution,
            offsets,
            watermarks_of(log, number, known),
            self.seen,
            behind=lambda since_us: run.starts.behind(
                since_us, number, offsets[0].start, run.times
            ),
        )
        plan = batch.plan
        if batch.reads_earlier:
            if not run.check_plan(spark, batch, own):
                plan = compiled(STATE_CLASS).ofEarlierRun(plan)
            run.note()
        # The query's own plan does not say when the batch ran.
        frame = frame_of(spark, plan)
        try:
            unknown = current_time_columns(frame)
        except ValueError as problem:
            raise UntracedBatchError("Batch", str(problem), batch.sources) from problem
        return replace(batch, plan=frame._jdf.queryExecution().analyzed(), unknown=unknown)

    def _streams(self) -> list[tuple[Any, Offsets]]:
        """The streams of the query (Spark's objects) with the offsets of the batch; none: the checkpoint has them no more."""
        offsets = offsets_of_batch(self.execution.offsetLog(), self.fact.number) or ()
        streams = self.execution.sources()
        return [(streams.apply(place), of_stream) for place, of_stream in enumerate(offsets)]


def begin_batch(
    java_session: Any,
    frame: DataFrame,
    number: int,
    seen: SeenTopics,
    notes: RunNotes,
    mark_of: Callable[[SparkSession, BatchPlan], str],
) -> None:
    """A function is about to get the rows of a batch: remember of which. In the query's own thread.

    ``java_session``: Spark's session in which the query was begun. ``seen``: topics, before that. ``notes``, ``mark_of``: as of `FrameRun`.

    Raises:
        ValueError: it is not known of which query.
        py4j.protocol.Py4JError: Spark does not answer.
    """
    sc = frame.sparkSession.sparkContext
    query_id = sc.getLocalProperty(QUERY_ID)
    query = None if query_id is None else java_session.streams().get(query_id)
    if query is None:
        raise ValueError("Spark does not say of which streaming query a batch is")
    execution = query.streamingQuery()
    rdd = int(frame._jdf.queryExecution().analyzed().rdd().id())
    run_id = str(execution.runId().toString())
    fact, plan = StreamBatch(str(query_id), run_id, number), execution.lastExecution().logical()
    with _lock:
        runs, batches = _noted(sc, _RUNS), _noted(sc, _BATCHES)
        run = runs.get(run_id)
        if run is None:
            run = runs[run_id] = FrameRun(str(query_id), run_id, number, notes, mark_of)
        batches[rdd] = FrameBatch(fact, plan, seen, execution, run)
        for noted in (batches, runs):
            while len(noted) > BATCHES_MAX:
                noted.popitem(last=False)
    run.commit(number - 1)


def commit_batch(sc: SparkContext, run_id: str, number: int) -> None:
    """Spark reports a batch, whose rows a function may have been given: it is committed."""
    with _lock:
        run: FrameRun | None = _noted(sc, _RUNS).get(run_id)
    if run is not None:
        run.commit(number)


def batch_of(sc: SparkContext, rdd: int) -> FrameBatch | None:
    """The batch whose rows an RDD has; None: it has those of none."""
    with _lock:
        batch: FrameBatch | None = _noted(sc, _BATCHES).get(rdd)
        return batch


def _noted(sc: SparkContext, name: str) -> OrderedDict[Any, Any]:
    """What a context has noted, the oldest first."""
    noted: OrderedDict[Any, Any] = sc.__dict__.setdefault(name, OrderedDict())
    return noted
