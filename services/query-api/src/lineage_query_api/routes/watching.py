"""Records of running jobs that are watched as they pass."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from lineage_query.watching.requests import requested_watch
from lineage_query_api.dependencies import AppName, Watcher
from lineage_query_api.event_streams import streamed
from lineage_query_api.problems import request_id_of
from lineage_query_api.record_watching import RecordsWatched
from lineage_query_api.watching_models import WatchableJob, WatchableOperator, WatchModel

router = APIRouter(prefix="/v1/applications", tags=["applications"])


@router.get("/{app}/watch")
def get_watchable(app: AppName, callers: Watcher, request: Request) -> WatchableJob:
    """Whether the records of a job can be watched now, and which of its operators."""
    watched: RecordsWatched = request.app.state.records_watched
    app_id, refusal, operators = watched.watchable(callers[0], app)
    return WatchableJob(
        app=app_id,
        refusal=refusal or None,
        operators=[WatchableOperator.of(facts) for facts in operators],
    )


@router.post(
    "/{app}/watch",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events, each with a line of JSON as of `lineage watch --json`: `record`, `sources`, `task` and `note`; at last `end` "
            "(`violations`, `tested`, `sees_all`; `tasks`, ranked; `time_up`: the time of the stream was up, so ask again), or `problem`",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
def watch_records(
    app: AppName, body: WatchModel, callers: Watcher, request: Request
) -> StreamingResponse:
    """Watch a running job: records of an operator that fulfil a condition, break one or are slow, as they pass, until the caller leaves or the job ends."""
    watched: RecordsWatched = request.app.state.records_watched
    what = requested_watch(
        body.node,
        body.condition,
        body.must,
        body.slower_than,
        body.limit,
        latency=body.latency,
    )
    return streamed(watched.watch(callers[0], app, what, request_id_of(request)))
