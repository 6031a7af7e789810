"""The leaves of plans (Spark's objects)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lineage_emitter.dataframes.caches import cached_plan


def leaves(plan: Any, *, cached: bool = False) -> Iterator[Any]:
    """The leaves of a plan, those of subqueries and (``cached``) of cached frames among them."""
    inner = plan.subqueriesAll()
    for tree in (plan, *(inner.apply(position) for position in range(inner.size()))):
        tree_leaves = tree.collectLeaves()
        for position in range(tree_leaves.size()):
            leaf = tree_leaves.apply(position)
            if cached and leaf.getClass().getSimpleName() == "InMemoryRelation":
                inner_plan = cached_plan(leaf)
                if inner_plan is not None:
                    yield from leaves(inner_plan, cached=True)
            else:
                yield leaf
