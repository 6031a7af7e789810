"""Records of Kafka that a write of DataFrames made.

Kafka does not say who wrote a record. The recipe has the offsets by which the topic's partitions grew while the write ran: its records are among
them, and maybe those of others. So a row and a record are each other's where they have the same key and value. Each row was written at least
once: where just as many records among the offsets have a key and a value as rows of the write, all of them are the write's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_core.contract.offsets import offsets_text, parse_offsets
from lineage_core.recipe.document import Recipe, Source
from lineage_core.recipe.names import KAFKA
from lineage_dataframes.errors import ChangedSourceError, RefusedError, RowError
from lineage_dataframes.sources.topics import partitions_of, rows_at_offset, untraced_reason
from lineage_dataframes.sources.views import FILE_COLUMN, ROW_COLUMN, view_of
from lineage_dataframes.sources.witnesses import Witnesses
from lineage_dataframes.spark import literals
from lineage_dataframes.trace.backward import trace_backward
from lineage_dataframes.trace.rows import (
    OutputPlaces,
    find_in_output,
    find_in_view,
    output_of,
)
from lineage_dataframes.trace.session import session_with_settings
from lineage_query.rows.places import ValuedPlace

COMPARED = ("key", "value")
"""Columns of a written row that a record has."""
BYTES_MAX = 1_000_000
"""Bytes of a record's key or value by which rows are looked for."""
OTHERS = "another program may have written the record: it is not known that all records like it are of this write"
_SCHEMA = (
    '{"type":"struct","fields":['
    '{"name":"key","type":"binary","nullable":true,"metadata":{}},'
    '{"name":"value","type":"binary","nullable":true,"metadata":{}}]}'
)


def records_of(recipe: Recipe) -> Source:
    """The records among which are those that a recipe's rows became.

    Raises:
        RefusedError: they are not known.
    """
    output = recipe.output
    options = {
        name: value for name, value in output.options.items() if name in {"servers", "topic", "id"}
    }
    source = Source(
        KAFKA,
        (),
        _SCHEMA,
        options={**options, "isolation": "read_uncommitted"},
        table=output.table,
        version=output.version,
    )
    reason = untraced_reason(source)
    if reason:
        raise RefusedError(reason.replace(" read", " written"))
    _columns(recipe)
    return source


def view_of_records(session: SparkSession, recipe: Recipe, source: Source) -> DataFrame:
    """The records that a recipe's rows may have become, with the columns of these that records have, and their names."""
    kinds = _columns(recipe)
    rows = view_of(session, source)
    if "key" not in kinds:
        rows = rows.where(F.col("key").isNull())
    columns = [F.col(name).cast(kind).alias(name) for name, kind in kinds.items()]
    return rows.select(*columns, FILE_COLUMN, ROW_COLUMN)


def find_standing(
    spark: SparkSession, recipe: Recipe, rows: Sequence[Sequence[Any]], *, with_texts: bool = False
) -> tuple[Source, OutputPlaces]:
    """Where rows of an output that have been computed anew stand, in its files or its topic. Arguments as of `find_in_output`.

    Raises:
        ChangedSourceError: the files are not what the job wrote, or records are gone.
        RefusedError: the records are not known, or there are too many rows.
        RowError: the output has no places.
    """
    if recipe.output.format != KAFKA:
        output = output_of(spark, recipe)
        return output, find_in_output(spark, recipe, output, rows, with_texts=with_texts)
    if recipe.output.version == "":
        raise RowError("the write is not known to have made a record")
    output = records_of(recipe)
    session = session_with_settings(spark, recipe, [output])
    view = view_of_records(session, recipe, output)
    return output, find_in_view(session, recipe, output, view, rows, with_texts=with_texts)


def trace_record(
    spark: SparkSession, recipe: Recipe, place: ValuedPlace, key: str | None
) -> Witnesses:
    """The rows of sources that a record was made from; none matched: the recipe's rows did not become it.

    Args:
        spark: any session.
        recipe: of a write to a topic.
        place: the record.
        key: of the recipe's Python functions, as in `trace_backward`.

    Raises:
        RefusedError: the records of the write are not known, or the plan does not allow a sound trace.
        ChangedSourceError: Kafka holds the record no more, or a source is not what it was.
    """
    if recipe.output.version == "":
        # The topic did not grow.
        return Witnesses({}, 0)
    source = records_of(recipe)
    found = rows_at_offset(source, place.values)
    if not found:
        return Witnesses({}, 0)
    ((partition, (offset,)),) = ((name, offsets.tolist()) for name, offsets in found.items())
    session = session_with_settings(spark, recipe, [source])
    try:
        like, count = _record(view_of(session, source), partition, offset)
    except ChangedSourceError:
        # Others are gone, and maybe this one, too.
        like, _ = _record(view_of(session, _only(source, partition, offset)), partition, offset)
        count = None
    condition = _condition(recipe, like)
    if condition is None:
        return Witnesses({}, 0)
    witnesses = trace_backward(spark, recipe, where=condition, key=key)
    if not witnesses.matched:
        return witnesses
    reasons = list(witnesses.reasons)
    if reasons or count is None or count > witnesses.matched:
        reasons.append(OTHERS)
    if witnesses.matched > 1:
        reasons.append(f"{witnesses.matched:,} rows of the write have the record's key and value")
    return replace(witnesses, reasons=tuple(reasons))


def _columns(recipe: Recipe) -> dict[str, str]:
    """The columns of written rows that records have, with their types.

    Raises:
        RefusedError: rows have none that could be compared.
    """
    kinds = {column.name: column.type for column in recipe.columns if column.name in COMPARED}
    names = [column.name for column in recipe.columns if column.name in COMPARED]
    if len(names) != len(kinds) or "value" not in kinds:
        raise RefusedError("rows of a topic whose columns are not those of records")
    for name, kind in kinds.items():
        if kind not in {"string", "binary"}:
            raise RefusedError(f"rows of a topic whose {name} is {kind}")
    return kinds


def _only(source: Source, partition: str, offset: int) -> Source:
    numbers = list(parse_offsets(source.version or ""))
    number = numbers[partitions_of(source).index(partition)]
    return replace(source, version=offsets_text({number: (offset, offset + 1)}))


def _record(rows: DataFrame, partition: str, offset: int) -> tuple[Any, int]:
    """A record, and how many have its key and value."""
    is_it = (F.col(FILE_COLUMN) == partition) & (F.col(ROW_COLUMN) == offset)
    (record,) = rows.where(is_it).select(*COMPARED).collect()
    for value in record:
        if value is not None and len(value) > BYTES_MAX:
            raise RefusedError(f"a record of more than {BYTES_MAX:,} bytes is not looked for")
    is_like = F.lit(True)
    for name in COMPARED:
        is_like &= F.expr(f"{name} <=> {_constant(record[name])}")
    return record, rows.where(is_like).count()


def _condition(recipe: Recipe, record: Any) -> str | None:
    """The condition that a row of the output has a record's key and value; None: none of its rows has."""
    kinds = _columns(recipe)
    if "key" not in kinds and record["key"] is not None:
        return None
    return " AND ".join(
        f"CAST({literals.quoted_name(name)} AS BINARY) <=> {_constant(record[name])}"
        for name in kinds
    )


def _constant(value: bytes | None) -> str:
    return "CAST(NULL AS BINARY)" if value is None else f"X'{bytes(value).hex()}'"
