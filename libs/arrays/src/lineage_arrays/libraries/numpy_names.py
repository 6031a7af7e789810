"""NumPy as the modules of a library see it while it is traced: what would make plain arrays of traced ones keeps them."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lineage_arrays.calls import operands, plain, value_of
from lineage_arrays.cells import Shape
from lineage_arrays.constants import rows_in
from lineage_arrays.errors import UntracedError
from lineage_arrays.mappings import Gather, Mapping, SamePositions
from lineage_arrays.traced import TracedArray, flow_of
from lineage_arrays.workflow import NO_AXES, AnyArray, Input, Operand, all_axes

REPLACED: dict[Any, Callable[..., Any]] = {}
"""By a function of NumPy the one that takes traced arrays as they are."""


def _in_place_of(*functions: Callable[..., Any]) -> Callable[..., Any]:
    """Has a function called for those of NumPy where there are traced arguments, with NumPy's own one first."""

    def taken(keeping: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            REPLACED[function] = _deciding(function, keeping)
        return keeping

    return taken


def _deciding(function: Callable[..., Any], keeping: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if next(operands([*args, kwargs]), None) is None:
            return function(*args, **kwargs)
        return keeping(function, *args, **kwargs)

    return call


@_in_place_of(np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray)
def _as_array(
    function: Callable[..., Any], array: Any = None, dtype: Any = None, *rest: Any, **words: Any
) -> Any:
    """An array, or lists of arrays and numbers, as one traced array."""
    array = words.pop("object", words.pop("a", array))
    if next(operands(array), None) is None:
        # Another argument is traced, such as like=.
        return function(array, dtype, *rest, **words)
    value = function(plain(array), dtype, *rest, **words)
    if isinstance(array, TracedArray) and not _is_copy(value, array):
        return array
    if not isinstance(array, TracedArray | list | tuple):
        raise UntracedError(
            f"numpy.{function.__name__} of {type(array).__name__} with traced arrays in it",
            "np.stack a list of them",
        )
    return _gathered(function.__name__, array, np.array(value, copy=True, order="K"))


def _is_copy(value: AnyArray, array: TracedArray) -> bool:
    """Whether NumPy makes another array of one. A number is always the same."""
    if (value.shape, value.dtype) != (array.shape, array.dtype):
        return True
    return not array.is_number and not np.may_share_memory(value, array.current)


def _gathered(name: str, arrays: Any, value: AnyArray) -> TracedArray:
    """Arrays at their places in nested lists. ``value``: the whole, which may have more axes before."""
    inputs, numbers = [], list[Any]()
    for place, leaf in _leaves(arrays, ()):
        if isinstance(leaf, Operand):
            inputs.append(Input(leaf, _at(place, leaf.current.shape, value.shape)))
        else:
            numbers.append(leaf)
    flow = flow_of(list(operands(arrays)))
    may_hold = rows_in(flow, [numbers])
    return TracedArray(flow, value, name, inputs, constants=bool(numbers), may_hold=may_hold)


def _leaves(arrays: Any, place: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Any]]:
    if isinstance(arrays, list | tuple):
        for at, part in enumerate(arrays):
            yield from _leaves(part, (*place, at))
    else:
        yield place, arrays


def _at(place: tuple[int, ...], shape: Shape, target: Shape) -> Mapping:
    """The cells of an array at a place in a larger one, which may have axes of one cell before."""
    before = len(target) - len(place) - len(shape)
    if before < 0 or target[before + len(place) :] != shape or set(target[:before]) - {1}:
        raise UntracedError("an array of records, or of parts of several shapes", "np.stack parts")
    if not place:
        return SamePositions(shape, target)

    def index() -> AnyArray:
        cells = np.zeros(target, np.int64)
        cells[(0,) * before + place] = np.arange(1, 1 + math.prod(shape)).reshape(shape)
        return cells

    return Gather(shape, target, index)


@_in_place_of(np.zeros_like, np.ones_like, np.empty_like)
def _like(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """An array without lineage that traced values may be written to."""
    value = function(*plain(args), **plain(kwargs))
    arrays = list(operands([*args, kwargs]))
    decided = any(array.node.decided_axes for array in arrays)
    axes = all_axes(value) if decided else NO_AXES
    return TracedArray(flow_of(arrays), value, function.__name__, [], decided_axes=axes)


@_in_place_of(np.isscalar)
def _is_scalar(function: Callable[..., Any], element: Any) -> bool:
    return bool(function(plain(element)))


def is_instance(checked: Any, of: Any) -> bool:
    """As ``isinstance``: a traced array is what NumPy would have in its place."""
    if isinstance(checked, of):
        return True
    return isinstance(checked, TracedArray) and isinstance(value_of(checked), of)


class StandIn(types.ModuleType):
    """A module with some of its names replaced; all else is its own."""

    def __init__(self, module: types.ModuleType, replaced: dict[str, Any]) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(replaced)
        self._stands_for = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stands_for, name)

    def __dir__(self) -> list[str]:
        return dir(self._stands_for)


NUMPY = StandIn(np, {function.__name__: taking for function, taking in REPLACED.items()})
