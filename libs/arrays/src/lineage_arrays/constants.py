"""Values without lineage that take part in calls: whether there are some, and whether rows may be in them that an action of a captured engine gave."""

from __future__ import annotations

import operator as operators
import sys
from collections.abc import Iterable, Iterator
from types import EllipsisType, FrameType
from typing import Any

import numpy as np

from lineage_arrays.calls import LISTS, Call, operands
from lineage_arrays.literals import calling_frame, is_option, written_at
from lineage_arrays.workflow import Operand, Workflow

_NUMBERS = (int, float, complex, np.generic, np.ndarray)
_NO_VALUES = (Operand, EllipsisType, type(None))
_NO_VALUES_OF_FUNCTIONS = (*_NO_VALUES, type, np.dtype, type(np._NoValue))
_WRITTEN = (int, float, complex, bool, str, bytes, type(None))
"""Types of values that are written in code."""
_IN_CODE = (float, complex, str, bytes)
"""Types of values that stand in code, and of which each answer has objects of its own."""


def leaves(argument: Any) -> list[Any]:
    """The values in an argument, also within lists and slices."""
    found: list[Any] = []
    _add_leaves(argument, found)
    return found


def _add_leaves(argument: Any, found: list[Any]) -> None:
    if isinstance(argument, LISTS):
        for part in argument:
            _add_leaves(part, found)
    elif isinstance(argument, slice):
        found += (argument.start, argument.stop, argument.step)
    else:
        found.append(argument)


def constants_of(flow: Workflow, call: Call) -> dict[str, Any]:
    """What `Workflow.add` takes of the values without lineage in a call."""
    before = flow.rows_before
    has_some = _has_constants(call)
    may_have_rows = bool(before) and _may_have_rows(call)
    if (may_have_rows or (has_some and flow.leaks)) and _are_written_in_code(call):
        has_some = may_have_rows = False
    return {"constants": has_some, "may_hold": before if may_have_rows else ""}


def rows_in(flow: Workflow, values: Iterable[Any]) -> str:
    """Which action gave the program rows that may be in some values, of which none is an option; empty: none can be."""
    before = flow.rows_before
    has_some = before and any(
        _may_be_row(value, texts=True, whole_numbers=True) for value in values
    )
    return before if has_some else ""


def attributes(operator: object) -> list[Any]:
    """What an operator of a program holds beside its operands."""
    return list(getattr(operator, "__dict__", {}).values())


def _is_width(leaf: Any) -> bool:
    """Whether an argument is a type that says how wide texts are: values may have decided that."""
    if not isinstance(leaf, np.dtype):
        return False
    if leaf.fields is not None:
        return any(_is_width(field[0]) for field in leaf.fields.values())
    return leaf.kind in "US" and leaf.itemsize > 0


def _has_constants(call: Call) -> bool:
    """Whether values without lineage took part in a call."""
    if _takes_values_alone(call):
        # Each argument is a value, also a truth value or a text.
        if any(not isinstance(leaf, _NO_VALUES) for leaf in leaves(call.args)):
            return True
    else:
        # What may be a value of the program: no array of the workflow, type or mode.
        for leaf in leaves(call.args):
            if isinstance(leaf, str):
                if _is_about_texts(call):
                    return True
            elif not isinstance(leaf, _NO_VALUES_OF_FUNCTIONS) or _is_width(leaf):
                return True
    if not call.kwargs:
        return False
    if _is_width(call.kwargs.get("dtype")):
        return True
    return any(
        isinstance(leaf, _NUMBERS) and not isinstance(leaf, bool)
        for leaf in leaves(_keyword_values(call))
    )


def _are_written_in_code(call: Call) -> bool:
    """Whether all values without lineage in a call are numbers and texts that stand in the expression which calls: none of them left a workflow.

    As many arguments stand there as the call has, and each value is among the literals.
    """
    no_values = _NO_VALUES if _takes_values_alone(call) else _NO_VALUES_OF_FUNCTIONS
    arguments = leaves((*call.args, *_keyword_values(call)))
    values = [leaf for leaf in arguments if not isinstance(leaf, no_values) or _is_width(leaf)]
    if any(type(value) not in _WRITTEN for value in values) or _is_width(call.kwargs.get("dtype")):
        return False
    frame = calling_frame(sys._getframe(1))
    written = None if frame is None else written_at(frame)
    if frame is None or written is None:
        return False
    # Another function than that which is called may compute in C with values of its own.
    if not written.calls(getattr(call.function, "__name__", "")):
        return False
    if len(arguments) != len(written.literals) + written.others + written.is_method(frame):
        return False
    return written.has_all(values)


def _may_have_rows(call: Call) -> bool:
    """Whether values without lineage took part in a call in which rows may be that an action gave the program: no numbers that stand in its code.

    Whole numbers of Python, by themselves or in a tuple of a function, are taken for those of places, axes and shapes.
    """
    arguments = (*call.args, *_keyword_values(call))
    alone = _takes_values_alone(call)
    texts = alone or _is_about_texts(call)
    return any(_may_be_row(value, texts, whole_numbers=alone) for value in arguments)


def _takes_values_alone(call: Call) -> bool:
    return isinstance(call.function, np.ufunc) or call.function is operators.setitem


def _is_about_texts(call: Call) -> bool:
    return any(operand.current.dtype.kind in "US" for operand in operands(call.args))


def _keyword_values(call: Call) -> list[Any]:
    return [value for key, value in call.kwargs.items() if not is_option(key, value)]


def _may_be_row(value: Any, texts: bool, whole_numbers: bool) -> bool:
    """Whether a value may be one of an answer, or have some.

    Args:
        value: the argument, or a part of it.
        texts: whether texts are values, and not names of modes.
        whole_numbers: whether several whole numbers in a tuple are values, and not axes or lengths.
    """
    kind = type(value)
    if isinstance(value, _NO_VALUES_OF_FUNCTIONS) or kind in (int, bool, range) or callable(value):
        return False
    if kind is slice:
        return any(_may_be_row(part, texts, whole_numbers) for part in leaves(value))
    if kind in LISTS:
        numbers = sum(type(part) in (int, bool) for part in value)
        if numbers > 1 and (whole_numbers or kind is list):
            return True
        return any(_may_be_row(part, texts, whole_numbers) for part in value)
    if kind is np.ndarray:
        return bool(value.size)
    if kind in (str, bytes) and not texts:
        return False
    return kind not in _IN_CODE or not _stands_in_code(value)


def _stands_in_code(value: Any) -> bool:
    """Whether a value is the very object that code which is running has as a constant. What an action gave is another object, however equal."""
    if isinstance(value, str | bytes) and len(value) < 2:
        # Of these Python has one object each.
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if any(value is constant for constant in _constants(frame.f_code.co_consts)):
            return True
        frame = frame.f_back
    return False


def _constants(constants: tuple[Any, ...]) -> Iterator[Any]:
    """With those in tuples: a list of numbers in code is made of one."""
    for constant in constants:
        if type(constant) is tuple:
            yield from _constants(constant)
        else:
            yield constant
