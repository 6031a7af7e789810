"""What a cached frame was made from."""

from __future__ import annotations

from typing import Any

from lineage_emitter.dataframes.plan_text import without_watches
from lineage_emitter.pyspark_parts import SINCE_4

_ROUND = {"WholeStageCodegenExec", "InputAdapter", "ColumnarToRowExec"}
"""What Spark puts around a physical plan: the rows are the same."""


def cached_plan(relation: Any) -> Any | None:
    """The plan that a cached relation (Spark's object) was made from; None where Spark does not say."""
    builder = relation.cacheBuilder()
    if SINCE_4:
        return builder.logicalPlan()
    # Just the physical plan is kept, which knows what it was planned for.
    plan = builder.cachedPlan()
    while plan.logicalLink().isEmpty():
        kind = plan.getClass().getSimpleName()
        if kind == "AdaptiveSparkPlanExec":
            plan = plan.inputPlan()
        elif kind in _ROUND:
            plan = plan.child()
        else:
            return None
    return without_watches(plan.logicalLink().get())
