"""Applications: all, one, its verdict, its progress, and its end."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Response
from pydantic import AwareDatetime

from lineage_core.contract.verdict import ARRAY
from lineage_query.application_search import ApplicationSearch, search_applications
from lineage_query_api import serializers
from lineage_query_api.answer_models import VerdictModel, verdict_model
from lineage_query_api.dependencies import (
    AppName,
    Caller,
    CallerScope,
    Cursor,
    Deleter,
    PageSize,
    Store,
)
from lineage_query_api.entity_tags import NOT_MODIFIED, TaggedRoute
from lineage_query_api.granted_runs import GrantedRuns
from lineage_query_api.judging import Judge
from lineage_query_api.models import (
    ApplicationDetails,
    ApplicationModel,
    ApplicationPage,
    ProgressModel,
    RefusalModel,
    SearchText,
)
from lineage_query_api.paging import page_of

router = APIRouter(prefix="/v1/applications", tags=["applications"], route_class=TaggedRoute)
Status = Literal["running", "ok", "failed", "abandoned", "damaged"]


async def _search(
    search: Annotated[SearchText, Query(description="part of the id or name")] = "",
    dataset: Annotated[
        SearchText, Query(description="part of the name of a dataset that it read or wrote")
    ] = "",
    call_site: Annotated[
        SearchText, Query(description="part of where its code is, such as job.py:12")
    ] = "",
    column: Annotated[
        SearchText, Query(description="a column of a DataFrame that it read or wrote")
    ] = "",
    since: Annotated[
        AwareDatetime | None, Query(description="it began then or later (RFC 3339)")
    ] = None,
    until: Annotated[
        AwareDatetime | None, Query(description="it began then or earlier (RFC 3339)")
    ] = None,
) -> ApplicationSearch:
    return ApplicationSearch(
        search,
        dataset,
        call_site,
        column,
        None if since is None else since.timestamp(),
        None if until is None else until.timestamp(),
    )


@router.get("", responses=NOT_MODIFIED)
def list_applications(
    scope: CallerScope,
    search: Annotated[ApplicationSearch, Depends(_search)],
    status: Status | None = None,
    complete: bool | None = None,
    limit: PageSize = 50,
    cursor: Cursor = None,
) -> ApplicationPage:
    """List applications, the latest first."""
    store = scope.listed
    with store.turn() if search.reads_messages else nullcontext():
        found = search_applications(GrantedRuns(scope), search)
    records = list(found.items)
    if status is not None:
        records = [record for record in records if record.status == status]
    judge = Judge(store)
    if complete is not None:
        records = [record for record in records if judge.is_complete(record.app) == complete]
    page, following = page_of(
        records, lambda record: record.app, limit, cursor, "these applications"
    )
    items: list[ApplicationModel] = [
        serializers.application(record, judge.verdict(record.app)) for record in page
    ]
    return ApplicationPage(
        items=items,
        next=following,
        total=len(records),
        searched=found.searched,
        searched_of=found.searched_of,
        withheld=found.withheld,
    )


@router.get("/{app}", responses=NOT_MODIFIED)
def get_application(app: AppName, store: Store, _: Caller) -> ApplicationDetails:
    """One application, with what it read and wrote."""
    opened = store.open(app)
    summary = serializers.application(store.application(opened.app), opened.verdict)
    answered = store.answerable(opened.app)
    return ApplicationDetails(
        **summary.model_dump() | {"reasons": list(opened.verdict.reasons)},
        answerable=answered.answerable,
        refusals=[RefusalModel.model_validate(asdict(refusal)) for refusal in answered.refusals],
        nodes=len(opened.nodes),
        sources=serializers.node_refs(opened, "source", "frame-source"),
        sinks=serializers.node_refs(opened, "sink", "frame"),
        unknown_parts=list(opened.verdict.unknown),
        arrays=sum(node.op == ARRAY and node.kind == "unknown" for node in opened.nodes),
    )


@router.delete("/{app}", status_code=204)
def delete_application(app: AppName, store: Store, _: Deleter) -> Response:
    """Delete all lineage of an application, named by its whole id; its files stay as they are."""
    store.delete(app)
    return Response(status_code=204)


@router.get("/{app}/completeness", responses=NOT_MODIFIED)
def get_completeness(app: AppName, store: Store, _: Caller) -> VerdictModel:
    """Whether all lineage is there and rows can be traced, and why not: as `lineage verify --json` prints it."""
    app_id = store.find(app)
    return verdict_model(app_id, store.answerable(app_id))


@router.get("/{app}/progress")
def get_progress(app: AppName, store: Store, _: Caller) -> ProgressModel:
    """How far capture, linking and writing are, for who watches a running job."""
    app_id = store.find(app)
    return serializers.progress(app_id, store.verdict(app_id), time.time())
