"""Connected components of triples, and the partition of large ones into connected sets.

After CSProv (Rajmohan C. et al., Efficiently processing workflow provenance queries on Spark, arXiv 1808.08424): a large component is split by groups of nodes of its workflow,
and the weakly connected parts of each group are sets. The paper draws the groups by hand; here they are the two sides of an edge of a
spanning tree of the workflow, chosen for balance, again and again until a set is small or of one node.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from lineage_core.environment.extras import needed
from lineage_store.errors import StoreError
from lineage_store.triples.files import Numbers

SET_ITEMS: Final = 10_000
"""A component of more items is split; the threshold of the paper is of this order."""


def components(items: int, src: Numbers, dst: Numbers) -> Numbers:
    """Of each item the number of its weakly connected component, in the order of their smallest items.

    Args:
        items: how many there are.
        src: items from 0, of each triple.
        dst: as ``src``, of the other end.
    """
    if not items:
        return np.empty(0, np.int64)
    _, labels = _graphs().connected_components(_graph(items, src, dst), directed=False)
    _, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    ranks = np.empty(len(first), np.int64)
    ranks[np.argsort(first)] = np.arange(len(first))
    return np.asarray(ranks[codes], np.int64)


def _graphs() -> Any:
    # Who only traces needs no SciPy.
    return needed("scipy.sparse.csgraph", "triples", error=StoreError)


def _graph(count: int, src: Numbers, dst: Numbers) -> Any:
    sparse = needed("scipy.sparse", "triples", error=StoreError)
    graph = sparse.coo_array((np.ones(len(src), bool), (src, dst)), shape=(count, count)).tocsr()
    # Equal triples were added up: none may have become zero, which is no edge.
    graph.data[:] = True
    return graph


def connected_sets(nodes: Numbers, src: Numbers, dst: Numbers, most: int) -> Numbers:
    """Of each item of one component the number of its set, in the order of their smallest items.

    A set is weakly connected. It may have more than ``most`` items if all of them are of one node.

    Args:
        nodes: the node of the workflow of each item.
        src: items from 0, of each triple.
        dst: as ``src``, of the other end.
        most: items of a set.
    """
    sets = np.zeros(len(nodes), np.int64)
    waiting = [np.arange(len(nodes))]
    position = np.full(len(nodes), -1, np.int64)
    triples = [np.arange(len(src))]
    count = 0
    while waiting:
        items, edges = waiting.pop(), triples.pop()
        names, local = np.unique(nodes[items], return_inverse=True)
        if len(items) <= most or len(names) == 1:
            sets[items] = count
            count += 1
            continue
        position[items] = np.arange(len(items))
        ends = position[src[edges]], position[dst[edges]]
        side = _bisection(len(names), local, *ends)[local]
        inner = side[ends[0]] == side[ends[1]]
        parts = components(len(items), ends[0][inner], ends[1][inner])
        order, kept = np.argsort(parts, kind="stable"), edges[inner]
        edge_parts = parts[ends[0][inner]]
        edge_order = np.argsort(edge_parts, kind="stable")
        cuts = np.arange(1, parts.max() + 1)
        waiting += np.split(items[order], np.searchsorted(parts[order], cuts))
        triples += np.split(kept[edge_order], np.searchsorted(edge_parts[edge_order], cuts))
    _, first, codes = np.unique(sets, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[codes], np.int64)


def _bisection(count: int, local: Numbers, src: Numbers, dst: Numbers) -> Numbers:
    """On which side each node of a connected workflow is: both sides are connected, and as near in items as one tree allows."""
    pairs = np.unique(local[src] * count + local[dst])
    graph = _graph(count, pairs // count, pairs % count)
    order, parents = _graphs().breadth_first_order(graph, 0, directed=False)
    weights = np.bincount(local, minlength=count)
    below = weights.astype(np.int64)
    for node in order[:0:-1]:
        below[parents[node]] += below[node]
    cut = min(order[1:], key=lambda node: (abs(2 * below[node] - len(local)), node))
    side = np.zeros(count, np.int64)
    for node in order[1:]:
        side[node] = 1 if node == cut else side[parents[node]]
    return side
