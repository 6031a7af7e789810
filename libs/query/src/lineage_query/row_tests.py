"""Tests of output rows, as users write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from lineage_core.tracing.trace_result import TraceError

Row = TypeVar("Row")
TestOf: TypeAlias = Callable[[Row], bool]
"""Whether a row fails."""

FAILING_MAX: Final = 1_000
"""Failing rows of an output that are looked for."""


def failing_by(test: Callable[[Row], object], name: str) -> TestOf[Row]:
    """A user's test as a function that says whether a row fails.

    A row fails where the test raises AssertionError, or returns what is false, but not None.

    Args:
        test: gets a row.
        name: of the test, for errors.

    Raises:
        TraceError: from each call: the test raises something else.
    """

    def fails(row: Row) -> bool:
        try:
            verdict = test(row)
        except AssertionError:
            return True
        except Exception as problem:
            # Another failure than the one that is looked for, or a fault of the test: no verdict either way.
            raise TraceError(f"{name}: {type(problem).__name__}: {problem}") from problem
        return verdict is not None and not verdict

    return fails
