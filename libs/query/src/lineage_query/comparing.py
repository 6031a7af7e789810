"""Two traces of records against each other, and the inputs that several outputs share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lineage_core.contract.region import Region
from lineage_core.errors import LineageError
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.trace_result import Direction, NodeItems, TraceError
from lineage_query.answers import Group, Item
from lineage_query.recipe_rows import RecipeRowError
from lineage_query.record_trace import RecordTrace
from lineage_query.trace_query import TraceQuery

RANKED_MAX = 200_000
"""Inputs of all outputs together that are counted one by one."""


class TooManyInputsError(LineageError):
    """Outputs that have more inputs than are counted."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of two traces. ``asked``: its places as typed; ``count``: items found; ``start``: those asked for."""

    asked: tuple[str, ...]
    count: int
    start: tuple[Group, ...]

    def to_json(self) -> dict[str, Any]:
        """As tools read it."""
        start = [group.to_json() for group in self.start]
        return {"from": list(self.asked), "count": self.count, "start": start}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Side:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        start = tuple(map(Group.from_json, told["start"]))
        return cls(tuple(told["from"]), told["count"], start)


@dataclass(frozen=True, slots=True)
class NodeDifference:
    """Items of one node that one trace found and the other did not, and how many both did."""

    only_left: Group
    only_right: Group
    both: int

    def to_json(self) -> dict[str, Any]:
        """As tools read it."""
        return {
            "only_left": self.only_left.to_json(),
            "only_right": self.only_right.to_json(),
            "both": self.both,
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> NodeDifference:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        left, right = Group.from_json(told["only_left"]), Group.from_json(told["only_right"])
        return cls(left, right, told["both"])


@dataclass(frozen=True, slots=True)
class Difference:
    """What each of two traces of one application has that the other has not, by node in order of creation.

    ``exact``: both traces are, so each item is just where it is said to be; else ``reasons`` say why not. ``complete``:
    neither lacks lineage.
    """

    app: str
    direction: Direction
    left: Side
    right: Side
    exact: bool
    reasons: tuple[str, ...]
    complete: bool
    changed: bool
    groups: tuple[NodeDifference, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The shape that tools rely on; keys are only ever added."""
        return {
            "app": self.app,
            "direction": self.direction.value,
            "left": self.left.to_json(),
            "right": self.right.to_json(),
            "exact": self.exact,
            "reasons": list(self.reasons),
            "complete": self.complete,
            "changed": self.changed,
            "groups": [group.to_json() for group in self.groups],
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Difference:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        return cls(
            told["app"],
            Direction(told["direction"]),
            Side.from_json(told["left"]),
            Side.from_json(told["right"]),
            told["exact"],
            tuple(told["reasons"]),
            told["complete"],
            told["changed"],
            tuple(map(NodeDifference.from_json, told["groups"])),
            tuple(told["warnings"]),
        )


@dataclass(frozen=True, slots=True)
class SharedInput:
    """An input of ``outputs`` of several outputs."""

    node: str
    label: str
    item: Item
    outputs: int

    def to_json(self) -> dict[str, Any]:
        """As tools read it."""
        return {
            "node": self.node,
            "name": self.label,
            **self.item.to_json(),
            "outputs": self.outputs,
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> SharedInput:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        return cls(told["node"], told["name"], Item.from_json(dict(told)), told["outputs"])


@dataclass(frozen=True, slots=True)
class Suspects:
    """Inputs of several outputs, those of most outputs first. ``total``: inputs of any of them; the rest as in `Difference`."""

    app: str
    asked: tuple[str, ...]
    items: tuple[SharedInput, ...]
    total: int
    exact: bool
    reasons: tuple[str, ...]
    complete: bool
    changed: bool
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The shape that tools rely on; keys are only ever added."""
        return {
            "app": self.app,
            "from": list(self.asked),
            "outputs": len(self.asked),
            "items": [item.to_json() for item in self.items],
            "total": self.total,
            "exact": self.exact,
            "reasons": list(self.reasons),
            "complete": self.complete,
            "changed": self.changed,
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Suspects:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        return cls(
            told["app"],
            tuple(told["from"]),
            tuple(map(SharedInput.from_json, told["items"])),
            told["total"],
            told["exact"],
            tuple(told["reasons"]),
            told["complete"],
            told["changed"],
            tuple(told["warnings"]),
        )


def records_to_compare(
    trace: Callable[[TraceQuery], RecordTrace], query: TraceQuery
) -> RecordTrace:
    """A trace that can be compared. ``trace``: `lineage_query.engine.QueryEngine.trace_records`, or bounded.

    Raises:
        TraceError: rows of DataFrames are asked for.
        LineageError: what ``trace`` raises.
    """
    try:
        return trace(query)
    except RecipeRowError as error:
        raise TraceError("rows of DataFrames can be traced, not compared") from error


def compare(left: RecordTrace, right: RecordTrace, limit: int | None, *, texts: bool) -> Difference:
    """What each of two traces has that the other has not.

    Args:
        left: a trace.
        right: another one, of the same application.
        limit: items listed of each node and side; None: all.
        texts: with what rows say.

    Raises:
        TraceError: they are of different applications.
        BudgetError: to read the items costs more than the query may.
    """
    _check_one_application((left, right))
    composer = left.composer()
    ours, theirs = left.result.found, right.result.found
    nothing = NodeItems("", {})

    def group(node: str, spaces: dict[str, Region]) -> Group:
        return composer.group(NodeItems(node, spaces), limit, texts=texts)

    def side(trace: RecordTrace) -> Side:
        start = tuple(composer.group(items, limit, texts=texts) for items in trace.starts())
        return Side(trace.asked, trace.result.count, start)

    groups: list[NodeDifference] = []
    known = [record.node for record in left.node_records()]
    strange = sorted({*ours, *theirs} - set(known))
    for node in (*known, *strange):
        if node not in ours and node not in theirs:
            continue
        mine, other = ours.get(node, nothing), theirs.get(node, nothing)
        both = _combined(mine, other, Region.intersect)
        groups.append(
            NodeDifference(
                group(node, _combined(mine, other, Region.minus)),
                group(node, _combined(other, mine, Region.minus)),
                sum(region.count for region in both.values()),
            )
        )
    sides = side(left), side(right)
    listed = [one for found in groups for one in (found.only_left, found.only_right)]
    listed += [one for of_side in sides for one in of_side.start]
    said = (*left.warnings, *right.warnings, *composer.warnings)
    return Difference(
        app=left.app,
        direction=left.direction,
        left=sides[0],
        right=sides[1],
        exact=left.result.exact and right.result.exact,
        reasons=tuple(dict.fromkeys((*left.result.reasons, *right.result.reasons))),
        complete=all(one.complete and not one.crosses for one in (left, right)),
        changed=left.changed or right.changed or any(one.changed for one in listed),
        groups=tuple(groups),
        warnings=tuple(dict.fromkeys((*said, *left.stops(), *right.stops()))),
    )


def rank_inputs(traces: Sequence[RecordTrace], limit: int, *, texts: bool) -> Suspects:
    """Inputs of several outputs, those of most outputs first: where one bad row would be.

    Args:
        traces: of one output each, all of one application; an output that is named twice counts once.
        limit: inputs that are listed.
        texts: with what rows say.

    Raises:
        TraceError: they are of different applications.
        TooManyInputsError: the outputs have more inputs than are counted.
        BudgetError: it costs more than the query may.
    """
    _check_one_application(traces)
    traces = list({_start_key(trace): trace for trace in reversed(traces)}.values())[::-1]
    counted: Counter[tuple[str, str, int]] = Counter()
    for trace in traces:
        current_budget().check()
        for node, found in trace.result.found.items():
            for space, region in found.spaces.items():
                if len(counted) + region.count > RANKED_MAX:
                    raise TooManyInputsError(f"the outputs have more than {RANKED_MAX:,} inputs")
                counted.update((node, space, at) for at in region.positions().tolist())
    ranked = sorted(counted.items(), key=lambda one: (-one[1], one[0]))[:limit]
    composer, names = traces[0].composer(), traces[0].names
    items: list[SharedInput] = []
    changed = any(trace.changed for trace in traces)
    for (node, space, position), outputs in ranked:
        one = NodeItems(node, {space: Region.from_positions([position])})
        group = composer.group(one, None, texts=texts)
        changed |= group.changed
        items.append(SharedInput(node, names.label(node), group.items[0], outputs))
    said = (text for trace in traces for text in trace.warnings)
    stops = (text for trace in traces for text in trace.stops())
    return Suspects(
        app=traces[0].app,
        asked=tuple(place for trace in traces for place in trace.asked),
        items=tuple(items),
        total=len(counted),
        exact=all(trace.result.exact for trace in traces),
        reasons=tuple(dict.fromkeys(text for trace in traces for text in trace.result.reasons)),
        complete=all(trace.complete and not trace.crosses for trace in traces),
        changed=changed,
        warnings=tuple(dict.fromkeys((*said, *composer.warnings, *stops))),
    )


def _start_key(trace: RecordTrace) -> frozenset[tuple[str, bytes, bytes]]:
    """The same for traces of the same items, however their places are spelled."""
    return frozenset(
        (space, region.first.tobytes(), region.last.tobytes())
        for space, region in trace.begun.items()
    )


def _check_one_application(traces: Sequence[RecordTrace]) -> None:
    apps = {trace.app: ", ".join(trace.asked) for trace in traces}
    if len(apps) > 1:
        named = "; ".join(f"{places} belongs to {app}" for app, places in apps.items())
        raise TraceError(f"rows of one application are compared: {named} (--app chooses one)")


def _combined(
    one: NodeItems, other: NodeItems, how: Callable[[Region, Region], Region]
) -> dict[str, Region]:
    """``how`` of the regions of one, space by space."""
    nothing = Region()
    found = {
        space: how(region, other.spaces.get(space, nothing)) for space, region in one.spaces.items()
    }
    return {space: region for space, region in found.items() if region}
