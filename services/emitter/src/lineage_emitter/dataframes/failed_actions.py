"""What an action on DataFrames failed of, as its recipe has it."""

from __future__ import annotations

import contextlib

from lineage_core.recipe.document import Failure
from lineage_emitter.failures import raised_errors

FAILURE_MAX = 500
"""Characters of what an error says that are kept."""


def failure_of(problem: BaseException, *, says_message: bool) -> Failure:
    """What an action failed of: of the errors behind it, that of a Python function where one raised it.

    ``says_message``: what it says, which may hold values of rows, is kept.
    """
    first, *others = raised_errors(problem)
    error = next((other for other in reversed(others) if "." not in other.type), first)
    message = error.message.split("\n", 1)[0][:FAILURE_MAX] if says_message else ""
    return Failure(error.type.rpartition(".")[2], _condition(problem), message)


def _condition(problem: BaseException) -> str:
    """Spark's name of an error; empty where it has none."""
    for name in ("getCondition", "getErrorClass"):
        named = getattr(problem, name, None)
        if named is not None:
            # The answer may come from the JVM, which may be what failed.
            with contextlib.suppress(Exception):
                return str(named() or "")
    return ""
