"""Rows of databases, named by their primary keys. They are as they are now: a database keeps no versions.

A trace reads each table once, so that all of its queries see the same rows, and compares what they give with what
the job gave. A row's ordinal is a hash of its key (63 bits), which any later reading finds again.

The database and the login are those of the environment: a recipe names its database, but neither chooses whom
to give a password to, nor says how to connect.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lineage_core.environment.secrets import secret_from_environment
from lineage_core.recipe.document import Recipe, Source
from lineage_core.recipe.names import JDBC, TABLE_NAME
from lineage_core.recipe.plan import Scan
from lineage_dataframes.errors import ChangedSourceError, RefusedError
from lineage_dataframes.sandbox.starting import explain_problem
from lineage_dataframes.sources.schemas import parse_schema_json
from lineage_dataframes.spark import literals
from lineage_dataframes.spark.pyspark_parts import SPARK_ERRORS, is_connected, spark_reason
from lineage_query.rows.places import ValuedPlace

URL, USER = "LINEAGE_JDBC_URL", "LINEAGE_JDBC_USER"
PASSWORD = "LINEAGE_JDBC_PASSWORD"
_PARAMETERS = re.compile(r"[?;].*", re.DOTALL)
_POSITIVE = (1 << 63) - 1
_CHECK = "__lineage_check"
_READER_OPTIONS = {"dbtable", "query", "customSchema", "preferTimestampNTZ"}
"""Options of a source that are its reader's. A recipe gives no others: some run code."""


@dataclass(frozen=True)
class Login:
    """What the environment gives. ``url``: of the one database whose rows may be read, with its parameters."""

    url: str
    user: str
    password: str

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Login:
        """Read it.

        Raises:
            RefusedError: there is no URL, or the password's file can't be read.
        """
        url = environment.get(URL, "")
        if not url:
            raise RefusedError(
                f"rows of a database are traced where {URL} names it ({USER}, {PASSWORD}_FILE)"
            )
        password = secret_from_environment(environment, PASSWORD, RefusedError)
        return cls(url, environment.get(USER, ""), password)

    def options(self) -> dict[str, str]:
        """How Spark connects."""
        login = {"user": self.user, "password": self.password}
        return {"url": self.url, **{name: value for name, value in login.items() if value}}


def live_sources(recipe: Recipe) -> list[Source]:
    """The sources that a plan reads and that are as they are now."""
    places = {node.source for node in recipe.plan if isinstance(node, Scan)}
    return [recipe.sources[n] for n in sorted(places) if recipe.sources[n].format == JDBC]


def live_warnings(recipe: Recipe) -> tuple[str, ...]:
    """What an answer says of such sources."""
    return tuple(f"rows of {source.name} are as they are now" for source in live_sources(recipe))


def not_compared_reasons(recipe: Recipe) -> list[str]:
    """Why a trace of such sources may be another than the job's, where its output was not looked for."""
    return [
        f"{warning}, and not compared with what the job gave" for warning in live_warnings(recipe)
    ]


def check_tables(recipe: Recipe) -> None:
    """See that a recipe has a database do nothing but give rows of tables.

    Raises:
        RefusedError: it holds a query.
    """
    for source in recipe.sources:
        if source.format == JDBC and not TABLE_NAME.fullmatch(source.options.get("dbtable", "")):
            raise RefusedError("a server runs no query of a recipe in a database")


def read_table_rows(spark: SparkSession, source: Source, file: str, row: str) -> DataFrame:
    """The rows of a table as they are now, read once, with columns for the table and the row's ordinal.

    Raises:
        RefusedError: the environment names another database, or rows can't be distinguished.
        ChangedSourceError: the table has other columns.
    """
    terms = [literals.quoted_name(name) for name in key_columns(source)]
    live = read_table(spark, source).select(
        "*", F.lit(source.name).alias(file), ordinal_column(source).alias(row)
    )
    checked = live.withColumn(_CHECK, F.expr(literals.hash_term(terms, 1))).localCheckpoint()
    counts = ("count(1)", f"count(DISTINCT {row})", f"count(DISTINCT {row}, {_CHECK})")
    row_count, ordinal_count, key_count = checked.selectExpr(*counts).collect()[0]
    if ordinal_count < key_count or (_primary_key(source) and row_count > key_count):
        raise RefusedError(f"rows of {source.name} can't be distinguished by their key")
    return checked.drop(_CHECK)


def read_table(spark: SparkSession, source: Source) -> DataFrame:
    """The table, which each query reads anew.

    Raises:
        RefusedError: the environment names another database, or the session is one of Spark Connect.
        ChangedSourceError: the table has other columns.
    """
    if is_connected(spark):
        raise RefusedError(f"{source.name} is of a database, which is not read by Spark Connect")
    login = Login.of(os.environ)
    if _PARAMETERS.sub("", login.url) != source.options["url"]:
        raise RefusedError(f"{source.name} is of another database than the one that {URL} names")
    options = {name: value for name, value in source.options.items() if name in _READER_OPTIONS}
    try:
        frame = spark.read.format(JDBC).options(**options, **login.options()).load()
    except SPARK_ERRORS as problem:
        # A database in files may want to write beside them.
        reason = explain_problem(problem, spark_reason(problem), may_be_denied=True)
        raise ChangedSourceError(f"{source.name} can't be read: {reason}") from problem
    _check_columns(source, frame.schema)
    _check_zone(spark, source)
    return frame


def ordinal_column(source: Source) -> Column:
    """What stands for a row's place: a hash of its key."""
    terms = [literals.quoted_name(name) for name in key_columns(source)]
    return F.expr(f"{literals.hash_term(terms)} & {_POSITIVE}L")


def key_columns(source: Source) -> list[str]:
    """The columns that name a row: those of its primary key, all where it has none."""
    return _primary_key(source) or [field["name"] for field in json.loads(source.schema)["fields"]]


def _primary_key(source: Source) -> list[str]:
    try:
        key = json.loads(source.options["key"])
    except (KeyError, ValueError, RecursionError):
        key = None
    if not isinstance(key, list) or not all(isinstance(name, str) for name in key):
        raise RefusedError(f"{source.name} does not say its key")
    return key


def row_names(view: DataFrame, source: Source, row: str, ordinals: NDArray[np.uint64]) -> list[str]:
    """Rows as ``TABLE#KEY=VALUE``, in order of their ordinals.

    Raises:
        ChangedSourceError: one is gone.
    """
    columns = key_columns(source)
    texts = [F.col(literals.quoted_name(name)).cast("string") for name in columns]
    requested = ordinals.astype(np.int64).tolist()
    rows = view.where(F.col(row).isin(requested)).select(row, *texts).collect()
    names_by_ordinal = {
        row_values[0]: str(
            ValuedPlace(source.name or "", tuple(zip(columns, row_values[1:], strict=True)))
        )
        for row_values in rows
    }
    if any(ordinal not in names_by_ordinal for ordinal in requested):
        raise ChangedSourceError(f"rows of {source.name} were written while they were traced")
    return [names_by_ordinal[ordinal] for ordinal in requested]


def shared_name_reasons(recipe: Recipe) -> tuple[str, ...]:
    """Why witnesses in tables without keys may be too many."""
    return tuple(
        f"{source.name} has no key: equal rows go by one name"
        for source in live_sources(recipe)
        if not _primary_key(source)
    )


def _check_columns(source: Source, current: StructType) -> None:
    recorded = parse_schema_json(source.schema)
    if [(field.name, field.dataType) for field in recorded] != [
        (field.name, field.dataType) for field in current
    ]:
        raise ChangedSourceError(f"{source.name} has other columns than when the job ran")


def _check_zone(spark: SparkSession, source: Source) -> None:
    """Drivers give times in the time zone of the Java that they run in."""
    jvm: Any = spark._jvm
    zone = str(jvm.java.util.TimeZone.getDefault().getID())
    kinds = {kind for _, kind in source.columns()}
    if kinds & {"date", "timestamp", "timestamp_ntz"} and zone != source.options["zone"]:
        raise RefusedError(
            f"{source.name} has times, which Java gave in {source.options['zone']}: "
            f"set spark.driver.extraJavaOptions to -Duser.timezone={source.options['zone']}"
        )
