"""Functions that NumPy's protocols do not reach, such as those of C: what they give is made from all cells of what they take."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lineage_arrays.calls import name_of, operands, replaced
from lineage_arrays.constants import rows_in
from lineage_arrays.errors import UntracedError
from lineage_arrays.mappings import AllToAll
from lineage_arrays.traced import TracedArray, flow_of
from lineage_arrays.workflow import AnyArray, Input, Operand, all_axes

ALL_CELLS = "a function that is not looked into: all cells of each operand"


def black_box(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of plain arrays as one that takes traced arrays, too, without a look at what it does with them.

    Each array that it returns, also within tuples, lists and dictionaries, is made from all cells of each traced argument: a superset,
    if the function computes from its arguments alone. What it writes into a traced argument becomes a new version of that. Texts, objects
    and Python's own numbers that it returns have no lineage, nor has what it writes into plain arrays: values leave the recording
    there, and traces say so. Without traced arguments it is called as it is.

    Args:
        function: it keeps nothing of its arguments for later calls.

    Returns:
        The function, whose calls are recorded.
    """

    @functools.wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        if next(operands([*args, kwargs]), None) is None:
            return function(*args, **kwargs)
        return _Called(function, args, kwargs).outcome()

    return call


class _Called:
    """A call with copies of the traced arrays, which the function may write to."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        taken = list(operands([*args, kwargs]))
        self.flow = flow_of(taken)
        self.name = name_of(function)
        distinct = {id(operand): operand for operand in taken}
        self.taken: list[tuple[Operand, AnyArray]] = [
            (operand, operand.current.copy(order="K")) for operand in distinct.values()
        ]
        copies = {id(operand): copy for operand, copy in self.taken}
        self.befores = [
            Operand(self.flow, operand.node, operand.current) for operand, _ in self.taken
        ]
        self.plain: list[tuple[AnyArray, bytes]] = []
        self.may_hold = rows_in(self.flow, [*args, *kwargs.values()])
        self.made: dict[int, TracedArray] = {}

        def given(leaf: Any) -> Any:
            if isinstance(leaf, Operand):
                copy = copies[id(leaf)]
                return copy[()] if leaf.is_number else copy
            if isinstance(leaf, np.ndarray) and leaf.flags.writeable:
                self.plain.append((leaf, _bytes(leaf)))
            return leaf

        self.returned = function(*replaced(args, given), **replaced(kwargs, given))

    def outcome(self) -> Any:
        """What the call returns, after what it wrote is recorded."""
        written = [
            (operand, copy)
            for operand, copy in self.taken
            if not operand.is_number and _bytes(copy) != _bytes(operand.current)
        ]
        self._check_apart(written)
        outcome = replaced(self.returned, self._returned)
        if any(_bytes(array) != before for array, before in self.plain):
            self.flow.leak(self.name)
        for operand, copy in written:
            assert isinstance(operand, TracedArray)
            new = copy.copy(order="K")
            inputs = self._inputs(copy)
            operand.become(new, inputs, self.name, constants=True, may_hold=self.may_hold)
        return outcome

    def _check_apart(self, written: Sequence[tuple[Operand, AnyArray]]) -> None:
        for operand, _ in written:
            if any(
                other is not operand and np.may_share_memory(other.current, operand.current)
                for other, _ in self.taken
            ):
                raise UntracedError(
                    f"{self.name} writes to an array, and takes another one over the same memory",
                    "give it copies: x.copy()",
                )

    def _returned(self, leaf: Any) -> Any:
        if leaf is None:
            return leaf
        if not isinstance(leaf, np.ndarray | np.generic) or leaf.dtype.hasobject:
            self.flow.leak(self.name)
            return leaf
        for operand, copy in self.taken:
            if leaf is copy:
                return operand
        if any(leaf is array for array, _ in self.plain):
            # The function gives back what it wrote into.
            self.flow.leak(self.name)
            return leaf
        if id(leaf) not in self.made:
            value = np.array(leaf, copy=True, order="K", subok=False)
            value.flags.writeable = isinstance(leaf, np.ndarray)
            self.made[id(leaf)] = TracedArray(
                self.flow,
                value,
                self.name,
                self._inputs(value),
                constants=True,
                decided_axes=all_axes(value),
                may_hold=self.may_hold,
                decided_width=True,
            )
        return self.made[id(leaf)]

    def _inputs(self, value: AnyArray) -> list[Input]:
        return [
            Input(before, AllToAll(before.current.shape, value.shape), ALL_CELLS)
            for before in self.befores
        ]


def _bytes(array: AnyArray) -> bytes:
    return array.tobytes() if not array.dtype.hasobject else repr(array.tolist()).encode()
