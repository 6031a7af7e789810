"""Asks for traces as the command does, one after the other on one Spark: questions.json to answers.json."""

import json
import sys
from dataclasses import replace
from pathlib import Path

from lineage.access import StoredAccess, open_access
from lineage.frame_traces import spark_session
from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.sandbox.kernel import landlock_abi
from lineage_dataframes.sandbox.starting import written_folder
from lineage_query.trace_query import TraceQuery


def asked(access: StoredAccess, place: str, where: str | None, direction: str) -> object:
    question = TraceQuery(Direction(direction), (place,))
    try:
        answer = access.ask(question if where is None else replace(question, where=where))
    except LineageError as problem:
        return {"error": f"{type(problem).__name__}: {problem}"}
    groups = [(item.location, item.text) for group in answer.groups for item in group.items]
    start = [(item.location, item.text) for group in answer.start for item in group.items]
    return {"rows": groups, "start": start, "reasons": answer.reasons, "warnings": answer.warnings}


found = open_access(sys.argv[1])
assert isinstance(found, StoredAccess)
questions = json.loads(Path("questions.json").read_text())
with spark_session():
    # Confined, where this machine can: what commands start.
    assert written_folder() is not None or not landlock_abi()
    answers = [asked(found, *question) for question in questions]
Path("answers.json").write_text(json.dumps(answers))
