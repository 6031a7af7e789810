"""What conditions of recipes of micro-batches say of the state that a streaming query held (``StreamState.java``)."""

from __future__ import annotations

from lineage_core.recipe.plan import Expression, OpaqueExpression, subexpressions_of

REASONS = {
    "state of groups": "which of these rows the query's states let into the group is not known: "
    "some may have been dropped as late, or by a state below it",
    "state of keys": "which rows of its key a function that keeps a state used can't be known, "
    "and which column holds the key is as the program declares it",
    "earlier run": "a batch was run by an earlier run of the query, which did not record it; "
    "that is taken to have had the same plan as the last run that was recorded before it",
}
"""By the name of a condition: why a trace may name too many rows."""


def reason_of_state(condition: Expression) -> str:
    """Why what a condition lets through may be made of fewer rows than a trace finds; empty: it says nothing of that."""
    names = (
        part.name for part in subexpressions_of(condition) if isinstance(part, OpaqueExpression)
    )
    return next((REASONS[name] for name in names if name in REASONS), "")
