"""Tables of Apache Iceberg that micro-batches read as streams: the files that the snapshots added which the query's checkpoint names.

An offset names a snapshot, and how many of the files that it added were given. Iceberg itself says which files these are. Streams give the rows
of snapshots that append, and leave out all others, so a file is read in a snapshot behind which nothing but appends has come.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from lineage_core.recipe.document import Source
from lineage_core.recipe.names import ICEBERG
from lineage_emitter.dataframes import iceberg
from lineage_emitter.dataframes.iceberg_files import DataFiles
from lineage_emitter.dataframes.plan_text import compiled
from lineage_emitter.dataframes.stream_state import PLANS_CLASS, Offsets
from lineage_emitter.dataframes.table_parts import TablePart, TableRead, read_of, same_columns
from lineage_emitter.pyspark_parts import WITH_ICEBERG

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STREAM = "org.apache.iceberg.spark.source.SparkMicroBatchStream"
"""The class of streams that read tables."""
SNAPSHOTS_MAX = 1_000
"""Maximum number of snapshots that a batch has read."""
_PLANNERS = {"SyncSparkMicroBatchPlanner"}
_SNAPSHOT = re.compile(r"snapshot (-?\d+) (\w+)")
_ALL_TIMES = -(1 << 63)
"""From when on a stream reads a table of which it reads all."""


class UnknownFilesError(Exception):
    """Which files a batch read can't be determined; the message says why."""


def table_read(spark: SparkSession, stream: Any, schema: str, offsets: Offsets) -> TableRead:
    """What a batch read of a stream.

    Args:
        spark: The query's session.
        stream: Spark's object.
        schema: Of its rows, as Spark's JSON.
        offsets: Of the batch.
    """
    table = compiled(PLANS_CLASS).field(stream, "table")
    try:
        return read_of(_parts(spark, stream, table, schema, offsets))
    except UnknownFilesError as problem:
        source = Source(ICEBERG, (str(table.location()),), schema, table=str(table.name()))
        return TableRead((source,), problem=str(problem))


def _parts(
    spark: SparkSession, stream: Any, table: Any, schema: str, offsets: Offsets
) -> list[tuple[TablePart, DataFrame]]:
    if not WITH_ICEBERG:
        raise UnknownFilesError(f"tables of Iceberg are not traced in Spark {spark.version}")
    plans = compiled(PLANS_CLASS)
    planner = plans.field(stream, "planner")
    if planner is None or planner.getClass().getSimpleName() not in _PLANNERS:
        raise UnknownFilesError("a stream of a table of Iceberg that is planned beside the query")
    if not iceberg.is_of_rows(table):
        raise UnknownFilesError("a stream of what Iceberg knows of a table")
    start = json.loads(offsets.start_text or str(stream.initialOffset().json()))
    end = json.loads(offsets.end_text)
    if start["scan_all_files"] or end["scan_all_files"]:
        raise UnknownFilesError("a stream that reads all files of a snapshot of Iceberg")
    if start["snapshot_id"] < 0 and int(plans.field(stream, "fromTimestamp")) != _ALL_TIMES:
        raise UnknownFilesError(
            "a stream of a table of Iceberg that began when this had no snapshot"
        )
    bounds = [place[name] for place in (start, end) for name in ("snapshot_id", "position")]
    try:
        text = iceberg.files_of_stream(spark, table, bounds, SNAPSHOTS_MAX)
        metadata = iceberg.metadata_of(table)
        fields = dict(field_ids(json.loads(plans.field(stream, "projection"))))
        for snapshot, _ in appended(text):
            _check_fields(table, snapshot, fields)
        return [
            _part(spark, table, metadata, schema, snapshot, files)
            for snapshot, files in appended(text)
        ]
    except (Py4JJavaError, PySparkException) as problem:
        found = problem.java_exception.toString() if isinstance(problem, Py4JJavaError) else problem
        reason = str(found).partition("\n")[0][:200]
        raise UnknownFilesError(
            f"files of {table.name()} are not known any more: {reason}"
        ) from problem


def appended(text: str) -> list[tuple[int, DataFiles]]:
    """The files that a batch read, by snapshots that have them all, in order.

    ``text``: each snapshot that the batch passed, with what it did, followed by those of its files that the batch read, a line each.
    """
    groups: list[tuple[int, list[str]]] = []
    is_open = False
    for line in text.splitlines():
        named = _SNAPSHOT.fullmatch(line)
        if named is None:
            groups[-1][1].append(line)
        elif named[2] != "append":
            is_open = False
        else:
            files = groups.pop()[1] if is_open else []
            groups.append((int(named[1]), files))
            is_open = True
    return [(snapshot, DataFiles.of("\n".join(lines))) for snapshot, lines in groups if lines]


def field_ids(kind: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, int]]:
    """The names of a struct's fields, with those of nested ones, and the ids by which Iceberg reads them.

    Args:
        kind: a struct, a list or a map, as Iceberg's JSON of schemas has them.
        above: the name of the field that it is of, with a point behind.
    """
    if kind["type"] == "struct":
        fields = [(field["name"], field["id"], field["type"]) for field in kind["fields"]]
    else:
        names = ("element",) if kind["type"] == "list" else ("key", "value")
        fields = [(name, kind[f"{name}-id"], kind[name]) for name in names]
    for name, number, type_of_field in fields:
        yield f"{above}{name}", int(number)
        if isinstance(type_of_field, dict):
            yield from field_ids(type_of_field, f"{above}{name}.")


def _check_fields(table: Any, snapshot: int, fields: Mapping[str, int]) -> None:
    """See that a snapshot's schema has a stream's fields: one that was dropped and added anew has another id, and other values.

    Raises:
        UnknownFilesError: it has others of these names.
    """
    of_snapshot = table.snapshot(snapshot).schemaId()
    schema = table.schema() if of_snapshot is None else table.schemas().get(of_snapshot)
    if any(schema.findColumnName(number) != name for name, number in fields.items()):
        raise UnknownFilesError(
            f"snapshot {snapshot} of {table.name()} has columns of the stream's names that are other ones: some were dropped and added anew, or renamed"
        )


def _part(
    spark: SparkSession, table: Any, metadata: str, schema: str, snapshot: int, files: DataFiles
) -> tuple[TablePart, DataFrame]:
    frame = spark.read.format(ICEBERG).option("versionAsOf", snapshot).load(metadata)
    columns = str(frame._jdf.schema().json())
    name = str(table.name())
    if not same_columns(columns, schema):
        raise UnknownFilesError(f"snapshot {snapshot} of {name} has other columns than the stream")
    (leaf,) = iceberg.tables(frame._jdf.queryExecution().analyzed())
    source = Source(
        ICEBERG,
        (str(table.location()),),
        columns,
        options={"metadata": metadata, "latest": "false", **files.options},
        files=files.files,
        table=name,
        version=str(snapshot),
    )
    return TablePart(leaf.table(), source), frame
