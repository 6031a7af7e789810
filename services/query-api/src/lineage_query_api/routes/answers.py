"""What the command line asks: the very answers that it prints over a store of its own."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from lineage_core.graph import LinkRecord, NodeRecord
from lineage_core.trace_result import Direction
from lineage_query_api import models
from lineage_query_api.dependencies import AppName, Caller, RowCaller, Store
from lineage_query_api.errors import too_much
from lineage_query_api.models import AnyObject
from lineage_store.asking import Question
from lineage_store.dump import dump_application

router = APIRouter(prefix="/v1", tags=["answers"])


@router.post("/answers")
def answer(question: models.Question, store: Store, caller: Caller) -> AnyObject:
    """Trace places as people type them: as `lineage back --json` and `lineage forward --json`."""
    traced = store.ask(
        Question(
            direction=Direction(question.direction),
            places=tuple(question.places),
            app=question.app,
            until=question.until,
            steps=question.steps,
        )
    )
    listed = traced.result.count if question.limit is None else question.limit
    if listed > store.settings.api_export_items:
        raise too_much(
            f"the answer has {listed:,} items; at most {store.settings.api_export_items:,} are "
            "given at once",
            "give a limit",
        )
    return AnyObject(**traced.answer(question.limit, texts=caller.rows).to_json())


@router.get("/records")
def list_records(store: Store, _: Caller) -> AnyObject:
    """All applications, as `lineage apps --json`."""
    found = [
        {field: getattr(one, field) for field in one.__slots__} for one in store.applications()
    ]
    return AnyObject(applications=found)


@router.get("/applications/{app}/nodes")
def list_nodes(app: AppName, store: Store, _: Caller) -> AnyObject:
    """Nodes and links of an application as they are stored, none folded."""
    opened = store.open(app)
    return AnyObject(
        app=opened.app,
        nodes=[
            {field: getattr(node, field) for field in NodeRecord.__slots__} for node in opened.nodes
        ],
        links=[
            {field: getattr(link, field) for field in LinkRecord.__slots__}
            for link in opened.graph.links()
        ],
    )


@router.get(
    "/applications/{app}/dump",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
)
def dump(app: AppName, store: Store, _: RowCaller) -> StreamingResponse:
    """All lineage of an application, one JSON object a line: as `lineage dump`."""
    found = store.find(app)

    def lines() -> Iterator[bytes]:
        for line in dump_application(store.store, found):
            yield (line + "\n").encode("utf-8", "replace")

    return StreamingResponse(lines(), media_type="application/x-ndjson")
