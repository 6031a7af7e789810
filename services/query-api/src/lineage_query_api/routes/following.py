"""Rows that are followed through streaming queries."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from lineage_query.conditions import CHARACTERS_MAX
from lineage_query_api.dependencies import AllRows
from lineage_query_api.event_streams import streamed
from lineage_query_api.models import NO_NUL, PLACE_MAX
from lineage_query_api.problems import request_id_of
from lineage_query_api.row_following import RowsFollowed

router = APIRouter(prefix="/v1", tags=["streams"])


@router.get(
    "/follow",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events, each with a line of JSON as of `lineage follow --json`: `read`, `row`, `made`, `late`, `gap`, `done`; "
            "`waiting` and `note`; at last `end` (`time_up`: the time of the stream was up, so ask again), or `problem`",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
def follow_rows(
    callers: AllRows,
    request: Request,
    place: Annotated[
        str,
        Query(
            min_length=1,
            max_length=PLACE_MAX,
            pattern=NO_NUL,
            description="a row of a file, a file, or a record of a topic of Kafka: `TOPIC[PARTITION]@OFFSET`; with `where` a folder, a file or `kafka:TOPIC`",
        ),
    ],
    where: Annotated[
        str,
        Query(
            max_length=CHARACTERS_MAX,
            pattern=NO_NUL,
            description="a condition on the columns of a source: all of its rows that fulfil it are followed, as they come",
        ),
    ] = "",
    wait_s: Annotated[
        float,
        Query(
            ge=0,
            le=86_400,
            allow_inf_nan=False,
            description="seconds for which a query is waited for that may read it, or that is started again",
        ),
    ] = 30.0,
) -> StreamingResponse:
    """Follow a row of a file, a record of a topic, or the rows of a source that fulfil a condition: each row that streaming queries make of it, as its batch is committed, until nothing more can come."""
    lineages, _ = callers
    lineages.allow_stream()
    followed: RowsFollowed = request.app.state.rows_followed
    events = followed.follow(lineages, place, wait_s, request_id_of(request), where)
    return streamed(events)
