"""Traces: counts at once, items page by page or streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import StreamingResponse

from lineage_query.listing import Listing
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
from lineage_query_api.errors import ProblemError, too_costly_error
from lineage_query_api.lineages import CachedTrace, Lineages
from lineage_query_api.models import TraceModel, TracePage, TraceRequest
from lineage_query_api.recipe_traces import LISTED_ITEMS_MAX
from lineage_query_api.routes.graph import node_named
from lineage_query_api.trace_ids import unpack

router = APIRouter(prefix="/v1", tags=["traces"])
STREAMED_AT_ONCE = 1_000
TraceName = Annotated[str, Path(description="trace of an answer")]


@router.post("/applications/{app}/traces")
def make_trace(app: AppName, request: TraceRequest, store: Store, caller: Caller) -> TraceModel:
    """Where items come from, or where they went: counts, and the first items of each node."""
    cached = store.trace_any(app, request, rows=caller.rows)
    with store.turn():
        return serializers.trace(cached, texts=caller.rows, others=store.also_read)


@router.get("/traces/{trace}")
def get_trace(trace: TraceName, store: Store, caller: Caller) -> TraceModel:
    """A trace again."""
    cached = trace_of_id(store, trace, caller)
    with store.turn():
        return serializers.trace(cached, texts=caller.rows, others=store.also_read)


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
    cached = trace_of_id(store, trace, caller)
    opened = cached.opened
    node_id = node_named(opened, node)
    with store.turn():
        page = cached.traced.page(Listing(opened), node_id, limit, cursor=cursor, texts=caller.rows)
    if page is None:
        raise ProblemError(HTTPStatus.NOT_FOUND, f"no item of node {node} takes part in the trace")
    return serializers.trace_page(opened, node_id, page)


@router.get(
    "/traces/{trace}/items.ndjson",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
)
def stream_trace_items(trace: TraceName, store: Store, caller: Caller) -> StreamingResponse:
    """All items that a trace found, one JSON object a line."""
    cached = trace_of_id(store, trace, caller)
    check_not_cut(cut=cached.traced.is_cut)
    store.check_listed(
        cached.traced.items_streamed, "page through a node's items instead, or begin at fewer rows"
    )
    store.allow_stream()
    return StreamingResponse(
        _lines(store, cached, texts=caller.rows), media_type="application/x-ndjson"
    )


def trace_of_id(store: Lineages, trace: str, caller: Principal) -> CachedTrace:
    """The trace that an id stands for.

    Raises:
        ProblemError: there is none.
        LineageError: what it asks for is not there any more.
    """
    unpacked = unpack(trace)
    return store.trace_any(unpacked.app, unpacked.request, rows=caller.rows)


def check_not_cut(*, cut: bool) -> None:
    """Refuse to list all items of an answer that has more than it lists.

    Raises:
        ProblemError: ``cut``: it does.
    """
    if cut:
        raise too_costly_error(
            f"a trace of DataFrames' rows lists at most {LISTED_ITEMS_MAX:,} items of a node here",
            "give more values, or ask `lineage back --json` where the store and Spark are",
        )


def _lines(store: Lineages, cached: CachedTrace, *, texts: bool) -> Iterator[bytes]:
    """All items that a trace found, one JSON object a line."""
    pages = cached.traced.result_pages(Listing(cached.opened), STREAMED_AT_ONCE, texts=texts)
    while True:
        # Not held between pages, while the client reads.
        with store.turn():
            page = next(pages, None)
        if page is None:
            break
        node, items = page
        rows = [json.dumps({"node": node, **item.to_json()}, ensure_ascii=False) for item in items]
        yield "".join(row + "\n" for row in rows).encode("utf-8", "replace")
