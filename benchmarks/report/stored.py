"""Figures that are to be reached by benchmarks of their own: each is a field of the row that was stored last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.report.rows import Row
from benchmarks.report.targets import Reached

Measured = Callable[[Sequence[Row]], Reached | None]
Figure = Callable[[Row], float | None]


def at_most(benchmark: str, figure: str | Figure, limit: float, **of: Any) -> Measured:
    """A figure that may not be larger.

    Args:
        benchmark: whose row it is.
        figure: its dotted path in a row, or what gives it.
        limit: in the unit of the row.
        of: fields that the row must have; a function says whether a value will do.
    """
    return _measured(benchmark, figure, lambda value: value <= limit, of)


def at_least(benchmark: str, figure: str | Figure, limit: float, **of: Any) -> Measured:
    """A figure that may not be smaller; arguments as those of :func:`at_most`."""
    return _measured(benchmark, figure, lambda value: value >= limit, of)


def grows_at_most(
    benchmark: str, figure: str, limit: float, of: Mapping[str, Any], base: Mapping[str, Any]
) -> Measured:
    """How many times a figure of one row is that of another.

    Args:
        benchmark: whose rows they are.
        figure: its dotted path in both.
        limit: times.
        of: fields of the one row, as of :func:`at_most`.
        base: fields of the other row.
    """

    def measured(rows: Sequence[Row]) -> Reached | None:
        both = _latest(rows, benchmark, of), _latest(rows, benchmark, base)
        values = [row.value(figure) if row else None for row in both]
        row, before = both
        if row is None or before is None or values[0] is None or not values[1]:
            return None
        ratio = values[0] / values[1]
        text = f"{_number(ratio)} times, at {row.provenance['commit']}"
        return Reached(text, ratio <= limit, (row, before))

    return measured


def worst(path: str, field: str) -> Figure:
    """The largest of a field among the items of a list."""

    def figure(row: Row) -> float | None:
        items = row.at(path)
        return max((float(item[field]) for item in items), default=None) if items else None

    return figure


def times(path: str, factor: float) -> Figure:
    """A figure in another unit."""

    def figure(row: Row) -> float | None:
        value = row.value(path)
        return None if value is None else value * factor

    return figure


def _measured(
    benchmark: str, figure: str | Figure, is_met: Callable[[float], bool], of: Mapping[str, Any]
) -> Measured:
    def measured(rows: Sequence[Row]) -> Reached | None:
        row = _latest(rows, benchmark, of)
        if row is None:
            return None
        value = row.value(figure) if isinstance(figure, str) else figure(row)
        if value is None:
            return None
        interval = row.interval(figure) if isinstance(figure, str) else None
        text = _number(value)
        if interval is not None and interval[0] != interval[1]:
            text += f" ({_number(interval[0])} to {_number(interval[1])})"
        return Reached(f"{text}, at {row.provenance['commit']}", is_met(value), (row,))

    return measured


def _latest(rows: Sequence[Row], benchmark: str, of: Mapping[str, Any]) -> Row | None:
    fitting = [
        row
        for row in rows
        if row.benchmark == benchmark
        and all(_fits(row.at(name), wanted) for name, wanted in of.items())
    ]
    return max(fitting, key=lambda row: str(row.provenance["at"]), default=None)


def _fits(value: Any, wanted: Any) -> bool:
    return bool(wanted(value)) if callable(wanted) else bool(value == wanted)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
