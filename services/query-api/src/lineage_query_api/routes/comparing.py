"""Two traces against each other, and the inputs that several outputs share."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from fastapi import APIRouter

from lineage_core.region import Region
from lineage_core.trace_result import NodeItems
from lineage_query_api import shaping
from lineage_query_api.dependencies import AppName, Caller, Store
from lineage_query_api.errors import too_much
from lineage_query_api.lineages import Trace
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
from lineage_store.opened import Opened

router = APIRouter(prefix="/v1/applications/{app}", tags=["comparing"])
RANKED_MAX = 200_000
"""Inputs of all outputs together that are counted one by one."""


@router.post("/diff")
def diff(app: AppName, request: DiffRequest, store: Store, caller: Caller) -> DiffModel:
    """What the trace of one row has that the trace of another has not."""
    left, right = (store.trace(app, one, rows=caller.rows) for one in (request.left, request.right))
    opened = left.opened
    ours, theirs = left.traced.result.found, right.traced.result.found
    nothing = NodeItems("", {})
    groups = []
    for record in opened.nodes:
        node = record.node
        if node not in ours and node not in theirs:
            continue
        mine, other = ours.get(node, nothing), theirs.get(node, nothing)
        both = _count(_combined(mine, other, Region.intersect))
        groups.append(
            DiffGroup(
                node=node,
                label=opened.names.label(node),
                path=record.path,
                only_left=_some(opened, node, _combined(mine, other, Region.minus), caller.rows),
                only_right=_some(opened, node, _combined(other, mine, Region.minus), caller.rows),
                both=both,
            )
        )
    return DiffModel(
        left=_side(left, texts=caller.rows),
        right=_side(right, texts=caller.rows),
        exact=left.traced.result.exact and right.traced.result.exact,
        groups=groups,
    )


@router.post("/suspects")
def suspects(app: AppName, request: SuspectsRequest, store: Store, caller: Caller) -> SuspectsModel:
    """Inputs of several outputs, those of most outputs first: where one bad row would be."""
    places = list(dict.fromkeys(request.places))
    counted: Counter[tuple[str, str, int]] = Counter()
    exact = True
    opened = store.open(app)
    deadline = time.monotonic() + store.settings.api_query_s
    for place in places:
        if time.monotonic() > deadline:
            raise too_much("the traces of these outputs take too long", "give fewer outputs")
        asked = TraceRequest(direction="backward", start=StartModel(places=[place]))
        made = store.trace(app, asked, rows=caller.rows)
        exact &= made.traced.result.exact
        for node, found in made.traced.result.found.items():
            for space, region in found.spaces.items():
                if len(counted) + region.count > RANKED_MAX:
                    raise too_much(
                        f"the outputs have more than {RANKED_MAX:,} inputs", "give fewer outputs"
                    )
                counted.update((node, space, at) for at in region.positions().tolist())
    ranked = sorted(counted.items(), key=lambda one: (-one[1], one[0]))[: request.limit]
    composer = opened.composer()
    listed = []
    for (node, space, position), outputs in ranked:
        one = NodeItems(node, {space: Region.from_positions([position])})
        item = composer.group(one, None, texts=caller.rows).items[0]
        listed.append(
            Suspect(
                node=node,
                label=opened.names.label(node),
                address=item.address,
                location=item.location,
                text=item.text,
                outputs=outputs,
            )
        )
    return SuspectsModel(outputs=len(places), items=listed, total=len(counted), exact=exact)


def _side(made: Trace, *, texts: bool) -> Side:
    composer = made.opened.composer()
    starts = made.traced.starts()
    return Side(
        trace=made.id,
        count=made.traced.result.count,
        start=[
            shaping.group(composer.group(items, shaping.ITEMS_SHOWN, texts=texts))
            for items in starts
        ],
    )


def _combined(
    one: NodeItems, other: NodeItems, how: Callable[[Region, Region], Region]
) -> dict[str, Region]:
    """``how`` of the regions of one, space by space."""
    nothing = Region()
    found = {
        space: how(region, other.spaces.get(space, nothing)) for space, region in one.spaces.items()
    }
    return {space: region for space, region in found.items() if region}


def _count(spaces: dict[str, Region]) -> int:
    return sum(region.count for region in spaces.values())


def _some(opened: Opened, node: str, spaces: dict[str, Region], texts: bool) -> Some:
    group = opened.composer().group(NodeItems(node, spaces), shaping.ITEMS_SHOWN, texts=texts)
    return Some(count=group.count, items=shaping.items(group.items))
