"""A Python function of a DataFrame's groups that goes on without the groups it fails on.

``FailingRows.java`` writes a call of :func:`guarded_groups` as the code of the function. It gives no rows of a group that it fails on, as if the group were not there, and
reports the group by its key, by which a recipe says which rows were left out.
"""

from __future__ import annotations

import datetime
import inspect
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

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


def guarded_group(
    called: Callable[..., Any], reports: Reports, kinds: Sequence[str]
) -> Callable[[tuple[Any, ...], Any], Any]:
    """A function that gets the key and the rows of a group, as a frame of pandas or a table of Arrow. ``kinds``: the types of the key's columns."""
    # As Spark's worker tells them.
    takes_key = len(inspect.getfullargspec(called).args) != 1

    def of_group(key: tuple[Any, ...], rows: Any) -> Any:
        count = len(rows)
        try:
            given = called(key, rows) if takes_key else called(rows)
        except StopIteration:
            raise
        except Exception as problem:
            try:
                is_set_aside = reports.add_named(key_texts(key, kinds), problem, count)
            except UNNAMED as unnamed:
                is_set_aside = refused(problem, f"not set aside: {unnamed}")
            if not is_set_aside:
                raise
            return _no_rows(rows)
        if reports.has_calls:
            with suppress(*UNNAMED):
                reports.check_passed(key_texts(key, kinds))
        return given

    return of_group


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
