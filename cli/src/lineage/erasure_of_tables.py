"""Deletes rows of an erasure plan from tables, for the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from lineage.recomputing import SparkSessionLease
from lineage_core.recipe.names import DELTA, ICEBERG
from lineage_query.erasure.delta_tables import DeltaDeleter
from lineage_query.erasure.keeping import StorePlace
from lineage_query.erasure.table_rows import TableDeleter
from lineage_query.erasure.tables import DeletedRows, delete_from_tables

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession


def deleted_rows(approved: Mapping[str, Any], place: StorePlace) -> list[DeletedRows]:
    """Delete the rows of a plan from tables of Delta Lake and Iceberg.

    Call it once nothing is traced any more in this process: a Spark that writes tables is not confined.

    Raises:
        LineageError: as `delete_from_tables`; Spark does not start.
    """
    with SparkSessionLease(_writing_session) as lease:
        iceberg = partial(_iceberg_deleter, lease)
        return delete_from_tables(approved, place, {DELTA: DeltaDeleter, ICEBERG: iceberg})


def lines_of_tables(deleted: Iterable[DeletedRows], elsewhere: Mapping[str, int]) -> Iterator[str]:
    """What was deleted from tables, what keeps it still, and what was not looked at, as lines for people."""
    for table in deleted:
        before = " before" if table.already else ""
        yield f"{table.table}: {table.rows:,} rows were deleted{before}"
        yield from (f"  not removed: {line}" for line in table.left)
    for folder, count in elsewhere.items():
        yield f"{folder}: {count:,} rows on other storage are yours to delete: tables there are not changed"


def _iceberg_deleter(lease: SparkSessionLease) -> TableDeleter:
    # This import loads PySpark, which other tables do not need.
    from lineage_dataframes.sources.iceberg_deletes import IcebergDeleter

    return IcebergDeleter(lease.session)


def _writing_session() -> AbstractContextManager[SparkSession]:
    from lineage.frame_traces import spark_session

    return spark_session(confined=False)
