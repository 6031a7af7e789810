"""What a plan reads, as sources of a recipe."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from lineage_core.recipe import File, Source
from lineage_core.recipe_plan import (
    Attribute,
    Column,
    Literal,
    Node,
    OpaqueNode,
    Project,
    Scan,
    Values,
)
from lineage_emitter.frames import delta
from lineage_emitter.frames.files import STATUS
from lineage_emitter.frames.json_tree import Tree
from lineage_emitter.frames.jvm import frame_of, map_by_identity, optimised
from lineage_emitter.frames.local_rows import ROWS_MAX, kept_rows, literals

READ_OPTIONS = {
    "header", "sep", "delimiter", "quote", "escape", "charToEscapeQuoteEscaping", "comment", "encoding",
    "charset", "multiLine", "mode", "nullValue", "nanValue", "emptyValue", "positiveInf", "negativeInf",
    "dateFormat", "timestampFormat", "timestampNTZFormat", "locale", "lineSep", "wholetext",
    "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "enforceSchema", "columnNameOfCorruptRecord",
    "maxColumns", "maxCharsPerColumn", "unescapedQuoteHandling", "allowComments", "primitivesAsString",
    "allowUnquotedFieldNames", "allowSingleQuotes", "allowNumericLeadingZeros", "dropFieldIfAllNull",
    "allowBackslashEscapingAnyCharacter", "allowUnquotedControlChars", "allowNonNumericNumbers",
    "prefersDecimal", "timeZone", "basePath", "mergeSchema", "datetimeRebaseMode", "int96RebaseMode",
}  # fmt: skip
"""Options that change what is read. No other is noted: some carry passwords."""

SEPARATOR = "\u0001"

NO_COLUMNS = "structtype()"

_LOWER = {one.lower(): one for one in READ_OPTIONS}


class Leaves:
    """Notes leaves.

    ``beneath``: notes a cached frame's plan (Spark's object) and says its place. ``versions``: see `delta`;
    None where the session has no Delta Lake.
    """

    def __init__(
        self,
        spark: SparkSession,
        add: Callable[[Node], int],
        named: Callable[[Tree], tuple[Attribute, ...]],
        beneath: Callable[[Any], tuple[int, tuple[Attribute, ...]]],
        versions: delta.Versions | None,
    ) -> None:
        self.sources: list[Source] = []
        self._spark = spark
        self._add = add
        self._named = named
        self._beneath = beneath
        self._versions = versions
        self._relations: list[Source | delta.UnknownVersionError | None] = []
        self._places: Any = None
        """Of relations (by identity) in ``_relations``."""

    def note(self, tree: Tree) -> int | None:
        """Note a leaf; None where its class is not known."""
        rule = getattr(self, f"_{tree.kind}", None)
        return None if rule is None else rule(tree)

    def _LogicalRelation(self, tree: Tree) -> int | None:
        node = tree.java()
        relation = node.relation()
        try:
            source = self._source_of(relation)
        except delta.UnknownVersionError as problem:
            return self._add(OpaqueNode(self._named(tree), "Delta table", str(problem), ()))
        if source is None:
            return None
        if tree.fields.get("catalogTable") is not None:
            name = str(node.catalogTable().get().identifier().unquotedString())
            source = dataclasses.replace(source, table=name)
        columns = self._named(tree)
        if any(one.name == "_metadata" for one in columns):
            return None
        if source not in self.sources:
            self.sources.append(source)
        place = self.sources.index(source)
        return self._add(Scan(columns, place, tuple(one.name for one in columns)))

    def _source_of(self, relation: Any) -> Source | None:
        """The source that a relation reads, asked for once each: a plan may read a table many times."""
        if self._places is None:
            self._places = map_by_identity(self._spark)
        place: int | None = self._places.putIfAbsent(relation, len(self._relations))
        if place is None:
            place = len(self._relations)
            try:
                self._relations.append(self._source(relation))
            except delta.UnknownVersionError as problem:
                self._relations.append(problem)
        found = self._relations[place]
        if isinstance(found, Exception):
            raise found
        return found

    def _source(self, relation: Any) -> Source | None:
        if self._versions is not None and delta.is_delta(relation):
            return delta.source(self._spark, relation, self._versions)
        if not relation.getClass().getName().endswith(".HadoopFsRelation"):
            return None
        return file_source(relation)

    def _LocalRelation(self, tree: Tree) -> int | None:
        node = tree.java()
        if node.data().size() > ROWS_MAX:
            return None
        frame = frame_of(self._spark, node)
        types = tuple(field.dataType.simpleString() for field in frame.schema)
        rows = [literals(row, types) for row in frame.collect()]
        if None in rows:
            return None
        return self._values(tree, types, tuple(one for one in rows if one is not None))

    def _LogicalRDD(self, tree: Tree) -> int | None:
        """Rows of an RDD: those that the program itself has dealt out may be kept."""
        kept = kept_rows(self._spark.sparkContext, int(tree.java().rdd().id()))
        return None if kept is None else self._values(tree, *kept)

    def _values(
        self, tree: Tree, types: Sequence[str], rows: tuple[tuple[Literal, ...], ...]
    ) -> int:
        columns = tuple(
            Attribute(one.id, one.name, kind)
            for one, kind in zip(self._named(tree), types, strict=True)
        )
        return self._add(Values(columns, rows))

    def _InMemoryRelation(self, tree: Tree) -> int | None:
        """A cached frame: what it was made from."""
        plan = tree.java().cacheBuilder().logicalPlan()
        below, inner = self._beneath(optimised(self._spark, plan))
        columns = self._named(tree)
        if len(inner) != len(columns):
            return None
        return self._add(Project(columns, below, tuple(Column(one.id) for one in inner)))


def file_source(relation: Any) -> Source:
    """The source that a file relation reads, with its files as they are now."""
    location = relation.location()
    # The relation's own parts as text: a call for them all.
    said = str(relation.productIterator().mkString(SEPARATOR)).lower()
    _, partitions, _, _, kind, _ = said.split(SEPARATOR)
    options = _known(relation.options()) if any(f"{key} -> " in said for key in _LOWER) else {}
    statuses = location.allFiles().mkString("\n") if hasattr(location, "allFiles") else ""
    return Source(
        format=kind,
        paths=tuple(location.rootPaths().mkString("\n").split("\n")),
        schema=str(relation.dataSchema().json()),
        partitions="" if partitions == NO_COLUMNS else str(relation.partitionSchema().json()),
        options=options,
        files=tuple(
            sorted(
                (File(path, int(size), int(time)) for path, size, time in STATUS.findall(statuses)),
                key=lambda file: file.path,
            )
        ),
    )


def _known(options: Any) -> dict[str, str]:
    """Those of a reader's options (a Scala map) that change what is read."""
    keys = options.keys().mkString(SEPARATOR).split(SEPARATOR)
    return {_LOWER[key.lower()]: str(options.apply(key)) for key in keys if key.lower() in _LOWER}
