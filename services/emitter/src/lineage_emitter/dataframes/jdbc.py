"""Tables of databases that Spark reads by JDBC: what names their rows, and nothing that is secret."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lineage_core.recipe.document import Source
from lineage_core.recipe.names import JDBC, TABLE_NAME
from lineage_store.dataset_paths import UnfiledDataset, table_of_database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELATION = "org.apache.spark.sql.execution.datasources.jdbc.JDBCRelation"
"""The class of relations that read a database."""
DATABASE_OPTIONS = {"url", "dbtable"}
"""Options (in small letters) that name a table."""
_OPTIONS = {"customschema": "customSchema", "prefertimestampntz": "preferTimestampNTZ"}
"""Options that change what is read, by the names that Spark keeps them under."""
_URL = re.compile(r"(jdbc:(?:\w+:)+(?://)?)(?:[^@?;]*@)?([^@?;]*)(?:[?;][^@]*)?", re.DOTALL)
_SCHEME = re.compile(r"(?:jdbc:)?\w*")
_NAMED = re.compile(r"([^(),/:=&#]*)=")
"""What stands before each equals sign."""
_NAMES_OF_PLACES = frozenset(
    [
        "description",
        "address",
        "address_list",
        "protocol",
        "host",
        "port",
        "connect_data",
        "service_name",
        "sid",
    ]
)

_keys: dict[tuple[str, str], list[str]] = {}


class UnnamedRowsError(Exception):
    """Which rows of a database were read can't be determined; the message says why. ``source``: what they were read from."""

    def __init__(self, message: str, source: Source) -> None:
        super().__init__(message)
        self.source = source


def address(url: str) -> str:
    """A database's URL without user, password and parameters; just its kind where these can't be distinguished."""
    match = _URL.fullmatch(url)
    # Some drivers take a login as settings among the parts of a place.
    if match is None or any(
        name.strip().lower() not in _NAMES_OF_PLACES for name in _NAMED.findall(match[2])
    ):
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
    kind = "query" if parameters.contains("query") else "dbtable"
    table = str(parameters.apply(kind))
    place = {"url": address(str(options.url())), kind: table}
    plain = Source(
        JDBC,
        (),
        str(relation.schema().json()),
        options=place,
        table=f"{place['url']}/{table}",
    )
    chosen = any(part.whereClause() is not None for part in relation.parts())
    if chosen and not parameters.contains("partitioncolumn"):
        raise UnnamedRowsError("rows of a database that the program's own predicates choose", plain)
    if parameters.contains("sessioninitstatement"):
        raise UnnamedRowsError("rows of a database after a statement of the program's own", plain)
    jvm: Any = spark._jvm
    zone = str(jvm.java.util.TimeZone.getDefault().getID())
    split_options = {
        name: str(parameters.apply(key))
        for key, name in _OPTIONS.items()
        if parameters.contains(key)
    }
    return replace(
        plain,
        options={
            **split_options,
            **place,
            # Drivers give times in the time zone of the Java that they run in.
            "zone": zone,
            "key": json.dumps(_key(spark, options, table)),
        },
    )


def written_table(options: Mapping[str, object]) -> dict[str, str]:
    """What names the table that a writer's options name, without secrets; empty: they name none."""
    named = {name.lower(): str(value) for name, value in options.items()}
    if not named.keys() >= DATABASE_OPTIONS:
        return {}
    return {"url": address(named["url"]), "dbtable": named["dbtable"]}


def dataset(format: str | None, options: Mapping[str, str]) -> UnfiledDataset | None:
    """The table that options of a source or an output name; None: none of a database, or a query."""
    if format != JDBC or not options.keys() >= DATABASE_OPTIONS:
        return None
    return table_of_database(options["url"], options["dbtable"])


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
