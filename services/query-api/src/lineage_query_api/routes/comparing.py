"""Two traces against each other, and what may be to blame for several outputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fastapi import APIRouter

from lineage_query.answers import Group
from lineage_query.comparing import ComparedTrace, Difference, compare
from lineage_query.record_trace import RecordTrace
from lineage_query.suspects.answer import Suspects
from lineage_query.suspects.query import SuspectsQuery, find_suspects, labels_of
from lineage_query.suspects.ranking import TooManyInputsError
from lineage_query.trace import Trace
from lineage_query.trace_query import TraceQuery
from lineage_query_api import serializers
from lineage_query_api.dependencies import AppName, Caller, Store
from lineage_query_api.errors import too_costly_error
from lineage_query_api.lineages import CachedTrace, Lineages
from lineage_query_api.models import (
    CountedItems,
    DiffGroup,
    DiffModel,
    DiffRequest,
    DiffSide,
    StartModel,
    Suspect,
    SuspectsModel,
    SuspectsRequest,
    TraceRequest,
)

router = APIRouter(prefix="/v1/applications/{app}", tags=["comparing"])


@router.post("/diff")
def diff(app: AppName, request: DiffRequest, store: Store, caller: Caller) -> DiffModel:
    """What the trace of one row has that the trace of another has not."""
    left, right = (
        store.trace(app, side, rows=caller.rows) for side in (request.left, request.right)
    )
    difference = compare_traces(store, left.records, right.records, texts=caller.rows)
    return DiffModel(
        left=_side(left, difference.left),
        right=_side(right, difference.right),
        exact=difference.exact,
        complete=difference.complete,
        reasons=list(difference.reasons),
        groups=[
            DiffGroup(
                node=side.only_left.node,
                label=side.only_left.label,
                path=side.only_left.path,
                only_left=_group_items(side.only_left),
                only_right=_group_items(side.only_right),
                both=side.both,
            )
            for side in difference.groups
        ],
        changed=difference.changed,
        warnings=list(difference.warnings),
    )


@router.post("/suspects")
def suspects(app: AppName, request: SuspectsRequest, store: Store, caller: Caller) -> SuspectsModel:
    """Inputs of bad outputs, those first that went into most of them and into few of the good ones."""
    query = SuspectsQuery(
        tuple(request.places),
        tuple(request.good),
        app,
        request.limit,
        request.formula,
        with_tasks=False,
    )

    def trace(of_place: TraceQuery) -> Trace:
        start = StartModel(places=list(of_place.places))
        traced = store.trace(app, TraceRequest(direction="backward", start=start), rows=caller.rows)
        return Trace(of_place, traced.records)

    ranking = rank(store, query, rows=caller.rows, trace=trace)
    return SuspectsModel(
        outputs=len(ranking.requested_places),
        good=len(ranking.good_places),
        items=[
            Suspect(
                **serializers.item(suspect.item).model_dump(),
                node=suspect.node,
                label=suspect.label,
                outputs=suspect.outputs,
                good_outputs=suspect.good_outputs,
                **suspect.place.to_json(),
            )
            for suspect in ranking.items
        ],
        total=ranking.total,
        suspected=ranking.suspected,
        exact=ranking.exact,
        complete=ranking.complete,
        reasons=list(ranking.reasons),
        changed=ranking.changed,
        warnings=list(ranking.warnings),
    )


def compare_traces(
    store: Lineages,
    left: RecordTrace,
    right: RecordTrace,
    limit: int | None = serializers.ITEMS_SHOWN,
    *,
    texts: bool,
) -> Difference:
    """What each of two traces has that the other has not, within a turn; raises as `compare`."""
    with store.turn():
        return compare(left, right, limit, texts=texts)


def rank(
    store: Lineages,
    query: SuspectsQuery,
    *,
    rows: bool,
    trace: Callable[[TraceQuery], Trace] | None = None,
) -> Suspects:
    """Suspects, within a turn. ``rows``: the caller may read texts; ``trace``: traces an output.

    Raises:
        ProblemError: the outputs have more inputs than are counted.
        LineageError: as `find_suspects`.
    """
    if trace is None:
        trace = partial(store.trace_query, rows=rows)
    try:
        labels = labels_of(query, trace, texts=rows)
        with store.turn():
            return find_suspects(query, labels, lambda app: store.open(app or "latest"), texts=rows)
    except TooManyInputsError as error:
        raise too_costly_error(str(error), "give fewer outputs") from error


def _side(cached: CachedTrace, compared: ComparedTrace) -> DiffSide:
    start = [serializers.group(group) for group in compared.start]
    return DiffSide(trace=cached.id, count=compared.count, start=start)


def _group_items(group: Group) -> CountedItems:
    return CountedItems(count=group.count, items=serializers.items(group.items))
