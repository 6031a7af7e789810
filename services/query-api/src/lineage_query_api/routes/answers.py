"""What the command line asks: the very answers that it prints over a store of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import IO

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from lineage_core.contract.graph import LinkRecord, NodeRecord
from lineage_core.tracing.trace_result import Direction
from lineage_query.engine import TraceQuery
from lineage_query.exports import Exported, Options
from lineage_query.exports.options import DERIVED_ITEMS_MAX
from lineage_query.trace import Trace
from lineage_query_api import models
from lineage_query_api.dependencies import AppName, Caller, Granted, RowCaller, Store
from lineage_query_api.errors import too_much
from lineage_query_api.lineages import Lineages
from lineage_query_api.models import AnyObject
from lineage_query_api.recipe_traces import Computed
from lineage_query_api.routes.exports import (
    parts_of,
    written,
    written_answer,
    written_through,
)
from lineage_store.dump import dump_application

router = APIRouter(prefix="/v1", tags=["answers"])
FRAMED = "application/vnd.lineage.file"
"""A line of JSON, and a file behind it."""


@router.post("/answers")
def answer(question: models.AnswerRequest, scope: Granted) -> AnyObject:
    """Trace places as people type them, over all applications: as `lineage back --json` and `lineage forward --json`."""
    store, caller = scope.within(question.app)
    asked = replace(_question(question), limit=question.limit, as_now=question.as_now)
    found = store.ask_any(asked, rows=caller.rows)
    if isinstance(found, Computed):
        told = found.answer if caller.rows else found.answer.without_texts()
        return AnyObject(**told.to_json())
    return AnyObject(**store.answer(found, question.limit, texts=caller.rows).to_json())


@router.post(
    "/answers/file",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The file, behind a line of JSON that says what was written, and `bytes`",
            "content": {FRAMED: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
def answer_as_file(question: models.ExportRequest, scope: Granted) -> StreamingResponse:
    """Trace places as people type them, as a file: as `lineage export --json`, and the file itself."""
    if question.items_max > DERIVED_ITEMS_MAX and question.format in ("prov", "graphml"):
        raise too_much(
            f"a server writes what was made from what for at most {DERIVED_ITEMS_MAX:,} items",
            "leave out --limit, or export from the store itself",
        )
    store, caller = scope.within(question.app)
    options = Options(
        way=question.way, texts=question.texts and caller.rows, items_max=question.items_max
    )
    asked = _question(question)
    found = store.ask_any(asked, rows=caller.rows)
    file, told = _written(store, found, question, options)
    first = json.dumps(told.to_json() | {"bytes": file.tell()}) + "\n"
    return StreamingResponse(chain([first.encode()], parts_of(file)), media_type=FRAMED)


def _written(
    store: Lineages, found: Trace | Computed, question: models.ExportRequest, options: Options
) -> tuple[IO[bytes], Exported]:
    typed = question.places if question.asked is None else question.asked
    if isinstance(found, Trace):
        return written(store, found.asked_as(typed), question.format, options)
    answer = found.answer.asked_as(typed)
    if found.records is None:
        return written_answer(answer, question.format, options)
    return written_through(store, found.records.asked_as(typed), answer, question.format, options)


def _question(asked: models.AnswerRequest | models.ExportRequest) -> TraceQuery:
    return TraceQuery(
        direction=Direction(asked.direction),
        places=tuple(asked.places),
        app=asked.app,
        until=asked.until,
        steps=asked.steps,
    )


@router.get("/records")
def list_records(store: Store, _: Caller) -> AnyObject:
    """All applications, as `lineage apps --json`."""
    found = [
        {field: getattr(one, field) for field in one.__slots__} for one in store.applications()
    ]
    return AnyObject(applications=found)


@router.get("/applications/{app}/nodes")
def list_nodes(app: AppName, store: Store, _: Caller) -> AnyObject:
    """Nodes and links of an application as they are stored, none folded."""
    opened = store.open(app)
    return AnyObject(
        app=opened.app,
        nodes=[
            {field: getattr(node, field) for field in NodeRecord.__slots__} for node in opened.nodes
        ],
        links=[
            {field: getattr(link, field) for field in LinkRecord.__slots__}
            for link in opened.graph.links()
        ],
    )


@router.get(
    "/applications/{app}/dump",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
)
def dump(app: AppName, store: Store, _: RowCaller) -> StreamingResponse:
    """All lineage of an application, one JSON object a line: as `lineage dump`."""
    found = store.find(app)
    store.allow_stream()

    def lines() -> Iterator[bytes]:
        for line in dump_application(store.store, found):
            yield (line + "\n").encode("utf-8", "replace")

    return StreamingResponse(lines(), media_type="application/x-ndjson")
