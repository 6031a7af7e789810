"""Items of a trace in memory with the derivations between them: what PROV and GraphML share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lineage_core.tracing.derivations import derivations_among
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Composer, Item
from lineage_query.exports.errors import ExportTooLargeError
from lineage_query.exports.options import Options
from lineage_query.record_trace import FOUND, START, WAY, RecordTrace

STEPS_MAX = 5_000_000
"""Derivations looked at to find out what goes with what, end to end: some seconds."""

Place = tuple[str, int]
"""An item: its space and its position there."""


@dataclass(frozen=True, slots=True)
class Part:
    """One item that takes part, the node it belongs to, and what it is to the trace."""

    item: Item
    node: str
    role: str


@dataclass(frozen=True, slots=True)
class Derivation:
    """``made`` was made from ``used`` at ``node``; not exact: it need not have been."""

    made: Place
    used: Place
    node: str
    exact: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Derived:
    """All items of a trace, and every stored derivation between them, each once."""

    parts: Mapping[Place, Part]
    derivations: tuple[Derivation, ...]


def derived(traced: RecordTrace, composer: Composer, options: Options, what: str) -> Derived:
    """Items and derivations of a trace. ``what``: the format, for errors.

    Raises:
        ExportTooLargeError: there are more than ``options`` allows.
    """
    count = sum(region.count for region in traced.taking_part().values())
    if count > options.items_max:
        raise _too_large(f"{count:,} items take part", count, options.items_max, what)
    parts: dict[Place, Part] = {}
    for role, of_node in traced.roles(FOUND, START, WAY):
        for space, positions, items in composer.batches(of_node, texts=options.texts):
            for position, item in zip(positions.tolist(), items, strict=True):
                # An opaque item belongs to the first node that knows it.
                parts.setdefault((space, position), Part(item, of_node.node, role))
    found: dict[tuple[Place, Place, str], Derivation] = {}
    for one in _derivations(traced):
        key = (one.made, one.used, one.node)
        if one.exact or key not in found:
            found[key] = one
        if len(found) > options.pairs_max:
            counted = f"more than {options.pairs_max:,} derivations lie between {count:,} items"
            raise _too_large(counted, len(found), options.pairs_max, what)
    return Derived(parts, tuple(found.values()))


def _derivations(traced: RecordTrace) -> Iterator[Derivation]:
    for pairs in derivations_among(traced.graph, traced.taking_part()):
        for used, made in zip(pairs.ins.tolist(), pairs.outs.tolist(), strict=True):
            yield Derivation(
                (pairs.out_space, made),
                (pairs.in_space, used),
                pairs.block_id.node,
                pairs.exact,
                pairs.reason,
            )


def end_to_end(
    traced: RecordTrace, graph: Derived, limit: int
) -> dict[tuple[Place, Place], bool] | None:
    """Which item that was found goes with which that was asked for: (made, used) -> exact.

    Only along stored derivations. Exact where one way leads there on which every step is. Pairs that
    are derivations themselves are left out. None where there are more than ``limit``, or finding
    them takes more than :data:`STEPS_MAX`.
    """
    backward = traced.direction is Direction.BACKWARD
    near: dict[Place, list[tuple[Place, bool]]] = {}
    for one in graph.derivations:
        here, there = (one.made, one.used) if backward else (one.used, one.made)
        near.setdefault(here, []).append((there, one.exact))
    direct = {(one.made, one.used) for one in graph.derivations}
    ends: dict[tuple[Place, Place], bool] = {}
    steps = 0
    for start in _begun(traced):
        sure, sure_steps = _reach(near, start, exact_only=True)
        found, all_steps = _reach(near, start, exact_only=False)
        steps += sure_steps + all_steps
        for end in found:
            part = graph.parts.get(end)
            pair = (start, end) if backward else (end, start)
            if part is not None and part.role == FOUND and pair not in direct:
                ends[pair] = end in sure
        if len(ends) > limit or steps > STEPS_MAX:
            return None
    return ends


def _begun(traced: RecordTrace) -> Iterator[Place]:
    for space, region in traced.begun.items():
        for position in region.positions().tolist():
            yield space, position


def _reach(
    near: Mapping[Place, list[tuple[Place, bool]]], start: Place, *, exact_only: bool
) -> tuple[dict[Place, None], int]:
    """What is reached from an item (itself only if a way leads back to it), and in how many steps."""
    found: dict[Place, None] = {}
    todo = [start]
    steps = 0
    while todo:
        for there, exact in near.get(todo.pop(), ()):
            steps += 1
            if there not in found and (exact or not exact_only):
                found[there] = None
                todo.append(there)
    return found, steps


def _too_large(counted: str, count: int, limit: int, what: str) -> ExportTooLargeError:
    return ExportTooLargeError(
        f"{counted}, {what} takes {limit:,}: name fewer places, stop on the way with --to NODE or "
        "--step, raise --limit, or choose csv, arrow or parquet, which take any number",
        count=count,
        limit=limit,
    )
