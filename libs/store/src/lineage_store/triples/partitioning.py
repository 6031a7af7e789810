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
from lineage_store.triples.numbering import code_type, distinct_rows, sorted_distinct

SET_ITEMS: Final = 10_000
"""A component of more items is split; the threshold of the paper is of this order."""

TINY_SHARE: Final = 100
"""A set is tiny that has at most so small a part of the items that a set may have."""

JOIN_ROUNDS: Final = 4


def components(items: int, src: Numbers, dst: Numbers) -> Numbers:
    """Of each item the number of its weakly connected component, in the order of their smallest items.

    Round by round each root follows the smallest one beside it, and triples that are within a component by then are left out. A root
    that stays for two rounds took in another one, so there are at most twice as many rounds as the logarithm of the items says. That is as
    quick as SciPy, and to load SciPy takes about as long as all else when one per cent is added to an index of millions.

    Args:
        items: how many there are.
        src: items from 0, of each triple.
        dst: as ``src``, of the other end.
    """
    # Each item leads to a smaller one of its component, or is the smallest that is known so far.
    root = np.arange(items, dtype=code_type(items))
    while len(src):
        near, far = root[src], root[dst]
        differs = near != far
        near, far = near[differs], far[differs]
        src, dst = np.minimum(near, far), np.maximum(near, far)
        np.minimum.at(root, dst, src)
        while not np.array_equal(further := root[root], root):
            root = further
    is_root = root == np.arange(items)
    return np.asarray((np.cumsum(is_root, dtype=root.dtype) - 1)[root])


def _graphs() -> Any:
    # Only who splits large components needs SciPy, which takes long to be loaded.
    return needed("scipy.sparse.csgraph", "triples", error=StoreError)


def _graph(count: int, src: Numbers, dst: Numbers) -> Any:
    sparse = needed("scipy.sparse", "triples", error=StoreError)
    graph = sparse.coo_array((np.ones(len(src), bool), (src, dst)), shape=(count, count)).tocsr()
    # Equal triples were added up: none may have become zero, which is no edge.
    graph.data[:] = True
    return graph


def connected_sets(nodes: Numbers, src: Numbers, dst: Numbers, most: int) -> Numbers:
    """Of each item of one component the number of its set; sets with triples between them have numbers near each other.

    A set is weakly connected. It may have more than ``most`` items if all of them are of one node.

    Args:
        nodes: the node of the workflow of each item.
        src: items from 0, of each triple.
        dst: as ``src``, of the other end.
        most: items of a set.
    """
    sets = np.zeros(len(nodes), np.int64)
    waiting = [(np.arange(len(nodes)), np.arange(len(src)))]
    position = np.full(len(nodes), -1, np.int64)
    count = 0
    while waiting:
        items, edges = waiting.pop()
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
        sizes = np.bincount(parts)
        # Almost all parts are small: they are sets, all at once.
        sets[items] = count + parts
        count += len(sizes)
        large = np.flatnonzero(sizes > most)
        of_large = places_of_labels(parts, large), places_of_labels(parts[ends[0][inner]], large)
        kept = edges[inner]
        waiting += [(items[some], kept[rows]) for some, rows in zip(*of_large, strict=True)]
    sets = without_tiny(sets, src, dst, most)
    # Numbers of parts that were split further, or joined to others, stand for no set.
    distinct, codes = np.unique(sets, return_inverse=True)
    return _near(len(distinct), np.asarray(codes, np.int64), src, dst)


def places_of_labels(labels: Numbers, wanted: Numbers) -> list[Numbers]:
    """The places of each of some labels, in order.

    Args:
        labels: numbers from 0.
        wanted: some of them, in order, each once.
    """
    if not len(wanted):
        return []
    is_wanted = np.zeros(int(labels.max(initial=wanted[-1])) + 1, bool)
    is_wanted[wanted] = True
    places = np.flatnonzero(is_wanted[labels])
    places = places[np.argsort(labels[places], kind="stable")]
    return np.split(places, np.searchsorted(labels[places], wanted[1:]))


def without_tiny(sets: Numbers, src: Numbers, dst: Numbers, most: int) -> Numbers:
    """Sets with tiny ones joined to larger ones beside them, up to ``most`` items: a cut leaves very many.

    A tiny set joins the one set that it was derived from, or the one that was derived from it: others that depend on it depend on both anyway,
    so that joins do not add up to sets that all depend on each other.
    """
    tiny = max(most // TINY_SHARE, 1)
    # Who joins leaves those beside it with one set less that they were derived from.
    for near, far in JOIN_ROUNDS * ((dst, src), (src, dst)):
        sizes = np.bincount(sets)
        crosses = sets[src] != sets[dst]
        small, large = distinct_rows(sets[near][crosses], sets[far][crosses])
        joins = np.bincount(small, minlength=len(sizes))[small] == 1
        joins &= (sizes[small] <= tiny) & (sizes[large] > tiny)
        by_large = np.flatnonzero(joins)[np.argsort(large[joins], kind="stable")]
        small, large = small[by_large], large[by_large]
        total = np.cumsum(sizes[small])
        before = np.searchsorted(large, large)
        joined = total - (total - sizes[small])[before] + sizes[large]
        into = np.arange(len(sizes))
        into[small[joined <= most]] = large[joined <= most]
        sets = into[sets]
    return sets


def _near(count: int, sets: Numbers, src: Numbers, dst: Numbers) -> Numbers:
    """Sets in another order: reverse Cuthill-McKee, so that both ends of a triple lie near each other."""
    pairs = sorted_distinct(sets[src] * count + sets[dst])
    both = np.r_[pairs // count, pairs % count], np.r_[pairs % count, pairs // count]
    order = _graphs().reverse_cuthill_mckee(_graph(count, *both), symmetric_mode=True)
    ranks = np.empty(count, np.int64)
    ranks[order] = np.arange(count)
    return np.asarray(ranks[sets], np.int64)


def _bisection(count: int, local: Numbers, src: Numbers, dst: Numbers) -> Numbers:
    """On which side each node of a connected workflow is: both sides are connected, and as near in items as one tree allows."""
    pairs = sorted_distinct(local[src] * count + local[dst])
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
