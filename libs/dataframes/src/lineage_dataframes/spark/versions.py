"""Recipes of another Spark: a trace computes the plan anew, so both must mean the same by it.

`make test-spark` runs every function that a recipe can name in each version and in 4.1, over ordinary and edge values, with
ANSI mode on and off. The few that differ are refused. What else differs between them is a setting that recipes hold.
"""

from __future__ import annotations

from lineage_core.recipe.document import Recipe
from lineage_core.recipe.plan import Call, expressions_of, subexpressions_of
from lineage_dataframes.errors import RefusedError

COMPARED_VERSIONS = {"3.5", "4.0", "4.1", "4.2", "4.3"}
"""Versions that were compared."""

_OF_35 = {
    "array_distinct", "array_union", "array_intersect", "array_except", "arrays_overlap", "map",
    "map_from_arrays", "map_from_entries", "map_concat", "map_zip_with", "transform_keys",
}  # fmt: skip
"""Functions for which 0.0 and -0.0 are one value in 3.5 and two in later versions, or the other way round."""
_OF_ANY = {"from_json"}
"""Functions that were not compared: what is broken JSON differs."""


def differing_functions(version: str, other: str) -> set[str]:
    """The functions that may give other values in one of two versions (``3.5``) than in the other."""
    if version == other:
        return set()
    return _OF_ANY | (_OF_35 if "3.5" in {version, other} else set())


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
    differing = called & differing_functions(job_version, own_version)
    if differing:
        raise RefusedError(f"{message}: in these {min(differing)} may give other values")


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
