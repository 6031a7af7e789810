"""Provenance triples of the shape that CSProv was published with, made by a seed and replicated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]

ENTITIES: Final = 25
NODES: Final = 4_600_000
EDGES: Final = 6_400_000
LARGE: Final = (1_200_000, 900_000, 700_000)
MEDIUM: Final = (132, 910, 7_453)
SMALL_MAX: Final = 100
MANY_PARENTS: Final = ((32, 100, 450), (3_963, 10, 100))
"""How many values have from how many to how many parents."""
OPS: Final = [f"op{entity}" for entity in range(ENTITIES)]


@dataclass(frozen=True, slots=True)
class Workflow:
    """Triples and the entity of each item. ``is_large``: whether an item is in one of the three large components."""

    items: int
    src: Numbers
    dst: Numbers
    op: Numbers
    entity: Numbers
    is_large: npt.NDArray[np.bool_]


def workflow(factor: int) -> Workflow:
    """The triples, replicated.

    Items are numbered at random in each replica: what lies together is found by the index alone. All values of an entity but
    the first have a parent of the entity before; neighbours among values of the first entity share a child, so components are connected.
    """
    draw = np.random.default_rng(3)
    sizes = _sizes(draw)
    first = np.cumsum(sizes) - sizes
    component = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(NODES) - first[component]
    size = sizes[component]
    entity = place * ENTITIES // size
    src, dst = _edges(draw, first, place, size, entity, component)
    renamed = draw.permutation(NODES)
    copies = [renamed + at * NODES for at in range(factor)]
    entities = np.empty(NODES, np.int64)
    entities[renamed] = entity
    is_large = np.empty(NODES, bool)
    is_large[renamed] = component < len(LARGE)
    return Workflow(
        items=NODES * factor,
        src=np.concatenate([copy[src] for copy in copies]),
        dst=np.concatenate([copy[dst] for copy in copies]),
        op=np.tile(entity[dst], factor),
        entity=np.tile(entities, factor),
        is_large=np.tile(is_large, factor),
    )


def added(made: Workflow, share: float) -> Workflow:
    """A workflow with some triples more: all that are added come last.

    Nine tenths lead to items that are new, from any item of the workflow or the new one before; the others are between items of the
    workflow, so that they join components.
    """
    draw = np.random.default_rng(17)
    count = int(len(made.src) * share)
    between = count // 10
    new = made.items + np.arange(count - between)
    src = draw.integers(0, made.items, count)
    is_chained = draw.random(count) < 1 / 2
    is_chained[: between + 1] = False
    src[is_chained] = new[np.flatnonzero(is_chained) - between - 1]
    dst = np.concatenate([draw.integers(0, made.items, between), new])
    fill = np.zeros(len(new), np.int64)
    return Workflow(
        items=made.items + len(new),
        src=np.concatenate([made.src, src]),
        dst=np.concatenate([made.dst, dst]),
        op=np.concatenate([made.op, draw.integers(0, ENTITIES, count)]),
        entity=np.concatenate([made.entity, fill]),
        is_large=np.concatenate([made.is_large, fill.astype(bool)]),
    )


def _sizes(draw: np.random.Generator) -> Numbers:
    medium = draw.integers(MEDIUM[1], MEDIUM[2] + 1, MEDIUM[0])
    left = NODES - sum(LARGE) - int(medium.sum())
    small = draw.integers(2, SMALL_MAX + 1, left)
    small = small[: int(np.searchsorted(np.cumsum(small), left))]
    rest = left - int(small.sum())
    return np.array([*LARGE, *medium, *small, *([rest] if rest else [])], np.int64)


def _edges(draw: Any, first: Numbers, place: Numbers, size: Numbers, entity: Numbers, component: Numbers) -> tuple[Numbers, Numbers]:  # fmt: skip
    def begin(level: Numbers, of: Numbers) -> Numbers:
        """The place of the first value of an entity in its component."""
        return -(-level * size[of] // ENTITIES)

    def parent_of(items: Numbers) -> Numbers:
        """A value of the entity before (or the last before it, where that has none), near in its order, so that lineages overlap."""
        level = entity[items] - 1
        start = begin(level, items)
        width = np.maximum(begin(level + 1, items) - start, 1)
        own = begin(entity[items], items)
        spread = np.maximum(width // 50, 1)
        near = (place[items] - own) + draw.integers(-spread, spread + 1)
        return np.asarray(first[component[items]] + np.minimum(start + near % width, own - 1))

    later = np.flatnonzero(entity > 0)
    roots = np.flatnonzero((entity == 0) & (place > 0))
    child = first[component[roots]] + np.minimum(
        begin(np.ones(len(roots), np.int64), roots) + place[roots] - 1, size[roots] - 1
    )
    src = [parent_of(later), roots, roots - 1]
    dst = [later, child, child]
    for count, least, most in MANY_PARENTS:
        # Of large components, as others have no such many values of an entity.
        some = draw.choice(later[later < sum(LARGE)], count, replace=False)
        many = np.repeat(some, draw.integers(least, most + 1, count))
        src.append(parent_of(many))
        dst.append(many)
    extra = draw.choice(later, EDGES - sum(map(len, src)))
    src.append(parent_of(extra))
    dst.append(extra)
    return np.concatenate(src), np.concatenate(dst)
