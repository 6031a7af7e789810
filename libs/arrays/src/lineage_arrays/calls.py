"""Calls of NumPy as handlers see them: arguments with arrays of a workflow among them."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lineage_arrays.errors import UntracedError
from lineage_arrays.workflow import NO_AXES, AnyArray, Input, Operand


@dataclass(frozen=True)
class Result:
    """One array of a call's result, and what it was made from.

    ``decided_axes``: axes whose lengths the call decided by values; those that it has from its operands are known by the mappings.
    ``decided_width``: whether the call decided by values how wide texts are. ``cut_to_width``: whether texts are cut to a width that values had decided.
    """

    value: AnyArray
    inputs: Sequence[Input] = ()
    decided_axes: frozenset[int] = NO_AXES
    decided_width: bool = False
    cut_to_width: bool = False


@dataclass(frozen=True)
class Results:
    """Several arrays of a call's result. ``container`` makes of them what the function returns."""

    parts: Sequence[Result]
    container: Callable[[Any], Any] = tuple


class Call:
    """A call of a NumPy function. ``operands``: the arrays of a workflow among its arguments, also inside lists and dictionaries."""

    __slots__ = ("args", "function", "kwargs", "operands")

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.operands: list[Operand] = []
        for argument in args:
            _collect(argument, self.operands)
        for argument in kwargs.values():
            _collect(argument, self.operands)

    @property
    def name(self) -> str:
        return name_of(self.function)

    def run(self) -> Any:
        """What NumPy itself computes."""
        args = [plain(argument) for argument in self.args]
        return self.function(*args, **plain(self.kwargs)) if self.kwargs else self.function(*args)

    def array(self) -> AnyArray:
        """What NumPy itself computes, of one array."""
        return as_array(self.run())

    def argument(self, at: int, name: str, default: Any = None) -> Any:
        """An argument that may be passed by position or by name."""
        return self.args[at] if at < len(self.args) else self.kwargs.get(name, default)

    def check_places(self) -> None:
        """Refuse ``out`` and ``where`` that are passed by position, which handlers don't check.

        Raises:
            UntracedError: they are.
        """
        for name in ("out", "where"):
            at = _places(self.function).get(name, len(self.args))
            if at < len(self.args) and self.args[at] not in _MISSING_ARGUMENT:
                raise self.refuse(f"{name}= is not traced", "assign the result: x[...] = ...")

    def refuse(self, detail: str, way_out: str) -> UntracedError:
        return UntracedError(f"{self.name}: {detail}", way_out)


class _MissingArgument:
    """What ``out`` and ``where`` are where they are missing: compared by identity, arrays are arrays."""

    def __contains__(self, value: Any) -> bool:
        return value is None or value is True or value is np._NoValue


_MISSING_ARGUMENT = _MissingArgument()


@functools.cache
def _places(function: Callable[..., Any]) -> dict[str, int]:
    """The index of each positional parameter of a function; empty if it has no signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    positional = itertools.takewhile(
        lambda parameter: parameter.kind <= parameter.POSITIONAL_OR_KEYWORD, parameters
    )
    return {parameter.name: at for at, parameter in enumerate(positional)}


Handler = Callable[[Call], Result | Results]


def as_array(result: Any) -> AnyArray:
    """A result of NumPy as an array. One that can't be written to, where NumPy gives a number."""
    value = np.asarray(result)
    if not isinstance(result, np.ndarray):
        value.flags.writeable = False
    return value


def is_number(value: AnyArray) -> bool:
    """Whether an array stands for a number that NumPy gave: nobody writes to it, and no view looks at it."""
    return value.ndim == 0 and value.base is None and not value.flags.writeable


@functools.lru_cache(maxsize=1024)
def name_of(function: Callable[..., Any]) -> str:
    """As people write it: ``sum``, ``linalg.norm``, ``ndimage.zoom``."""
    if isinstance(function, np.ufunc):
        return function.__name__
    module = str(getattr(function, "__module__", "") or "")
    inner = module.removeprefix("numpy").removeprefix(".")
    if module.startswith("scipy."):
        inner = module.split(".")[1]
    name = getattr(function, "__name__", str(function))
    return f"{inner}.{name}" if inner and not inner.startswith("_") else name


LISTS = (list, tuple)
"""For `isinstance`: a union of types would be made anew for each question."""
_LEAVES = frozenset(
    {
        int, float, complex, bool, str, bytes, slice, type(None), type(...), np.ndarray, np.dtype, np.float64, np.float32,
        np.int64, np.bool_, type(np._NoValue),
    }
)  # fmt: skip
"""Types of most arguments that hold no others: to ask whether they are mappings takes longest."""


def operands(argument: Any) -> Iterator[Operand]:
    """The arrays of a workflow in an argument, also inside lists and dictionaries."""
    collected: list[Operand] = []
    _collect(argument, collected)
    return iter(collected)


def _collect(argument: Any, collected: list[Operand]) -> None:
    if type(argument) in _LEAVES:
        return
    if isinstance(argument, Operand):
        collected.append(argument)
    elif isinstance(argument, LISTS):
        for part in argument:
            _collect(part, collected)
    elif isinstance(argument, Mapping):
        for part in argument.values():
            _collect(part, collected)


def replaced(argument: Any, replace: Callable[[Any], Any]) -> Any:
    """An argument with each leaf replaced; lists, tuples and dictionaries are made anew."""
    if type(argument) in _LEAVES or isinstance(argument, Operand):
        return replace(argument)
    if isinstance(argument, list):
        return [replaced(part, replace) for part in argument]
    if type(argument) is tuple:
        return tuple([replaced(part, replace) for part in argument])
    if isinstance(argument, Mapping):
        return {key: replaced(part, replace) for key, part in argument.items()}
    return replace(argument)


def plain(argument: Any) -> Any:
    """An argument as NumPy itself takes it."""
    if type(argument) in _LEAVES:
        return argument
    return value_of(argument) if isinstance(argument, Operand) else replaced(argument, _plain_leaf)


def _plain_leaf(leaf: Any) -> Any:
    return value_of(leaf) if isinstance(leaf, Operand) else leaf


def value_of(operand: Operand) -> Any:
    """The value of an operand as NumPy has it: an array, or a number."""
    return operand.current[()] if operand.is_number else operand.current


def frozen(argument: Any) -> Any:
    """A constant argument as a copy, whatever NumPy takes for an array: later changes by the program do not affect it."""
    return replaced(argument, _frozen_leaf)


_NEVER_CHANGED = (Operand, np.generic, int, float, complex, str, bytes, range)


def _frozen_leaf(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        return leaf.copy()
    if isinstance(leaf, slice):
        return slice(*map(_frozen_leaf, (leaf.start, leaf.stop, leaf.step)))
    if type(leaf) in _LEAVES or isinstance(leaf, _NEVER_CHANGED):
        return leaf
    if isinstance(leaf, tuple):
        # NumPy takes those with names for indices of several axes, too.
        return tuple(map(frozen, leaf))
    return np.array(leaf) if isinstance(leaf, Sequence) or hasattr(leaf, "__array__") else leaf


def no_operands(call: Call, *arguments: Any) -> None:
    """Refuse arrays of a workflow where a mapping would have to follow their values.

    Raises:
        UntracedError: there are some.
    """
    if any(True for _ in operands(list(arguments))):
        raise call.refuse(
            "an argument beside the arrays is traced",
            "give it as a plain value (np.asarray(x), int(x)); its own lineage ends there",
        )


def axes_of(call: Call, axis: Any, ndim: int) -> tuple[int, ...]:
    """An ``axis`` argument as axes from 0 up; None: all of them. An array without axes takes one that means none."""
    no_operands(call, axis)
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    return tuple(int(number) % ndim for number in axes) if ndim else ()
