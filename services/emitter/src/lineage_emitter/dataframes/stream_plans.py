"""Plans of micro-batches: a streaming query in which each stream is read as the files, or offsets of topics, that it gave in one batch.

A query that keeps no state is the batch query over these; of one that does, see `stream_state`. What reads otherwise is named and not traced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from lineage_core.recipe.document import Source
from lineage_emitter.dataframes import delta, stream_delta, stream_iceberg, topics
from lineage_emitter.dataframes.file_sources import file_source
from lineage_emitter.dataframes.files import Folder
from lineage_emitter.dataframes.plan_text import compiled, read_plan
from lineage_emitter.dataframes.stream_reports import Progress
from lineage_emitter.dataframes.stream_state import (
    ALL,
    NEW,
    NO_WATERMARKS,
    PLANS_CLASS,
    Offsets,
    Rows,
    State,
    Watermarks,
    class_name,
    keeps,
    listed,
    states_of,
)
from lineage_emitter.dataframes.stream_topics import topics_read
from lineage_emitter.dataframes.table_parts import TablePart, TableRead
from lineage_emitter.dataframes.topic_ids import STREAM, SeenTopics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEPARATOR = "\u0001"
FILES_MAX = 1_000
"""Files of all batches that the rows of one may be made of, which its recipe names where it has state."""
OTHER_STREAM = "a stream of other than files, topics of Kafka and tables of Delta Lake and Iceberg"
UNKNOWN_OFFSETS = "a stream whose offsets are not known"
Ranges: TypeAlias = Sequence[tuple[Any, Offsets]]
"""Streams (Spark's objects) with the offsets of a batch."""
_FILES = "FileStreamSource"


class UntracedBatchError(ValueError):
    """Rows of a batch can't be traced: through ``node``, for the reason that the message says. ``sources``: what it read."""

    def __init__(self, node: str, reason: str, sources: tuple[Source, ...] = ()) -> None:
        self.node = node
        self.sources = sources
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class StreamRead:
    """What a batch read of one stream.

    ``kind``: the class of what reads it. ``sources``: none: nothing was read. ``rows``: the plan that reads them as a batch (Spark's
    object); None: there are none, or they can't be read again. ``problem``: why its rows can't be traced; empty: they
    can. ``topics``: what ``rows`` read of topics. ``parts``: of tables. ``like``: a plan in their place by which runs are compared; None: ``rows``.
    """

    kind: str
    sources: tuple[Source, ...] = ()
    rows: Any | None = None
    problem: str = ""
    topics: topics.TopicReads = field(default_factory=dict)
    parts: tuple[TablePart, ...] = ()
    like: Any | None = None


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """A batch as a query over files and topics.

    ``plan``: analysed (Spark's object). ``sources``: what it read of streams. ``stream``: the one that it reads (Spark's object), where
    nothing but which files it gives may change from batch to batch; None: more may. ``ends``: the plan that gives the ends of the windows
    of each row that an aggregate by event time is made of (Spark's object); None: it is no such batch. ``topics``: what it reads of topics.
    ``parts``: what it reads of streams of tables. ``reads_earlier``: rows of earlier batches, too. ``comparable``: gives the plan by which runs of a query are compared, over rows of all of
    its streams; None: some of them have given none. ``unknown``: numbers of columns that were made of the time at which it ran.
    """

    plan: Any
    sources: tuple[Source, ...]
    stream: Any | None = None
    ends: Any | None = None
    topics: topics.TopicReads = field(default_factory=dict)
    parts: tuple[TablePart, ...] = ()
    reads_earlier: bool = False
    comparable: Callable[[], Any] | None = None
    unknown: frozenset[int] = frozenset()


def helper() -> Any:
    """The Java object that reads plans and logs of streams."""
    return compiled(PLANS_CLASS)


def plan_of_frame(
    spark: SparkSession, plan: Any, seen: SeenTopics, ranges: Callable[[], Ranges]
) -> BatchPlan:
    """The plan of the rows that a function of ``foreachBatch`` was given, over the files that the batch has listed.

    ``plan``: of the batch, as Spark has run it, which keeps no state. ``seen``: topics, before it read them. ``ranges``: gives the batch's offsets.

    Raises:
        UntracedBatchError: it reads other than files.
    """
    plans = helper()
    rows = plans.rows(plan)
    leaves = plans.streams(rows)
    reads = [_read_of_leaf(spark, leaf, seen, ranges) for leaf in listed(leaves)]
    of_delta = [read for read in reads if read.kind == stream_delta.STREAM]
    if len({read.sources for read in of_delta}) < len(of_delta):
        # Files with deletions are read version by version, by leaves that don't say which.
        raise UntracedBatchError(stream_delta.STREAM, UNKNOWN_OFFSETS, _sources_of(of_delta))
    _check(reads, ())
    return _batch_plan(spark, rows, leaves, {NEW: reads})


def plan_of_batch(
    spark: SparkSession,
    execution: Any,
    offsets: Sequence[Offsets],
    watermarks: Watermarks,
    seen: SeenTopics,
    beside: Sequence[tuple[Any, Any]] = (),
    behind: Callable[[int], Any | None] = lambda _: None,
) -> BatchPlan:
    """The plan of the rows that a batch gave to its sink, over the files that its streams' logs name, and the offsets of topics.

    An aggregate by event time gives a group when it is due, made of rows of this and all earlier batches. It is the batch query over
    all of them (but those that are known to be too old for it), of which the groups are taken that are due in this batch. Rows that were dropped as late belong to groups that were due before
    (see `QueryRun.drops_none_of_due_groups`). Other state: see `stream_state`.

    Args:
        spark: The query's session.
        execution: The query (Spark's object).
        offsets: Of the query's streams, in their order.
        watermarks: Of the batch.
        seen: Topics, before the batch read them.
        beside: Other leaves of the plan, with what the batch read of them (Spark's objects).
        behind: Gives where, in the only stream of a query (one of files), a batch begins before which all rows are older than a time in microseconds
            since 1970 (Spark's object); None: at the beginning.

    Raises:
        UntracedBatchError: it may hold other state, or reads other than files, or its files are no longer what they were.
    """
    plans = helper()
    rows = plans.rows(execution.logicalPlan())
    leaves = plans.streams(rows)
    states = states_of(rows, str(execution.outputMode().toString()), watermarks)
    streams = execution.sources()
    parts = _parts_of(states)
    beginning = None
    if len(states) == len(offsets) == 1 and str(streams.apply(0).toString()).startswith(_FILES):
        oldest_us = states[0].oldest_us(rows, watermarks)
        beginning = None if oldest_us is None else behind(oldest_us)
    reads: dict[str, list[StreamRead]] = {}
    for part in parts:
        ranges = [
            (streams.apply(n), of_stream.of(part, beginning)) for n, of_stream in enumerate(offsets)
        ]
        # Rows of earlier batches were read sooner.
        known = seen if part == NEW else seen.before(None)
        reads[part] = [_read_of_stream(spark, leaf, ranges, known) for leaf in listed(leaves)]
        _check(reads[part], states)
    if parts != (NEW,):
        _check_file_count(states[0].kind, reads.values())
    if parts == (NEW,):
        # Earlier batches may have read other rows of it.
        for leaf, read in beside:
            leaves.add(leaf)
            reads[NEW].append(StreamRead("", rows=read))
    batch = _batch_plan(spark, rows, leaves, reads, states, watermarks)
    is_plain = not states and len(reads[NEW]) == len(offsets) == len(batch.sources) == 1
    # The values in folders' names are read by what all files of a batch have, and files of tables in the version that has them.
    if not is_plain or batch.sources[0].partitions or batch.parts:
        return batch
    return replace(batch, stream=streams.apply(0))


def _parts_of(states: Sequence[State]) -> tuple[str, ...]:
    """Which rows are to be read."""
    if any(state.problem for state in states):
        return (NEW,)
    # Where several streams are read, some may be read beside the states.
    parts = dict.fromkeys(part for state in states for part in state.parts)
    return (*parts, NEW) if len(states) > 1 and NEW not in parts else tuple(parts) or (NEW,)


def _check_file_count(kind: str, reads: Iterable[Sequence[StreamRead]]) -> None:
    sources = (source for part in reads for source in _sources_of(part))
    count = len({file.path for source in sources for file in source.files})
    if count > FILES_MAX:
        reason = f"its rows may be made of those of {count:,} files, more than {FILES_MAX:,}"
        raise UntracedBatchError(kind, reason)


def _sources_of(reads: Sequence[StreamRead]) -> tuple[Source, ...]:
    return tuple(source for read in reads for source in read.sources)


def _check(reads: Sequence[StreamRead], states: Sequence[State]) -> None:
    """See that rows of a batch can be traced through what it keeps and what it read.

    Raises:
        UntracedBatchError: they can't.
    """
    for state in states:
        if state.problem:
            raise UntracedBatchError(state.kind, state.problem, _sources_of(reads))
    for read in reads:
        if read.problem:
            raise UntracedBatchError(read.kind, read.problem, _sources_of(reads))


def facts_of(execution: Any) -> dict[str, Any]:
    """What a query reads, and what its rows may be made of, as fields of `lineage_core.contract.message.Stream`."""
    streams = execution.sources()
    names = [str(streams.apply(place).toString()) for place in range(streams.size())]
    folders = (re.fullmatch(rf"{_FILES}\[(.*)\]", name, re.DOTALL) for name in names)
    plans = helper()
    rows = plans.rows(execution.logicalPlan())
    return {
        "reads": tuple("" if folder is None else folder[1] for folder in folders),
        "beside": tuple(folder for (folder,) in split(plans.beside(rows), 1)),
        "keeps": keeps(rows, str(execution.outputMode().toString())),
    }


def reported_batches(execution: Any, beyond: int) -> tuple[int, list[Progress]]:
    """How many reports Spark keeps of a query, and the batches behind ``beyond`` that they are of, in order."""
    count, *reports = helper().reports(execution, beyond).split(SEPARATOR)[:-1]
    return int(count), sorted(map(Progress.of, reports), key=lambda batch: batch.number)


def columns_of(execution: Any) -> str:
    """The columns of the rows that a query gives to its sink, as Spark's JSON."""
    return str(helper().rows(execution.logicalPlan()).schema().json())


def with_whole_base_path(spark: SparkSession, source: Source) -> Source:
    """A source whose option ``basePath`` is spelled as paths of files are; without it, where no folder's name is a column.

    Spark gives it to each batch of a stream of files, as the program has spelled it: relative to a folder, maybe.
    """
    base = source.options.get("basePath")
    if base is None:
        return source
    options = {name: value for name, value in source.options.items() if name != "basePath"}
    if source.partitions:
        options["basePath"] = Folder(spark.sparkContext, base).path
    return replace(source, options=options)


def _batch_plan(
    spark: SparkSession,
    plan: Any,
    leaves: Any,
    reads: Mapping[str, Sequence[StreamRead]],
    states: Sequence[State] = (),
    watermarks: Watermarks = NO_WATERMARKS,
) -> BatchPlan:
    """``reads``: by part (see `State.parts`)."""

    def of(rows: Mapping[str, Sequence[Any | None]]) -> tuple[Rows, Callable[[], Any]]:
        below = _below(spark, leaves, rows)
        # What is beside the states keeps nothing.
        return below, lambda: below(
            plan, NEW, [(state.node, state.plan(spark, below, watermarks)) for state in states]
        )

    below, made = of({part: [read.rows for read in of_part] for part, of_part in reads.items()})
    first = next(iter(reads.values()))
    try:
        batch = made()
        ends = states[0].ends(below) if len(states) == 1 else None
    except Exception as problem:
        if "columns that tell of files" not in str(problem):
            raise
        node, reason = "_metadata", "columns that tell of files"
        raise UntracedBatchError(node, reason, _sources_of(first)) from problem
    known = {
        key: of_topic
        for of_part in reads.values()
        for read in of_part
        for key, of_topic in read.topics.items()
    }
    tables = tuple(one for of_part in reads.values() for read in of_part for one in read.parts)
    part = ALL if ALL in reads else NEW
    reads_earlier = part == ALL
    comparable = None
    if all(read.rows is not None for read in reads[part]):
        likes = {part: [read.like or read.rows for read in reads[part]] for part in reads}
        below_like, made_like = of(likes)
        comparable = (lambda: below_like(plan, ALL)) if reads_earlier else made_like
    sources = _sources_of(reads[part])
    return BatchPlan(
        batch, sources, ends=ends, topics=known, parts=tables, reads_earlier=reads_earlier, comparable=comparable
    )  # fmt: skip


def _below(spark: SparkSession, leaves: Any, rows: Mapping[str, Sequence[Any | None]]) -> Rows:
    """What gives plans over the rows of streams. ``rows``: by part, plans (Spark's objects) in the places of ``leaves``; None: no rows."""
    jvm: Any = spark._jvm

    def made(values: Iterable[Any]) -> Any:
        made_list = jvm.java.util.ArrayList()
        for value in values:
            made_list.add(value)
        return made_list

    of_part = {part: made(plans) for part, plans in rows.items()}

    def below(plan: Any, part: str, given: Sequence[tuple[Any, Any]] = ()) -> Any:
        nodes, plans = made(node for node, _ in given), made(inner for _, inner in given)
        return helper().batch(plan, leaves, of_part.get(part), nodes, plans)

    return below


def _rows_of(spark: SparkSession, relation: Any) -> Any:
    """A plan that reads a relation as a batch."""
    frame = spark._jsparkSession.baseRelationToDataFrame(relation)
    return frame.queryExecution().analyzed()


def _source_of(spark: SparkSession, rows: Any) -> Source:
    tree, _ = read_plan(rows)
    return with_whole_base_path(spark, file_source(tree.relation))


def _read_of_leaf(
    spark: SparkSession, leaf: Any, seen: SeenTopics, ranges: Callable[[], Ranges]
) -> StreamRead:
    """What a leaf of a batch's plan has read."""
    kind = class_name(leaf)
    if kind == "LocalRelation":
        return StreamRead(_FILES)
    if kind == "LogicalRelation" and delta.is_delta(leaf.relation()):
        path = str(leaf.relation().location().path().toString())
        streams = [found for found in ranges() if stream_delta.reads(found[0], path)]
        if len(streams) != 1:
            return StreamRead(stream_delta.STREAM, problem=UNKNOWN_OFFSETS)
        return _other_read(spark, streams[0][0], str(leaf.schema().json()), streams[0][1], seen)
    if kind == "LogicalRelation" and class_name(leaf.relation()) == "HadoopFsRelation":
        rows = _rows_of(spark, leaf.relation())
        return StreamRead(_FILES, (_source_of(spark, rows),), rows)
    if not _has_method(leaf, "stream"):
        source = Source(kind, (), str(leaf.schema().json()))
        return StreamRead(kind, (source,), problem=OTHER_STREAM)
    offsets = Offsets(_value(leaf.startOffset()), _value(leaf.endOffset()))
    return _other_read(spark, leaf.stream(), str(leaf.schema().json()), offsets, seen)


def _read_of_stream(spark: SparkSession, leaf: Any, ranges: Ranges, seen: SeenTopics) -> StreamRead:
    """What a batch has read of a stream that is a leaf of the query's plan. ``ranges``: the batch's, with their streams."""
    stream = leaf.source() if class_name(leaf) == "StreamingExecutionRelation" else leaf.stream()
    offsets = next((offsets for known, offsets in ranges if known.equals(stream)), None)
    if offsets is None:
        return StreamRead(class_name(stream), problem=UNKNOWN_OFFSETS)
    if class_name(stream) != _FILES:
        return _other_read(spark, stream, str(leaf.schema().json()), offsets, seen)
    if offsets.is_empty:
        return StreamRead(_FILES)
    jvm: Any = spark._jvm
    frame = stream.getBatch(jvm.scala.Option.apply(offsets.start), offsets.end)
    relation = frame.queryExecution().analyzed().relation()
    rows = _rows_of(spark, relation)
    source = _source_of(spark, rows)
    changed = _changed(stream, offsets, source)
    problem = f"files that were changed or removed since the batch was formed: {changed}"
    return StreamRead(_FILES, (source,), rows, problem if changed else "")


def _changed(stream: Any, offsets: Offsets, source: Source) -> str:
    """A file of a batch that is not what the stream's log says; empty: there is none."""
    first, last = logged_range(offsets.start_text, offsets.end_text)
    logged = split(helper().read(stream, first, last), 2)
    read = {file.path: file.mtime for file in source.files}
    named = {path: int(time) for time, path in logged}
    return next((path for path in {**read, **named} if read.get(path) != named.get(path)), "")


def logged_range(start: str, end: str) -> tuple[int, int]:
    """The first and the last batch of a file stream's own log between two offsets of it, as JSON; ``start``: empty at the beginning."""
    return json.loads(start)["logOffset"] + 1 if start else 0, json.loads(end)["logOffset"]


def split(text: str, width: int) -> list[tuple[str, ...]]:
    """The rows of a text that the Java object has written, of so many fields each."""
    fields = text.split(SEPARATOR)[:-1]
    return [tuple(fields[place : place + width]) for place in range(0, len(fields), width)]


def _other_read(
    spark: SparkSession, stream: Any, schema: str, offsets: Offsets, seen: SeenTopics
) -> StreamRead:
    """A stream of other than files: topics, tables, or what is known by its name."""
    kind, of_table = class_name(stream), _reader_of_table(stream)
    if offsets.is_empty:
        is_known = kind == STREAM or of_table is not None
        return StreamRead(kind, problem="" if is_known else OTHER_STREAM)
    if kind == STREAM:
        read = topics_read(spark, stream, schema, offsets.start_text, offsets.end_text, seen)
        return StreamRead(kind, read.sources, read.rows, read.problem, read.reads)
    if of_table is not None:
        found = of_table(spark, stream, schema, offsets)
        return StreamRead(
            kind, found.sources, found.rows, found.problem, parts=found.parts, like=found.like
        )
    source = Source(kind, (), schema, table=str(stream.toString())[:200])
    return StreamRead(kind, (source,), problem=OTHER_STREAM)


def _reader_of_table(stream: Any) -> Callable[[SparkSession, Any, str, Offsets], TableRead] | None:
    """What tells what a batch read of a stream of a table; None: it is of none."""
    if class_name(stream) == stream_delta.STREAM:
        return stream_delta.table_read
    is_iceberg = str(stream.getClass().getName()) == stream_iceberg.STREAM
    return stream_iceberg.table_read if is_iceberg else None


def _has_method(of: Any, method: str) -> bool:
    """Whether a Java object has a method of that name."""
    return any(known.getName() == method for known in of.getClass().getMethods())


def _value(option: Any) -> Any | None:
    return option.get() if option.isDefined() else None
