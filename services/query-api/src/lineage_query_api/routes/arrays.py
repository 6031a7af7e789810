"""Cells of arrays: the arrays of an application, traces of their cells, and their values."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request

from lineage_query_api.array_models import (
    SIDE_MAX,
    VALUES_MAX,
    ArrayApplications,
    ArrayId,
    ArrayPage,
    CellTraceModel,
    CellTraceRequest,
    CellValues,
    FollowedTraceModel,
    FollowRequest,
    IndexText,
    PictureModel,
)
from lineage_query_api.array_questions import ArrayQuestions
from lineage_query_api.dependencies import AppName, Caller, CallerScope, PageSize, RowCaller, Store
from lineage_query_api.entity_tags import NOT_MODIFIED, TaggedRoute
from lineage_query_api.errors import ProblemError
from lineage_query_api.models import PLACE_MAX

router = APIRouter(prefix="/v1/applications/{app}/arrays", tags=["arrays"], route_class=TaggedRoute)


all_router = APIRouter(prefix="/v1/arrays", tags=["arrays"], route_class=TaggedRoute)


async def _questions(request: Request) -> ArrayQuestions:
    questions: ArrayQuestions = request.app.state.array_questions
    return questions


Questions = Annotated[ArrayQuestions, Depends(_questions)]
Array = Annotated[ArrayId, Path(description="the id of an array, such as source-0")]
Bound = Annotated[float | None, Query(allow_inf_nan=False)]


@all_router.get("", responses=NOT_MODIFIED)
def list_array_applications(
    scope: CallerScope,
    questions: Questions,
    limit: Annotated[
        int, Query(ge=1, le=1_000, description="the latest so many applications are searched")
    ] = 200,
) -> ArrayApplications:
    """The applications that recorded arrays, and their named arrays: as `lineage arrays list`."""
    return questions.list_applications(scope.within(None)[0], limit)


@all_router.post("/trace")
def follow_cells(
    request: FollowRequest, scope: CallerScope, questions: Questions
) -> FollowedTraceModel:
    """Trace cells over all applications: as `lineage arrays back --json` and `lineage arrays forward --json`."""
    lineages, caller = scope.within(request.app)
    return questions.follow(lineages, request, rows=caller.rows)


@router.get("", responses=NOT_MODIFIED)
def list_arrays(
    app: AppName,
    store: Store,
    _: Caller,
    questions: Questions,
    limit: PageSize = 100,
    cursor: Annotated[
        str | None, Query(pattern=r"^[0-9]{1,7}$", description="next of the page before")
    ] = None,
) -> ArrayPage:
    """The named arrays of an application whose program recorded arrays: as `lineage arrays list`."""
    return questions.list_arrays(store, store.find(app), int(cursor or 0), limit)


@router.post("/trace")
def trace_cells(
    app: AppName, request: CellTraceRequest, store: Store, _: Caller, questions: Questions
) -> CellTraceModel:
    """Trace cells within an application: as `lineage arrays back --app` and `lineage arrays forward --app`."""
    return questions.trace(store, store.find(app), request)


@router.get("/{array}/picture", responses=NOT_MODIFIED)
def get_picture(  # noqa: PLR0913, PLR0917 - an argument is a parameter of the request
    app: AppName,
    array: Array,
    store: Store,
    _: RowCaller,
    questions: Questions,
    plane: Annotated[
        IndexText,
        Query(
            description="numbers and at most two slices, as in 3,:,100:200; empty: the first one"
        ),
    ] = "",
    side: Annotated[int, Query(ge=1, le=SIDE_MAX, description="pixels each way, at most")] = 512,
    low: Annotated[Bound, Query(description="the value that is black; goes with high")] = None,
    high: Annotated[Bound, Query(description="the value that is white")] = None,
    robust: Annotated[
        bool,
        Query(
            description="as `lineage arrays back --png` draws it: without low and high, black is the 1st percentile of the pixels and white the 99th; "
            "a pixel has as many rows of cells as columns where the picture is not too thin then"
        ),
    ] = False,
) -> PictureModel:
    """A plane of an array as a picture.

    Files are read below the folders that the server may read, and only if they are byte for byte those that were recorded.
    """
    if (low is None) != (high is None) or (low is not None and high is not None and low > high):
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY, "low and high go together, and low is not above high"
        )
    bounds = None if low is None or high is None else (low, high)
    return questions.picture(store, store.find(app), array, plane, side, bounds, robust=robust)


@router.get("/{array}/values", responses=NOT_MODIFIED)
def get_values(
    app: AppName,
    array: Array,
    store: Store,
    _: RowCaller,
    questions: Questions,
    ranges: Annotated[
        str,
        Query(min_length=1, max_length=PLACE_MAX, description="positions as in regions: 0-3 7 12"),
    ],
    limit: Annotated[int, Query(ge=1, le=VALUES_MAX, description="values, at most")] = 100,
) -> CellValues:
    """Values of cells, of files as a picture shows them."""
    return questions.values(store, store.find(app), array, ranges, limit)
