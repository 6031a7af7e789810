"""Provenance triples of the shape that CSProv was published with, made by a seed and replicated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]

ENTITIES: Final = 25
NODES: Final = 4_600_000
EDGES: Final = 6_400_000
LARGE: Final = (1_200_000, 900_000, 700_000)
MEDIUM: Final = (132, 910, 7_453)
SMALL_MAX: Final = 100
MANY_PARENTS: Final = ((32, 100, 450), (3_963, 10, 99))
"""How many values have from how many to how many parents; all others have fewer."""
DOCUMENTS: Final = 532
OPS: Final = [f"op{entity}" for entity in range(ENTITIES)]


@dataclass(frozen=True, slots=True)
class Shape:
    """What the workflow has. ``scale`` 1: as it was published; less: in proportion, with values, parents and documents as they were."""

    nodes: int
    edges: int
    large: tuple[int, ...]
    medium: int
    many_parents: tuple[tuple[int, int, int], ...]
    documents: int

    @classmethod
    def of(cls, scale: float) -> Shape:
        """The shape of some scale; each kind is there at least once."""

        def scaled(count: int) -> int:
            return max(1, round(count * scale))

        return cls(
            scaled(NODES),
            scaled(EDGES),
            tuple(map(scaled, LARGE)),
            scaled(MEDIUM[0]),
            tuple((scaled(count), least, most) for count, least, most in MANY_PARENTS),
            scaled(DOCUMENTS),
        )


@dataclass(frozen=True, slots=True)
class Workflow:
    """Triples, which are distinct, and the entity of each item.

    ``is_large``: whether an item is in one of the three large components. ``document``: of which one a value of the first entity
    was read; -1 for all others.
    """

    items: int
    src: Numbers
    dst: Numbers
    op: Numbers
    entity: Numbers
    is_large: npt.NDArray[np.bool_]
    document: Numbers


def workflow(factor: int, scale: float = 1.0) -> Workflow:
    """The triples, replicated.

    Items are numbered at random in each replica: what lies together is found by the index alone. All values of an entity but
    the first have a parent of the entity before; neighbours among values of the first entity share a child, so components are connected.
    """
    draw = np.random.default_rng(3)
    shape = Shape.of(scale)
    nodes = shape.nodes
    sizes = _sizes(draw, shape)
    first = np.cumsum(sizes) - sizes
    component = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(nodes) - first[component]
    entity = place * ENTITIES // sizes[component]
    src, dst = _Edges(draw, shape, first, sizes, component, place, entity).drawn()
    renamed = draw.permutation(nodes)
    copies = [renamed + at * nodes for at in range(factor)]
    read = np.flatnonzero(entity == 0)
    entities, documents = np.empty(nodes, np.int64), np.full(nodes, -1, np.int64)
    entities[renamed] = entity
    documents[renamed[read]] = np.arange(len(read)) * shape.documents // len(read)
    is_large = np.empty(nodes, bool)
    is_large[renamed] = component < len(shape.large)
    return Workflow(
        items=nodes * factor,
        src=np.concatenate([copy[src] for copy in copies]),
        dst=np.concatenate([copy[dst] for copy in copies]),
        op=np.tile(entity[dst], factor),
        entity=np.tile(entities, factor),
        is_large=np.tile(is_large, factor),
        document=np.concatenate(
            [np.where(documents < 0, -1, documents + at * shape.documents) for at in range(factor)]
        ),
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
        document=np.concatenate([made.document, fill - 1]),
    )


def _sizes(draw: np.random.Generator, shape: Shape) -> Numbers:
    medium = draw.integers(MEDIUM[1], MEDIUM[2] + 1, shape.medium)
    left = shape.nodes - sum(shape.large) - int(medium.sum())
    small = draw.integers(2, SMALL_MAX + 1, left)
    small = small[: int(np.searchsorted(np.cumsum(small), left))]
    rest = left - int(small.sum())
    return np.array([*shape.large, *medium, *small, *([rest] if rest else [])], np.int64)


class _Edges:
    """Draws distinct edges between values that are numbered by component, entity and place."""

    def __init__(
        self,
        draw: np.random.Generator,
        shape: Shape,
        first: Numbers,
        sizes: Numbers,
        component: Numbers,
        place: Numbers,
        entity: Numbers,
    ) -> None:
        self._draw = draw
        self._shape = shape
        self._first, self._size = first[component], sizes[component]
        self._place, self._entity = place, entity
        self._later = np.flatnonzero(entity > 0)

    def drawn(self) -> tuple[Numbers, Numbers]:
        """Sources and destinations, as many as the shape has."""
        connecting = np.unique(np.concatenate(self._connecting()))
        many = self._many(connecting)
        held = np.sort(np.concatenate([connecting, many]))
        is_open = np.ones(self._shape.nodes, bool)
        is_open[many % self._shape.nodes] = False
        least = min(least for _, least, _ in self._shape.many_parents)
        while missing := self._shape.edges - len(held):
            dst = self._draw.choice(self._later, missing)
            parents = np.bincount(held % self._shape.nodes, minlength=self._shape.nodes)
            # One for each value at a time, so that none comes to have many.
            dst = np.unique(dst[is_open[dst] & (parents[dst] < least - 1)])
            keys = self._keys(self._parents(dst), dst)
            keys = keys[held[np.minimum(np.searchsorted(held, keys), len(held) - 1)] != keys]
            held = np.sort(np.concatenate([held, keys]))
        return held // self._shape.nodes, held % self._shape.nodes

    def _keys(self, src: Numbers, dst: Numbers) -> Numbers:
        return np.asarray(src * self._shape.nodes + dst)

    def _begin(self, level: Numbers, of: Numbers) -> Numbers:
        """The place of the first value of an entity in its component."""
        return np.asarray(-(-level * self._size[of] // ENTITIES))

    def _before(self, items: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Where the entity before begins in the component of each item and how many values it has, and where its own begins."""
        level = self._entity[items] - 1
        start = self._begin(level, items)
        width = np.maximum(self._begin(level + 1, items) - start, 1)
        return start, width, self._begin(self._entity[items], items)

    def _parents(self, items: Numbers) -> Numbers:
        """A value of the entity before (or the last before it, where that has none), near in its order, so that lineages overlap."""
        start, width, own = self._before(items)
        spread = np.maximum(width // 50, 1)
        near = (self._place[items] - own) + self._draw.integers(-spread, spread + 1)
        return np.asarray(self._first[items] + np.minimum(start + near % width, own - 1))

    def _connecting(self) -> list[Numbers]:
        """A parent of each value but those of the first entity, of which neighbours share a child."""
        roots = np.flatnonzero((self._entity == 0) & (self._place > 0))
        child = self._first[roots] + np.minimum(
            self._begin(np.ones(len(roots), np.int64), roots) + self._place[roots] - 1,
            self._size[roots] - 1,
        )
        return [
            self._keys(self._parents(self._later), self._later),
            self._keys(roots, child),
            self._keys(roots - 1, child),
        ]

    def _many(self, connecting: Numbers) -> Numbers:
        """More parents of some values of large components, as others have no such many values of an entity."""
        parents = np.bincount(connecting % self._shape.nodes, minlength=self._shape.nodes)
        is_single = (parents == 1) & (self._entity > 1)
        is_single[sum(self._shape.large) :] = False
        counts = np.concatenate(
            [
                self._draw.integers(least, most + 1, count)
                for count, least, most in self._shape.many_parents
            ]
        )
        chosen = self._draw.choice(np.flatnonzero(is_single), len(counts), replace=False)
        own_parent = np.zeros(self._shape.nodes, np.int64)
        own_parent[connecting % self._shape.nodes] = connecting // self._shape.nodes
        keys = []
        for item, count in zip(chosen.tolist(), counts.tolist(), strict=True):
            start, width, own = (int(value[0]) for value in self._before(np.array([item])))
            reach = max(width // 50, count)
            near = self._draw.choice(2 * reach + 1, count, replace=False) - reach
            src = self._first[item] + start + (self._place[item] - own + near) % width
            src = src[src != own_parent[item]][: count - 1]
            keys.append(self._keys(src, np.full(len(src), item)))
        return np.concatenate(keys)
