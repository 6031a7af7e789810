"""Products: of vectors, matrices and tensors, outer products, convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from lineage_arrays.calls import Call, Handler, Result, Results, no_operands, plain
from lineage_arrays.cells import Shape
from lineage_arrays.functions.rearranging import Layout
from lineage_arrays.mappings import AllToAll, Boxes, Chain, Gather, Mapping, SamePositions, Span
from lineage_arrays.workflow import AnyArray, Input, Operand


def labelled(source: Shape, labels: Sequence[Any], target: Shape, output: Sequence[Any]) -> Boxes:
    """A mapping where axes have labels: an input axis moves with the output axis of its label, or counts as a whole.

    An axis of one cell that is broadcast counts as a whole, too. A label that the output lacks stands once in an input.
    """
    spans = []
    for label, length in zip(labels, source, strict=True):
        if label not in output or (length == 1 and target[output.index(label)] != 1):
            spans.append(Span.all(length))
        else:
            spans.append(Span.point(output.index(label)))
    return Boxes(source, target, tuple(spans))


def _labelled(
    labels: Sequence[Any], target: Shape, output: Sequence[Any], operand: Operand
) -> Mapping:
    return labelled(operand.current.shape, labels, target, output)


def _inputs(call: Call, pairs: Sequence[tuple[Any, Callable[[Operand], Mapping]]]) -> list[Input]:
    inputs = []
    for argument, mapping in pairs:
        if isinstance(argument, Operand):
            inputs.append(Input(argument, mapping(argument)))
        else:
            no_operands(call, argument)
    return inputs


def signature(call: Call, core: str, arrays: Sequence[Any], value: AnyArray) -> Result:
    """A product whose last axes are named by a signature like ``ik,kj->ij``, over axes before them that broadcast."""
    words, output = core.split("->")
    loop = value.ndim - len(output)
    target = [*range(loop), *output]
    pairs = []
    for word, argument in zip(words.split(","), arrays, strict=True):
        before = np.ndim(argument.current if isinstance(argument, Operand) else argument) - len(
            word
        )
        labels = [*range(loop - before, loop), *word]
        pairs.append(
            (
                argument,
                partial(_labelled, labels, value.shape, target),
            )
        )
    return Result(value, _inputs(call, pairs))


def matmul_core(left: int, right: int) -> str:
    """The signature of a product of matrices, for operands of so many axes."""
    return f"{'ik' if left > 1 else 'k'},{'kj' if right > 1 else 'k'}->{'i' if left > 1 else ''}{'j' if right > 1 else ''}"


def dot(call: Call) -> Result | Results:
    """``dot`` and ``inner``: of all vectors of one operand with all of the other."""
    if call.kwargs.get("out") is not None or len(call.args) > 2:
        raise call.refuse("out= is not traced", "assign the result: out[...] = ...")
    left, right = call.argument(0, "a"), call.argument(1, "b")
    value = call.array()
    dims = [
        np.ndim(argument.current if isinstance(argument, Operand) else argument)
        for argument in (left, right)
    ]
    if 0 in dims:
        words = [[f"a{n}" for n in range(dims[0])], [f"b{n}" for n in range(dims[1])]]
    else:
        words = [[f"a{n}" for n in range(dims[0])], [f"b{n}" for n in range(dims[1])]]
        words[0][-1] = "k"
        words[1][-1 if call.function is np.inner or dims[1] == 1 else -2] = "k"
    output = [label for label in (*words[0], *words[1]) if label != "k"]
    return Result(
        value,
        _inputs(
            call,
            [
                (argument, partial(_labelled, word, value.shape, output))
                for argument, word in zip((left, right), words, strict=True)
            ],
        ),
    )


def matrix_product(core: str) -> Handler:
    """``linalg.matmul``, ``linalg.vecdot``."""

    def handler(call: Call) -> Result | Results:
        if set(call.kwargs) - {"axis"} or call.kwargs.get("axis", -1) != -1:
            raise call.refuse("axis= is not traced", "np.moveaxis the operands first")
        left, right = call.args
        value = call.array()
        dims = [
            np.ndim(argument.current if isinstance(argument, Operand) else argument)
            for argument in (left, right)
        ]
        return signature(call, core or matmul_core(*dims), (left, right), value)

    return handler


def outer(call: Call) -> Result | Results:
    """``outer``: of all cells of one operand with all of the other."""
    if call.kwargs.get("out") is not None or len(call.args) > 2:
        raise call.refuse("out= is not traced", "assign the result: out[...] = ...")
    value = call.array()

    def along(axis: int) -> Callable[[Operand], Mapping]:
        def mapping(operand: Operand) -> Mapping:
            flat = (operand.current.size,)
            return Chain(
                SamePositions(operand.current.shape, flat),
                Boxes(flat, value.shape, (Span.point(axis),)),
            )

        return mapping

    names = ("a", "b") if call.function is np.outer else ("x1", "x2")
    return Result(
        value,
        _inputs(call, [(call.argument(at, name), along(at)) for at, name in enumerate(names)]),
    )


def vdot(call: Call) -> Result | Results:
    """``vdot``: one number of all cells."""
    value = call.array()
    return Result(
        value,
        _inputs(
            call,
            [
                (argument, lambda it: AllToAll(it.current.shape, value.shape))
                for argument in call.args
            ],
        ),
    )


def kronecker(call: Call) -> Result | Results:
    """``kron``: each cell from one of either side."""
    value = call.array()
    left, right = call.argument(0, "a"), call.argument(1, "b")
    shapes = [
        np.shape(argument.current if isinstance(argument, Operand) else argument)
        for argument in (left, right)
    ]

    def of(side: int) -> Callable[[Operand], Mapping]:
        def mapping(operand: Operand) -> Mapping:
            layout = Layout.of(operand.current)

            def index() -> AnyArray:
                other = np.ones(shapes[1 - side], np.int64)
                mine = layout.positions()
                return np.kron(mine, other) if side == 0 else np.kron(other, mine)

            return Gather(operand.current.shape, value.shape, index)

        return mapping

    return Result(value, _inputs(call, [(left, of(0)), (right, of(1))]))


def tensordot(call: Call) -> Result | Results:
    """``tensordot``: the axes that are summed over count as a whole."""
    left, right = call.argument(0, "a"), call.argument(1, "b")
    axes = call.argument(2, "axes", 2)
    no_operands(call, axes)
    value = call.array()
    dims = [
        np.ndim(argument.current if isinstance(argument, Operand) else argument)
        for argument in (left, right)
    ]
    if isinstance(axes, int | np.integer):
        summed = (list(range(dims[0] - int(axes), dims[0])), list(range(int(axes))))
    else:
        summed = tuple(  # type: ignore[assignment]  # two of them
            [int(argument) % dims[side] for argument in np.atleast_1d(axes[side])]
            for side in (0, 1)
        )
    words = [
        [None if at in summed[side] else (side, at) for at in range(dims[side])] for side in (0, 1)
    ]
    output = [label for word in words for label in word if label is not None]
    return Result(
        value,
        _inputs(
            call,
            [
                (argument, partial(_labelled, word, value.shape, output))
                for argument, word in zip((left, right), words, strict=True)
            ],
        ),
    )


def einsum(call: Call) -> Result | Results:
    """``einsum``, with the subscripts as a text."""
    if call.kwargs.get("out") is not None or not isinstance(call.args[0], str):
        raise call.refuse(
            "subscripts as lists, or out=", "give the subscripts as a text: 'ij,jk->ik'"
        )
    text, arrays = call.args[0].replace(" ", ""), call.args[1:]
    value = call.array()
    words, output = subscripts(text, [np.ndim(plain(argument)) for argument in arrays])
    inputs = []
    for word, argument in zip(words, arrays, strict=True):
        if not isinstance(argument, Operand):
            no_operands(call, argument)
            continue
        summed = [label for label in word if label not in output]
        superset = (
            "a diagonal that is summed over counts as the whole of its axes"
            if len(set(summed)) < len(summed)
            else ""
        )
        inputs.append(
            Input(argument, labelled(argument.current.shape, word, value.shape, output), superset)
        )
    return Result(value, inputs)


Labels: TypeAlias = list[str | int]


def subscripts(text: str, dims: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The labels of the axes of an ``einsum``: letters, and numbers for the axes of an ellipsis, which are aligned at the end.

    Args:
        text: the subscripts, without blanks, that NumPy has accepted.
        dims: the number of axes of each operand.

    Returns:
        Those of each operand, and those of the result.
    """
    words, arrow, after = text.partition("->")
    parts = words.split(",")
    widths = [ndim - len(part.replace("...", "")) for part, ndim in zip(parts, dims, strict=True)]
    widest = max(widths)

    def labels(part: str, width: int) -> Labels:
        before, _, behind = part.partition("...")
        return [*before, *range(widest - width, widest), *behind]

    inputs = [labels(part, width) for part, width in zip(parts, widths, strict=True)]
    if arrow:
        return inputs, labels(after, widest if "..." in after else 0)
    letters = words.replace("...", "").replace(",", "")
    once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
    return inputs, [*range(widest), *once]


def convolution(call: Call) -> Result | Results:
    """``convolve``, as its definition over the longer operand has it; ``correlate`` with the second one reversed."""
    correlates = call.function is np.correlate
    left, right = (call.argument(0, "a"), call.argument(1, "v"))
    mode = call.argument(2, "mode", "valid" if correlates else "full")
    value = call.array()
    sizes = [
        np.size(argument.current if isinstance(argument, Operand) else argument)
        for argument in (left, right)
    ]
    # The full result begins where the operands touch; the others leave out as much on the left as NumPy does.
    shorter = min(sizes)
    skipped = {"full": 0, "same": (shorter - 1) // 2, "valid": shorter - 1}.get(mode)
    if skipped is None:
        raise call.refuse(f"mode {mode!r}", "give it as 'full', 'same' or 'valid'")
    if correlates:
        return _correlated(call, (left, right), sizes, mode, value)
    return Result(
        value,
        _inputs(
            call,
            [
                (argument, partial(_window, value.shape, other, skipped))
                for argument, other in ((left, sizes[1]), (right, sizes[0]))
            ],
        ),
    )


def _window(target: Shape, other: int, skipped: int, operand: Operand) -> Boxes:
    """Of a full convolution's cell ``o``: the cells ``o - (other - 1)`` to ``o``."""
    span = Span(skipped - other + 1, skipped, 0, 1, 1)
    return Boxes((operand.current.size,), target, (span,))


def _correlated(
    call: Call, sides: tuple[Any, Any], sizes: Sequence[int], mode: str, value: AnyArray
) -> Result:
    first, second = sizes
    shorter = min(sizes)
    if mode == "full":
        skipped = 0
    elif mode == "valid":
        skipped = shorter - 1
    elif first >= second:
        skipped = (second - 1) // 2
    else:
        raise call.refuse(
            "mode 'same' with the shorter operand in front", "give the mode 'full' and cut it"
        )
    reverse = Boxes((second,), (second,), (Span.point(0, -1, second - 1),))
    return Result(
        value,
        _inputs(
            call,
            [
                (sides[0], lambda it: _window(value.shape, second, skipped, it)),
                (sides[1], lambda it: Chain(reverse, _window(value.shape, first, skipped, it))),
            ],
        ),
    )


TABLE: dict[Callable[..., Any], Handler] = {
    np.dot: dot,
    np.inner: dot,
    np.vdot: vdot,
    np.outer: outer,
    np.linalg.outer: outer,
    np.kron: kronecker,
    np.tensordot: tensordot,
    np.linalg.tensordot: tensordot,
    np.einsum: einsum,
    np.convolve: convolution,
    np.correlate: convolution,
    np.linalg.matmul: matrix_product(""),
    np.linalg.vecdot: matrix_product("k,k->"),
}
