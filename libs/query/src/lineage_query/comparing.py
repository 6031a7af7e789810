"""Two traces of records against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lineage_core.contract.reasons import listed_reasons
from lineage_core.contract.region import Region
from lineage_core.tracing.trace_result import Direction, NodeItems, TraceError
from lineage_query.answers import Group, listed_warnings
from lineage_query.recipe_rows import RecipeRowError
from lineage_query.record_trace import RecordTrace
from lineage_query.trace_query import TraceQuery


@dataclass(frozen=True, slots=True)
class ComparedTrace:
    """One of two traces. ``requested_places``: its places as typed; ``count``: items found; ``start``: queried items."""

    requested_places: tuple[str, ...]
    count: int
    start: tuple[Group, ...]

    def to_json(self) -> dict[str, Any]:
        """As tools read it."""
        start = [group.to_json() for group in self.start]
        return {"from": list(self.requested_places), "count": self.count, "start": start}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ComparedTrace:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        start = tuple(map(Group.from_json, document["start"]))
        return cls(tuple(document["from"]), document["count"], start)


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
    def from_json(cls, document: Mapping[str, Any]) -> NodeDifference:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        left, right = (
            Group.from_json(document["only_left"]),
            Group.from_json(document["only_right"]),
        )
        return cls(left, right, document["both"])


@dataclass(frozen=True, slots=True)
class Difference:
    """What each of two traces of one application has that the other has not, by node in order of creation.

    ``exact``: both traces are exact, so each item is on exactly the stated side; else ``reasons`` give the reasons.
    ``complete``: neither lacks lineage.
    """

    app: str
    direction: Direction
    left: ComparedTrace
    right: ComparedTrace
    exact: bool
    reasons: tuple[str, ...]
    complete: bool
    changed: bool
    groups: tuple[NodeDifference, ...]
    warnings: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "reasons", listed_reasons(self.reasons))
        object.__setattr__(self, "warnings", listed_warnings(self.warnings, self.complete))

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
    def from_json(cls, document: Mapping[str, Any]) -> Difference:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        return cls(
            document["app"],
            Direction(document["direction"]),
            ComparedTrace.from_json(document["left"]),
            ComparedTrace.from_json(document["right"]),
            document["exact"],
            tuple(document["reasons"]),
            document["complete"],
            document["changed"],
            tuple(map(NodeDifference.from_json, document["groups"])),
            tuple(document["warnings"]),
        )


def records_to_compare(
    trace: Callable[[TraceQuery], RecordTrace], query: TraceQuery
) -> RecordTrace:
    """A trace that can be compared. ``trace``: `lineage_query.engine.QueryEngine.trace_records`, or bounded.

    Raises:
        TraceError: the query is for rows of DataFrames.
        LineageError: ``trace`` raised it.
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
        texts: include the texts of rows.

    Raises:
        TraceError: they are of different applications.
        BudgetError: to read the items costs more than the query may.
    """
    check_same_application((trace.app, trace.requested_places) for trace in (left, right))
    composer = left.composer()
    left_items, right_items = left.result.found, right.result.found
    no_items = NodeItems("", {})

    def group(node: str, spaces: dict[str, Region]) -> Group:
        return composer.group(NodeItems(node, spaces), limit, texts=texts)

    def side(trace: RecordTrace) -> ComparedTrace:
        start = tuple(composer.group(items, limit, texts=texts) for items in trace.starts())
        return ComparedTrace(trace.requested_places, trace.result.count, start)

    groups: list[NodeDifference] = []
    node_ids = [record.node for record in left.node_records()]
    unknown_nodes = sorted({*left_items, *right_items} - set(node_ids))
    for node in (*node_ids, *unknown_nodes):
        if node not in left_items and node not in right_items:
            continue
        left_of_node, right_of_node = (
            left_items.get(node, no_items),
            right_items.get(node, no_items),
        )
        both = _combined(left_of_node, right_of_node, Region.intersect)
        groups.append(
            NodeDifference(
                group(node, _combined(left_of_node, right_of_node, Region.minus)),
                group(node, _combined(right_of_node, left_of_node, Region.minus)),
                sum(region.count for region in both.values()),
            )
        )
    sides = side(left), side(right)
    listed_groups = [
        group for difference in groups for group in (difference.only_left, difference.only_right)
    ]
    listed_groups += [group for of_side in sides for group in of_side.start]
    trace_warnings = (*left.warnings, *right.warnings, *composer.warnings)
    return Difference(
        app=left.app,
        direction=left.direction,
        left=sides[0],
        right=sides[1],
        exact=left.result.exact and right.result.exact,
        reasons=tuple(dict.fromkeys((*left.result.reasons, *right.result.reasons))),
        complete=all(trace.complete and not trace.crosses for trace in (left, right)),
        changed=left.changed or right.changed or any(group.changed for group in listed_groups),
        groups=tuple(groups),
        warnings=tuple(
            dict.fromkeys((*trace_warnings, *left.end_warnings(), *right.end_warnings()))
        ),
    )


def check_same_application(traces: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Refuse traces, each by its application and its places, of different applications.

    Raises:
        TraceError: they are.
    """
    apps = {app: ", ".join(places) for app, places in traces}
    if len(apps) > 1:
        named = "; ".join(f"{places} belongs to {app}" for app, places in apps.items())
        raise TraceError(f"rows of one application are compared: {named} (--app chooses one)")


def _combined(
    left: NodeItems, right: NodeItems, combine: Callable[[Region, Region], Region]
) -> dict[str, Region]:
    """The regions of both, combined space by space."""
    empty = Region()
    combined = {
        space: combine(region, right.spaces.get(space, empty))
        for space, region in left.spaces.items()
    }
    return {space: region for space, region in combined.items() if region}
