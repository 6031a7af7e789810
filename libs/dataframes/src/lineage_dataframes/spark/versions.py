"""Recipes of another Spark: a trace computes the plan anew, so both must mean the same by it.

`make test-spark35` runs every function that a recipe can name in Spark 3.5 and 4.1, over ordinary and edge values, with ANSI
mode on and off. The few that differ are refused. What else differs between them is a setting that recipes hold.
"""

from __future__ import annotations

from lineage_core.recipe.document import Recipe
from lineage_core.recipe.plan import Call, expressions_of, subexpressions_of
from lineage_dataframes.errors import RefusedError

COMPARED_VERSIONS = {"3.5", "4.1"}
"""Versions that were compared."""

DIFFERING_FUNCTIONS = {
    "array_distinct", "array_union", "array_intersect", "array_except", "arrays_overlap", "map",
    "map_from_arrays", "map_from_entries", "map_concat", "map_zip_with", "transform_keys", "from_json",
}  # fmt: skip
"""Functions for which 0.0 and -0.0 are one value in one of them and two in the other; what is broken JSON differs, too."""


def check_spark(recipe: Recipe, version: str) -> None:
    """See that a recipe means in this Spark what it meant in the job's.

    Raises:
        RefusedError: it may not.
    """
    job_version, own_version = _minor(recipe.spark), _minor(version)
    if job_version == own_version:
        return
    message = f"the job ran in Spark {recipe.spark}, and this is {version}"
    if not {job_version, own_version} <= COMPARED_VERSIONS:
        raise RefusedError(f"{message}: whether both give the same was never compared")
    called = {
        part.fn
        for node in recipe.plan
        for expression in expressions_of(node)
        for part in subexpressions_of(expression)
        if isinstance(part, Call)
    }
    if called & DIFFERING_FUNCTIONS:
        raise RefusedError(
            f"{message}: in these {min(called & DIFFERING_FUNCTIONS)} gives other values"
        )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
