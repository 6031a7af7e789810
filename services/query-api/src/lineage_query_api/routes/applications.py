"""Applications: all, one, its verdict, its progress, and its end."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from lineage_core.contract.verdict import Verdict
from lineage_query.listing import CursorError
from lineage_query_api import serializers
from lineage_query_api.dependencies import AppName, Caller, Cursor, Deleter, PageSize, Store
from lineage_query_api.lineages import Lineages
from lineage_query_api.models import (
    AnyObject,
    ApplicationDetails,
    ApplicationModel,
    ApplicationPage,
    ProgressModel,
    RefusalModel,
    SearchText,
)

router = APIRouter(prefix="/v1/applications", tags=["applications"])
Status = Literal["running", "ok", "failed", "abandoned"]
JUDGED_S = 5.0
"""How long verdicts of a list may take together."""
JUDGED_EACH_S = 1.0
JUDGED_ANYWAY_S = 0.1
"""How long one may take where that time is over: most take some milliseconds."""


class _Judge:
    """Verdicts for one list: one application that said very much, or several, take the list's time from no other."""

    def __init__(self, store: Lineages) -> None:
        self._store = store
        self._seconds_left = JUDGED_S
        self._found: dict[str, Verdict | None] = {}

    def verdict(self, app: str) -> Verdict | None:
        """The verdict on an application; None: it takes too long."""
        if app not in self._found:
            began = time.monotonic()
            seconds = min(JUDGED_EACH_S, max(self._seconds_left, JUDGED_ANYWAY_S))
            self._found[app] = self._store.verdict_within(app, seconds)
            self._seconds_left -= time.monotonic() - began
        return self._found[app]

    def is_complete(self, app: str) -> bool:
        """Whether an application is known to be complete."""
        verdict = self.verdict(app)
        return verdict is not None and verdict.complete


@router.get("")
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
    judge = _Judge(store)
    if complete is not None:
        records = [record for record in records if judge.is_complete(record.app) == complete]
    first = 0
    if cursor is not None:
        # By id, not by place: new applications come in front while somebody pages.
        ids = [record.app for record in records]
        if cursor not in ids:
            raise CursorError(
                f"cursor {cursor!r:.40} was not given by a page of these applications"
            )
        first = ids.index(cursor) + 1
    page = records[first : first + limit]
    items: list[ApplicationModel] = [
        serializers.application(record, judge.verdict(record.app)) for record in page
    ]
    more = first + limit < len(records)
    return ApplicationPage(
        items=items, next=page[-1].app if more and page else None, total=len(records)
    )


@router.get("/{app}")
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


@router.get("/{app}/completeness")
def get_completeness(app: AppName, store: Store, _: Caller) -> AnyObject:
    """Whether all lineage is there and rows can be traced, and why not: as `lineage verify --json` prints it."""
    app_id = store.find(app)
    return AnyObject(app=app_id, **store.answerable(app_id).to_json())


@router.get("/{app}/progress")
def get_progress(app: AppName, store: Store, _: Caller) -> ProgressModel:
    """How far capture, linking and writing are, for who watches a running job."""
    app_id = store.find(app)
    return serializers.progress(app_id, store.verdict(app_id), time.time())
