"""Adds triples to an index: a segment of its own for what is new, and which components it joins.

Nothing that is indexed is numbered again. New items that are connected among each other form sets; they belong to the component of the
items before them that they are connected with. Components that become one are ranges of numbers with the smallest as their root.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lineage_store.lake.arrow import array_of, mask_of
from lineage_store.triples.columns import Part
from lineage_store.triples.files import Columns, Numbers
from lineage_store.triples.held import HeldIndex
from lineage_store.triples.indexing import (
    Counts,
    Graph,
    differs_from_former,
    grouped,
    item_parts,
    set_parts,
)
from lineage_store.triples.numbering import distinct_rows
from lineage_store.triples.partitioning import components


@dataclass(frozen=True, slots=True)
class Growth:
    """What is new in an index. ``parts``: of the segment; ``members``: of all components that grew, now or before."""

    parts: dict[Part, Columns]
    members: Columns
    counts: Counts


@dataclass(frozen=True, slots=True)
class _New:
    """Items with their numbers.

    ``number``: of each item, and ``set_of`` the first item of its set. ``order``: the new items in the order of their numbers.
    ``sets``: rows of the new sets. ``label_of``: of each range of new items the component it belongs to.
    """

    number: Numbers
    order: Numbers
    set_of: Numbers
    sets: Columns
    label_of: Numbers


@dataclass(frozen=True, slots=True)
class _Joined:
    """Components of new items, and of components of the index as one item each.

    ``of_item``: of each new item. ``roots``: those of the index; ``of_root``: what each belongs to. ``triples``: of each how many new ones.
    """

    of_item: Numbers
    roots: Numbers
    of_root: Numbers
    triples: Numbers


def grow(index: HeldIndex, graph: Graph, set_items: int) -> Growth:
    """What triples add to an index.

    Args:
        index: as it is.
        graph: the triples; some may be in the index.
        set_items: groups of more new items are split into sets.
    """
    held = index.numbers_of(graph.items)
    ops, new_ops = index.labels(Part.OPS, graph.ops)
    labels, new_nodes = index.labels(Part.NODES, graph.nodes)
    node = np.where(graph.node >= 0, labels[graph.node], -1) if len(labels) else graph.node
    is_new = held < 0
    first_of_set, root = index.sets_of(held[~is_new])
    root_of = np.full(len(held), -1, np.int64)
    root_of[~is_new] = root
    # Both ends of a triple that is there are in one component: others are not looked up.
    is_apart = root_of[graph.src] != root_of[graph.dst]
    has = index.has(np.where(is_apart, -1, held[graph.src]), held[graph.dst], ops[graph.op])
    src, dst, op = graph.src[~has], graph.dst[~has], ops[graph.op[~has]]
    joined = _joined(is_new, root, src, dst)
    first = index.count("items")
    new = _numbered(graph, first, held, joined, (src, dst), set_items)
    new.set_of[~is_new] = first_of_set
    items = (
        graph.items[is_new]
        if isinstance(graph.items, np.ndarray)
        else graph.items.filter(mask_of(is_new))
    )
    parts = dict(item_parts(items, new.order, new.number[is_new], node[is_new], first))
    parts[Part.OPS] = {"op": ops[new_ops], "op_text": graph.ops.take(array_of(new_ops))}
    parts[Part.NODES] = {
        "node": labels[new_nodes],
        "node_text": graph.nodes.take(array_of(new_nodes)),
    }
    parts |= dict(set_parts(new.sets, new.set_of[src], new.set_of[dst]))
    dst, src, op = distinct_rows(new.number[dst], new.number[src], op)
    parts[Part.BACK] = {"dst": dst, "src": src, "op": op}
    src, dst, op = distinct_rows(src, dst, op)
    parts[Part.FORWARD] = {"src": src, "dst": dst, "op": op}
    named = np.flatnonzero(~is_new & (node >= 0))
    named = named[np.argsort(held[named])]
    parts[Part.NODE_OF] = {"number": held[named], "node": node[named]}
    counts = Counts(
        items=int(is_new.sum()),
        triples=len(src),
        components=len(joined.triples) - len(joined.roots),
        sets=len(new.sets["first"]),
        ops=len(new_ops),
        nodes=len(new_nodes),
    )
    return Growth(parts, _members(index, joined, new), counts)


def _joined(is_new: npt.NDArray[np.bool_], root: Numbers, src: Numbers, dst: Numbers) -> _Joined:
    roots, place = np.unique(root, return_inverse=True)
    items = int(is_new.sum())
    vertex = np.empty(len(is_new), np.int64)
    vertex[is_new] = np.arange(items)
    vertex[~is_new] = items + place
    of_vertex = components(items + len(roots), vertex[src], vertex[dst])
    count = int(of_vertex.max()) + 1 if len(of_vertex) else 0
    triples = np.bincount(of_vertex[vertex[src]], minlength=count)
    return _Joined(of_vertex[:items], roots, of_vertex[items:], triples)


def _numbered(
    graph: Graph,
    first: int,
    held: Numbers,
    joined: _Joined,
    ends: tuple[Numbers, Numbers],
    set_items: int,
) -> _New:
    """Numbers and sets of new items, from ``first`` on."""
    is_new = held < 0
    place = np.cumsum(is_new) - 1
    inner = is_new[ends[0]] & is_new[ends[1]]
    src, dst = (place[end[inner]] for end in ends)
    among = replace(graph, items=place[is_new], src=src, dst=dst, node=graph.node[is_new])
    part, sets = grouped(among, set_items)
    order = np.lexsort((among.node, sets, part, joined.of_item))
    number, set_of = held.copy(), np.empty(len(held), np.int64)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = first + np.arange(len(order))
    number[is_new] = numbers
    component = joined.of_item[order]
    begins = differs_from_former(component, part[order], sets[order])
    firsts = np.flatnonzero(begins)
    starts = np.flatnonzero(differs_from_former(component))
    of_set = np.searchsorted(starts, firsts, "right") - 1
    of_item = np.empty(len(order), np.int64)
    of_item[order] = first + firsts[np.cumsum(begins) - 1]
    set_of[is_new] = of_item
    rows = {
        "first": first + firsts,
        "last": first + np.r_[firsts[1:], len(order)][: len(firsts)] - 1,
        "component": first + starts[of_set],
        "component_last": first + np.r_[starts[1:], len(order)][of_set] - 1,
        "component_rows": joined.triples[component[firsts]],
    }
    return _New(number, order, set_of, rows, component[starts])


def _members(index: HeldIndex, joined: _Joined, new: _New) -> Columns:
    """The ranges of all components that grew, by root."""
    grew = joined.triples[joined.of_root] > 0
    roots, of_root = joined.roots[grew], joined.of_root[grew]
    root_of = np.full(len(joined.triples), -1, np.int64)
    # They are in order: the smallest is written last.
    root_of[of_root[::-1]] = roots[::-1]
    former = index.members()
    single = index.single_members(np.setdiff1d(roots, former["root"]))
    known = {name: np.concatenate([former[name], single[name]]) for name in former}
    at = np.flatnonzero(np.isin(known["root"], roots))
    known["root"][at] = root_of[of_root[np.searchsorted(roots, known["root"][at])]]
    first = np.unique(new.sets["component"], return_index=True)[1]
    root = root_of[new.label_of]
    is_joined = root >= 0
    # New triples are counted with the new items, or with the root where there are none.
    is_counted = np.zeros(len(root_of), bool)
    is_counted[new.label_of] = True
    label = np.flatnonzero((root_of >= 0) & ~is_counted)
    by_component = np.argsort(known["component"])
    place = by_component[np.searchsorted(known["component"][by_component], root_of[label])]
    known["triples"][place] += joined.triples[label]
    added = {
        "root": root,
        "component": new.sets["component"][first],
        "last": new.sets["component_last"][first],
        "triples": new.sets["component_rows"][first],
    }
    rows = {name: np.concatenate([known[name], added[name][is_joined]]) for name in known}
    order = np.lexsort((rows["component"], rows["root"]))
    return {name: column[order] for name, column in rows.items()}
