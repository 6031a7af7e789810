"""What the command line asks: the very answers that it prints over a store of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from lineage_core.contract.graph import LinkRecord, NodeRecord
from lineage_core.tracing.trace_result import Direction
from lineage_query.comparing import records_to_compare
from lineage_query.conditions import parse_condition
from lineage_query.exports import Options, format_of
from lineage_query.exports.options import DERIVED_ITEMS_MAX
from lineage_query.record_trace import RecordTrace
from lineage_query.trace_query import TraceQuery
from lineage_query_api import models
from lineage_query_api.dependencies import AppName, Caller, Granted, RowCaller, Store
from lineage_query_api.errors import too_much
from lineage_query_api.lineages import Lineages
from lineage_query_api.models import AnyObject
from lineage_query_api.routes.comparing import compared, ranked
from lineage_query_api.routes.exports import parts_of, written
from lineage_store.dump import dump_application

router = APIRouter(prefix="/v1", tags=["answers"])
FRAMED = "application/vnd.lineage.file"
"""A line of JSON, and a file behind it."""


@router.post("/answers")
def answer(question: models.AnswerRequest, scope: Granted) -> AnyObject:
    """Trace places as people type them, over all applications: as `lineage back --json` and `lineage forward --json`."""
    store, caller = scope.within(question.app)
    asked = replace(
        _question(question),
        limit=question.limit,
        as_now=question.as_now,
        all_jobs=question.all_jobs,
    )
    traced = store.trace_query(asked, rows=caller.rows)
    return AnyObject(**store.answer(traced, question.limit, texts=caller.rows).to_json())


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
        in_between=question.way, texts=question.texts and caller.rows, items_max=question.items_max
    )
    derivations = format_of(question.format).table is None
    traced = store.trace_query(_question(question), rows=caller.rows, derivations=derivations)
    typed = question.places if question.asked is None else question.asked
    file, told = written(store, traced.with_typed_places(typed), question.format, options)
    first = json.dumps(told.to_json() | {"bytes": file.tell()}) + "\n"
    return StreamingResponse(chain([first.encode()], parts_of(file)), media_type=FRAMED)


def _question(asked: models.AnswerRequest | models.ExportRequest) -> TraceQuery:
    if asked.where is not None:
        # Refused before anything is looked up; read anew where it becomes a part of a statement.
        parse_condition(asked.where)
    return TraceQuery(
        direction=Direction(asked.direction),
        places=tuple(asked.places),
        app=asked.app,
        until=asked.until,
        steps=asked.steps,
        where=asked.where or "",
    )


@router.post("/answers/diff")
def compare_answers(question: models.CompareRequest, scope: Granted) -> AnyObject:
    """What the traces of some places have that those of others have not: as `lineage diff --json`."""
    store, caller = scope.within(question.app)
    left, right = (
        _records(store, TraceQuery(Direction(question.direction), tuple(places), app=question.app))
        for places in (question.left, question.right)
    )
    most = left.items_listed + right.items_listed
    limit = most if question.limit is None else question.limit
    store.check_listed(min(most, limit), "give a limit")
    found = compared(store, left, right, question.limit, texts=caller.rows)
    return AnyObject(**found.to_json())


@router.post("/answers/suspects")
def rank_answers(question: models.RankRequest, scope: Granted) -> AnyObject:
    """Inputs of several outputs, those of most outputs first: as `lineage suspects --json`."""
    store, caller = scope.within(question.app)
    places = dict.fromkeys(question.places)
    traces = [
        _records(store, TraceQuery(Direction.BACKWARD, (place,), app=question.app))
        for place in places
    ]
    return AnyObject(**ranked(store, traces, question.limit, texts=caller.rows).to_json())


def _records(store: Lineages, query: TraceQuery) -> RecordTrace:
    return records_to_compare(store.trace_records, query)


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
