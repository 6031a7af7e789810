"""What a statement of ``spark.sql`` did: a query is lazy, a command has run when ``sql`` returns."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lineage_emitter.dataframes import catalog, iceberg
from lineage_emitter.dataframes.files import Folder
from lineage_emitter.dataframes.jvm import explicit_settings, frame_of, pairs_of
from lineage_emitter.dataframes.outputs import (
    READABLE_OPTIONS,
    Target,
    WriterCalls,
    located,
    to_table,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ACTION = "SparkSession.sql"
_CREATES = frozenset(
    {"CreateDataSourceTableAsSelectCommand", "CreateHiveTableAsSelectCommand",
     "CreateTableAsSelect", "ReplaceTableAsSelect"}
)  # fmt: skip
_WRITES = re.compile(r"\b(insert|create|replace)\b", re.IGNORECASE)
_CREATES_V2 = frozenset({"CreateTableAsSelect", "ReplaceTableAsSelect"})
_WITH_QUERY = frozenset({"InsertIntoStatement", "InsertIntoDir", *_CREATES})
_TO_FOLDER = frozenset({"InsertIntoDataSourceDirCommand", "InsertIntoHiveDirCommand"})
_CHANGES_ROWS = re.compile(
    "^(DeleteFrom|Update|MergeInto|LoadData|Truncate|ReplaceData|WriteDelta|RowLevel|Call|Insert|"
    "Append|Overwrite|Save|Create.*AsSelect|Replace.*AsSelect)"
)
"""Commands that change rows: the verdict names those whose rows can't be recorded."""


@dataclass(frozen=True, slots=True)
class Before:
    """What is known before a statement runs.

    ``target``: where it will insert, with the files that are there; None where it does not insert.
    ``listed``: the files of tables that it will read (`catalog`). ``read``: what it will read of tables of Iceberg.
    ``at``: the time, in unix seconds. ``writes``: whether it is one that writes the rows of a query.
    """

    target: Target | None = None
    listed: catalog.Listed = field(default_factory=dict)
    read: iceberg.IcebergRead | None = None
    at: float = field(default_factory=time.time)
    writes: bool = False


def before(spark: SparkSession, text: object) -> Before:
    """What is known of a statement that writes before it runs."""
    if not isinstance(text, str) or not _WRITES.search(text):
        return Before()
    try:
        plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
        name = plan.getClass().getSimpleName()
        if name not in _WITH_QUERY:
            return Before()
        query = frame_of(spark, plan.query())
        listed, read = catalog.listed(query), _read(query)
        if name == "InsertIntoStatement":
            table = plan.table().multipartIdentifier().mkString(".")
        elif name in _CREATES_V2:
            table = plan.name().nameParts().mkString(".")
        else:
            return Before(None, listed, read, writes=True)
    except Exception:
        # Not a statement that can be read, which its execution says best, or of another form.
        return Before()
    return Before(to_table(spark, ACTION, table, WriterCalls()), listed, read, writes=True)


def _read(query: DataFrame) -> iceberg.IcebergRead | None:
    used = iceberg.is_used(explicit_settings(query.sparkSession))
    return iceberg.read_now(query) if used else None


def command_of(result: DataFrame, write_target: Target | None) -> tuple[Any, Target] | str | None:
    """The rows that a command wrote, as a frame, and where to.

    ``known``: where it inserted (see `before`). None: it was a query, or a command that changes
    no rows; a text: the name of one that does, and whose rows can't be recorded.
    """
    plan = result._jdf.queryExecution().commandExecuted()
    if plan.getClass().getSimpleName() != "CommandResult":
        return None
    command = plan.commandLogicalPlan()
    name = command.getClass().getSimpleName()
    if not _CHANGES_ROWS.match(name):
        return None
    target = _target(result.sparkSession, command, name, write_target)
    if target is None:
        return str(name)
    return frame_of(result.sparkSession, command.query()), target


def _target(
    spark: SparkSession, command: Any, name: str, write_target: Target | None
) -> Target | None:
    if name in _TO_FOLDER:
        storage = command.storage()
        folder = Folder(spark.sparkContext, storage.locationUri().get().toString())
        provider = command.provider() if name == "InsertIntoDataSourceDirCommand" else None
        # What was there is overwritten: all that is there now is of this write.
        return Target(
            "files",
            ACTION,
            path=folder.path,
            format=provider,
            options=_options(storage),
            folder=folder,
        )
    if name in _CREATES:
        if write_target is not None and write_target.snapshots is not None:
            return write_target
        return located(spark, Target("table", ACTION, table=_table(command, name)), is_new=True)
    return write_target


def _table(command: Any, name: str) -> str:
    if name == "CreateDataSourceTableAsSelectCommand":
        return str(command.table().identifier().unquotedString())
    if name == "CreateHiveTableAsSelectCommand":
        return str(command.tableDesc().identifier().unquotedString())
    return str(command.tableName().toString())


def _options(storage: Any) -> dict[str, str]:
    properties = pairs_of(storage.properties())
    return {
        name.lower(): value
        for name, value in properties.items()
        if name.lower() in READABLE_OPTIONS
    }
