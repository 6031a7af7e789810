"""What the command line asks: the very answers that it prints over a store of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from lineage_core.contract.reasons import cut_text
from lineage_core.tracing.trace_result import Direction
from lineage_query.comparing import records_to_compare
from lineage_query.conditions import parse_condition
from lineage_query.exports import ExportOptions, check_format, format_of
from lineage_query.exports.options import DERIVED_ITEMS_MAX
from lineage_query.next_job_search import with_next_jobs
from lineage_query.record_trace import RecordTrace
from lineage_query.run_comparing import check_countable, compare_runs, queries_of_runs
from lineage_query.run_rows import TracedRun
from lineage_query.suspects.query import SuspectsQuery
from lineage_query.trace_query import TraceQuery
from lineage_query_api import models, serializers
from lineage_query_api.answer_models import (
    ApplicationRecords,
    DifferenceModel,
    InfluenceModel,
    NodeRecords,
    RankedInputs,
    RunDifferenceModel,
    TraceAnswer,
    difference,
    influence_model,
    ranked_inputs,
    run_difference,
    trace_answer,
)
from lineage_query_api.dependencies import (
    AppName,
    Caller,
    CallerScope,
    RowCaller,
    Store,
    check_rows,
)
from lineage_query_api.entity_tags import NOT_MODIFIED, TaggedRoute
from lineage_query_api.errors import too_costly_error
from lineage_query_api.lineages import Lineages
from lineage_query_api.routes.comparing import compare_traces, rank
from lineage_query_api.routes.exports import parts_of, write_export
from lineage_store.dump import dump_application

router = APIRouter(prefix="/v1", tags=["answers"], route_class=TaggedRoute)
FRAMED = "application/vnd.lineage.file"
"""A line of JSON, and a file behind it."""


@router.post("/answers")
def answer(body: models.AnswerRequest, scope: CallerScope) -> TraceAnswer:
    """Trace places as people type them, over all applications: as `lineage back --json` and `lineage forward --json`."""
    store, caller = scope.within(body.app)
    query = replace(
        _query_of(body),
        limit=body.limit,
        as_now=body.as_now,
        way=body.way,
        by=body.by,
    )
    traced = store.trace_query(query, rows=caller.rows)
    with store.turn():
        listed = store.answer(traced, body.limit, texts=caller.rows)
        return trace_answer(with_next_jobs(listed, query, store.store))


@router.post(
    "/answers/file",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The file, behind a line of JSON that says what was written, and `bytes`",
            "content": {FRAMED: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
def answer_as_file(body: models.ExportRequest, scope: CallerScope) -> StreamingResponse:
    """Trace places as people type them, as a file: as `lineage export --json`, and the file itself."""
    if body.items_max > DERIVED_ITEMS_MAX and body.format in ("prov", "graphml"):
        raise too_costly_error(
            f"a server writes what was made from what for at most {DERIVED_ITEMS_MAX:,} items",
            "leave out --limit, or export from the store itself",
        )
    store, caller = scope.within(body.app)
    options = ExportOptions(
        in_between=body.way, texts=body.texts and caller.rows, items_max=body.items_max
    )
    query = _query_of(body)
    if query.all_jobs:
        # Its tables have the texts of the answers.
        query = replace(query, texts=options.texts)
    check_format(body.format, query)
    derivations = format_of(body.format).table is None
    traced = store.trace_query(query, rows=caller.rows, derivations=derivations)
    typed = body.places if body.asked is None else body.asked
    file, exported_trace = write_export(
        store, traced.with_typed_places(typed), body.format, options
    )
    first = json.dumps(exported_trace.to_json() | {"bytes": file.tell()}) + "\n"
    return StreamingResponse(chain([first.encode()], parts_of(file)), media_type=FRAMED)


def _query_of(request: models.AnswerRequest | models.ExportRequest) -> TraceQuery:
    if request.where is not None:
        # Refused before anything is looked up; read anew where it becomes a part of a statement.
        parse_condition(request.where)
    return TraceQuery(
        direction=Direction(request.direction),
        places=tuple(request.places),
        app=request.app,
        until=request.until,
        steps=request.steps,
        where=request.where or "",
        all_jobs=request.all_jobs,
    )


@router.post("/answers/diff")
def compare_answers(body: models.CompareRequest, scope: CallerScope) -> DifferenceModel:
    """What the traces of some places have that those of others have not: as `lineage diff --json`."""
    store, caller = scope.within(body.app)
    left, right = (
        _records(store, TraceQuery(Direction(body.direction), tuple(places), app=body.app))
        for places in (body.left, body.right)
    )
    most = left.items_listed + right.items_listed
    limit = most if body.limit is None else body.limit
    store.check_listed(min(most, limit), "give a limit")
    return difference(compare_traces(store, left, right, body.limit, texts=caller.rows))


@router.post("/answers/runs-diff")
def compare_answers_of_runs(
    body: models.CompareRunsRequest, scope: CallerScope
) -> RunDifferenceModel:
    """What the lineage of places in one run of a job has that it has not in another run: as `lineage diff --runs --json`."""
    sides = [scope.within(side.app) for side in (body.left, body.right)]
    rows = all(caller.rows for _, caller in sides)
    (left_store, _), (right_store, _) = sides
    apps = left_store.find(body.left.app), right_store.find(body.right.app)
    places = body.left.places, body.right.places
    queries = queries_of_runs(TraceQuery(Direction(body.direction), (), texts=rows), places, apps)
    left, right = (
        TracedRun(
            app,
            store.answer(check_countable(store.trace_query(query, rows=rows)), None, texts=rows),
            store.store,
        )
        for (store, _), app, query in zip(sides, apps, queries, strict=True)
    )
    with left_store.turn():
        return run_difference(compare_runs(left, right, body.limit, texts=rows))


@router.post("/answers/suspects")
def rank_answers(body: models.RankRequest, scope: CallerScope) -> RankedInputs:
    """What may be to blame for bad outputs, or stands out in an application: as `lineage suspects --json`."""
    store, caller = scope.within(body.app)
    query = SuspectsQuery(
        tuple(body.places), tuple(body.good), body.app, body.limit, body.formula, body.tasks
    )
    return ranked_inputs(rank(store, query, rows=caller.rows))


@router.post("/answers/influence")
def influence(body: models.InfluenceRequest, scope: CallerScope) -> InfluenceModel:
    """What a row of a DataFrame would be without each row that it was made from, where that has a closed form: as `lineage suspects --influence`.

    Sums, counts, averages, minima and maxima of a group have one. No code of the job is run.
    """
    store, caller = scope.within(body.app)
    check_rows(caller)
    return influence_model(store.influence(body.place, body.app, body.limit))


def _records(store: Lineages, query: TraceQuery) -> RecordTrace:
    return records_to_compare(store.trace_records, query)


@router.get("/records", responses=NOT_MODIFIED)
def list_records(store: Store, _: Caller) -> ApplicationRecords:
    """All applications, as `lineage apps --json`."""
    records = [
        replace(record, name=cut_text(record.name, serializers.SHOWN_CHARS_MAX))
        for record in store.applications()
    ]
    return ApplicationRecords(applications=records)


@router.get("/applications/{app}/nodes", responses=NOT_MODIFIED)
def list_nodes(app: AppName, store: Store, _: Caller) -> NodeRecords:
    """Nodes and links of an application as they are stored, none folded."""
    opened = store.open(app)
    return NodeRecords(app=opened.app, nodes=list(opened.nodes), links=list(opened.graph.links()))


@router.get(
    "/applications/{app}/dump",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
)
def dump(app: AppName, store: Store, _: RowCaller) -> StreamingResponse:
    """All lineage of an application, one JSON object a line: as `lineage dump`."""
    app_id = store.find(app)
    store.allow_stream()

    def lines() -> Iterator[bytes]:
        for line in dump_application(store.store, app_id):
            yield (line + "\n").encode("utf-8", "replace")

    return StreamingResponse(lines(), media_type="application/x-ndjson")
