"""Micro-batches of streaming queries as recipes, from a query's checkpoint and the log of its sink.

The checkpoint says which offsets a batch has, and these never change: a batch that is run again after a crash is the same.
Recipes are made when a batch has been committed, on another thread than the query's.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lineage_core.contract.message import Stream
from lineage_core.recipe.document import Output, Recipe, Source, StreamBatch
from lineage_core.recipe.names import ICEBERG
from lineage_core.recipe.plan import Attribute, OpaqueNode
from lineage_emitter.dataframes import iceberg
from lineage_emitter.dataframes.delta import Versions
from lineage_emitter.dataframes.earlier_runs import EarlierRun, RunNotes, continued, plan_mark
from lineage_emitter.dataframes.files import Folder
from lineage_emitter.dataframes.jvm import activate, explicit_settings, frame_of
from lineage_emitter.dataframes.leaves import Tables
from lineage_emitter.dataframes.plan_text import compiled
from lineage_emitter.dataframes.plans import recipe_of
from lineage_emitter.dataframes.stream_plans import (
    BatchPlan,
    UntracedBatchError,
    columns_of,
    facts_of,
    helper,
    plan_of_batch,
    reported_batches,
    split,
)
from lineage_emitter.dataframes.stream_repeats import Repeated
from lineage_emitter.dataframes.stream_reports import BatchStarts, Known, Progress
from lineage_emitter.dataframes.stream_sinks import (
    FOREACH_BATCH,
    StreamSink,
    UnknownBatchError,
    Written,
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
from lineage_emitter.dataframes.stream_tables import SeenVersions, reads_cached
from lineage_emitter.dataframes.stream_topics import topics_of_query
from lineage_emitter.dataframes.topic_ids import SeenTopics, ids_of_query
from lineage_emitter.dataframes.topic_sinks import TopicSink
from lineage_emitter.dataframes.types import ddl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark import SparkContext
    from pyspark.sql.streaming.query import StreamingQuery

MICRO_BATCHES = "MicroBatchExecution"
WINDOWS_CHARS_MAX = 256 << 10
OTHER_RUN = (
    "the files of this batch may have been written by an earlier run of the query, or by another query, "
    "of which it is not known that it did the same"
)
NOT_IN_CHECKPOINT = "batch {} is no longer in the query's checkpoint"
REPORTS_KEPT = "spark.sql.streaming.numRecentProgressUpdates"
_LOCAL = "file:"
NO_NOTES = RunNotes(None)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a query reads, looked at before it began: its topics, and its tables. ``sink``: the topic that it writes; None: none. ``at``: when, in unix seconds."""

    topics: SeenTopics
    tables: SeenVersions
    sink: TopicSink | None = None
    at: float = field(default_factory=time.time)


class QueryRun:
    """One run of a streaming query.

    ``query``: PySpark's object. ``seen``: what it reads, before it began; None: that is not known. ``notes``: of earlier runs.
    """

    def __init__(
        self,
        sc: SparkContext,
        query: StreamingQuery,
        seen: Seen | None = None,
        notes: RunNotes = NO_NOTES,
    ) -> None:
        java_query: Any = query._jsq
        self._sc = sc
        self._seen = SeenTopics() if seen is None else seen.topics
        self._tables = SeenVersions() if seen is None else seen.tables
        self._topic_sink = None if seen is None else seen.sink
        self._began_behind = None if seen is None else seen.at
        """A time before it began, in unix seconds; None: it is not known."""
        self._execution = java_query.streamingQuery()
        self._repeated: Repeated | None = None
        """What the batches have in common, once one has shown it."""
        self.windows: str | None = None
        """The recipe that gives the ends of the windows of each row; empty: there is none; None: not yet."""
        self._sent_windows = False
        self._starts = BatchStarts()
        self._last_end = -1, ""
        """The batch that was last looked at, and where it ends in the query's only stream."""
        self._firsts: Firsts = {}
        self.id = str(java_query.id().toString())
        self.run = str(java_query.runId().toString())
        self._notes = notes
        self._earlier = notes.read(self.id, self.run)
        self._plan_mark: str | None = None
        """Of the plan of its batches; empty: it can't be told from others; None: not known yet."""
        self._noted_since: int | None = None
        """The batch since which all are known to be of this plan; None: the last one is not."""

    @cached_property
    def refusal(self) -> str:
        """Why its batches can't be recorded; empty: they can."""
        kind = self._execution.getClass().getSimpleName()
        trigger = str(self._execution.trigger().toString()).partition("(")[0]
        if kind == "ContinuousExecution":
            return "queries with the trigger `continuous` have no batches"
        if kind != MICRO_BATCHES or "RealTime" in trigger:
            return f"batches of {kind} with {trigger} are not recorded"
        return ""

    @cached_property
    def sink(self) -> StreamSink:
        """Where its rows go."""
        return StreamSink(self._sc, self._execution, self.id, self._topic_sink)

    @property
    def has_function(self) -> bool:
        """Whether its batches go to a function (``foreachBatch``)."""
        return self.sink.name == FOREACH_BATCH

    @cached_property
    def drops_none_of_due_groups(self) -> bool:
        """Whether rows are late by the watermark of the batch before theirs: a group that is due in a batch then lacks none of its rows."""
        return is_late_by_batch_before(self._spark)

    def started(self, app: str) -> Stream:
        """That the run is known of."""
        return Stream(app=app, query=self.id, run=self.run, state="started")

    def begun(self, app: str, *, is_first: bool | None) -> tuple[Stream | None, bool]:
        """What the run reads (None: it has not planned its first batch yet), and whether this is all that will be known of it.

        ``is_first``: no earlier run of the query has committed a batch; None: its reports do not say yet.

        Raises:
            py4j.protocol.Py4JError: Spark does not answer.
        """
        streams = self._execution.sources()
        if not streams.size():
            return None, False
        if not self._seen.ids:
            self._seen = ids_of_query(self._spark, self._execution)
        if is_first is None and self.committed() < 0:
            is_first = True
        topics, is_all = topics_of_query(
            self._spark, self._execution, self._seen, is_first=is_first
        )
        message = Stream(
            app=app,
            query=self.id,
            run=self.run,
            state="begun",
            late_by_before=self.drops_none_of_due_groups,
            function=self.has_function,
            topics=topics,
            **facts_of(self._execution),
        )
        return message, is_all

    def look_at_tables(self) -> None:
        """Note which versions the tables have that it reads beside its streams.

        Raises:
            py4j.protocol.Py4JError: Spark does not answer.
        """
        # Most queries have none, and are known to.
        if self._tables.tables != [] and self._execution.sources().size():
            self._tables.look_in(self._spark, self._execution.logicalPlan())

    def versions_before(self, progress: Progress | None) -> Versions:
        """The versions that tables had before a batch began, as far as that is known."""
        return {} if progress is None else self._tables.before(progress.began_at)

    def passed(self, app: str, number: int, complete_to: int | None) -> Stream:
        """That a batch is committed and recorded. ``complete_to``: the last batch up to which all is known; -1: none; None: not known.

        Raises:
            py4j.protocol.Py4JError: the checkpoint can't be read.
        """
        windows, watermark = None, None
        if self.windows is not None:
            watermark = self._watermark(number)
            if self.windows and not self._sent_windows:
                windows, self._sent_windows = self.windows, True
        return Stream(
            app=app, query=self.id, run=self.run, state="batch", number=number,
            watermark=watermark, windows=windows, complete_to=complete_to,
        )  # fmt: skip

    def ended(self, app: str, number: int, complete_to: int | None, reason: str = "") -> Stream:
        """That the run is over; ``reason``: why no more of it is recorded, where it may not be; ``complete_to``: as of `passed`."""
        state: Literal["over", "lost"] = "lost" if reason else "over"
        return Stream(
            app=app, query=self.id, run=self.run, state=state, number=number, reason=reason,
            complete_to=complete_to,
        )  # fmt: skip

    @property
    def has_failed(self) -> bool:
        """Whether it ended by an error."""
        return bool(self._execution.exception().isDefined())

    def may_have_committed(self, number: int) -> bool:
        """Whether a batch that is committed may be of this run: Spark may fail before it reports one."""
        folder = Folder(self._sc, str(self._execution.commitLog().metadataPath().toString()))
        path = f"{folder.path}/{number}"
        if self._began_behind is None or not path.startswith(_LOCAL):
            # The clock of another machine would say nothing.
            return True
        jvm: Any = self._sc._jvm
        status = folder.system.getFileStatus(jvm.org.apache.hadoop.fs.Path(path))
        return int(status.getModificationTime()) >= int(self._began_behind * 1000)

    @property
    def is_active(self) -> bool:
        """Whether it runs."""
        return bool(self._execution.isActive())

    def reported(self, beyond: int) -> tuple[list[Progress], bool]:
        """Batches behind ``beyond`` that Spark still reports, in order, and whether it reports all that it has run."""
        count, batches = reported_batches(self._execution, beyond)
        return batches, count < int(self._spark.conf.get(REPORTS_KEPT) or 0)

    def committed(self) -> int:
        """The last batch that its checkpoint says is committed; -1: none.

        Raises:
            py4j.protocol.Py4JError: the checkpoint can't be read.
        """
        return _latest(self._execution.commitLog())

    def planned(self) -> int:
        """The last batch that its checkpoint says has begun; -1: none.

        Raises:
            py4j.protocol.Py4JError: the checkpoint can't be read.
        """
        return _latest(self._execution.offsetLog())

    def recipe(
        self, number: int, progress: Progress | None, known: Known, action: str, site: str
    ) -> Recipe:
        """The recipe of a batch.

        ``progress``: as Spark reports it; None: it does not any more. ``known``: of this run of the query.

        Raises:
            UnknownBatchError: what it read or wrote is not known.
            py4j.protocol.Py4JError: the checkpoint, or the sink's log, can't be read.
        """
        spark = self._spark
        batch = StreamBatch(self.id, self.run, number)
        if progress is not None:
            batch = replace(batch, watermark=progress.watermark, late=progress.late)
        began_at = None if progress is None else progress.began_at
        written = self.sink.written(spark, number, action, began_at)
        output = written.output
        settings = explicit_settings(spark)
        is_own = self._is_own(number, written, progress, known)
        if self._repeated is not None and is_own:
            recipe = self._repeated.recipe_of(self._only_offsets(number), output, batch, settings)
            if recipe is not None:
                self._note(number, known)
                return recipe
        activate(spark)
        sources: tuple[Source, ...] = ()
        earlier = continued(self._earlier, known)
        noted_since, self._noted_since = self._noted_since, None
        try:
            versions = self._tables.look_in(spark, self._execution.logicalPlan())
            offsets = self._offsets(number, known)
            batch_plan = plan_of_batch(
                spark,
                self._execution,
                offsets,
                watermarks_of(
                    self._execution.offsetLog(), number, known if earlier is None else earlier.known
                ),
                self._seen.before(None if progress is None else progress.began_at),
                self._tables.changed(
                    spark, known.versions, versions, lambda: reads_cached(self._execution)
                ),
                lambda since_us: self._starts.behind(
                    since_us, number, offsets[0].start, known.times
                ),
            )
            sources = batch_plan.sources
            tables = Tables(versions, {}, topics=batch_plan.topics, parts=batch_plan.parts)
            if self._plan_mark is None:
                self._plan_mark = _mark_of(spark, batch_plan, output, settings, tables)
            plan, is_sure = batch_plan.plan, True
            if not is_own or (known.run_problem and batch_plan.reads_earlier):
                is_same = earlier is not None and earlier.earlier.plan == self._plan_mark
                if (
                    earlier is None
                    or not is_same
                    or not (is_own or self._is_of_plan(number, written))
                ):
                    raise UntracedBatchError("Batch", known.run_problem if is_own else OTHER_RUN)
                is_sure = earlier.is_sure
            if not is_sure:
                plan = compiled(STATE_CLASS).ofEarlierRun(plan)
            if batch_plan.ends is not None and self.windows is None:
                self.windows = self._windows_of(batch_plan, settings, site, batch)
            recipe = _recipe_of(spark, plan, output, site, settings, tables, batch)
            if is_sure:
                self._repeated = Repeated.of(recipe, settings, batch_plan)
            self._noted_since = noted_since
            self._note(number, known)
            return recipe
        except UntracedBatchError as problem:
            node, sources = problem.node, problem.sources or sources
            reason = str(problem)
        except ValueError as problem:
            node, reason = "Batch", str(problem)
        opaque = OpaqueNode(self._columns(), node, reason, ())
        return Recipe(spark.version, {}, sources, (opaque,), output, site).of_batch(batch)

    def _note(self, number: int, known: Known) -> None:
        """Note that a batch was run by this run's plan, and those before it as far as that is known."""
        if not self._plan_mark:
            return
        if self._noted_since is None:
            self._noted_since = number
        first, late, earlier = self._noted_since, known.late_rows, continued(self._earlier, known)
        is_same = earlier is not None and earlier.earlier.plan == self._plan_mark
        if earlier is not None and is_same and earlier.is_sure and first == known.first:
            first, late = min(first, earlier.earlier.first), earlier.known.late_rows
        self._notes.write(self.id, EarlierRun(self.run, self._plan_mark, first, number, late))

    def _windows_of(
        self, plan: BatchPlan, settings: Mapping[str, str], site: str, batch: StreamBatch
    ) -> str | None:
        if not plan.sources:
            return None
        # Of other batches it holds with their files, where nothing else of what is read may change.
        is_plain = len(plan.sources) == 1 and not plan.sources[0].partitions
        is_plain = is_plain and bool(plan.sources[0].files or plan.topics) and not plan.parts
        if not is_plain or self._execution.sources().size() != 1:
            return ""
        frame = frame_of(self._spark, plan.ends)
        tables = Tables({}, {}, topics=plan.topics)
        recipe = recipe_of(frame, Output(), site, settings, tables, batch)
        text = recipe.to_json()
        is_usable = recipe.sources == plan.sources and not recipe.functions
        return text if is_usable and len(text) <= WINDOWS_CHARS_MAX else ""

    @cached_property
    def _spark(self) -> SparkSession:
        """Its own session, which Spark made when it began."""
        # The constructor would have `toDF` of all RDDs make frames of this session.
        spark = SparkSession.__new__(SparkSession)
        spark._sc, spark._jsc, spark._jvm = self._sc, self._sc._jsc, self._sc._jvm
        spark._jsparkSession = self._execution.sparkSessionForStream()
        return spark

    def _columns(self) -> tuple[Attribute, ...]:
        fields = json.loads(columns_of(self._execution))["fields"]
        return tuple(
            Attribute(place, str(field["name"]), ddl(field["type"]))
            for place, field in enumerate(fields)
        )

    def _offsets(self, number: int, known: Known) -> tuple[Offsets, ...]:
        """Of each stream that it reads, in Spark's order."""
        log = self._execution.offsetLog()
        found = offsets_of_batch(log, number)
        if found is None:
            raise UnknownBatchError(NOT_IN_CHECKPOINT.format(number))
        return with_firsts(found, self._firsts, log, number, has_run=known.ran)

    def _only_offsets(self, number: int) -> tuple[str, str]:
        """Where a batch begins and ends in the one stream that the query reads, as JSON; empty: before all that it gave."""
        last, start = self._last_end
        if last != number - 1:
            start = self._only_end(number - 1) if number else ""
        end = self._only_end(number)
        self._last_end = number, end
        return start, end

    def _only_end(self, number: int) -> str:
        text = helper().ends(self._execution.offsetLog(), number)
        if text is None:
            raise UnknownBatchError(NOT_IN_CHECKPOINT.format(number))
        ((end,),) = split(text, 1)
        return end

    def _watermark(self, number: int) -> int | None:
        offsets = self._execution.offsetLog().get(number)
        return int(helper().watermark(offsets.get())) if offsets.isDefined() else None

    def _is_own(
        self, number: int, written: Written, progress: Progress | None, known: Known
    ) -> bool:
        """Whether this run wrote the files of a batch: a sink leaves alone a batch that it has, whatever is then asked of it."""
        if (known.ran and written.without_tasks) or not written.output.files:
            return True
        offsets = self._execution.offsetLog().get(number)
        if not offsets.isDefined() or (progress is None and not known.writes):
            # An earlier run may have begun it.
            return False
        if not self._is_of_plan(number, written):
            return False
        # What was there when this run gave the batch to its sink is another query's, which may have begun its own at the same time.
        return written.is_younger(0 if progress is None else progress.given_ms)

    def _is_of_plan(self, number: int, written: Written) -> bool:
        """Whether what a sink has may be of a batch: none of it is older than the batch's offsets."""
        return written.is_younger(
            int(helper().planned(self._execution.offsetLog().get(number).get()))
        )


def mark_of_state(spark: SparkSession, plan: BatchPlan) -> str:
    """The mark that equal plans of queries that keep a state have, before ``foreachBatch``; empty: it can't be told from others."""
    tables = Tables({}, {}, topics=plan.topics, parts=plan.parts)
    return _mark_of(spark, plan, Output(), explicit_settings(spark), tables) or ""


def _mark_of(
    spark: SparkSession,
    plan: BatchPlan,
    output: Output,
    settings: Mapping[str, str],
    tables: Tables,
) -> str | None:
    """The mark of a batch's plan; empty: it can't be told from others; None: this batch does not tell."""
    if plan.comparable is None:
        return None
    try:
        recipe = _recipe_of(spark, plan.comparable(), output, "", settings, tables)
    except (PySparkException, Py4JError, ValueError):
        # Some nodes that keep state stand in no batch query.
        return ""
    return plan_mark(recipe, plan.sources)


def _recipe_of(
    spark: SparkSession,
    plan: Any,
    output: Output,
    site: str,
    settings: Mapping[str, str],
    tables: Tables,
    batch: StreamBatch | None = None,
) -> Recipe:
    """The recipe of the rows that a batch's plan (Spark's object) gives."""
    frame = frame_of(spark, plan)
    if any(part.source.format == ICEBERG for part in tables.parts):
        tables = replace(tables, read=iceberg.read_as_planned(frame))
    return recipe_of(frame, output, site, settings, tables, batch)


def _latest(log: Any) -> int:
    latest = log.getLatestBatchId()
    return int(latest.get()) if latest.isDefined() else -1
