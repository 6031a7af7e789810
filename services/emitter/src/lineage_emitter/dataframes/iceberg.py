"""Apache Iceberg: the snapshots of tables that a plan reads, and the files that a write added.

A table in a plan stands for one snapshot. Just before a plan runs, Spark takes the latest one of each table that names
none, in a plan of its own for most actions. That one is not at hand; where the tables have the same snapshots before the
action and after it, what they were while it ran is certain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from lineage_core.recipe.document import Output, Source
from lineage_core.recipe.names import ICEBERG
from lineage_emitter.dataframes.iceberg_files import DataFiles
from lineage_emitter.dataframes.own_commits import OwnCommits
from lineage_emitter.dataframes.plan_text import compiled, said
from lineage_emitter.dataframes.walking import leaves
from lineage_emitter.pyspark_parts import WITH_ICEBERG

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RELATION = "DataSourceV2Relation"
"""The class of leaves that read such tables, and those of other sources of its kind."""
_HELPER = "lineage.IcebergTables"
STREAM_QUERY, STREAM_EPOCH = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"
"""What Iceberg writes of a micro-batch into its snapshot."""
APPLICATION = "spark.app.id"
SNAPSHOTS_MAX = 100
"""Maximum number of snapshots, the latest ones, among which that of a micro-batch is looked for."""
_TABLE = "org.apache.iceberg.spark.source.SparkTable"
_DATA = {"org.apache.iceberg.BaseTable", "org.apache.iceberg.rest.RESTTable"}
"""Tables of rows; others are of what Iceberg knows of one (its files, its history)."""
_OPTIONS = {
    "path", "branch", "versionasof", "timestampasof", "split-size", "lookback", "file-open-cost",
    "vectorization-enabled", "batch-size", "locality", "aggregate-push-down-enabled",
}  # fmt: skip
"""Options of readers that don't change which rows of its snapshot a table gives."""
_SCANNED = re.compile(r"IcebergScan\(table=(.*?), schemaId=-?\d+, snapshotId=(\d+|null),")
_BEFORE_INITIAL = re.compile(r"== (?:Final|Current) Plan ==.*?== Initial Plan ==", re.DOTALL)


class UnknownSnapshotError(Exception):
    """Which rows of a table were read can't be determined; the message says why."""


@dataclass(frozen=True, slots=True)
class TableKey:
    """A table as a leaf reads it: its identity, snapshot (None: it has none) and columns."""

    table: str
    snapshot: int | None
    schema: str


@dataclass(frozen=True, slots=True)
class TableState:
    """``metadata``: the file that says all of the table. ``latest``: it says the same of it without its snapshot being named."""

    metadata: str
    latest: bool


@dataclass(frozen=True)
class IcebergRead:
    """What an action reads. ``plan``: Spark's object. ``leaves``: those of it that read tables, in order.

    ``unsettled``: tables whose snapshots are not certain.
    """

    plan: Any
    leaves: tuple[TableKey, ...]
    states: Mapping[TableKey, TableState]
    unsettled: frozenset[str] = frozenset()

    def with_certain_snapshots(
        self, others: Iterable[IcebergRead | None], log: IcebergWrite | None
    ) -> IcebergRead:
        """This, where the same plan at other times (None: not known) tells which snapshots are certain.

        ``log``: of the action's own write, which may have made one more.
        """
        unsettled: set[str] = set()
        for other in others:
            other_leaves = () if other is None else other.leaves
            if len(other_leaves) != len(self.leaves):
                unsettled |= {leaf.table for leaf in self.leaves}
                continue
            unsettled |= {
                leaf.table
                for leaf, other_leaf in zip(self.leaves, other_leaves, strict=True)
                if (other_leaf.table, _before(other_leaf, log)) != (leaf.table, leaf.snapshot)
            }
        return replace(self, unsettled=frozenset(unsettled))


def _before(key: TableKey, log: IcebergWrite | None) -> int | None:
    """The snapshot of a table, or the one before where an own write made it."""
    if (
        log is None
        or log.written_snapshot is None
        or not log.follows
        or (log.table, log.written_snapshot) != (key.table, key.snapshot)
    ):
        return key.snapshot
    return log.before


def is_used(settings: Mapping[str, str] | None) -> bool:
    """Whether the session has Iceberg, in a Spark in which its tables are traced: the plans of 3.5 hold no snapshots."""
    return WITH_ICEBERG and (
        settings is None
        or any(
            "iceberg" in value.lower()
            for name, value in settings.items()
            if name.startswith(("spark.sql.extensions", "spark.sql.catalog."))
        )
    )


def is_table(leaf: Any) -> bool:
    """Whether a leaf (Spark's object) reads the rows of a table of Iceberg."""
    return leaf.getClass().getSimpleName() == _RELATION and is_table_of_rows(leaf.table())


def is_table_of_rows(table: Any) -> bool:
    """Whether a table (Spark's object) is one of Iceberg, with rows."""
    if not WITH_ICEBERG:
        return False
    return table.getClass().getName() == _TABLE and is_of_rows(table.table())


def is_of_rows(table: Any) -> bool:
    """Whether one of Iceberg's own objects is a table of rows."""
    return table.getClass().getName() in _DATA


def tables(plan: Any, *, cached: bool = False) -> Iterator[Any]:
    """The leaves of a plan that read such tables, those of subqueries and (``cached``) of cached frames among them."""
    return filter(is_table, leaves(plan, cached=cached))


def reads(plan: Any) -> bool:
    """Whether a plan (Spark's object) reads such a table, cached frames aside."""
    return any(True for _ in tables(plan))


def read_now(frame: DataFrame) -> IcebergRead | None:
    """What a frame reads if it is run now; None: no table of Iceberg.

    The frame's own execution, if it has not run yet, does not take its snapshots by this.
    """
    analysed = frame._jdf.queryExecution().analyzed()
    if not reads(analysed):
        return None
    return _read(execution(frame.sparkSession, analysed, refreshed=True).withCachedData())


def read_again(frame: DataFrame) -> IcebergRead | None:
    """The same after an action; None where the frame can't be run any more: its table may have other columns now."""
    try:
        return read_now(frame)
    except Exception:
        return None


def read_by_itself(frame: DataFrame) -> IcebergRead | None:
    """What a frame has read that has run itself."""
    return _read(frame._jdf.queryExecution().withCachedData())


def read_as_planned(frame: DataFrame) -> IcebergRead | None:
    """What a frame reads with the snapshots that its plan holds."""
    analysed = frame._jdf.queryExecution().analyzed()
    return _read(execution(frame.sparkSession, analysed, refreshed=False).withCachedData())


def execution(spark: SparkSession, plan: Any, *, refreshed: bool) -> Any:
    """An execution of an analysed plan. ``refreshed``: with the snapshots that tables have when it begins."""
    jvm: Any = spark._jvm
    companion = getattr(jvm, "org.apache.spark.sql.execution.QueryExecution$")
    return getattr(companion, "MODULE$").create(spark._jsparkSession, plan, refreshed)


def _read(plan: Any) -> IcebergRead | None:
    tables_read = [leaf.table() for leaf in tables(plan, cached=True)]
    keys = tuple(map(_key, tables_read))
    states = {key: _state(table) for key, table in zip(keys, tables_read, strict=True)}
    return IcebergRead(plan, keys, states) if tables_read else None


def _key(table: Any) -> TableKey:
    return TableKey(str(table.id()), table.snapshotId(), str(table.schema().json()))


def _state(table: Any) -> TableState:
    before = _metadata(table)
    now = table.copyWithBranch(None)
    same = now.snapshotId() == table.snapshotId()
    same = same and now.schema().json() == table.schema().json()
    return TableState(before, same and before == _metadata(table))


def _metadata(table: Any) -> str:
    return metadata_of(table.table())


def metadata_of(table: Any) -> str:
    """The file that says all of a table (Iceberg's object) as it is now."""
    return str(table.operations().current().metadataFileLocation())


def optimised_table_plan(spark: SparkSession, plan: Any) -> Any:
    """What Spark's optimiser makes of a plan of such tables, with nothing pushed down: figures, filters, columns."""
    session = spark._jsparkSession
    state, leaf = session.sessionState(), next(tables(plan, cached=True))
    return _helper(leaf.table()).optimised(
        state.catalogManager(), state.catalog(), session.experimental(), plan
    )


def _helper(table: Any) -> Any:
    return compiled(_HELPER, table.getClass().getClassLoader())


def source(spark: SparkSession, leaf: Any, iceberg_read: IcebergRead) -> Source:
    """The source that a leaf reads, which is a table in a snapshot.

    Raises:
        UnknownSnapshotError: which rows were read can't be determined.
    """
    table = leaf.table()
    key, name = _key(table), str(table.table().toString())
    state = iceberg_read.states.get(key)
    if state is None or key.table in iceberg_read.unsettled:
        raise UnknownSnapshotError(
            f"{name} was written when the action ran: which snapshot was read is known where it is named "
            "(VERSION AS OF)"
        )
    others = [
        option
        for option in leaf.options().keySet().toArray()
        if str(option).lower() not in _OPTIONS
    ]
    if others:
        raise UnknownSnapshotError(f"{name} is read with the option {others[0]}")
    files = DataFiles()
    if key.snapshot is not None:
        files = _files(spark, table, "files", key.snapshot)
    return Source(
        ICEBERG,
        (str(table.table().location()),),
        key.schema,
        options={**_options(state), **files.options},
        files=files.files,
        table=name,
        version=None if key.snapshot is None else str(key.snapshot),
    )


def _options(state: TableState) -> dict[str, str]:
    return {"metadata": state.metadata, "latest": str(state.latest).lower()}


def _files(spark: SparkSession, table: Any, content: str, snapshot: int) -> DataFiles:
    """``files`` of a snapshot, or those that it ``added``.

    Raises:
        UnknownSnapshotError: the snapshot has expired, or Hadoop can't find the files.
    """
    jvm: Any = spark._jvm
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    number = jvm.java.lang.Long.valueOf(snapshot)
    try:
        text = said(_helper(table), content, table.table(), number, conf)
    except Py4JJavaError as problem:
        reason = str(problem.java_exception.toString()).partition("\n")[0]
        raise UnknownSnapshotError(f"files of {table.name()} are unknown: {reason}") from problem
    return DataFiles.of(text)


def files_of_stream(
    spark: SparkSession, table: Any, bounds: Sequence[int], snapshots_max: int
) -> str:
    """The files that a stream of a table (Iceberg's object) gives between two places, as ``IcebergTables.java`` names them.

    ``bounds``: snapshot and number of its files, behind which the stream begins, and where it ends. ``snapshots_max``: so many are looked at.

    Raises:
        py4j.protocol.Py4JJavaError: a snapshot has expired, or there are more, or Hadoop can't find the files.
    """
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    made = compiled(_HELPER, table.getClass().getClassLoader())
    return said(made, "streamed", table, " ".join(map(str, (*bounds, snapshots_max))), conf)


def check_cached(relation: Any, plan: Any) -> None:
    """See that a cached frame (Spark's object) holds rows of the very snapshots that the plan it was made from names.

    Raises:
        UnknownSnapshotError: it may hold others.
    """
    named = [
        (str(leaf.table().table()), str(leaf.table().snapshotId()))
        for leaf in tables(plan, cached=True)
    ]
    text = _BEFORE_INITIAL.sub("", said(relation.cacheBuilder().cachedPlan(), "toString"))
    scanned = {(name, number.replace("null", "None")) for name, number in _SCANNED.findall(text)}
    if scanned != set(named) or len({name for name, _ in scanned}) != len(scanned):
        raise UnknownSnapshotError("which snapshots a cached frame holds is not certain")


@dataclass(frozen=True, slots=True)
class BatchSnapshot:
    """The snapshot that a micro-batch made. ``made_at_ms``: by the clock of ``application``, whose id it is."""

    id: int
    application: str
    made_at_ms: int


def snapshot_of_batch(table: Any, query: str, number: int) -> BatchSnapshot | None:
    """The snapshot that a batch of a streaming query made in a table (Spark's object); None: it made none.

    Raises:
        UnknownSnapshotError: so many were made since that it may be any older one.
    """
    snapshot = _latest(table)
    for _ in range(SNAPSHOTS_MAX):
        if snapshot is None:
            return None
        summary = snapshot.summary()
        if summary.get(STREAM_QUERY) == query:
            epoch = int(summary.get(STREAM_EPOCH))
            if epoch == number:
                return BatchSnapshot(
                    int(snapshot.snapshotId()),
                    str(summary.get(APPLICATION)),
                    int(snapshot.timestampMillis()),
                )
            if epoch < number:
                return None
        parent = snapshot.parentId()
        # Those before one that has expired have expired, too.
        snapshot = None if parent is None else table.table().snapshot(parent)
        if parent is not None and snapshot is None:
            break
    raise UnknownSnapshotError(
        f"which snapshot of {table.name()} batch {number} made is not known: it is not among the latest {SNAPSHOTS_MAX}"
    )


def output_of_snapshot(spark: SparkSession, table: Any, snapshot: int, output: Output) -> Output:
    """An output to a table (Spark's object) that made a snapshot, with the files that this added.

    Raises:
        UnknownSnapshotError: the snapshot has expired, or Hadoop can't find the files.
    """
    files = _files(spark, table, "added", snapshot)
    return replace(
        output,
        path=str(table.table().location()),
        format=ICEBERG,
        version=str(snapshot),
        options={**_options(TableState(_metadata(table), latest=False)), **files.options},
        files=files.files,
    )


class IcebergWrite:
    """The snapshots of a table that is written, and that may not be there yet. ``place``: its name or path."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        self._spark = spark
        self._table_address = place
        table = self._current_table()
        self.before: int | None = None if table is None else _head(table)
        """The snapshot before the write, if any."""
        self.columns = None if table is None else tuple(table.schema().fieldNames())
        """The table's columns; None: it is not there."""
        self.format: str | None = ICEBERG
        """None: its columns hold those of the output under other names."""
        self.table = ""
        """The table's identity."""
        self.written_snapshot: int | None = None
        """The snapshot that the write made; None where that can't be determined, and before it has returned."""
        self.follows = False
        """Whether that one came right after ``before``."""
        self._written: Any = None

    def of_new_table(self) -> IcebergWrite:
        """This, of a table that was not there before the write."""
        self.before = None
        return self

    def record_return(self, commits: OwnCommits) -> None:
        """The write has returned. ``commits``: those that were observed."""
        table = self._current_table()
        if table is None:
            return
        self._written, self.table = table, str(table.id())
        # Some may be of a transaction that failed, or of another table.
        own = [
            number
            for number in commits.snapshots or ()
            if table.table().snapshot(number) is not None
        ]
        if len(own) != 1:
            return
        self.written_snapshot = own[0]
        self.follows = self._follows(table, own[0])

    def _follows(self, table: Any, own: int) -> bool:
        """Whether no other snapshot was made between the one before the write and its own."""
        parent = table.table().snapshot(own).parentId()
        if parent is not None:
            return bool(parent == self.before)
        # A table that is made anew in the place of another: its first snapshot has none before it.
        return bool(_helper(table).follows(table.table(), self.before, own))

    def output(self, output: Output) -> Output:
        """The output that the write made, its files aside."""
        if self._written is None:
            return output
        path = str(self._written.table().location())
        if self.written_snapshot is None:
            return replace(output, path=path)
        options = _options(TableState(_metadata(self._written), latest=False))
        return replace(
            output,
            path=path,
            format=self.format,
            version=str(self.written_snapshot),
            options=options,
        )

    def with_files(self, output: Output) -> Output:
        """The output with the files that the write added; none where that can't be determined."""
        if self.written_snapshot is None:
            return output
        files = _files(self._spark, self._written, "added", self.written_snapshot)
        return replace(output, files=files.files, options={**output.options, **files.options})

    def _current_table(self) -> Any:
        """The table as its catalog has it; None where there is none."""
        session = self._spark._jsparkSession
        try:
            if "/" in self._table_address:
                plan = (
                    session.read()
                    .format(ICEBERG)
                    .load(self._table_address)
                    .queryExecution()
                    .analyzed()
                )
            else:
                plan = session.table(self._table_address).queryExecution().analyzed()
        except Exception:
            # It is not there, or of a kind that can't be read: then there is nothing to tell, either.
            return None
        while plan.getClass().getSimpleName() == "SubqueryAlias":
            plan = plan.child()
        return plan.table() if is_table(plan) else None


def _head(table: Any) -> int | None:
    snapshot = _latest(table)
    return None if snapshot is None else snapshot.snapshotId()


def _latest(table: Any) -> Any | None:
    """The latest snapshot (Iceberg's object) of a table's branch."""
    branch, iceberg_table = table.branch(), table.table()
    return iceberg_table.currentSnapshot() if branch is None else iceberg_table.snapshot(branch)
