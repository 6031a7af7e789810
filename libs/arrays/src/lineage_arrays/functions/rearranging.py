"""Functions that move cells and look at none of them.

Run once more over positions in the place of values they say which cell went where. They do so when a trace requests it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lineage_arrays.calls import (
    Call,
    Handler,
    Result,
    Results,
    as_array,
    frozen,
    no_operands,
    operands,
    replaced,
)
from lineage_arrays.cells import Shape
from lineage_arrays.functions.views import of_padding, of_view
from lineage_arrays.mappings import Gather, Mapping
from lineage_arrays.workflow import AnyArray, Input, Operand


@dataclass(frozen=True)
class Layout:
    """Shape of an array, and its axes from the widest stride to the narrowest: not its values."""

    shape: Shape
    axes: tuple[int, ...]

    @classmethod
    def of(cls, value: AnyArray) -> Layout:
        return cls(
            value.shape,
            tuple(sorted(range(value.ndim), key=lambda axis: -abs(value.strides[axis]))),
        )

    def positions(self) -> AnyArray:
        """Positions plus one, laid out in memory as the values are."""
        laid = np.empty([self.shape[axis] for axis in self.axes], np.int64)
        index = laid.transpose(np.argsort(self.axes)) if self.axes else laid
        index[...] = np.arange(1, index.size + 1).reshape(self.shape)
        return index


def gathered(
    call: Call,
    values: Sequence[Any],
    rerun: Callable[[list[Any]], Any],
    result: Any,
    known: Callable[[AnyArray, Any], Mapping | None] = of_view,
) -> Result | Results:
    """The outcome of a call that only moves cells.

    Args:
        call: the call.
        values: its array arguments, flat; constants among them.
        rerun: the call over other arguments in their place.
        result: what the call returned.
        known: of the only argument and a result of it the mapping, where it is known without another run.
    """
    no_operands(call, [argument for argument in values if not isinstance(argument, Operand)])
    several = isinstance(result, list | tuple)
    results = list(result) if several else [result]

    layouts = [
        Layout.of(argument.current if isinstance(argument, Operand) else np.asarray(argument))
        for argument in values
    ]
    value_ids = [id(argument) for argument in values]

    def index(part: int, at: int) -> AnyArray:
        mine = [
            layout.positions() if layout_id == value_ids[at] else np.zeros(layout.shape, np.int64)
            for layout, layout_id in zip(layouts, value_ids, strict=True)
        ]
        again = rerun(mine)
        return np.asarray(again[part] if several else again)

    places = _places(values)

    def mapping(part: int, at: int, operand: Operand, value: Any) -> Mapping:
        made = known(operand.current, value) if len(values) == 1 else None
        source = operand.current.shape
        return made or Gather(source, np.shape(value), lambda: index(part, at))

    parts = [
        Result(
            as_array(value),
            [Input(operand, mapping(part, at, operand, value)) for at, operand in places],
        )
        for part, value in enumerate(results)
    ]
    return Results(parts, type(result)) if several else parts[0]


def _places(values: Sequence[Any]) -> list[tuple[int, Operand]]:
    """Each operand once, with its first position; `index` marks an operand that occurs twice at both."""
    seen: dict[int, tuple[int, Operand]] = {}
    for at, argument in enumerate(values):
        if isinstance(argument, Operand):
            seen.setdefault(id(argument), (at, argument))
    return list(seen.values())


_CONVERTING = ("dtype", "casting", "subok", "copy")
"""Arguments that are about values: positions keep their type."""


def _rerun(call: Call, rest: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[Any], Any]:
    # The call itself is not kept: its arguments are whole arrays.
    function, rest, kwargs = call.function, frozen(rest), frozen(kwargs)
    return lambda first: function(first, *rest, **kwargs)


def moving(name: str, *, by_order: bool = True) -> Handler:
    """A function of one array, its first argument; ``name``: of the parameter.

    ``by_order``: which cell goes where depends on an argument ``order``; of a copy this says how it lies in memory.
    """

    def handler(call: Call) -> Result | Results:
        array = call.argument(0, name)
        rest = call.args[1:]
        others = {key: value for key, value in call.kwargs.items() if key != name}
        no_operands(call, rest, others)
        if by_order:
            _check_order(call, array, others, rest)
        if others.pop("out", None) is not None:
            raise call.refuse("out= is not traced", "assign the result: out[...] = ...")
        options = {key: value for key, value in others.items() if key not in _CONVERTING}
        again = _rerun(call, rest, options)
        if not isinstance(array, Operand):
            values = list(array)
            return gathered(call, values, again, call.run())
        return gathered(call, [array], lambda mine: again(mine[0]), call.run())

    return handler


def _check_order(call: Call, array: Any, kwargs: dict[str, Any], rest: tuple[Any, ...]) -> None:
    order = kwargs.get("order") or next(
        (option for option in rest if isinstance(option, str) and option in ("A", "K")), None
    )
    if order in ("A", "K") and not all(option.current.flags.forc for option in operands(array)):
        raise call.refuse(
            f"order={order!r} follows the memory of a view", "give order='C' or order='F'"
        )


def several(call: Call) -> Result | Results:
    """A function all of whose positional arguments are arrays: ``atleast_1d``, ``broadcast_arrays``."""
    kwargs = frozen(dict(call.kwargs))
    no_operands(call, kwargs)
    options = {key: value for key, value in kwargs.items() if key not in _CONVERTING}
    function = call.function
    return gathered(call, call.args, lambda mine: function(*mine, **options), call.run())


def two_arrays(names: tuple[str, str], at: int) -> Handler:
    """A function of two arrays, the first and the ``at``-th argument: ``append``, ``insert``."""

    def handler(call: Call) -> Result | Results:
        first, second = call.argument(0, names[0]), call.argument(at, names[1])
        args, kwargs = list(call.args), dict(call.kwargs)
        marks = (object(), object())
        for argument_index, (name, mark) in zip(
            (0, at), zip(names, marks, strict=True), strict=True
        ):
            if argument_index < len(args):
                args[argument_index] = mark
            else:
                kwargs[name] = mark
        no_operands(call, args, kwargs)
        if not isinstance(second, Operand) and any(True for _ in operands(second)):
            raise call.refuse("a list of traced arrays", "np.stack it first")
        function, frozen_args, frozen_kwargs = call.function, frozen(args), frozen(kwargs)

        def again(mine: list[Any]) -> Any:
            def fill(leaf: Any) -> Any:
                return mine[0] if leaf is marks[0] else mine[1] if leaf is marks[1] else leaf

            return function(*replaced(frozen_args, fill), **replaced(frozen_kwargs, fill))

        return gathered(call, [first, second], again, call.run())

    return handler


def padding(call: Call) -> Result | Results:
    """``pad``, in the modes that copy cells."""
    mode = call.argument(2, "mode", "constant")
    copying = mode in ("edge", "wrap", "reflect", "symmetric", "constant")
    if not copying or call.kwargs.get("reflect_type", "even") != "even":
        raise call.refuse(
            f"mode {mode!r} computes what it fills in",
            "pad by mode 'edge', 'wrap', 'reflect', 'symmetric' or 'constant'",
        )
    array, width = call.argument(0, "array"), frozen(call.argument(1, "pad_width"))
    if not isinstance(array, Operand):
        raise call.refuse("no traced array is padded", "give the array as the first argument")
    no_operands(call, width, call.kwargs.get("constant_values"))

    def known(value: AnyArray, padded: AnyArray) -> Mapping | None:
        return of_padding(value.shape, padded.shape, width) if mode == "constant" else None

    return gathered(
        call, [array], lambda mine: np.pad(mine[0], width, mode=mode), call.run(), known
    )


def blocks(call: Call) -> Result | Results:
    """``block``: nested lists of arrays."""
    nested = call.argument(0, "arrays")
    values: list[Any] = []

    def note(leaf: Any) -> int:
        values.append(leaf)
        return len(values) - 1

    places = replaced(nested, note)
    return gathered(
        call,
        values,
        lambda mine: np.block(replaced(places, lambda at: mine[at])),
        call.run(),
    )


TABLE: dict[Callable[..., Any], Handler] = {
    **{
        function: moving(name)
        for name, functions in {
            "a": (
                np.reshape, np.ravel, np.swapaxes, np.moveaxis, np.rollaxis, np.transpose, np.squeeze, np.expand_dims,
                np.repeat, np.roll, np.diagonal, np.resize, np.permute_dims,
            ),
            "A": (np.tile,),
            "x": (
                np.matrix_transpose, np.linalg.matrix_transpose, np.linalg.diagonal, np.unstack, np.fft.fftshift, np.fft.ifftshift,
                np.lib.stride_tricks.sliding_window_view,
            ),
            "m": (np.flip, np.flipud, np.fliplr, np.rot90, np.tril, np.triu),
            "v": (np.diag, np.diagflat),
            "array": (np.broadcast_to,),
            "ary": (np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit),
            "arr": (np.delete,),
            "arrays": (np.concatenate, np.stack),
            "tup": (np.vstack, np.hstack, np.dstack, np.column_stack),
        }.items()
        for function in functions
    },
    np.concat: moving("arrays"),
    np.copy: moving("a", by_order=False),
    **dict.fromkeys((np.atleast_1d, np.atleast_2d, np.atleast_3d, np.broadcast_arrays, np.meshgrid), several),
    np.append: two_arrays(("arr", "values"), 1),
    np.insert: two_arrays(("arr", "values"), 2),
    np.pad: padding,
    np.block: blocks,
}  # fmt: skip
