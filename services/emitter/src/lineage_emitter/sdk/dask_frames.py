"""Rows of Dask's DataFrames, with the rows of sources that they were made from.

A collection is computed in another form: each expression of it also has a series that says of each row which rows of the sources
it was made from. Both go through the same tasks, and arrive together, so that a task that is tried again counts once.
What an expression does with rows is known of Dask's own operators alone; all others are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd
from dask import dataframe as dd
from dask.dataframe import methods
from dask.dataframe.dask_expr import (
    _accessor,
    _concat,
    _expr,
    _groupby,
    _indexing,
    _merge,
    _reductions,
)
from dask.dataframe.dask_expr._collection import FrameBase, Scalar, new_collection
from dask.dataframe.dask_expr.io import FromMap, FromPandas, ReadParquet

from lineage_emitter.sdk.dask_frame_tasks import (
    LEFT,
    RIGHT,
    ROWS,
    UNKNOWN,
    RowNames,
    all_for_each,
    beside,
    copied,
    in_order,
    numbered,
    of_both,
    paired,
    with_column,
    written,
)

PARTITION_REASON = "a function over whole partitions may use any row of the partition"
CHOICE_REASON = "an aggregate may use fewer rows than it is given"
SOURCES = (FromPandas, FromMap, ReadParquet)
REPLACING = (_expr.Mask, _expr.Where)
ELEMENTWISE = (
    _accessor.FunctionMap,
    _accessor.PropertyMap,
    _expr.Abs,
    _expr.ArrowStringConversion,
    _expr.AsType,
    _expr.Assign,
    _expr.Between,
    _expr.Binop,
    _expr.Clip,
    _expr.ColumnsSetter,
    _expr.Drop,
    _expr.Fillna,
    _expr.IsNa,
    _expr.Isin,
    _expr.Map,
    _expr.NotNull,
    _expr.Projection,
    _expr.RenameFrame,
    _expr.RenameSeries,
    _expr.Replace,
    _expr.Round,
    _expr.ToDatetime,
    _expr.ToFrame,
    _expr.ToNumeric,
    _expr.Unaryop,
    *REPLACING,
)
"""Operators that make each row of the row at its place, and leave the index as it is."""
CHOSEN = (_expr.DropnaFrame, _expr.Filter, _expr.Head, _expr.Query, _indexing.Loc)
"""Operators that give some of the rows as they are."""
JOINS = ("inner", "left", "right", "outer")
GROUPED_OF_ALL = (_groupby.Sum, _groupby.Prod, _groupby.Count, _groupby.Size, _groupby.Mean)
GROUPED = (
    *GROUPED_OF_ALL,
    _groupby.Min,
    _groupby.Max,
    _groupby.First,
    _groupby.Last,
    _groupby.NUnique,
)
NAMES_OF_ALL = frozenset(("sum", "prod", "count", "size", "mean", "var", "std"))
REDUCED_OF_ALL = (
    _reductions.Sum,
    _reductions.Prod,
    _reductions.Count,
    _reductions.Len,
    _reductions.Mean,
)
REDUCED = (*REDUCED_OF_ALL, _reductions.Max, _reductions.Min)


@dataclass(frozen=True, slots=True)
class TracedFrame:
    """An expression and, row by row and partition by partition, the origins of its rows."""

    value: Any
    origins: Any


class FrameTracing:
    """Makes expressions that carry origins.

    Args:
        source: registers the source that an expression reads, and gives what names the rows of a partition in its task.
        refuse: raises that an operator is not captured.
    """

    def __init__(self, source: Callable[[Any], RowNames], refuse: Callable[[str], Any]) -> None:
        self._source, self._refuse = source, refuse
        self._traced: dict[str, TracedFrame] = {}
        self.reasons: set[str] = set()
        """Why origins may be too many."""

    def packed(self, collection: Any) -> Any:
        """A series with a pair for each partition: the rows and their origins."""
        return self._of_partitions(collection.expr, paired)

    def written(self, collection: Any, write: Callable[[Any, int], Any]) -> Any:
        """A series with a pair for each partition: what ``write`` gives of its rows and its number, in its task, and their origins."""
        if collection.optimize(fuse=False).npartitions != collection.npartitions:
            self._refuse("a DataFrame whose partitions are others when it is written")
        return self._of_partitions(collection.expr, written, write)

    def _of_partitions(self, expr: Any, function: Callable[..., Any], *args: Any) -> Any:
        traced = self.traced(expr)
        value, origins = new_collection(traced.value), new_collection(traced.origins)
        if isinstance(value, Scalar):
            value = value.to_series()
        meta = pd.Series([], dtype=object)
        return _by_partition(function, value, origins, *args, meta=meta)

    def traced(self, expr: Any) -> TracedFrame:
        """An expression that gives what another gives, with the origins of its rows."""
        if expr._name not in self._traced:
            self._traced[expr._name] = self._rewritten(expr)
        return self._traced[expr._name]

    def _rewritten(self, expr: Any) -> TracedFrame:
        kind = type(expr)
        if isinstance(expr, SOURCES):
            return self._numbered(expr)
        if kind is _expr.ResetIndex:
            return self._reindexed(expr)
        if kind in REPLACING and any(map(callable, expr.operands)):
            self._refuse(f"DataFrame expression {kind.__name__} by a function")
        if isinstance(expr, ELEMENTWISE) or _is_row_function(expr):
            traced = self._of_same_rows(expr)
            return TracedFrame(_with(expr, traced), next(iter(traced.values())).origins)
        if kind in CHOSEN:
            return self._chosen(expr)
        if kind is _concat.Concat:
            return self._concatenated(expr)
        if kind is _expr.MapPartitions:
            return self._by_function(expr)
        if kind in GROUPED or isinstance(expr, _groupby.GroupbyAggregation):
            return self._grouped(expr)
        if kind in REDUCED:
            return self._reduced(expr)
        if kind is _merge.Merge:
            return self._merged(expr)
        self._refuse(f"DataFrame expression {kind.__name__}")
        raise AssertionError(kind)

    def _frames(self, expr: Any) -> dict[str, TracedFrame]:
        return {part._name: self.traced(part) for part in expr.dependencies()}

    def _of_same_rows(self, expr: Any) -> dict[str, TracedFrame]:
        """The parts of an expression, which must have the very same rows."""
        traced = self._frames(expr)
        if len({part.origins._name for part in traced.values()}) != 1 or any(
            part.value.ndim == 0 for part in traced.values()
        ):
            self._refuse(f"DataFrame expression {type(expr).__name__} over several collections")
        return traced

    def _numbered(self, expr: Any) -> TracedFrame:
        if expr.ndim != 2:
            self._refuse(f"a series of {type(expr).__name__}")
        names = self._source(expr)
        meta = with_column(expr._meta, ROWS, [])
        rows = _by_partition(numbered, new_collection(expr), names, meta=meta)
        return _unpacked(rows, list(expr.columns))

    def _reindexed(self, expr: Any) -> TracedFrame:
        """Rows keep their places, but an index that is another fits no other series."""
        (traced,) = self._frames(expr).values()
        value = new_collection(_with(expr, self._frames(expr)))
        origins = _by_partition(copied, new_collection(traced.origins), expr._name, meta=_META)
        return TracedFrame(value.expr, origins.expr)

    def _chosen(self, expr: Any) -> TracedFrame:
        traced = self._of_same_rows(expr)
        frame = traced[expr.frame._name]
        is_series = expr.frame.ndim == 1
        value = new_collection(frame.value)
        columns = [value.name] if is_series else list(expr.frame.columns)
        packed = _packed(value.to_frame() if is_series else value, frame, ROWS)
        operands = dict(zip(expr._parameters, expr.operands, strict=True))
        operands |= {
            name: traced[part._name].value
            for name, part in operands.items()
            if isinstance(part, _expr.Expr)
        }
        operands["frame"] = packed.expr
        if type(expr) is _expr.DropnaFrame:
            operands["subset"] = operands["subset"] or columns
        kept = type(expr)(*operands.values())
        chosen = _unpacked(new_collection(kept), columns)
        if not is_series:
            return chosen
        return TracedFrame(new_collection(chosen.value)[columns[0]].expr, chosen.origins)

    def _concatenated(self, expr: Any) -> TracedFrame:
        frames = expr.dependencies()
        columns = list(expr.columns)
        if expr.axis != 0 or any(
            part.ndim != 2 or sorted(map(repr, part.columns)) != sorted(map(repr, columns))
            for part in frames
        ):
            self._refuse("concat of DataFrames that have other columns, of series, or side by side")
        packed = (
            _packed(new_collection(self.traced(part).value), self.traced(part), ROWS).expr
            for part in frames
        )
        options = expr.operands[: len(expr._parameters)]
        return _unpacked(new_collection(_concat.Concat(*options, *packed)), columns)

    def _by_function(self, expr: Any) -> TracedFrame:
        traced = self._frames(expr)
        value = new_collection(_with(expr, traced))
        if len(traced) != 1 or expr.ndim == 0:
            self._refuse("map_partitions of DataFrames over several collections")
        (frame,) = traced.values()
        self.reasons.add(PARTITION_REASON)
        origins = _by_partition(all_for_each, value, new_collection(frame.origins), meta=_META)
        return TracedFrame(value.expr, origins.expr)

    def _grouped(self, expr: Any) -> TracedFrame:
        keys = list(expr.by)
        traced = self._frames(expr)
        columns = list(expr.frame.columns)
        if len(traced) != 1 or expr.frame.ndim != 2 or not all(key in columns for key in keys):
            self._refuse("groupby of DataFrames by other than names of columns")
        (frame,) = traced.values()
        of_all = isinstance(expr, GROUPED_OF_ALL)
        if isinstance(expr, _groupby.GroupbyAggregation):
            of_all = _names(expr.arg) <= NAMES_OF_ALL
        if not of_all:
            self.reasons.add(CHOICE_REASON)
        options = {name: getattr(expr, name) for name in ("sort", "observed", "dropna")}
        options = {name: value for name, value in options.items() if value is not None}
        groups = _packed(new_collection(frame.value), frame, ROWS).groupby(keys, **options)
        origins = groups[ROWS].agg(
            _UNION, split_every=expr.split_every, split_out=expr.operand("split_out") or 1
        )
        value = new_collection(_with(expr, traced))
        return TracedFrame(value.expr, _by_partition(in_order, value, origins, meta=_META).expr)

    def _reduced(self, expr: Any) -> TracedFrame:
        traced = self._frames(expr)
        (frame,) = traced.values()
        if not isinstance(expr, REDUCED_OF_ALL):
            self.reasons.add(CHOICE_REASON)
        value = new_collection(_with(expr, traced))
        rows = value.to_series() if isinstance(value, Scalar) else value
        gathered = new_collection(frame.origins).repartition(npartitions=1)
        origins = _by_partition(all_for_each, rows, gathered, meta=_META)
        return TracedFrame(value.expr, origins.expr)

    def _merged(self, expr: Any) -> TracedFrame:
        names = (expr.left._name, expr.right._name)
        if expr.how not in JOINS or any(part._name not in names for part in expr.dependencies()):
            self._refuse(f"merge of DataFrames (how={expr.how!r})")
        left, right = (
            _packed(new_collection(self.traced(side).value), self.traced(side), column)
            for side, column in ((expr.left, LEFT), (expr.right, RIGHT))
        )
        if expr.left.ndim != 2 or expr.right.ndim != 2:
            self._refuse("merge of series")
        merged = new_collection(_merge.Merge(left.expr, right.expr, *expr.operands[2:]))
        meta = with_column(merged._meta.drop(columns=[LEFT, RIGHT]), ROWS, [])
        return _unpacked(_by_partition(of_both, merged, meta=meta), list(expr.columns))


def rows_of(packed: Iterable[tuple[Any, list[str]]]) -> tuple[Any, list[str]]:
    """The rows of all partitions, and of each its origins: addresses between commas."""
    values, origins = zip(*packed, strict=True)
    rows = values[0] if len(values) == 1 else methods.concat(list(values))
    return rows, [text for part in origins for text in part]


_META = pd.Series([], dtype=object, name=ROWS)
_UNION = dd.Aggregation("union", lambda rows: rows.agg(",".join), lambda rows: rows.agg(",".join))


def _names(spec: Any) -> set[Any]:
    """What a specification of aggregates calls."""
    if isinstance(spec, dict):
        return set().union(*map(_names, spec.values()))
    return set().union(*map(_names, spec)) if isinstance(spec, list) else {spec}


def _is_row_function(expr: Any) -> bool:
    """Whether a function of the program gets one row, or one value."""
    return type(expr) is _expr.Apply and callable(expr.function) and "by_row" not in expr.kwargs


def _with(expr: Any, traced: dict[str, TracedFrame]) -> Any:
    """The expression over other parts."""
    return type(expr)(
        *(
            traced[part._name].value if isinstance(part, _expr.Expr) else part
            for part in expr.operands
        )
    )


def _by_partition(function: Callable[..., Any], frame: Any, *args: Any, meta: Any) -> Any:
    return frame.map_partitions(
        function, *args, meta=meta, align_dataframes=False, enforce_metadata=False
    )


def _packed(value: Any, traced: TracedFrame, column: str) -> Any:
    """A frame with its origins as the last column."""
    meta = with_column(value._meta, column, [])
    return _by_partition(beside, value, new_collection(traced.origins), column, meta=meta)


def _unpacked(packed: Any, columns: list[Any]) -> TracedFrame:
    return TracedFrame(packed[columns].expr, packed[ROWS].expr)


__all__ = ["UNKNOWN", "FrameBase", "FrameTracing", "FromMap", "Scalar", "rows_of"]
