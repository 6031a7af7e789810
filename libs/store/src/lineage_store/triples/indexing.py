"""Makes the first segment of an index, of all triples: in order, with sets, and what finds them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lineage_store.errors import StoreError
from lineage_store.lake.arrow import array_of
from lineage_store.triples.columns import Part
from lineage_store.triples.files import Columns, Numbers
from lineage_store.triples.numbering import Values, code_type, distinct_rows, item_keys
from lineage_store.triples.partitioning import components, connected_sets, places_of_labels


@dataclass(frozen=True, slots=True)
class Graph:
    """Triples of a data set, by codes of items and labels from 0: integers of 32 bits where they fit. Some may be there several times.

    ``node``: of each item; -1 where it is not known.
    """

    items: Any
    ops: Any
    nodes: Any
    src: Numbers
    dst: Numbers
    op: Numbers
    node: Numbers

    def distinct(self) -> Graph:
        """The same with each triple once."""
        src, dst, op = distinct_rows(self.src, self.dst, self.op)
        return replace(self, src=src, dst=dst, op=op)


@dataclass(frozen=True, slots=True)
class Counts:
    """How many a segment adds to an index. ``components``: less than none where it joins more than it adds."""

    items: int
    triples: int
    components: int
    sets: int
    ops: int
    nodes: int

    def to_json(self) -> dict[str, int]:
        """What is told of an index."""
        return {name: getattr(self, name) for name in ("items", "triples", "components", "sets")}

    def row(self, segment: int) -> Columns:
        """The row of a segment."""
        return {
            "segment": np.array([segment]),
            **{name: np.array([count]) for name, count in asdict(self).items()},
        }


def whole_index(graph: Graph, set_items: int) -> Iterator[tuple[Part, Columns]]:
    """All parts of an index of one segment.

    Where the caller keeps no reference to ``graph``, its triples take no memory any more once they are in order.

    Args:
        graph: what it is of.
        set_items: components of more items are split into sets.

    Raises:
        StoreError: there are no triples.
    """
    if not len(graph.src):
        raise StoreError("the data set has no triples yet, only nodes")
    component, sets = grouped(graph, set_items)
    # Items of a node side by side: their triples have the same operations, and lead to the same nodes.
    order = np.lexsort((graph.node, sets, component))
    number = np.empty(len(order), code_type(len(order)))
    number[order] = np.arange(len(order))
    component, sets = component[order], sets[order]
    ops, nodes, node = graph.ops, graph.nodes, graph.node
    yield from item_parts(graph.items, order, number, node)
    yield Part.OPS, {"op": np.arange(len(ops)), "op_text": ops}
    if len(nodes):
        yield Part.NODES, {"node": np.arange(len(nodes)), "node_text": nodes}
    del order, node
    src, dst, op = number[graph.src], number[graph.dst], graph.op
    del graph, number
    dst, src, op = distinct_rows(dst, src, op)
    yield Part.BACK, {"dst": dst, "src": src, "op": op}
    begins = differs_from_former(component, sets)
    first = np.flatnonzero(begins)
    starts = np.flatnonzero(differs_from_former(component))
    bounds = np.r_[starts, len(component)]
    of_set = np.searchsorted(starts, first, "right") - 1
    sets_of_all = {
        "first": first,
        "last": np.r_[first[1:], len(component)] - 1,
        "component": starts[of_set],
        "component_last": (bounds[1:] - 1)[of_set],
        "component_rows": np.diff(np.searchsorted(dst, bounds))[of_set],
    }
    set_of = first.astype(src.dtype)[np.cumsum(begins) - 1]
    counts = Counts(len(component), len(src), len(starts), len(first), len(ops), len(nodes))
    del component, sets, begins
    yield from set_parts(sets_of_all, set_of[src], set_of[dst])
    src, dst, op = distinct_rows(src, dst, op)
    yield Part.FORWARD, {"src": src, "dst": dst, "op": op}
    yield Part.COUNTS, counts.row(0)


def differs_from_former(*columns: Numbers) -> npt.NDArray[np.bool_]:
    """Where a row of some columns is another than the row before it."""
    differs = np.ones(len(columns[0]), bool)
    differs[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return differs


def grouped(graph: Graph, set_items: int) -> tuple[Numbers, Numbers]:
    """Of each item its component, and its set in that.

    Args:
        graph: all triples.
        set_items: components of more items are split.
    """
    component = components(len(graph.items), graph.src, graph.dst)
    sets = np.zeros(len(component), component.dtype)
    large = np.flatnonzero(np.bincount(component) > set_items)
    if not len(large) or graph.node.max() < 0:
        return component, sets
    local = np.empty(len(component), np.int64)
    members = places_of_labels(component, large)
    for items, triples in zip(members, places_of_labels(component[graph.src], large), strict=True):
        local[items] = np.arange(len(items))
        ends = local[graph.src[triples]], local[graph.dst[triples]]
        sets[items] = connected_sets(graph.node[items], *ends, set_items)
    return component, sets


def item_parts(
    items: Values, order: Numbers, number: Numbers, node: Numbers, first: int = 0
) -> Iterator[tuple[Part, Columns]]:
    """What finds items, and their numbers.

    Args:
        items: distinct ones, in order.
        order: their places in the order of their numbers.
        number: of each item.
        node: of each item; -1 where it is not known.
        first: the smallest number.
    """
    keys = item_keys(items)
    by_key = np.argsort(keys, kind="stable")
    yield Part.KEYS, {"key": keys[by_key], "number": number[by_key]}
    del keys, by_key
    named = (
        {"item": items[order]}
        if isinstance(items, np.ndarray)
        else {"item_text": items.take(array_of(order))}
    )
    yield Part.ITEMS, {"number": first + np.arange(len(order)), **named, "node": node[order]}


def set_parts(sets: Columns, src_set: Numbers, dst_set: Numbers) -> Iterator[tuple[Part, Columns]]:
    """Sets, and which depend on which.

    Args:
        sets: their rows.
        src_set: of the source of each triple its set.
        dst_set: as ``src_set``, of the destination.
    """
    yield Part.SETS, sets
    differs = src_set != dst_set
    child, parent = distinct_rows(dst_set[differs], src_set[differs])
    yield Part.PARENTS, {"child": child, "parent": parent}
    parent, child = distinct_rows(parent, child)
    yield Part.CHILDREN, {"parent": parent, "child": child}
