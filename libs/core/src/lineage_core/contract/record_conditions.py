"""Conditions on records of any Python type: a small subset of Python's expressions, read and never run as code.

    record["amount"] > 100 and record["city"] in ("Oslo", "Bergen")
    len(record[1]) > 5 or record[0] is None

What a condition may hold is in `ACCEPTED_SYNTAX`. A test looks into the record by its own ``[...]``, comparisons and
``len``; nothing else of it is called. It changes no record: a part that a dict would make when it is looked for
(``defaultdict``) is missing, and no iterator is looked through.
"""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, TypeAlias

from lineage_core.errors import LineageError

CHARACTERS_MAX = 4_096
PARTS_MAX = 500
"""Nodes of the expression."""
ACCEPTED_SYNTAX = (
    "taken are comparisons, in, is None, and, or, not of record, its parts (record[0], record['city']), len(...) of these, "
    "and constants"
)

Test: TypeAlias = Literal["yes", "no", "failed"]
"""Whether a record fulfils a condition; ``failed``: the condition fails on it."""
_Term: TypeAlias = Callable[[Any], Any]


def _contains(parts: Any, part: Any) -> bool:
    if isinstance(parts, Iterator):
        raise TypeError("the function behind would miss what was looked through")
    return part in parts


_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda part, parts: _contains(parts, part),
    ast.NotIn: lambda part, parts: not _contains(parts, part),
}
_MIRRORED: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.gt,
    ast.LtE: operator.ge,
    ast.Gt: operator.lt,
    ast.GtE: operator.le,
}
"""With the sides swapped."""
_RECORD = "record"


class RecordConditionError(LineageError):
    """A condition that can't be read; the message says what may stand in one."""


def read_condition(text: str) -> Callable[[Any], Any]:
    """A test of records.

    Args:
        text: the condition.

    Returns:
        A function whose value is true of a record that fulfils the condition. It, or the look at whether its value is true, raises
        what the record does where it has no such part, or can't be compared so.

    Raises:
        RecordConditionError: the text is no condition.
    """
    if len(text) > CHARACTERS_MAX:
        raise RecordConditionError(f"a condition has at most {CHARACTERS_MAX:,} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if sum(1 for _ in ast.walk(tree)) > PARTS_MAX:
            raise RecordConditionError(f"a condition has at most {PARTS_MAX} parts")
        term = _term(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise _refusal(text) from problem
    if not any(isinstance(part, ast.Name) and part.id == _RECORD for part in ast.walk(tree)):
        raise RecordConditionError(f"{text[:80]!r} does not look at the record: {ACCEPTED_SYNTAX}")
    return term


def test_record(condition: Callable[[Any], Any], record: Any) -> Test:
    """Test a record by what `read_condition` gave."""
    try:
        return "yes" if condition(record) else "no"
    except Exception:
        # The record has no such part, or its own functions fail.
        return "failed"


def _refusal(part: str) -> RecordConditionError:
    return RecordConditionError(f"{part[:80]!r} is no condition: {ACCEPTED_SYNTAX}")


def _term(tree: ast.expr) -> _Term:
    match tree:
        case ast.BoolOp(op=ast.And(), values=values):
            return _all([_term(value) for value in values])
        case ast.BoolOp(op=ast.Or(), values=values):
            return _any([_term(value) for value in values])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _not(_term(operand))
        case ast.Compare(left=left, ops=ops, comparators=others):
            return _compared(left, ops, others)
        case _:
            return _value(tree)


def _value(tree: ast.expr) -> _Term:
    match tree:
        case ast.Name(id="record"):
            return _itself
        case ast.Subscript(value=value, slice=index):
            return _part(_value(value), _constant(index))
        case ast.Call(func=ast.Name(id="len"), args=[value], keywords=[]):
            return _length(_value(value))
        case _:
            constant = _constant(tree)
            return lambda _: constant


def _constant(tree: ast.expr) -> Any:
    match tree:
        case ast.Constant(value=value) if isinstance(value, (bool, int, float, str, bytes)) or (
            value is None
        ):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)) if isinstance(
            value, (int, float)
        ) and not isinstance(value, bool):
            return -value
        case ast.Tuple(elts=parts):
            return tuple(_constant(part) for part in parts)
        case ast.List(elts=parts):
            return [_constant(part) for part in parts]
        case _:
            raise _refusal(ast.unparse(tree))


def _compared(left: ast.expr, ops: list[ast.cmpop], others: list[ast.expr]) -> _Term:
    steps = [
        _identity(op, other)
        if isinstance(op, (ast.Is, ast.IsNot))
        else (_COMPARISONS[type(op)], _value(other))
        for op, other in zip(ops, others, strict=True)
    ]
    first = _value(left)
    if len(steps) == 1:
        compare, right = steps[0]
        # Each call takes as long as the comparison itself.
        if _is_constant(others[0]):
            constant = right(None)
            if first is _itself:
                return _compared_itself(type(ops[0]), compare, constant)
            if isinstance(left, ast.Subscript) and _value(left.value) is _itself:
                return _compared_part(first, _constant(left.slice), compare, constant)
            return lambda record: compare(first(record), constant)
        return lambda record: compare(first(record), right(record))

    def holds(record: Any) -> bool:
        value = first(record)
        for compare, term in steps:
            following = term(record)
            if not compare(value, following):
                return False
            value = following
        return True

    return holds


def _compared_itself(
    op: type[ast.cmpop], compare: Callable[[Any, Any], Any], constant: Any
) -> _Term:
    """A comparison of the record itself, without a step of Python where there is a way."""
    if op is ast.In:
        return partial(operator.contains, constant)
    # These answer for their own type and its subtypes alone, whose own comparisons come first, as in the other order.
    if op in _MIRRORED and type(constant) in {int, str, bytes}:
        return partial(_MIRRORED[op], constant)
    return lambda record: compare(record, constant)


def _compared_part(
    part_of: _Term, index: Any, compare: Callable[[Any, Any], Any], constant: Any
) -> _Term:
    """A comparison of a part of the record, which ``part_of`` gives, in one call where nothing of the record's own type has a say."""

    def holds(record: Any) -> Any:
        kind = type(record)
        if kind is tuple or kind is dict or kind is str or kind is list:
            return compare(record[index], constant)
        return compare(part_of(record), constant)

    return holds


def _is_constant(tree: ast.expr) -> bool:
    return not any(isinstance(part, ast.Name) for part in ast.walk(tree))


def _identity(op: ast.cmpop, other: ast.expr) -> tuple[Callable[[Any, Any], Any], _Term]:
    if not (isinstance(other, ast.Constant) and other.value is None):
        raise _refusal(f"is {ast.unparse(other)}")
    compare = operator.is_ if isinstance(op, ast.Is) else operator.is_not
    return compare, lambda _: None


def _itself(record: Any) -> Any:
    return record


def _part(value: _Term, index: Any) -> _Term:
    def part_of(whole: Any) -> Any:
        # A dict of a type of its own may make the part, and keep it.
        if isinstance(whole, dict) and _may_make(whole) and index not in whole:
            raise KeyError(index)
        return whole[index]

    return part_of if value is _itself else lambda record: part_of(value(record))


def _may_make(whole: dict[Any, Any]) -> bool:
    return type(whole) is not dict and not isinstance(whole, Counter)


def _length(value: _Term) -> _Term:
    return lambda record: len(value(record))


def _not(term: _Term) -> _Term:
    return lambda record: not term(record)


def _all(terms: list[_Term]) -> _Term:
    if len(terms) == 2:
        first, second = terms
        return lambda record: first(record) and second(record)
    return lambda record: all(term(record) for term in terms)


def _any(terms: list[_Term]) -> _Term:
    if len(terms) == 2:
        first, second = terms
        return lambda record: first(record) or second(record)
    return lambda record: any(term(record) for term in terms)
