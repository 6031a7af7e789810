"""Applications: all, one, its verdict, its progress, and its end."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from lineage_query_api import serializers
from lineage_query_api.answer_models import VerdictModel, verdict_model
from lineage_query_api.dependencies import AppName, Caller, Cursor, Deleter, PageSize, Store
from lineage_query_api.entity_tags import NOT_MODIFIED, TaggedRoute
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
Status = Literal["running", "ok", "failed", "abandoned"]


@router.get("", responses=NOT_MODIFIED)
def list_applications(
    store: Store,
    _: Caller,
    search: Annotated[SearchText, Query(description="part of the id or name")] = "",
    status: Status | None = None,
    complete: bool | None = None,
    limit: PageSize = 50,
    cursor: Cursor = None,
) -> ApplicationPage:
    """List applications, the latest first."""
    needle = search.casefold()
    records = [
        record
        for record in store.applications()
        if needle in record.app.casefold() or needle in record.name.casefold()
    ]
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
    return ApplicationPage(items=items, next=following, total=len(records))


@router.get("/{app}", responses=NOT_MODIFIED)
def get_application(app: AppName, store: Store, _: Caller) -> ApplicationDetails:
    """One application, with what it read and wrote."""
    opened = store.open(app)
    summary = serializers.application(store.application(opened.app), opened.verdict)
    answered = store.answerable(opened.app)
    return ApplicationDetails(
        **summary.model_dump(),
        answerable=answered.answerable,
        refusals=[RefusalModel.model_validate(asdict(refusal)) for refusal in answered.refusals],
        nodes=len(opened.nodes),
        sources=serializers.node_refs(opened, "source", "frame-source"),
        sinks=serializers.node_refs(opened, "sink", "frame"),
        unknown_parts=list(opened.verdict.unknown),
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
