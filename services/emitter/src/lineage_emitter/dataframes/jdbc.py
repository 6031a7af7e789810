"""Tables of databases that Spark reads by JDBC: what names their rows, and nothing that is secret."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from lineage_core.recipe.document import TABLE_NAME, Source
from lineage_core.recipe.names import JDBC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELATION = "org.apache.spark.sql.execution.datasources.jdbc.JDBCRelation"
"""The class of relations that read a database."""
_OPTIONS = {"customschema": "customSchema", "prefertimestampntz": "preferTimestampNTZ"}
"""Options that change what is read, by the names that Spark keeps them under."""
_URL = re.compile(r"(jdbc:(?:\w+:)+(?://)?)(?:[^@?;]*@)?([^@?;]*)(?:[?;][^@]*)?", re.DOTALL)
_SCHEME = re.compile(r"(?:jdbc:)?\w*")

_keys: dict[tuple[str, str], list[str]] = {}


class UnnamedRowsError(Exception):
    """Which rows of a database were read can't be determined; the message says why."""


def address(url: str) -> str:
    """A database's URL without user, password and parameters; just its kind where these can't be distinguished."""
    match = _URL.fullmatch(url)
    if match is None:
        kind = _SCHEME.match(url)
        return kind[0] if kind else ""
    return match[1] + match[2]


def source(spark: SparkSession, relation: Any) -> Source:
    """The source that a relation reads, with its primary key as the database reports it.

    Raises:
        UnnamedRowsError: which of its rows were read can't be determined.
    """
    options = relation.jdbcOptions()
    parameters = options.parameters()
    chosen = any(part.whereClause() is not None for part in relation.parts())
    if chosen and not parameters.contains("partitioncolumn"):
        raise UnnamedRowsError("rows of a database that the program's own predicates choose")
    if parameters.contains("sessioninitstatement"):
        raise UnnamedRowsError("rows of a database after a statement of the program's own")
    url, kind = str(options.url()), "query" if parameters.contains("query") else "dbtable"
    table = str(parameters.apply(kind))
    jvm: Any = spark._jvm
    zone = str(jvm.java.util.TimeZone.getDefault().getID())
    split_options = {
        name: str(parameters.apply(key))
        for key, name in _OPTIONS.items()
        if parameters.contains(key)
    }
    return Source(
        JDBC,
        (),
        str(relation.schema().json()),
        options={
            **split_options,
            "url": address(url),
            kind: table,
            # Drivers give times in the time zone of the Java that they run in.
            "zone": zone,
            "key": json.dumps(_key(spark, options, table)),
        },
        table=f"{address(url)}/{table}",
    )


def _key(spark: SparkSession, options: Any, table: str) -> list[str]:
    """The columns of a table's primary key, in order; none where there is none, or it can't be requested."""
    if not TABLE_NAME.fullmatch(table):
        return []
    table_address = str(options.url()), table
    if table_address not in _keys:
        try:
            _keys[table_address] = _read_primary_key(spark, options, table)
        except Exception:
            # Rows are named by all their columns then, which is no harm.
            _keys[table_address] = []
    return _keys[table_address]


def _read_primary_key(spark: SparkSession, options: Any, table: str) -> list[str]:
    jvm: Any = spark._jvm
    dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(options.url())
    connection = dialect.createConnectionFactory(options).apply(-1)
    try:
        columns = connection.prepareStatement(dialect.getSchemaQuery(table)).getMetaData()
        names = (columns.getCatalogName(1), columns.getSchemaName(1))
        about = connection.getMetaData()
        rows = about.getPrimaryKeys(*(name or None for name in names), columns.getTableName(1))
        key_columns: dict[str, dict[int, str]] = {}
        while rows.next():
            owner = key_columns.setdefault(str(rows.getString("TABLE_SCHEM")), {})
            owner[rows.getShort("KEY_SEQ")] = str(rows.getString("COLUMN_NAME"))
    finally:
        connection.close()
    if len(key_columns) != 1:
        # None, or tables of one name in several schemas.
        return []
    (key,) = key_columns.values()
    return [key[position] for position in sorted(key)]
