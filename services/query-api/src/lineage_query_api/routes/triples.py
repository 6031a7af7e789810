"""Data sets of provenance triples in the lake that the server has: listed, traced and exported."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from http import HTTPStatus
from typing import IO, Annotated, TypeAlias, cast

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from lineage_query.exports import format_of
from lineage_query.exports.triples import export_triples
from lineage_query_api.dependencies import AllRows
from lineage_query_api.errors import ProblemError
from lineage_query_api.lineages import Lineages
from lineage_query_api.models import (
    NO_NUL,
    DirectionText,
    FormatName,
    TripleDataSet,
    TripleDataSets,
    TripleMethod,
    TripleModel,
    TripleTraceModel,
)
from lineage_query_api.routes.exports import IN_MEMORY, parts_of
from lineage_query_api.served_triples import ServedTriples
from lineage_store.errors import TriplesNotFoundError, TriplesWaitError
from lineage_store.triples.tracing import Method, TripleTrace, trace

router = APIRouter(prefix="/v1", tags=["triples"])
LISTED = 1_000
LISTED_MAX = 100_000
DataSetName: TypeAlias = Annotated[
    str, Query(min_length=1, max_length=4_096, pattern=NO_NUL, description="the data set")
]
ItemText: TypeAlias = Annotated[
    str, Query(min_length=1, max_length=4_096, description="the item; integers in decimal")
]
MethodText: TypeAlias = Annotated[
    TripleMethod, Query(description="how it is found; all give the same answer")
]


@router.get("/triples")
def list_triples(request: Request, callers: AllRows) -> TripleDataSets:
    """Data sets of triples that programs of others gave."""
    lineages, _ = callers
    with lineages.turn(), _served(request).opened() as store:
        listed = store.data_sets()
    items = [TripleDataSet.model_validate(one, from_attributes=True) for one in listed]
    return TripleDataSets(items=items)


@router.get("/triples/trace")
def trace_triples(
    request: Request,
    callers: AllRows,
    data_set: DataSetName,
    item: ItemText,
    direction: DirectionText = "backward",
    method: MethodText = "auto",
    limit: Annotated[
        int, Query(ge=0, le=LISTED_MAX, description="items, and triples, that are listed")
    ] = LISTED,
) -> TripleTraceModel:
    """What an item of triples was derived from, or what was derived from it: as `lineage triples back --json`."""
    lineages, _ = callers
    traced = _traced(_served(request), lineages, data_set, item, direction, method)
    return TripleTraceModel(
        data_set=data_set,
        direction=direction,
        item=traced.title,
        items=[str(found) for found in traced.items[:limit]],
        items_count=len(traced.items),
        triples=[
            TripleModel(src=str(src), dst=str(dst), op=op)
            for src, dst, op in traced.triples[:limit]
        ],
        count=len(traced.triples),
        method=traced.method.value,
        reason=traced.reason,
        component_triples=traced.component_triples,
    )


@router.get("/triples/export", response_class=StreamingResponse)
def export_triple_trace(
    request: Request,
    callers: AllRows,
    data_set: DataSetName,
    item: ItemText,
    direction: DirectionText = "backward",
    method: MethodText = "auto",
    format_name: Annotated[FormatName, Query(alias="format")] = "csv",
) -> StreamingResponse:
    """A trace of triples as CSV, Arrow, Parquet, PROV-JSON, GraphML or Mermaid."""
    lineages, _ = callers
    lineages.allow_stream()
    traced = _traced(_served(request), lineages, data_set, item, direction, method)
    lineages.check_listed(len(traced.triples), "export from the store itself")
    chosen = format_of(format_name)
    with lineages.turn(), ExitStack() as open_files:
        spooled = open_files.enter_context(tempfile.SpooledTemporaryFile(max_size=IN_MEMORY))
        file = cast(IO[bytes], spooled)
        export_triples(traced, data_set, chosen.name, file)
        open_files.pop_all()
    headers = {"Content-Disposition": f'attachment; filename="triples.{chosen.extension}"'}
    return StreamingResponse(parts_of(file), media_type=chosen.media_type, headers=headers)


def _served(request: Request) -> ServedTriples:
    served: ServedTriples = request.app.state.served_triples
    return served


def _traced(
    served: ServedTriples, lineages: Lineages, data_set: str, item: str, direction: str, method: str
) -> TripleTrace:
    with lineages.turn(), served.opened() as store:
        try:
            return trace(
                store, data_set, item, is_back=direction == "backward", method=Method(method)
            )
        except TriplesNotFoundError as error:
            raise ProblemError(HTTPStatus.NOT_FOUND, str(error)) from error
        except TriplesWaitError as error:
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
