"""Makes the index of a data set: triples in order, sets, and what finds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lineage_store.triples.columns import Part
from lineage_store.triples.files import Numbers, PartWriter
from lineage_store.triples.numbering import distinct_rows, text_key
from lineage_store.triples.partitioning import components, connected_sets


@dataclass(frozen=True, slots=True)
class Graph:
    """All triples of a data set, by codes of items and labels from 0.

    ``node``: of each item; -1 where it is not known.
    """

    items: Any
    ops: Any
    nodes: Any
    src: Numbers
    dst: Numbers
    op: Numbers
    node: Numbers


@dataclass(frozen=True, slots=True)
class Indexed:
    """How many there are in an index."""

    items: int
    triples: int
    components: int
    sets: int


def write_index(graph: Graph, writer: PartWriter, set_items: int) -> Indexed:
    """Write all files of an index.

    Args:
        graph: what it is of.
        writer: takes the files.
        set_items: components of more items are split into sets.

    Raises:
        StoreUnavailableError: the storage can't be written.
    """
    component, sets = _grouped(graph, set_items)
    order = np.lexsort((sets, component))
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    component, sets = component[order], sets[order]
    _write_items(graph, writer, order, number)
    src, dst = number[graph.src], number[graph.dst]
    dst, src, op = distinct_rows(dst, src, graph.op)
    writer.write(Part.BACK, {"dst": dst, "src": src, "op": op})
    begins = np.ones(len(order), bool)
    begins[1:] = (component[1:] != component[:-1]) | (sets[1:] != sets[:-1])
    first = np.flatnonzero(begins)
    starts = np.flatnonzero(np.r_[True, component[1:] != component[:-1]])
    _write_sets(writer, len(order), first, starts, src, dst)
    src, dst, op = distinct_rows(src, dst, op)
    writer.write(Part.FORWARD, {"src": src, "dst": dst, "op": op})
    return Indexed(len(order), len(src), len(starts), len(first))


def _grouped(graph: Graph, set_items: int) -> tuple[Numbers, Numbers]:
    """Of each item its component, and its set in that."""
    component = components(len(graph.items), graph.src, graph.dst)
    sets = np.zeros(len(component), np.int64)
    large = np.flatnonzero(np.bincount(component) > set_items)
    if not len(large) or graph.node.max() < 0:
        return component, sets
    of_triple = component[graph.src]
    order = np.argsort(of_triple, kind="stable")
    ordered = of_triple[order]
    members = np.argsort(component, kind="stable")
    grouped = component[members]
    local = np.empty(len(component), np.int64)
    for name in large.tolist():
        items = members[slice(*np.searchsorted(grouped, (name, name + 1)))]
        triples = order[slice(*np.searchsorted(ordered, (name, name + 1)))]
        local[items] = np.arange(len(items))
        ends = local[graph.src[triples]], local[graph.dst[triples]]
        sets[items] = connected_sets(graph.node[items], *ends, set_items)
    return component, sets


def _write_items(graph: Graph, writer: PartWriter, order: Numbers, number: Numbers) -> None:
    if isinstance(graph.items, np.ndarray):
        writer.write(Part.KEYS, {"key": graph.items, "number": number})
        items: dict[str, Any] = {"item": graph.items[order]}
    else:
        keys = np.fromiter((text_key(text.as_py()) for text in graph.items), np.int64, len(order))
        by_key = np.argsort(keys, kind="stable")
        writer.write(Part.KEYS, {"key": keys[by_key], "number": number[by_key]})
        items = {"item_text": graph.items.take(pa.array(order))}
    writer.write(Part.ITEMS, {"number": np.arange(len(order)), **items, "node": graph.node[order]})
    writer.write(Part.OPS, {"op": np.arange(len(graph.ops)), "op_text": graph.ops})
    if len(graph.nodes):
        writer.write(Part.NODES, {"node": np.arange(len(graph.nodes)), "node_text": graph.nodes})


def _write_sets(
    writer: PartWriter, items: int, first: Numbers, starts: Numbers, src: Numbers, dst: Numbers
) -> None:
    """``items``: how many there are. ``first``: the first item of each set; ``starts``: of each component."""
    last = np.r_[first[1:], items] - 1
    src_set = np.searchsorted(first, src, "right") - 1
    dst_set = np.searchsorted(first, dst, "right") - 1
    of_set = np.searchsorted(starts, first, "right") - 1
    component_last = np.r_[starts[1:], items][of_set] - 1
    back_rows = np.bincount(dst_set, minlength=len(first))
    component_rows = np.bincount(of_set, weights=back_rows).astype(np.int64)
    writer.write(
        Part.SETS,
        {
            "first": first,
            "last": last,
            "component": starts[of_set],
            "component_last": component_last,
            "back_rows": back_rows,
            "forward_rows": np.bincount(src_set, minlength=len(first)),
            "component_rows": component_rows[of_set],
        },
    )
    differs = src_set != dst_set
    parent, child = first[src_set[differs]], first[dst_set[differs]]
    child, parent = distinct_rows(child, parent)
    writer.write(Part.PARENTS, {"child": child, "parent": parent})
    parent, child = distinct_rows(parent, child)
    writer.write(Part.CHILDREN, {"parent": parent, "child": child})
