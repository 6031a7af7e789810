"""Tests rows of files by conditions, without Spark: in SQL's logic of true, false and unknown."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from typing import Any, TypeAlias

from lineage_query.conditions import (
    AllOrAny,
    ColumnTest,
    Condition,
    ConditionError,
    ConditionTree,
    Constant,
    Negation,
    parse_condition,
)

Truth: TypeAlias = "bool | None"
"""None: unknown, as of a comparison with NULL."""
Row: TypeAlias = "Sequence[Any]"
"""Values of the columns that a test needs. Text files have texts; the empty one is NULL."""
_Test: TypeAlias = Callable[[Row], Truth]
DIGITS_MAX = 40
UNREADABLE = "\ufffd"
"""Stands in a text for bytes that are no UTF-8."""
_NUMBER = re.compile(r"\s*[-+]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][-+]?\d{1,3})?\s*", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": eq, "==": eq, "<=>": eq, "<>": ne, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip


class _IncomparableError(Exception):
    """A value that can't be compared with a constant of that kind."""


@dataclass(slots=True)
class RowTest:
    """Tests rows by a condition, and by keys: a row has to fulfil the one and to have one of the others.

    ``columns``: whose values a row holds, in this order. ``incomparable``: by column, how many rows had a value that can't
    be compared with the condition's constant, such as a text with a number, or one that is not in UTF-8: a comparison with it is unknown. ``unreadable``: how many of these values are
    not in UTF-8.
    """

    columns: tuple[str, ...]
    where: Condition | None = None
    key_columns: tuple[str, ...] = ()
    keys: frozenset[tuple[str, ...]] = frozenset()
    incomparable: dict[str, int] = field(default_factory=dict)
    unreadable: int = 0
    _where: _Test | None = None
    _key_at: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, where: str, key_columns: Sequence[str] = (), keys: Sequence[Sequence[str]] = ()
    ) -> RowTest:
        """The test of a condition's text (empty: none), and of keys: texts of the values in some columns.

        Raises:
            ConditionError: the condition is not understood, or has a constant that rows of files are not compared with.
        """
        condition = parse_condition(where) if where else None
        named = (condition.columns if condition else ()) + tuple(key_columns)
        columns = tuple({name.lower(): name for name in reversed(named)}.values())
        return cls(columns, condition, tuple(key_columns), frozenset(map(tuple, keys)))

    def __post_init__(self) -> None:
        at = {name.lower(): number for number, name in enumerate(self.columns)}
        self._key_at = tuple(at[name.lower()] for name in self.key_columns)
        if self.where is not None:
            self._where = self._compiled(self.where.tree, at)

    def places_in(self, names: Sequence[str], of: str) -> list[int]:
        """Where a file has the columns. ``of``: the file, for the error.

        Raises:
            ConditionError: it has a column not exactly once, ignoring the case of names.
        """
        lower = [name.lower() for name in names]
        for column in self.columns:
            if lower.count(column.lower()) != 1:
                several = "several columns" if column.lower() in lower else "no column"
                shown = ", ".join(names[:20]) + ", ..." * (len(names) > 20)
                raise ConditionError(f"{of} has {several} {column!r}; it has {shown:.500}")
        return [lower.index(column.lower()) for column in self.columns]

    def __call__(self, row: Row) -> bool:
        """Whether a row is one of those that are looked for."""
        if self.key_columns and self.key_of(row) not in self.keys:
            return False
        return self._where is None or self._where(row) is True

    def key_of(self, row: Row) -> tuple[str, ...] | None:
        """The texts of the key's values; None where one of them has no text that keys are compared with."""
        texts = []
        for at in self._key_at:
            value = row[at]
            if not isinstance(value, (str, int, datetime.date)) or isinstance(value, bool):
                if value is not None:
                    self._count(self.columns[at])
                return None
            if isinstance(value, str) and UNREADABLE in value:
                self.unreadable += 1
                self._count(self.columns[at])
                return None
            texts.append(str(value))
        return tuple(texts)

    def _count(self, column: str) -> None:
        self.incomparable[column] = self.incomparable.get(column, 0) + 1

    def _compiled(self, tree: ConditionTree, at: Mapping[str, int]) -> _Test:
        match tree:
            case Negation(term):
                return _negated(self._compiled(term, at))
            case AllOrAny(operator, terms):
                together = _all_of if operator == "AND" else _any_of
                return together([self._compiled(term, at) for term in terms])
            case ColumnTest():
                test = self._of_column(tree, at[tree.column.lower()])
                return _negated(test) if tree.negated else test

    def _of_column(self, test: ColumnTest, at: int) -> _Test:
        if test.operator == "IS NULL":
            return lambda row: row[at] is None or row[at] == ""
        comparisons = [self._comparison(test.column, at, *pair) for pair in _comparisons_of(test)]
        together = _any_of if test.operator == "IN" else _all_of
        return comparisons[0] if len(comparisons) == 1 else together(comparisons)

    def _comparison(self, column: str, at: int, operator: str, constant: Constant) -> _Test:
        compare, read = _OPERATORS[operator], _reader_of(constant)
        wanted = read(constant.value)
        null = False if operator == "<=>" else None

        def test(row: Row) -> Truth:
            value = row[at]
            if value is None:
                return null
            try:
                if isinstance(value, str) and UNREADABLE in value:
                    self.unreadable += 1
                    raise _IncomparableError
                return bool(compare(read(value), wanted))
            except _IncomparableError:
                if value != "":
                    self._count(column)
                return null

        return test


def _comparisons_of(test: ColumnTest) -> list[tuple[str, Constant]]:
    match test.operator:
        case "IN":
            return [("=", constant) for constant in test.constants]
        case "BETWEEN":
            return list(zip((">=", "<="), test.constants, strict=True))
        case operator:
            return [(operator, test.constants[0])]


def _reader_of(constant: Constant) -> Callable[[Any], Any]:
    match constant.kind:
        case "number":
            return _number
        case "text":
            return _text
        case "boolean":
            return _boolean
        case "DATE":
            return _date
        case _:
            raise ConditionError(
                "rows of files are not compared with TIMESTAMP: the time zone of their times is not known here"
            )


def _number(value: Any) -> int | Decimal:
    if type(value) is str and value.isdecimal() and value.isascii() and len(value) <= DIGITS_MAX:
        # Most are, and this takes a fifth of the time.
        return int(value)
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return Decimal(value.strip())
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        # As it is written: 0.1 is the number that is nearest to it.
        number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        if number.is_finite():
            return number
    raise _IncomparableError


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise _IncomparableError


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    raise _IncomparableError


def _date(value: Any) -> datetime.date:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            raise _IncomparableError from None
    raise _IncomparableError


def _negated(test: _Test) -> _Test:
    def negated(row: Row) -> Truth:
        truth = test(row)
        return None if truth is None else not truth

    return negated


def _all_of(tests: Sequence[_Test]) -> _Test:
    def all_of(row: Row) -> Truth:
        result: Truth = True
        for test in tests:
            truth = test(row)
            if truth is False:
                return False
            if truth is None:
                result = None
        return result

    return all_of


def _any_of(tests: Sequence[_Test]) -> _Test:
    def any_of(row: Row) -> Truth:
        result: Truth = False
        for test in tests:
            truth = test(row)
            if truth:
                return True
            if truth is None:
                result = None
        return result

    return any_of
