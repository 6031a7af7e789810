"""Two traces against each other, and the inputs that several outputs share."""

from __future__ import annotations

from fastapi import APIRouter

from lineage_query.answers import Group
from lineage_query.comparing import (
    ComparedTrace,
    Difference,
    Suspects,
    TooManyInputsError,
    compare,
    rank_inputs,
)
from lineage_query.record_trace import RecordTrace
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
    """Inputs of several outputs, those of most outputs first: where one bad row would be."""
    places = list(dict.fromkeys(request.places))
    requests = (
        TraceRequest(direction="backward", start=StartModel(places=[place])) for place in places
    )
    traces = [store.trace(app, suspect, rows=caller.rows).records for suspect in requests]
    ranking = rank_traces(store, traces, request.limit, texts=caller.rows)
    return SuspectsModel(
        outputs=len(ranking.requested_places),
        items=[
            Suspect(
                **serializers.item(suspect.item).model_dump(),
                node=suspect.node,
                label=suspect.label,
                outputs=suspect.outputs,
            )
            for suspect in ranking.items
        ],
        total=ranking.total,
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


def rank_traces(store: Lineages, traces: list[RecordTrace], limit: int, *, texts: bool) -> Suspects:
    """Inputs of several outputs, within a turn.

    Raises:
        ProblemError: the outputs have more inputs than are counted.
        LineageError: as `rank_inputs`.
    """
    try:
        with store.turn():
            return rank_inputs(traces, limit, texts=texts)
    except TooManyInputsError as error:
        raise too_costly_error(str(error), "give fewer outputs") from error


def _side(cached: CachedTrace, compared: ComparedTrace) -> DiffSide:
    start = [serializers.group(group) for group in compared.start]
    return DiffSide(trace=cached.id, count=compared.count, start=start)


def _group_items(group: Group) -> CountedItems:
    return CountedItems(count=group.count, items=serializers.items(group.items))
