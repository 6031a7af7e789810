"""Two traces against each other, and the inputs that several outputs share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from fastapi import APIRouter

from lineage_core.contract.region import Region
from lineage_core.tracing.trace_result import NodeItems
from lineage_query.answers import Group
from lineage_query.snapshot import ApplicationSnapshot
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
RANKED_MAX = 200_000
"""Inputs of all outputs together that are counted one by one."""


@router.post("/diff")
def diff(app: AppName, request: DiffRequest, store: Store, caller: Caller) -> DiffModel:
    """What the trace of one row has that the trace of another has not."""
    left, right = (store.trace(app, one, rows=caller.rows) for one in (request.left, request.right))
    opened = left.opened
    ours, theirs = left.traced.result.found, right.traced.result.found
    nothing = NodeItems("", {})
    groups, files = [], _Files(store, opened, caller.rows)
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
                only_left=files.some(node, _combined(mine, other, Region.minus)),
                only_right=files.some(node, _combined(other, mine, Region.minus)),
                both=both,
            )
        )
    return DiffModel(
        left=files.side(left),
        right=files.side(right),
        exact=left.traced.result.exact and right.traced.result.exact,
        groups=groups,
        changed=files.changed or left.traced.changed or right.traced.changed,
        warnings=files.warnings(left, right),
    )


@router.post("/suspects")
def suspects(app: AppName, request: SuspectsRequest, store: Store, caller: Caller) -> SuspectsModel:
    """Inputs of several outputs, those of most outputs first: where one bad row would be."""
    places = list(dict.fromkeys(request.places))
    counted: Counter[tuple[str, str, int]] = Counter()
    exact, traces = True, list[CachedTrace]()
    opened = store.open(app)
    for place in places:
        asked = TraceRequest(direction="backward", start=StartModel(places=[place]))
        made = store.trace(app, asked, rows=caller.rows)
        exact &= made.traced.result.exact
        traces.append(made)
        for node, found in made.traced.result.found.items():
            for space, region in found.spaces.items():
                if len(counted) + region.count > RANKED_MAX:
                    raise too_much(
                        f"the outputs have more than {RANKED_MAX:,} inputs", "give fewer outputs"
                    )
                counted.update((node, space, at) for at in region.positions().tolist())
    ranked = sorted(counted.items(), key=lambda one: (-one[1], one[0]))[: request.limit]
    files = _Files(store, opened, caller.rows)
    listed = []
    for (node, space, position), outputs in ranked:
        one = NodeItems(node, {space: Region.from_positions([position])})
        item = files.group(one).items[0]
        listed.append(
            Suspect(
                node=node,
                label=opened.names.label(node),
                address=item.address,
                location=item.location,
                text=item.text,
                binding=item.binding,
                outputs=outputs,
            )
        )
    return SuspectsModel(
        outputs=len(places),
        items=listed,
        total=len(counted),
        exact=exact,
        changed=files.changed or any(made.traced.changed for made in traces),
        warnings=files.warnings(*traces),
    )


class _Files:
    """Lists items with their rows of files, and knows whether one of these has changed."""

    def __init__(self, store: Lineages, opened: ApplicationSnapshot, texts: bool) -> None:
        self._store = store
        self._composer = opened.composer()
        self._texts = texts
        self.changed = False

    def warnings(self, *traces: CachedTrace) -> list[str]:
        """What is to be known of traces, and of the files of what was listed."""
        said = [warning for made in traces for warning in made.traced.warnings]
        return list(dict.fromkeys((*said, *self._composer.warnings)))

    def group(self, items: NodeItems, limit: int | None = None) -> Group:
        """Items of one node."""
        with self._store.turn():
            group = self._composer.group(items, limit, texts=self._texts)
        self.changed |= group.changed
        return group

    def some(self, node: str, spaces: dict[str, Region]) -> Some:
        """The first of some items of a node."""
        group = self.group(NodeItems(node, spaces), serializers.ITEMS_SHOWN)
        return Some(count=group.count, items=serializers.items(group.items))

    def side(self, made: CachedTrace) -> Side:
        """What a trace was asked for."""
        starts = [self.group(items, serializers.ITEMS_SHOWN) for items in made.traced.starts()]
        count = made.traced.result.count
        return Side(trace=made.id, count=count, start=[serializers.group(one) for one in starts])


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
