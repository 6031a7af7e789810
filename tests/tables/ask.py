"""Asks for traces as the command does, one after the other on one Spark: questions.json to answers.json."""

import json
import sys
from dataclasses import replace
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from lineage.access import StoredAccess, open_access
from lineage.frame_traces import spark_session
from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.sandbox.kernel import landlock_abi
from lineage_dataframes.sandbox.starting import written_folder
from lineage_dataframes.trace.listed_rows import list_rows
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.paths import plain_path


def asked(access: StoredAccess, place: str, where: str | None, direction: str) -> object:
    way = Direction(direction.removeprefix("all "))
    question = TraceQuery(way, (place,), all_jobs=direction.startswith("all "))
    try:
        answer = access.ask(question if where is None else replace(question, where=where))
    except LineageError as problem:
        return {"error": f"{type(problem).__name__}: {problem}"}
    groups = [(item.location, item.text) for group in answer.groups for item in group.items]
    start = [(item.location, item.text) for group in answer.start for item in group.items]
    return {"rows": groups, "start": start, "reasons": answer.reasons, "warnings": answer.warnings}


def listed(access: StoredAccess, spark: SparkSession, path: str, write: str) -> object:
    """All rows of what one of the writes to a path, counted from 0, left there; three at a time."""
    nodes = [
        (app, node.node)
        for app in access.store.application_ids()
        for node in access.store.graph(app).nodes()
        if node.kind == "frame" and plain_path(node.path or "") == path
    ]
    (app, node), cursor, rows = nodes[int(write)], None, []
    while True:
        page = list_rows(spark, access.store, RowReader(), app, node, 3, cursor)
        rows += [(item.location, item.text) for item in page.items]
        cursor = page.following
        if cursor is None:
            return {"rows": rows, "reasons": []}


found = open_access(sys.argv[1])
assert isinstance(found, StoredAccess)
questions = json.loads(Path("questions.json").read_text())
with spark_session() as spark:
    # Confined, where this machine can: what commands start.
    assert written_folder() is not None or not landlock_abi()
    # Where Java may write, this process looks for no modules.
    assert SparkFiles.getRootDirectory() not in sys.path or written_folder() is None
    answers = [
        listed(found, spark, place, where) if way == "list" else asked(found, place, where, way)
        for place, where, way in questions
    ]
Path("answers.json").write_text(json.dumps(answers))
