"""A Python function of a DataFrame's groups that goes on without the groups it fails on.

``FailingGroups.java`` writes a call of :func:`guarded_groups`, or of :func:`guarded_pairs`, as the code of the function. It gives no rows of a group, or of a pair of groups of
two frames, that it fails on, as if it were not there, and reports it by its key, by which a recipe says which rows were left out.

A function that makes one value of a group must give one: :func:`guarded_aggregate` gives NULL where it fails, and :func:`kept_group`, which Spark's worker calls next, says so
for a filter above.
"""

from __future__ import annotations

import datetime
import inspect
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import BooleanType

from lineage_emitter.worker.guarded_batches import ARROW, PANDAS, batches_of
from lineage_emitter.worker.guarded_function import (
    UNNAMED,
    Arguments,
    Reports,
    internal_text,
    loaded_chain,
    refused,
    reports_of,
)

FLOATING = {"float", "double"}
UNNAMED_NUMBERS = {"0.0", "-0.0", "NaN"}
"""Texts of doubles and floats that are equal to others."""

OF_ARROW = 252
"""Spark's number of functions that get the columns of a group by Arrow, and make one value of them."""


@dataclass
class Failed:
    """What a function failed on at the group at work, if it did, and how many rows the group has."""

    problem: Exception | None = None
    rows: int = 0


_of_task: dict[str, Failed] = {}
"""By function: its two parts are loaded in turn, by the one worker of the task."""


def guarded_groups(
    reports: bytes, records_max: str, function: str, types: str, *chain: Any
) -> tuple[Callable[..., Any], Any]:
    """What a worker of Spark runs for a function, and its type.

    Args:
        reports: as in `lineage_emitter.worker.guarded_function.guarded`.
        records_max: rows of groups that are set aside in one task; a group that would be more ends the task.
        function: its number in the plan.
        types: of the key's columns, with ``|`` between.
        chain: name, type and code of the function.
    """
    (called,), returns, _ = loaded_chain(chain)
    kinds = types.split("|") if types else []
    return guarded_group(called, reports_of(reports, records_max, function, types), kinds), returns


def guarded_pairs(
    reports: bytes, records_max: str, function: str, types: str, *chain: Any
) -> tuple[Callable[..., Any], Any]:
    """`guarded_groups` of a function that gets the groups of two frames with one key. Arguments as there."""
    (called,), returns, _ = loaded_chain(chain)
    kinds = types.split("|") if types else []
    return guarded_pair(called, reports_of(reports, records_max, function, types), kinds), returns


def guarded_aggregate(
    kind: str, records_max: str, function: str, types: str, *chain: Any
) -> tuple[Callable[..., Any], Any]:
    """What a worker of Spark runs for a function that makes one value of a group, and its type.

    Args:
        kind: how it gets a group, by Spark's number.
        records_max: as in :func:`guarded_groups`, which :func:`kept_group` counts.
        function: its number in the plan.
        types: of the key's columns, with ``|`` between.
        chain: name, type and code of the function.
    """
    (called,), returns, _ = loaded_chain(chain)
    failed = _of_task[function] = Failed()
    return guarded_value(called, failed), returns


def kept_group(
    kind: str, reports: bytes, records_max: str, function: str, types: str
) -> tuple[Callable[..., Any], BooleanType]:
    """What a worker runs behind :func:`guarded_aggregate`, and its type: False of a group that is set aside. Arguments as there and in `guarded`."""
    batches = batches_of(ARROW if int(kind) == OF_ARROW else PANDAS, types)
    reported = reports_of(reports, records_max, function, types)

    def first_text(column: Any) -> str | None:
        return batches.texts(column[:1])[0]

    return group_flag(reported, _of_task[function], types.split("|"), first_text), BooleanType()


def guarded_group(
    called: Callable[..., Any], reports: Reports, kinds: Sequence[str]
) -> Callable[[tuple[Any, ...], Any], Any]:
    """A function that gets the key and the rows of a group, as a frame of pandas or a table of Arrow. ``kinds``: the types of the key's columns."""
    guarded = _guarded(called, reports, kinds, 1)

    # Spark's worker counts what it takes.
    def of_group(key: tuple[Any, ...], rows: Any) -> Any:
        return guarded(key, rows)

    return of_group


def guarded_pair(
    called: Callable[..., Any], reports: Reports, kinds: Sequence[str]
) -> Callable[[tuple[Any, ...], Any, Any], Any]:
    """As `guarded_group`: of the rows of a group of either of two frames."""
    guarded = _guarded(called, reports, kinds, 2)

    def of_pair(key: tuple[Any, ...], left: Any, right: Any) -> Any:
        return guarded(key, left, right)

    return of_pair


def _guarded(
    called: Callable[..., Any], reports: Reports, kinds: Sequence[str], frames: int
) -> Callable[..., Any]:
    # As Spark's worker tells them.
    takes_key = len(inspect.getfullargspec(called).args) != frames

    def of_groups(key: tuple[Any, ...], *groups: Any) -> Any:
        count = sum(map(len, groups))
        try:
            given = called(key, *groups) if takes_key else called(*groups)
        except StopIteration:
            raise
        except Exception as problem:
            try:
                is_set_aside = reports.add_named(key_texts(key, kinds), problem, count)
            except UNNAMED as unnamed:
                is_set_aside = refused(problem, f"not set aside: {unnamed}")
            if not is_set_aside:
                raise
            return _no_rows(groups[0])
        if reports.has_calls:
            with suppress(*UNNAMED):
                reports.check_passed(key_texts(key, kinds))
        return given

    return of_groups


def guarded_value(called: Callable[..., Any], failed: Failed) -> Callable[..., Any]:
    """A function that gets the columns of a group, and makes one value of them; None where it fails, which ``failed`` says then."""

    def of_columns(*columns: Any, **named: Any) -> Any:
        failed.problem = None
        failed.rows = len(next(iter((*columns, *named.values()))))
        try:
            return called(*columns, **named)
        except StopIteration:
            raise
        except Exception as problem:
            failed.problem = problem
            return None

    return of_columns


def group_flag(
    reports: Reports,
    failed: Failed,
    kinds: Sequence[str],
    first_text: Callable[[Any], str | None],
) -> Callable[..., bool]:
    """Whether a group is left, by the columns of its key's texts. ``first_text``: of such a column, which has the same one in each row of the group."""

    def is_kept(*columns: Any) -> bool:
        problem, failed.problem = failed.problem, None
        if problem is None and not reports.has_calls:
            return True
        key = tuple(map(first_text, columns))
        if problem is None:
            reports.check_passed(key)
            return True
        numbers = {text for text, kind in zip(key, kinds, strict=True) if kind in FLOATING}
        unnamed = sorted(text for text in numbers if text in UNNAMED_NUMBERS)
        if unnamed:
            refused(problem, f"not set aside: a group of {unnamed[0]} can't be told from others")
            raise problem
        if not reports.add_named(key, problem, failed.rows):
            raise problem
        return False

    return is_kept


def _no_rows(like: Any) -> Any:
    """A frame of pandas, or a table of Arrow, without rows and columns: Spark's worker takes it for one of any columns."""
    return type(like)() if hasattr(like, "iloc") else like.slice(0, 0).select([])


def key_texts(key: Sequence[Any], kinds: Sequence[str]) -> Arguments:
    """The texts of a key's values (`Arguments`).

    Raises:
        ValueError: rows can't be told by them.
    """
    return tuple([_key_text(value, kind) for value, kind in zip(key, kinds, strict=True)])


def _key_text(value: Any, kind: str) -> str | None:
    for method in ("as_py", "item"):
        # Of Arrow's and NumPy's values.
        if hasattr(value, method):
            value = getattr(value, method)()
    if value is None or type(value).__name__ == "NAType":
        return None
    if isinstance(value, float):
        if kind in FLOATING:
            if math.isnan(value) or value == 0:
                raise ValueError(
                    f"a group of {value} can't be told from those of NULL, or of another zero"
                )
        elif math.isnan(value):
            # So pandas has NULL among numbers.
            return None
    wanted = {"date": datetime.date, "string": str}.get(kind)
    if wanted is not None and type(value) is not wanted:
        raise ValueError(f"a {type(value).__name__} can't be named as {kind}")
    return internal_text(value, kind)
