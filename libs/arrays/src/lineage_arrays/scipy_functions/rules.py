"""Calls of SciPy, and handlers made of rules: a rule says for one argument which of its cells a cell of the result has."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from collections.abc import Mapping as ReadOnly
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from lineage_arrays.calls import Call, Handler, Result, Results, as_array, operands, plain, replaced
from lineage_arrays.cells import Shape
from lineage_arrays.functions.transforms import NO_NARROWER
from lineage_arrays.mappings import AllToAll, Choice, Mapping
from lineage_arrays.workflow import NO_AXES, AnyArray, Input, Operand, all_axes

Kind: TypeAlias = Literal["exact", "chosen", "superset", "refused", "leaves", "no lineage"]
Related: TypeAlias = Sequence[tuple[Mapping, str]]
"""Mappings of one operand, and why each may have cells that count for nothing; empty where it is exact."""

_LENGTHS = frozenset(
    {
        "M", "N", "angle", "bins", "down", "iterations", "m", "n", "n_out", "nfft", "noverlap", "nperseg", "num", "output_shape", "q",
        "up", "zoom",
    }
)  # fmt: skip
"""Parameters that decide how long a result is."""
BY_VALUE = "an argument that says how to compute, all cells of it"


@dataclass(frozen=True)
class Row:
    """A function of SciPy: how it is traced, and the words for it on the reference page.

    ``handler``: None where values leave, or have no lineage: SciPy gives what it gives.
    """

    handler: Handler | None
    kind: Kind
    cells: str


@dataclass(frozen=True)
class Given:
    """A call of SciPy with its arguments by name, those that the program left out, too.

    ``result``: what SciPy computed.
    """

    call: Call
    raw: ReadOnly[str, Any]
    result: Any
    _values: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        """An argument as SciPy has it; None if this version of SciPy has no such parameter."""
        if name not in self._values:
            self._values[name] = plain(self.raw.get(name))
        return self._values[name]

    def array(self, name: str) -> AnyArray:
        return np.asarray(self[name])

    def shape(self, name: str) -> Shape:
        return np.shape(self[name])

    def axis(self, of: str, name: str = "axis") -> int:
        """An axis of an array, from 0 up."""
        return int(self[name]) % np.ndim(self[of])


Rule: TypeAlias = Callable[[Given, AnyArray], Related]
Others: TypeAlias = Callable[[Given, AnyArray], list[Input]]


def given(call: Call) -> Given:
    """A call with its arguments by name, run by SciPy.

    Raises:
        UntracedError: it would write into an array.
    """
    arguments = bound(call)
    for name in ("output", "distances", "indices"):
        if isinstance(arguments.get(name), np.ndarray | Operand):
            raise call.refuse(
                f"{name}= of an array is not traced", "assign the result: x[...] = ..."
            )
    return Given(call, arguments, call.run())


def bound(call: Call) -> dict[str, Any]:
    """The arguments of a call by name; those beyond the named ones, too."""
    parameters = _signature(call.function)
    if parameters is None:
        return {**{str(at): value for at, value in enumerate(call.args)}, **call.kwargs}
    found = parameters.bind(*call.args, **call.kwargs)
    found.apply_defaults()
    arguments = dict(found.arguments)
    for parameter in parameters.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments.update(arguments.pop(parameter.name))
    return arguments


def positional_names(function: Callable[..., Any]) -> list[str]:
    """The names of the arguments that a function takes by position."""
    parameters = _signature(function)
    if parameters is None:
        return []
    return [
        parameter.name
        for parameter in parameters.parameters.values()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]


@functools.cache
def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def by_rules(*, of_part: int = 0, others: Others | None = None, **rules: Rule) -> Handler:
    """A function with rules for some arguments. Operands without one say how it is computed: all of their cells.

    Args:
        of_part: of a function of several results the one that the rules are for.
        others: what its other results were made from; by default all cells.
        rules: by the names of arguments.
    """
    rest = others or everything

    def handler(call: Call) -> Result | Results:
        of_call = given(call)
        has_parts = isinstance(of_call.result, tuple)
        return structured(
            of_call,
            lambda at, value: (
                rest(of_call, value)
                if has_parts and at != of_part
                else inputs_of(of_call, rules, value)
            ),
        )

    return handler


def inputs_of(of_call: Given, rules: ReadOnly[str, Rule], value: AnyArray) -> list[Input]:
    """What one result of a call was made from."""
    inputs, ruled = [], set[int]()
    for name, rule in rules.items():
        operand = of_call.raw.get(name)
        if isinstance(operand, Operand):
            ruled.add(id(operand))
            inputs += [
                _checked(operand, mapping, superset, value.shape)
                for mapping, superset in rule(of_call, value)
            ]
    rest = [
        part for name, part in of_call.raw.items() if name not in rules or id(part) not in ruled
    ]
    distinct = {id(operand): operand for operand in operands(rest)}
    inputs += [
        Input(operand, AllToAll(operand.current.shape, value.shape), BY_VALUE)
        for operand in distinct.values()
    ]
    return inputs


def _checked(operand: Operand, mapping: Mapping, superset: str, target: Shape) -> Input:
    """An input by a mapping; one that is not of these arrays (an argument of an unforeseen shape) gives way to all cells."""
    if (mapping.source, mapping.target) != (operand.current.shape, target):
        return Input(operand, AllToAll(operand.current.shape, target), NO_NARROWER)
    return Input(operand, mapping, superset)


_NUMBERS = np.ndarray | np.generic | int | float | complex


def all_cells(call: Call) -> Result | Results:
    """A function each of whose results may have all cells of each operand: arrays, numbers, and tuples, lists and dictionaries of them."""
    return all_cells_of(given(call))


def all_cells_of(of_call: Given) -> Result | Results:
    """As :func:`all_cells`, of a call that SciPy has run."""
    return structured(
        of_call,
        lambda _, value: everything(of_call, value),
        lambda _, value: all_axes(value),
    )


def known_shape(call: Call) -> Result | Results:
    """As :func:`all_cells`, of a function whose results have shapes that follow from those of its operands."""
    return known_shape_of(given(call))


def known_shape_of(of_call: Given) -> Result | Results:
    """As :func:`known_shape`, of a call that SciPy has run."""
    return structured(of_call, lambda _, value: everything(of_call, value))


def everything(of_call: Given, value: AnyArray) -> list[Input]:
    """All cells of each operand."""
    distinct = {id(operand): operand for operand in operands(list(of_call.raw.values()))}
    return [
        Input(operand, AllToAll(operand.current.shape, value.shape), NO_NARROWER)
        for operand in distinct.values()
    ]


def structured(
    of_call: Given,
    inputs: Callable[[int, AnyArray], list[Input]],
    decided: Callable[[int, AnyArray], frozenset[int]] = lambda *_: NO_AXES,
) -> Result | Results:
    """The result: arrays within tuples, lists and dictionaries, each made from what ``inputs`` says of its number and value.

    ``decided`` says of which axes values decided the lengths; of all, where the length is a traced argument.

    Raises:
        UntracedError: there is something else in it, as an object of SciPy.
    """
    result = of_call.result
    leaves: list[Result] = []
    lengths = [of_call.raw[name] for name in _LENGTHS & of_call.raw.keys()]
    is_length_traced = next(operands(lengths), None) is not None

    def noted(leaf: Any) -> Any:
        if isinstance(leaf, _NUMBERS):
            value = as_array(leaf)
            at = len(leaves)
            axes = all_axes(value) if is_length_traced else decided(at, value)
            leaves.append(Result(value, inputs(at, value), axes))
            return _Place(len(leaves) - 1)
        if leaf is None:
            return leaf
        raise of_call.call.refuse(
            f"it gives {type(leaf).__name__}, which is no array",
            "np.asarray(x) of the arguments ends their lineage; name what comes back by flow.source(name, array)",
        )

    shape = replaced(_as_tuples(result), noted)
    if isinstance(shape, _Place):
        return leaves[0]
    again = getattr(type(result), "_make", None)

    def container(arrays: Sequence[Any]) -> Any:
        filled = replaced(shape, lambda leaf: arrays[leaf.at] if isinstance(leaf, _Place) else leaf)
        return again(filled) if again is not None else filled

    return Results(leaves, container)


@dataclass(frozen=True)
class _Place:
    at: int


def _as_tuples(result: Any) -> Any:
    return tuple(result) if isinstance(result, tuple) else result


def refusing(detail: str, way_out: str) -> Handler:
    """A function that is not traced."""

    def handler(call: Call) -> Result | Results:
        raise call.refuse(detail, way_out)

    return handler


def chosen(witness: Mapping) -> Choice:
    """Cells that values chose among all."""
    return Choice(witness, AllToAll(witness.source, witness.target))
