"""What tasks of captured DataFrames do with rows, and with the rows of sources that each was made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pandas as pd

ROWS = "_lineage"
"""The column of rows' origins while rows are chosen by a filter, a group or a join."""
LEFT, RIGHT = f"{ROWS}_left", f"{ROWS}_right"
UNKNOWN = "?"
"""Stands for origins where they do not fit the rows, which must not be."""
RowNames: TypeAlias = Callable[[int, int], list[str]]
"""Addresses of so many rows of a partition with this number."""


def with_column(frame: Any, name: str, texts: Sequence[str]) -> Any:
    wider = frame.copy(deep=False)
    wider.insert(len(wider.columns), name, pd.Series(texts, wider.index, dtype=object))
    return wider


def numbered(frame: Any, names: RowNames, partition_info: Any = None) -> Any:
    partition = partition_info["number"] if partition_info else 0
    return with_column(frame, ROWS, names(len(frame), partition))


def beside(frame: Any, origins: Any, column: str) -> Any:
    fits = len(frame) == len(origins)
    return with_column(frame, column, list(origins) if fits else [UNKNOWN] * len(frame))


def copied(origins: Any, _token: str) -> Any:
    return origins.copy()


def all_for_each(rows: Any, origins: Any) -> Any:
    return pd.Series([",".join(origins)] * len(rows), rows.index, dtype=object, name=ROWS)


def of_both(merged: Any) -> Any:
    sides = [merged[side].astype(object).fillna("") for side in (LEFT, RIGHT)]
    texts = [",".join(pair) for pair in zip(*sides, strict=True)]
    return with_column(merged.drop(columns=[LEFT, RIGHT]), ROWS, texts)


def in_order(groups: Any, origins: Any) -> Any:
    """Origins of groups in the order of the groups, which both have by their keys."""
    if not groups.index.equals(origins.index):
        is_same = len(groups) == len(origins) and groups.index.is_unique and origins.index.is_unique
        is_same = is_same and bool(origins.index.isin(groups.index).all())
        texts = origins.reindex(groups.index) if is_same else [UNKNOWN] * len(groups)
        origins = pd.Series(list(texts), groups.index, dtype=object, name=ROWS)
    return origins


def paired(rows: Any, origins: Any) -> Any:
    """The rows of a partition and their origins."""
    return pd.Series([(rows, list(origins))], dtype=object)


def written(
    rows: Any, origins: Any, write: Callable[[Any, int], Any], partition_info: Any = None
) -> Any:
    """What a partition was written as, and the origins of its rows."""
    number = partition_info["number"] if partition_info else 0
    return pd.Series([(write(rows, number), list(origins))], dtype=object)
