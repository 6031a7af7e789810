"""What a plan reads, as sources of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from lineage_core.recipe.document import Source, StreamBatch
from lineage_core.recipe.plan import (
    Attribute,
    Column,
    Literal,
    Node,
    OpaqueNode,
    Project,
    Scan,
    Values,
)
from lineage_emitter.dataframes import (
    catalog,
    delta,
    iceberg,
    jdbc,
    rdd_rows,
    stream_frames,
    topic_ids,
    topics,
)
from lineage_emitter.dataframes.caches import cached_plan
from lineage_emitter.dataframes.current_time import without
from lineage_emitter.dataframes.file_sources import file_source
from lineage_emitter.dataframes.hive import UnreadableError
from lineage_emitter.dataframes.jvm import frame_of, optimised
from lineage_emitter.dataframes.local_rows import ROWS_MAX, literals, local_rows_of
from lineage_emitter.dataframes.plan_text import PlanRelation, Tree
from lineage_emitter.dataframes.stream_plans import (
    UntracedBatchError,
    with_whole_base_path,
)
from lineage_emitter.dataframes.table_parts import TablePart, part_of

UNTRACED_OPTIONS = {"singlevariantcolumn", "explodeembeddedarray", "ignoredpathsegmentregex"}
"""Options (in small letters) by which other rows or files are read, and traces do not read them so."""

SOURCE_KEY = "source"
"""In a relation of a plan's text: the source that it is."""

_UNKNOWN = (delta.UnknownVersionError, jdbc.UnnamedRowsError)


@dataclass(frozen=True, slots=True)
class Tables:
    """What was asked of the tables that an action read, as far as others than the action itself wrote them.

    ``versions``: see `delta`. ``listed``: see `catalog`. ``read``: see `iceberg`; None where it read none of its tables.
    ``topics``: see `topics`. ``parts``: files of tables that a micro-batch read; it read nothing else of tables of Iceberg that is known.
    """

    versions: delta.Versions
    listed: catalog.Listed
    read: iceberg.IcebergRead | None = None
    topics: topics.TopicReads = field(default_factory=dict)
    parts: tuple[TablePart, ...] = ()


class PlanLeaves:
    """Records leaves.

    ``named``: the columns that some fields (``output``) of a leaf list. ``beneath``: records a cached frame's plan
    (Spark's object) and says its place. ``with_delta``: whether the session has Delta Lake.
    """

    def __init__(
        self,
        spark: SparkSession,
        add: Callable[[Node], int],
        named: Callable[..., tuple[Attribute, ...]],
        beneath: Callable[[Any], tuple[int, tuple[Attribute, ...]]],
        tables: Tables,
        batch: StreamBatch | None,
        *,
        with_delta: bool,
    ) -> None:
        self.sources: list[Source] = []
        self.of_rdds: list[Source] = []
        """Those that are kept rows of RDDs."""
        self._spark = spark
        self._add = add
        self._named = named
        self._beneath = beneath
        self._tables = tables
        self._with_delta = with_delta
        self.batch = batch
        """The micro-batch that the plan, or a leaf of it, has the rows of; None: there is none."""
        self._is_cached = False
        """Whether what is recorded now is of a cached frame."""
        self._of_batches: dict[str, topics.TopicRead] = {}
        """What micro-batches read of topics."""
        self._parts = tables.parts
        """What micro-batches read of tables."""

    def add_leaf(self, tree: Tree) -> int | None:
        """Record a leaf; None where its class is not known."""
        rule = getattr(self, f"_{tree.kind}", None)
        return None if rule is None else rule(tree)

    def _HiveTableRelation(self, tree: Tree) -> int:
        return self._table(tree, self._named(tree, "dataCols", "partitionCols"))

    def _table(self, tree: Tree, columns: tuple[Attribute, ...]) -> int:
        """A table whose files are listed when an action runs."""
        try:
            source = catalog.source(self._spark, tree.java, self._tables.listed)
        except (catalog.UnknownFilesError, UnreadableError) as problem:
            return self._add(OpaqueNode(columns, "Table", str(problem), ()))
        if tree.kind == "LogicalRelation":
            read = file_source(tree.relation)
            source = replace(read, paths=source.paths, files=source.files, table=source.table)
        return self._scan(source, columns)

    def _LogicalRelation(self, tree: Tree) -> int | None:
        otherwise = self._read_otherwise(tree)
        if otherwise is not None:
            return otherwise
        if tree.relation["class"] == topic_ids.RELATION:
            return self._topics(tree)
        if tree.fields["catalogTable"] is not None and catalog.is_listed(tree.java):
            return self._table(tree, self._named(tree))
        try:
            source = self._source_of(tree)
        except delta.UnknownVersionError as problem:
            return self._add(OpaqueNode(self._named(tree), "Delta table", str(problem), ()))
        except jdbc.UnnamedRowsError as problem:
            # Its rows can't be traced; that it was read is known.
            self._add_source(problem.source)
            return self._add(OpaqueNode(self._named(tree), "JDBC", str(problem), ()))
        if source is None:
            return None
        if tree.fields["catalogTable"] is not None:
            source = replace(source, table=tree.fields["catalogTable"])
        columns = self._named(tree)
        if any(column.name == "_metadata" for column in columns):
            return None
        return self._scan(source, columns)

    def _topics(self, tree: Tree) -> int:
        """Rows of topics, where it is known which were read: not those that were cached at another time."""
        relation = tree.held.object(tree.relation["kept"])
        reads = {**({} if self._is_cached else self._tables.topics), **self._of_batches}
        sources, columns = topics.sources(relation, reads), self._named(tree)
        untraced = next(filter(None, map(topics.untraced_reason, sources)), "")
        if len(sources) == 1 and not untraced:
            return self._scan(sources[0], columns)
        for source in sources:
            self._add_source(source)
        why = untraced or "rows of several topics of Kafka that are read as one"
        return self._add(OpaqueNode(columns, "Kafka", why, ()))

    def _read_otherwise(self, tree: Tree) -> int | None:
        """Rows of files that are read by an option that traces do not have; None: there is none."""
        options = tree.relation.get("options", {})
        for name in sorted(options):
            if name.lower() in UNTRACED_OPTIONS:
                why = f"files read with the option {name}"
                return self._add(OpaqueNode(self._named(tree), "Files", why, ()))
        return None

    def _DataSourceV2Relation(self, tree: Tree) -> int | None:
        columns, read = self._named(tree), self._tables.read
        if not iceberg.is_table(tree.java):
            return None
        source = part_of(self._parts, tree.java.table())
        if source is None:
            if read is None or self._tables.parts:
                # Which snapshot a batch read beside its streams is not known.
                return None
            try:
                source = iceberg.source(self._spark, tree.java, read)
            except iceberg.UnknownSnapshotError as problem:
                return self._add(OpaqueNode(columns, "Iceberg table", str(problem), ()))
        names = {name for name, _ in source.columns()}
        if any(column.name not in names for column in columns):
            why = "columns that tell where a row stands"
            return self._add(OpaqueNode(columns, "Iceberg table", why, ()))
        return self._scan(source, columns)

    def _scan(self, source: Source, columns: tuple[Attribute, ...]) -> int:
        self._add_source(source)
        source_number = self.sources.index(source)
        return self._add(Scan(columns, source_number, tuple(column.name for column in columns)))

    def _add_source(self, source: Source) -> None:
        if source not in self.sources:
            self.sources.append(source)

    def _source_of(self, tree: Tree) -> Source | None:
        """The source that a relation is, made once each: a plan may read a table many times."""
        relation = tree.relation
        source: Source | Exception | None
        if SOURCE_KEY not in relation:
            try:
                source = self._source(tree, relation)
            except _UNKNOWN as problem:
                source = problem
            relation[SOURCE_KEY] = source
        source = relation[SOURCE_KEY]
        if isinstance(source, Exception):
            raise source
        return source

    def _source(self, tree: Tree, relation: PlanRelation) -> Source | None:
        if relation["class"] == jdbc.RELATION:
            return jdbc.source(self._spark, tree.held.object(relation["kept"]))
        if self._with_delta and relation.get("location", "").startswith(delta.PACKAGE):
            java_table = tree.held.object(relation["kept"])
            part = part_of(self._parts, java_table.location())
            return part or delta.source(self._spark, java_table, self._tables.versions)
        if "format" not in relation:
            return None
        source = file_source(relation)
        return source if self.batch is None else with_whole_base_path(self._spark, source)

    def _OneRowRelation(self, _: Tree) -> int:
        """What constants and subqueries are projected from; Spark 4.3 leaves it in plans."""
        return self._add(Values((), ((),)))

    def _LocalRelation(self, tree: Tree) -> int | None:
        node = tree.java
        if node.data().size() > ROWS_MAX:
            return None
        frame = frame_of(self._spark, node)
        types = tuple(field.dataType.simpleString() for field in frame.schema)
        rows = [literals(row, types) for row in frame.collect()]
        if None in rows:
            return None
        return self._values(
            tree, types, tuple(parsed_row for parsed_row in rows if parsed_row is not None)
        )

    def _LogicalRDD(self, tree: Tree) -> int | None:
        """Rows of an RDD: those that the program itself has dealt out may be known, others may be kept in files."""
        number = int(tree.java.rdd().id())
        local = local_rows_of(self._spark.sparkContext, number)
        if local is not None:
            return self._values(tree, *local)
        frame_batch = stream_frames.batch_of(self._spark.sparkContext, number)
        if frame_batch is not None:
            return self._batch(tree, frame_batch)
        rows = rdd_rows.stored_rows_of(self._spark.sparkContext, number)
        if rows is None:
            return None
        columns = self._named(tree)
        try:
            source = rows.source()
        except rdd_rows.UnknownRowsError as problem:
            return self._add(OpaqueNode(columns, "RDD", str(problem), ()))
        if not source.files:
            return self._add(Values(columns, ()))
        if rows.node is not None:
            self.of_rdds.append(source)
        return self._scan(source, columns)

    def _batch(self, tree: Tree, batch: stream_frames.FrameBatch) -> int | None:
        """Rows of a micro-batch: what it made them from."""
        self.batch = batch.fact
        try:
            batch_plan = batch.plan_in(self._spark)
        except UntracedBatchError as problem:
            for source in problem.sources:
                self._add_source(source)
            return self._add(OpaqueNode(self._named(tree), problem.node, str(problem), ()))
        # Which offsets a batch read is certain, also where its rows were cached.
        self._of_batches |= batch_plan.topics
        self._parts += batch_plan.parts
        return self._renamed(tree, batch_plan.plan, batch_plan.unknown)

    def _renamed(self, tree: Tree, plan: Any, unknown: frozenset[int] = frozenset()) -> int | None:
        """The rows of an analysed plan (Spark's object) as those of a leaf, whose columns have other numbers.

        ``unknown``: columns of the plan whose values are not known.
        """
        below, inner = self._beneath(optimised(self._spark, plan))
        if unknown:
            below = self._add(without(inner, unknown, below))
        columns = self._named(tree)
        if len(inner) != len(columns):
            return None
        return self._add(Project(columns, below, tuple(Column(column.id) for column in inner)))

    def _values(
        self, tree: Tree, types: Sequence[str], rows: tuple[tuple[Literal, ...], ...]
    ) -> int:
        columns = tuple(
            Attribute(column.id, column.name, kind)
            for column, kind in zip(self._named(tree), types, strict=True)
        )
        return self._add(Values(columns, rows))

    def _InMemoryRelation(self, tree: Tree) -> int | None:
        """A cached frame: what it was made from."""
        plan = cached_plan(tree.java)
        if plan is None:
            return None
        if self._tables.read is not None:
            try:
                iceberg.check_cached(tree.java, plan)
            except iceberg.UnknownSnapshotError as problem:
                return self._add(OpaqueNode(self._named(tree), "Cached frame", str(problem), ()))
        was_cached, self._is_cached = self._is_cached, True
        node = self._renamed(tree, plan)
        self._is_cached = was_cached
        return node
