"""The coarse-grained graph, and the items of its nodes."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query

from lineage_core.contract.graph import RECIPE_NODE_KINDS
from lineage_core.errors import AddressError
from lineage_query.listing import Listing
from lineage_query.rows.file_status import has_changed
from lineage_query.set_aside_calls import set_aside_nodes
from lineage_query.snapshot import ApplicationSnapshot
from lineage_query_api import serializers
from lineage_query_api.dependencies import (
    AppName,
    Caller,
    Cursor,
    NodeName,
    PageSize,
    RowCaller,
    Store,
    check_rows,
)
from lineage_query_api.entity_tags import NOT_MODIFIED, TaggedRoute
from lineage_query_api.errors import ProblemError
from lineage_query_api.models import FailedCallList, GraphModel, ItemPage, OutputColumns, SearchText

router = APIRouter(prefix="/v1/applications/{app}", tags=["graph"], route_class=TaggedRoute)


def node_of(opened: ApplicationSnapshot, name: str, listing: Listing) -> str:
    """The id of a node that an address names, and that is there.

    Raises:
        ProblemError: 404, there is no such node.
    """
    node = node_named(opened, name)
    # Items that belong to no node of the program have one name together, whether there are any or not.
    if opened.record(node) is None and not listing.has_items(node):
        raise ProblemError(HTTPStatus.NOT_FOUND, f"no node is called {name!r}")
    return node


def node_named(opened: ApplicationSnapshot, name: str) -> str:
    """The id of the node that an address names.

    Raises:
        ProblemError: 404, no node goes by that name.
    """
    try:
        return opened.names.node(name)
    except AddressError as error:
        raise ProblemError(HTTPStatus.NOT_FOUND, str(error)) from error


@router.get("/graph", responses=NOT_MODIFIED)
def get_graph(
    app: AppName,
    store: Store,
    _: Caller,
    unfold: Annotated[bool, Query(description="each node by itself, also of a loop")] = False,
) -> GraphModel:
    """Nodes and links, with counts, exactness and call sites."""
    opened = store.open(app)
    return serializers.graph(opened, opened.graph.links(), store.listing(opened), unfold=unfold)


@router.get("/nodes/{node}/columns", responses=NOT_MODIFIED)
def list_columns(app: AppName, node: NodeName, store: Store, _: Caller) -> OutputColumns:
    """What rows of a DataFrame's output or source may be asked for by: its columns."""
    opened = store.open(app)
    node_id = node_of(opened, node, store.listing(opened))
    return serializers.output_columns(opened, node_id, store.recipe_traces.missing())


@router.get("/nodes/{node}/failed-calls", responses=NOT_MODIFIED)
def list_failed_calls(
    app: AppName, node: NodeName, store: Store, _: RowCaller, limit: PageSize = 100
) -> FailedCallList:
    """Calls of Python functions of DataFrames that failed, of a node that holds the rows set aside for them.

    A trace of the rows with the call's number in `lineage_call` leads to the rows of sources.
    """
    opened = store.open(app)
    node_id = node_of(opened, node, store.listing(opened))
    record = opened.record(node_id)
    nodes = [] if record is None else set_aside_nodes(opened, [record])
    calls = [call for one in nodes for call in one.calls()]
    more = any(one.has_more_calls for one in nodes)
    label = opened.names.label(node_id)
    return serializers.failed_calls(label, node_id, calls, limit, more=more)


@router.get("/nodes/{node}/items")
def list_items(
    app: AppName,
    node: NodeName,
    store: Store,
    caller: Caller,
    search: Annotated[SearchText, Query(description="part of an item's text")] = "",
    partition: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
    limit: PageSize = 100,
    cursor: Cursor = None,
) -> ItemPage:
    """Items of a node in order, or those whose text holds something.

    A search looks at a bounded number of items a call: go on with `next` until it is null. Rows of a DataFrame's output or
    source are read from its files by the server's Spark, for callers who may read rows; they are not searched.
    """
    if search:
        check_rows(caller)
    opened = store.open(app)
    listing = store.listing(opened)
    node_id = node_of(opened, node, listing)
    record = opened.record(node_id)
    if record is not None and record.kind in RECIPE_NODE_KINDS:
        if search or partition is not None:
            raise ProblemError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "rows of a DataFrame are listed without search and partition",
                hint="trace them by the values of their columns instead",
            )
        check_rows(caller)
        rows, following = store.recipe_traces.list_rows(opened.app, node_id, limit, cursor)
        return serializers.rows_page(opened, record, rows, following)
    with store.turn():
        all_items = listing.items(node_id, partition)
        page = listing.page(all_items, limit, cursor=cursor, contains=search, texts=caller.rows)
    return ItemPage(
        node=node_id,
        label=opened.names.label(node_id),
        what="" if record is None else record.name or record.op,
        path=None if record is None else record.path,
        count=page.count,
        items=serializers.items(page.items),
        next=page.following,
        scanned=page.scanned,
        cut=page.cut,
        changed=has_changed(page.file_status),
        standing=page.file_status,
    )
