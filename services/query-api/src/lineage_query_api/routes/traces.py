"""Traces: counts at once, items page by page or streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import StreamingResponse

from lineage_core.tracing.trace_result import NodeItems
from lineage_query.answers import Answer, order_of
from lineage_query.listing import Listing
from lineage_query.rows.standing import has_changed
from lineage_query_api import serializers
from lineage_query_api.auth import Principal
from lineage_query_api.dependencies import (
    AppName,
    Caller,
    Cursor,
    NodeName,
    PageSize,
    Store,
)
from lineage_query_api.errors import ProblemError, too_much
from lineage_query_api.lineages import CachedTrace, Lineages
from lineage_query_api.models import TraceModel, TracePage, TraceRequest
from lineage_query_api.recipe_traces import ITEMS_KEPT, Computed, RecipeTrace
from lineage_query_api.trace_ids import unpack

router = APIRouter(prefix="/v1", tags=["traces"])
STREAMED_AT_ONCE = 1_000
TraceName = Annotated[str, Path(description="trace of an answer")]


@router.post("/applications/{app}/traces")
def make_trace(app: AppName, request: TraceRequest, store: Store, caller: Caller) -> TraceModel:
    """Where items come from, or where they went: counts, and the first items of each node."""
    made = store.trace_any(app, request, rows=caller.rows)
    with store.turn():
        return serializers.trace(made, texts=caller.rows, others=store.also_read)


@router.get("/traces/{trace}")
def get_trace(trace: TraceName, store: Store, caller: Caller) -> TraceModel:
    """A trace again."""
    made = had(store, trace, caller)
    with store.turn():
        return serializers.trace(made, texts=caller.rows, others=store.also_read)


@router.get("/traces/{trace}/nodes/{node}/items")
def list_trace_items(
    trace: TraceName,
    node: NodeName,
    store: Store,
    caller: Caller,
    limit: PageSize = 100,
    cursor: Cursor = None,
) -> TracePage:
    """Items of one node that take part in a trace, in order."""
    made = had(store, trace, caller)
    opened = made.opened
    named = opened.names.node(node)
    if not isinstance(made, RecipeTrace):
        found = made.result_items.get(named)
    elif made.way is None or named not in made.way:
        return serializers.noted_page(made, named, limit, cursor, texts=caller.rows)
    else:
        records = store.trace(opened.app, made.request, rows=caller.rows).traced
        found = (Computed(made.answer, records).way() or {}).get(named)
    if found is None:
        raise ProblemError(HTTPStatus.NOT_FOUND, f"no item of node {node} takes part in the trace")
    with store.turn():
        page = Listing(opened).page(in_order(found.once()), limit, cursor=cursor, texts=caller.rows)
    return TracePage(
        node=found.node,
        label=opened.names.label(found.node),
        count=page.count,
        items=serializers.items(page.items),
        next=page.following,
        changed=has_changed(page.standing),
        standing=page.standing,
    )


@router.get(
    "/traces/{trace}/items.ndjson",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
)
def stream_trace_items(trace: TraceName, store: Store, caller: Caller) -> StreamingResponse:
    """All items that a trace found, one JSON object a line."""
    made = had(store, trace, caller)
    if isinstance(made, RecipeTrace):
        lines = noted_lines(made, texts=caller.rows)
        return StreamingResponse(lines, media_type="application/x-ndjson")
    store.check_listed(
        made.traced.result.count, "page through a node's items instead, or begin at fewer rows"
    )
    store.allow_stream()
    return StreamingResponse(
        _lines(store, made, texts=caller.rows), media_type="application/x-ndjson"
    )


def in_order(found: NodeItems) -> NodeItems:
    """The same items, spaces in the order of partitions."""
    ordered = sorted(found.spaces, key=order_of)
    return NodeItems(found.node, {space: found.spaces[space] for space in ordered})


def had(store: Lineages, trace: str, caller: Principal) -> CachedTrace | RecipeTrace:
    """The trace that an id stands for.

    Raises:
        ProblemError: there is none.
        LineageError: what it asks for is not there any more.
    """
    named = unpack(trace)
    return store.trace_any(named.app, named.request, rows=caller.rows)


def whole(answer: Answer) -> Answer:
    """The answer, if all of its items are known.

    Raises:
        ProblemError: it has more.
    """
    if any(group.count > len(group.items) for group in answer.groups):
        raise too_much(
            f"a trace of DataFrames' rows lists at most {ITEMS_KEPT:,} items of a node here",
            "give more values, or ask `lineage back --json` where the store and Spark are",
        )
    return answer


def noted_lines(made: RecipeTrace, *, texts: bool) -> Iterator[bytes]:
    """All items that a trace of DataFrames' rows found, one JSON object a line.

    Raises:
        ProblemError: not all are known.
    """
    answer = whole(made.answer) if texts else whole(made.answer).without_texts()
    lines = (
        json.dumps({"node": group.node, **item.to_json()}, ensure_ascii=False) + "\n"
        for group in answer.groups
        for item in group.items
    )
    return (line.encode("utf-8", "replace") for line in lines)


def _lines(store: Lineages, made: CachedTrace, *, texts: bool) -> Iterator[bytes]:
    listing = Listing(made.opened)
    for node, found in made.traced.result.found.items():
        ordered, cursor = in_order(found), None
        while True:
            # Not held between pages, while the client reads.
            with store.turn():
                page = listing.page(ordered, STREAMED_AT_ONCE, cursor=cursor, texts=texts)
            rows = [
                json.dumps({"node": node, **item.to_json()}, ensure_ascii=False)
                for item in page.items
            ]
            yield "".join(row + "\n" for row in rows).encode("utf-8", "replace")
            cursor = page.following
            if cursor is None:
                break
