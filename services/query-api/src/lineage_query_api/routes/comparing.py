"""Two traces against each other, and the inputs that several outputs share."""

from __future__ import annotations

from fastapi import APIRouter

from lineage_query.answers import Group
from lineage_query.comparing import Difference, Suspects, TooManyInputsError, compare, rank_inputs
from lineage_query.comparing import Side as ComparedSide
from lineage_query.record_trace import RecordTrace
from lineage_query_api import serializers
from lineage_query_api.dependencies import AppName, Caller, Store
from lineage_query_api.errors import too_much
from lineage_query_api.lineages import CachedTrace, Lineages
from lineage_query_api.models import (
    DiffGroup,
    DiffModel,
    DiffRequest,
    Side,
    Some,
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
    left, right = (store.trace(app, one, rows=caller.rows) for one in (request.left, request.right))
    found = compared(store, left.records, right.records, texts=caller.rows)
    return DiffModel(
        left=_side(left, found.left),
        right=_side(right, found.right),
        exact=found.exact,
        complete=found.complete,
        reasons=list(found.reasons),
        groups=[
            DiffGroup(
                node=one.only_left.node,
                label=one.only_left.label,
                path=one.only_left.path,
                only_left=_some(one.only_left),
                only_right=_some(one.only_right),
                both=one.both,
            )
            for one in found.groups
        ],
        changed=found.changed,
        warnings=list(found.warnings),
    )


@router.post("/suspects")
def suspects(app: AppName, request: SuspectsRequest, store: Store, caller: Caller) -> SuspectsModel:
    """Inputs of several outputs, those of most outputs first: where one bad row would be."""
    places = list(dict.fromkeys(request.places))
    requests = (
        TraceRequest(direction="backward", start=StartModel(places=[place])) for place in places
    )
    traces = [store.trace(app, one, rows=caller.rows).records for one in requests]
    found = ranked(store, traces, request.limit, texts=caller.rows)
    return SuspectsModel(
        outputs=len(found.requested_places),
        items=[
            Suspect(
                **serializers.item(one.item).model_dump(),
                node=one.node,
                label=one.label,
                outputs=one.outputs,
            )
            for one in found.items
        ],
        total=found.total,
        exact=found.exact,
        complete=found.complete,
        reasons=list(found.reasons),
        changed=found.changed,
        warnings=list(found.warnings),
    )


def compared(
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


def ranked(store: Lineages, traces: list[RecordTrace], limit: int, *, texts: bool) -> Suspects:
    """Inputs of several outputs, within a turn.

    Raises:
        ProblemError: the outputs have more inputs than are counted.
        LineageError: as `rank_inputs`.
    """
    try:
        with store.turn():
            return rank_inputs(traces, limit, texts=texts)
    except TooManyInputsError as error:
        raise too_much(str(error), "give fewer outputs") from error


def _side(made: CachedTrace, side: ComparedSide) -> Side:
    start = [serializers.group(group) for group in side.start]
    return Side(trace=made.id, count=side.count, start=start)


def _some(group: Group) -> Some:
    return Some(count=group.count, items=serializers.items(group.items))
