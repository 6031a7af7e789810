"""Items of a trace in memory with the derivations between them: what PROV and GraphML share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lineage_core.tracing.derivations import derivations_among
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Composer, Item
from lineage_query.exports.errors import ExportTooLargeError
from lineage_query.exports.options import ExportOptions
from lineage_query.record_trace import FOUND, IN_BETWEEN, START, RecordTrace

STEPS_MAX = 5_000_000
"""Maximum number of derivations followed to find end-to-end pairs: takes a few seconds."""

ItemKey = tuple[str, int]
"""An item: its space and its position there."""


@dataclass(frozen=True, slots=True)
class ExportedItem:
    """One item that takes part, its node, and its role in the trace."""

    item: Item
    node: str
    role: str


@dataclass(frozen=True, slots=True)
class Derivation:
    """``generated_item`` was derived from ``used`` at ``node``; not exact: it may not have been."""

    generated_item: ItemKey
    used: ItemKey
    node: str
    exact: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Derived:
    """All items of a trace, and every stored derivation between them, each once."""

    parts: Mapping[ItemKey, ExportedItem]
    derivations: tuple[Derivation, ...]


def derived(
    traced: RecordTrace, composer: Composer, options: ExportOptions, format_name: str
) -> Derived:
    """Items and derivations of a trace. ``what``: the format, for errors.

    Raises:
        ExportTooLargeError: there are more than ``options`` allows.
    """
    count = sum(region.count for region in traced.taking_part().values())
    if count > options.items_max:
        raise _too_large(f"{count:,} items take part", count, options.items_max, format_name)
    parts: dict[ItemKey, ExportedItem] = {}
    for role, node_items in traced.roles(FOUND, START, IN_BETWEEN):
        for space, positions, items in composer.batches(node_items, texts=options.texts):
            for position, item in zip(positions.tolist(), items, strict=True):
                # An opaque item belongs to the first node that lists it.
                parts.setdefault((space, position), ExportedItem(item, node_items.node, role))
    derivations: dict[tuple[ItemKey, ItemKey, str], Derivation] = {}
    for derivation in _derivations(traced):
        key = (derivation.generated_item, derivation.used, derivation.node)
        if derivation.exact or key not in derivations:
            derivations[key] = derivation
        if len(derivations) > options.pairs_max:
            counted = f"more than {options.pairs_max:,} derivations lie between {count:,} items"
            raise _too_large(counted, len(derivations), options.pairs_max, format_name)
    return Derived(parts, tuple(derivations.values()))


def _derivations(traced: RecordTrace) -> Iterator[Derivation]:
    for pairs in derivations_among(traced.graph, traced.taking_part()):
        for used, generated_item in zip(pairs.ins.tolist(), pairs.outs.tolist(), strict=True):
            yield Derivation(
                (pairs.out_space, generated_item),
                (pairs.in_space, used),
                pairs.block_id.node,
                pairs.exact,
                pairs.reason,
            )


def end_to_end(
    traced: RecordTrace, graph: Derived, limit: int
) -> dict[tuple[ItemKey, ItemKey], bool] | None:
    """The end-to-end pairs of found items and items of the query: (made, used) -> exact.

    Only along stored derivations. A pair is exact if all steps of at least one path are. Pairs that
    are derivations themselves are left out. None if there are more than ``limit``, or finding
    them takes more than :data:`STEPS_MAX` steps.
    """
    backward = traced.direction is Direction.BACKWARD
    neighbours: dict[ItemKey, list[tuple[ItemKey, bool]]] = {}
    for derivation in graph.derivations:
        from_item, to_item = (
            (derivation.generated_item, derivation.used)
            if backward
            else (derivation.used, derivation.generated_item)
        )
        neighbours.setdefault(from_item, []).append((to_item, derivation.exact))
    direct = {(derivation.generated_item, derivation.used) for derivation in graph.derivations}
    ends: dict[tuple[ItemKey, ItemKey], bool] = {}
    steps = 0
    for start in _start_items(traced):
        exactly_reached, sure_steps = _reach(neighbours, start, exact_only=True)
        reached, all_steps = _reach(neighbours, start, exact_only=False)
        steps += sure_steps + all_steps
        for end in reached:
            part = graph.parts.get(end)
            pair = (start, end) if backward else (end, start)
            if part is not None and part.role == FOUND and pair not in direct:
                ends[pair] = end in exactly_reached
        if len(ends) > limit or steps > STEPS_MAX:
            return None
    return ends


def _start_items(traced: RecordTrace) -> Iterator[ItemKey]:
    for space, region in traced.start_regions.items():
        for position in region.positions().tolist():
            yield space, position


def _reach(
    neighbours: Mapping[ItemKey, list[tuple[ItemKey, bool]]], start: ItemKey, *, exact_only: bool
) -> tuple[dict[ItemKey, None], int]:
    """The items reached from an item (itself only if a path leads back to it), and the number of steps."""
    reached: dict[ItemKey, None] = {}
    pending = [start]
    steps = 0
    while pending:
        for neighbour, exact in neighbours.get(pending.pop(), ()):
            steps += 1
            if neighbour not in reached and (exact or not exact_only):
                reached[neighbour] = None
                pending.append(neighbour)
    return reached, steps


def _too_large(counted: str, count: int, limit: int, format_name: str) -> ExportTooLargeError:
    return ExportTooLargeError(
        f"{counted}, {format_name} takes {limit:,}: name fewer places, stop on the way with --to NODE or "
        "--step, raise --limit, or choose csv, arrow or parquet, which take any number",
        count=count,
        limit=limit,
    )
