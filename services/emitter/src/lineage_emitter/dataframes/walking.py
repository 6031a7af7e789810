"""The leaves of plans (Spark's objects)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lineage_emitter.dataframes.caches import cached_plan


def leaves(plan: Any, *, cached: bool = False) -> Iterator[Any]:
    """The leaves of a plan, those of subqueries and (``cached``) of cached frames among them."""
    inner = plan.subqueriesAll()
    for one in (plan, *(inner.apply(place) for place in range(inner.size()))):
        found = one.collectLeaves()
        for place in range(found.size()):
            leaf = found.apply(place)
            if cached and leaf.getClass().getSimpleName() == "InMemoryRelation":
                inner_plan = cached_plan(leaf)
                if inner_plan is not None:
                    yield from leaves(inner_plan, cached=True)
            else:
                yield leaf
