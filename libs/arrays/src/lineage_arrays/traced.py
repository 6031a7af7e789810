"""Arrays that ordinary NumPy code computes with, and whose lineage it thereby records."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from lineage_arrays import sharing
from lineage_arrays.binding import write_frame
from lineage_arrays.calls import (
    Call,
    Result,
    Results,
    as_array,
    is_number,
    name_of,
    operands,
    plain,
)
from lineage_arrays.carrying import Carried, arrived, carried, origin_of
from lineage_arrays.constants import constants_of, leaves
from lineage_arrays.errors import ArrayLineageError, UntracedError
from lineage_arrays.files import SAVING, save_arrays
from lineage_arrays.functions.points import check_points
from lineage_arrays.functions.table import (
    CREATING,
    CUTTING,
    GIVING_SIZES,
    GIVING_WIDTHS,
    HANDLERS,
    LEAKING,
    WITHOUT_VALUES,
)
from lineage_arrays.functions.universal import universal
from lineage_arrays.functions.views import is_apart
from lineage_arrays.indexing import read, written
from lineage_arrays.mappings import cell_by_cell, leading_axes
from lineage_arrays.workflow import (
    FIRST_AXIS,
    NO_AXES,
    SEVERAL,
    AnyArray,
    Input,
    Operand,
    Workflow,
    call_site,
)

LEAVES = "np.asarray(x) leaves the workflow; name what comes back by flow.source(name, array)"


class TracedArray(Operand, NDArrayOperatorsMixin):
    """An array of a workflow. It takes part in NumPy's functions, operators and indexing as any array does.

    Its values are never written to: ``x[i] = ...`` and ``x += ...`` give it new ones, with lineage of their own.
    Values that leave as plain numbers (``float(x)``, ``np.asarray(x)``, ``if x:``) are recorded.
    """

    __slots__ = ()
    __array_priority__ = 1.0
    """Dask asks for it: which of two chunks decides how they are combined."""

    def __init__(
        self,
        flow: Workflow,
        value: AnyArray,
        operator_name: str,
        inputs: Sequence[Input],
        **how: Any,
    ) -> None:
        """Made by :meth:`lineage_arrays.recording.Recording.source`, and by what is computed from there."""
        if type(value) is not np.ndarray or value.dtype.hasobject:
            raise UntracedError(
                f"{type(value).__name__} of {value.dtype}",
                "plain arrays whose cells are values are traced: masked.filled() and its mask apart, no objects",
            )
        number = is_number(value)
        value = value.view()
        value.flags.writeable = False
        super().__init__(flow, flow.add(operator_name, value, inputs, **how), value, number)
        sharing.join(self)

    # The protocols that NumPy calls.

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        for kind in types:
            if kind not in _OWN_KINDS and is_of_others(kind, "__array_function__", func):
                return NotImplemented
        call = Call(func, args, kwargs)
        if func in CREATING and not call.operands:
            # like= of a traced array, of plain values: they stay plain.
            return func(*args, **kwargs)
        flow = flow_of(call.operands)
        for operand in call.operands:
            is_width = operand.node.decided_width and func in GIVING_WIDTHS
            if is_width or (operand.node.decided_axes and func in GIVING_SIZES):
                flow.leak_size(call.name, operand.node, sys._getframe(1).f_code)
        if func in WITHOUT_VALUES or (func is np.full_like and not _is_fill_traced(args, kwargs)):
            return func(*plain(args), **plain(kwargs))
        if func in SAVING:
            return save_arrays(flow, func, args, kwargs)
        if func in LEAKING:
            flow.leak(name_of(func))
            return func(*plain(args), **plain(kwargs))
        if func is np.copyto:
            return self._copied_to(*args, **kwargs)
        if isinstance(kwargs.get("out"), TracedArray):
            return self._written_by(func, args, kwargs)
        handler = HANDLERS.get(func)
        if handler is None:
            raise UntracedError(f"the lineage of numpy.{name_of(func)} is not known", LEAVES)
        if "overwrite_input" in kwargs:
            # Leave to overwrite the values, which others look at, is not taken.
            call = Call(func, args, {k: kwargs[k] for k in kwargs if k != "overwrite_input"})
        call.check_places()
        return wrapped(flow, call, handler(call))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **kwargs: Any) -> Any:
        for argument in args:
            kind = type(argument)
            if kind not in _OWN_KINDS and is_of_others(kind, "__array_ufunc__", ufunc):
                return NotImplemented
        check_points()
        out = kwargs.pop("out", None)
        call = Call(ufunc, args, kwargs)
        flow = self.flow if out is None else flow_of([*call.operands, *operands(out)])
        if method == "at":
            raise call.refuse("at() writes in place", "np.bincount, or x[indices] = ...")
        if out is None:
            return wrapped(flow, call, universal(call, ufunc, method))
        if method != "__call__" or len(out) != 1 or not isinstance(out[0], TracedArray):
            raise call.refuse(
                "out= of a plain array", "assign the result to a traced array: out[...] = ..."
            )
        target = out[0]
        if target.is_number:
            # As of any number, x += 1 makes another one.
            return wrapped(flow, call, universal(call, ufunc, method))
        with sharing.writing:
            target._take_result(ufunc, call)
        return target

    def _take_result(self, ufunc: np.ufunc, call: Call) -> None:
        """Take what a universal function gives."""
        fresh = np.empty_like(self.current)
        # Casts as NumPy casts into the array itself, and refuses what NumPy refuses.
        ufunc(*plain(call.args), out=fresh, **plain(call.kwargs))
        outcome = universal(call, ufunc, "__call__")
        if isinstance(outcome, Results):
            raise call.refuse("several results into out=", "assign them one by one")
        check_followed(call, outcome.inputs)
        inputs, shape = outcome.inputs, self.current.shape
        if outcome.value.shape != shape:
            if ufunc.signature is not None:
                raise call.refuse(
                    "out= of another shape than the result", "assign the result: out[...] = ..."
                )
            inputs = [
                Input(part.operand, cell_by_cell(part.operand.current.shape, shape), part.superset)
                for part in inputs
            ]
        self.become(fresh, list(inputs), ufunc.__name__, **constants_of(self.flow, call))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        self.flow.leak("np.asarray")
        if copy or (dtype is not None and dtype != self.current.dtype):
            return np.array(self.current, dtype)
        sharing.expose(self.current, f"np.asarray at {call_site()}")
        # LAPACK writes into arrays that are marked as read-only where it is told to (overwrite_a=True).
        value = self.current.copy(order="K")
        value.flags.writeable = False
        return value

    # Writes.

    def become(
        self, new: AnyArray, inputs: list[Input], operator_name: str, **constants: Any
    ) -> None:
        """Take new values, and let every array over the same memory see them."""
        if self.is_number:
            raise TypeError("a number can't be written to")
        with sharing.writing:
            self._become(new, inputs, operator_name, constants)

    def _become(
        self, new: AnyArray, inputs: list[Input], operator_name: str, constants: dict[str, Any]
    ) -> None:
        sharing.check_hidden(self)
        if not is_apart(self.current):
            raise UntracedError(
                "a write to an array several of whose cells have one address",
                "write to a copy: x = x.copy()",
            )
        if self.node.decided_width:
            self.flow.leak_width(operator_name)
            constants = {**constants, "constants": True}
        old = _current_state(self)
        peers = sharing.others(self)
        seeing = [(peer, _current_state(peer)) for peer in peers if sharing.overlap(peer, old)]
        value, views = sharing.rewritten(self, new, peers)
        node = self.flow.add(operator_name, value, inputs, before=self.node, **constants)
        sharing.move([self, *peers], [value, *views])
        self.node = node
        for peer, old_peer in seeing:
            through = sharing.seen_through(old_peer, _current_state(self), old.current)
            peer.node = self.flow.add("seen through", peer.current, through, before=peer.node)

    def __setitem__(self, index: Any, new: Any) -> None:
        with sharing.writing:
            old_array = _current_state(self)
            fresh = self.current.copy(order="K")
            fresh[plain(index)] = plain(new)
            inputs = written(old_array, index, new)
            call = Call(operator.setitem, (index, new), {})
            check_followed(call, inputs)
            self.become(fresh, inputs, "setitem", **constants_of(self.flow, call))

    @staticmethod
    def _written_by(func: Callable[..., Any], args: Any, kwargs: Any) -> TracedArray:
        """A function with ``out=`` of a traced array: its result is assigned to that."""
        out: TracedArray = kwargs["out"]
        result = func(*args, **{key: kwargs[key] for key in kwargs if key != "out"})
        is_alike = isinstance(result, TracedArray) and (result.shape, result.dtype) == (
            out.shape,
            out.dtype,
        )
        if out.is_number or not is_alike:
            raise UntracedError(
                f"{name_of(func)}: out= of another shape or type than the result",
                "assign the result: out[...] = ...",
            )
        out[...] = result
        return out

    def _copied_to(
        self, target: Any, source: Any, casting: str = "same_kind", where: Any = True
    ) -> None:
        if not isinstance(target, TracedArray) or where is not True:
            raise UntracedError("copyto into a plain array, or where=", "assign: x[mask] = ...")
        target[...] = source

    def fill(self, value: Any) -> None:
        """As ``ndarray.fill``."""
        self[...] = value

    def sort(self, axis: int = -1, kind: Any = None) -> None:
        """As ``ndarray.sort``: in place."""
        self[...] = np.sort(self, axis=axis, kind=kind)

    # Reading.

    def __getitem__(self, index: Any) -> TracedArray:
        value = as_array(plain(self)[plain(index)])
        call = Call(operator.getitem, (index,), {})
        inputs = read(self, index, value)
        check_followed(call, inputs)
        # A mask stands alone: what it marks is along the first axis.
        is_masked = isinstance(index, Operand) and index.current.dtype == np.bool_
        decided = FIRST_AXIS if is_masked else NO_AXES
        return wrapped_result(self.flow, "getitem", call, Result(value, inputs, decided))

    def __len__(self) -> int:
        if 0 in self.node.decided_axes:
            self._leak_size("len")
        return len(self.current)

    def __iter__(self) -> Iterator[TracedArray]:
        if 0 in self.node.decided_axes:
            self._leak_size("iteration")
        return (self[at] for at in range(len(self.current)))

    def _leak_size(self, how: str) -> None:
        """Record that the caller's caller reads a size that values decided."""
        self.flow.leak_size(how, self.node, sys._getframe(2).f_code)

    def lineage_rows(self, path: str, columns: Sequence[str] | None, bytes_max: int) -> None:
        """Write it as the rows of a DataFrame, to a new file: capture asks for it where a program gives the array to ``spark.createDataFrame``.

        Args:
            path: of the file.
            columns: their names; None: those that Spark gives to an array's.
            bytes_max: as many bytes of values are written, at most.

        Raises:
            OSError: the file can't be written.
            ArrayLineageError: the array can't be rows, has not as many columns, or is larger.
        """
        if self.current.nbytes > bytes_max:
            raise ArrayLineageError(
                f"an array of {self.current.nbytes >> 20:,} MiB, and capture keeps rows of {bytes_max >> 20:,} (rows_mb): write it by Recording.frame"
            )
        default = ["value"] if self.current.ndim == 1 else None
        write_frame(path, self, default if columns is None else columns)

    def __contains__(self, item: Any) -> bool:
        self.flow.leak("in")
        return plain(item) in self.current

    def __bool__(self) -> bool:
        self.flow.leak("bool")
        return bool(self.current)

    def __float__(self) -> float:
        self.flow.leak("float")
        return float(self.current)

    def __int__(self) -> int:
        self.flow.leak("int")
        return int(self.current)

    def __complex__(self) -> complex:
        self.flow.leak("complex")
        return complex(self.current)

    def __index__(self) -> int:
        self.flow.leak("index")
        return operator.index(self.current[()])

    def __format__(self, specification: str) -> str:
        self.flow.leak("format")
        return format(self.current[()] if not self.shape else self.current, specification)

    def __str__(self) -> str:
        self.flow.leak("str")
        return str(self.current)

    def __repr__(self) -> str:
        return f"<traced array {self.node.name or self.node.operator} {self.dtype} {self.shape}>"

    def __copy__(self) -> TracedArray:
        return self if self.is_number else self.copy(order="K")

    def __deepcopy__(self, memo: Any) -> TracedArray:
        return copy(self)

    def __reduce__(self) -> Any:
        # To another process: what it was made from goes along.
        return _unpickled, (carried(self.flow, self.node), self.current, self.is_number)

    def __dask_tokenize__(self) -> Any:
        """What Dask names it by: arrays of equal values have lineage of their own."""
        return "lineage_arrays.TracedArray", *origin_of(self.flow, self.node)

    def __sizeof__(self) -> int:
        """With its cells: workers of Dask keep within their memory by it."""
        return object.__sizeof__(self) + self.current.nbytes

    def item(self, *index: Any) -> Any:
        """As ``ndarray.item``: the value leaves the workflow."""
        self.flow.leak("item")
        return self.current.item(*index)

    def tolist(self) -> Any:
        """As ``ndarray.tolist``: the values leave the workflow."""
        self.flow.leak("tolist")
        return self.current.tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """As ``ndarray.tobytes``: the values leave the workflow."""
        self.flow.leak("tobytes")
        return self.current.tobytes(order)

    @property
    def shape(self) -> tuple[int, ...]:
        if self.node.decided_axes:
            self._leak_size("shape")
        return self.current.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        if self.node.decided_width:
            self._leak_size("dtype")
        return self.current.dtype

    @property
    def ndim(self) -> int:
        return self.current.ndim

    @property
    def size(self) -> int:
        if self.node.decided_axes:
            self._leak_size("size")
        return self.current.size

    @property
    def nbytes(self) -> int:
        if self.node.decided_axes or self.node.decided_width:
            self._leak_size("nbytes")
        return self.current.nbytes

    @property
    def itemsize(self) -> int:
        if self.node.decided_width:
            self._leak_size("itemsize")
        return self.current.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        if self.node.decided_axes or self.node.decided_width:
            self._leak_size("strides")
        return self.current.strides

    @property
    def T(self) -> TracedArray:
        return self.transpose()

    @property
    def mT(self) -> TracedArray:
        return _call(np.matrix_transpose, self)

    @property
    def real(self) -> TracedArray:
        return _call(np.real, self)

    @property
    def imag(self) -> TracedArray:
        return _call(np.imag, self)

    @property
    def flat(self) -> TracedArray:
        """As ``ndarray.flat``: what is written to it is written to the array, where that lies in one piece."""
        if not self.current.flags.c_contiguous:
            raise UntracedAttribute("flat")
        return _call(np.ravel, self)

    def reshape(self, *shape: Any, order: Any = "C") -> TracedArray:
        """As ``ndarray.reshape``."""
        return _call(np.reshape, self, shape[0] if len(shape) == 1 else shape, order=order)

    def transpose(self, *axes: Any) -> TracedArray:
        """As ``ndarray.transpose``."""
        if not axes or axes == (None,):
            return _call(np.transpose, self)
        return _call(np.transpose, self, axes[0] if len(axes) == 1 else axes)

    def flatten(self, order: Any = "C") -> TracedArray:
        """As ``ndarray.flatten``: always a copy."""
        return _call(np.ravel, self.copy(), order)

    def copy(self, order: Any = "C") -> TracedArray:
        """As ``ndarray.copy``."""
        return _call(np.copy, self, order=order)

    def astype(
        self,
        dtype: Any,
        order: Any = "K",
        casting: Any = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> TracedArray:
        """As ``ndarray.astype``."""
        value = self.current.astype(dtype, order=order, casting=casting, copy=copy)
        inputs = [Input(self, leading_axes(self.current.shape, value.shape))]
        call = Call(np.astype, (self, np.dtype(dtype)), {})
        return wrapped_result(self.flow, "astype", call, Result(value, inputs))

    def conj(self) -> TracedArray:
        """As ``ndarray.conj``."""
        return _call(np.conjugate, self)

    conjugate = conj

    def round(self, decimals: int = 0) -> TracedArray:
        """As ``ndarray.round``."""
        return _call(np.round, self, decimals)

    def dot(self, other: Any) -> TracedArray:
        """As ``ndarray.dot``."""
        return _call(np.dot, self, other)

    def nonzero(self) -> tuple[TracedArray, ...]:
        """As ``ndarray.nonzero``."""
        positions: Any = np.nonzero(self)
        parts: list[TracedArray] = list(positions)
        return tuple(parts)

    def __getattr__(self, name: str) -> Any:
        function = METHODS.get(name)
        if function is None:
            if name in _NDARRAY:
                raise UntracedAttribute(name)
            raise AttributeError(name)
        return lambda *args, **kwargs: _call(function, self, *args, **kwargs)


_OWN_KINDS = {TracedArray, np.ndarray, np.memmap, int, float, complex, bool, np.float64, list, str}
"""Types of most arguments: what NumPy does with them is known."""


def is_of_others(kind: type, protocol: str, function: Callable[..., Any]) -> bool:
    """Whether arguments of a type say by themselves what a function does with them, and so what becomes of traced arrays beside them.

    Args:
        kind: the type.
        protocol: the name of the method by which they would say it.
        function: which is called.

    Raises:
        UntracedError: they are arrays with more than their cells, which would be lost (a mask, a unit, a matrix's product).
    """
    method = getattr(kind, protocol, None)
    if method is None or issubclass(kind, Operand) or kind in _OWN_KINDS:
        return False
    if not issubclass(kind, np.ndarray):
        return True
    raise UntracedError(
        f"{name_of(function)}: a {kind.__name__} beside traced arrays",
        "give its cells as a plain array (masked.filled(), quantity.to_value(unit), np.asarray(it)), and a mask apart",
    )


def _unpickled(what: Carried, value: AnyArray, is_number: bool) -> TracedArray:
    """An array as another process made it."""
    flow, node = arrived(what)
    value = value.view()
    value.flags.writeable = False
    array = TracedArray.__new__(TracedArray)
    Operand.__init__(array, flow, node, value, is_number)
    sharing.join(array)
    return array


class UntracedAttribute(UntracedError, AttributeError):
    """An attribute of arrays that traced ones don't have."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the lineage of ndarray.{name} is not known", LEAVES)


_NDARRAY = frozenset(name for name in dir(np.ndarray) if not name.startswith("_"))

METHODS: dict[str, Callable[..., Any]] = {
    name: getattr(np, name)
    for name in (
        "all", "any", "argmax", "argmin", "argpartition", "argsort", "clip", "cumprod", "cumsum",
        "diagonal", "max", "mean", "min", "prod", "ravel", "repeat", "searchsorted", "squeeze", "std", "sum",
        "swapaxes", "take", "trace", "var",
    )
}  # fmt: skip
"""Methods of arrays that NumPy has as functions with the same arguments."""


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> TracedArray:
    """Calls a function of NumPy that dispatches to the array."""
    result: TracedArray = function(*args, **kwargs)
    return result


def _is_fill_traced(args: Any, kwargs: Any) -> bool:
    """Whether the value that ``full_like`` fills in is traced."""
    return any(True for _ in operands([*args[1:], {**kwargs, "a": None}]))


def _current_state(operand: Operand) -> Operand:
    """A copy of the array's current state, which later writes do not change."""
    return Operand(operand.flow, operand.node, operand.current, operand.is_number)


def flow_of(arrays: Sequence[Operand]) -> Workflow:
    """The one workflow of some arrays, at least one.

    Raises:
        ArrayLineageError: they are of two.
    """
    flow = arrays[0].flow
    for array in arrays:
        if array.flow is not flow:
            raise ArrayLineageError(SEVERAL)
    return flow


def wrapped(flow: Workflow, call: Call, outcome: Result | Results) -> Any:
    """What a call returns: its results as arrays of the workflow."""
    parts = [outcome] if isinstance(outcome, Result) else outcome.parts
    check_followed(call, [part_input for part in parts for part_input in part.inputs])
    if isinstance(outcome, Result):
        return wrapped_result(flow, call.name, call, outcome)
    return outcome.container(
        [wrapped_result(flow, call.name, call, part) for part in outcome.parts]
    )


def check_followed(call: Call, inputs: Sequence[Input]) -> None:
    """Refuse a call of which a traced argument has no part in what is recorded, as one hidden in a list.

    Raises:
        UntracedError: there is one.
    """
    followed = {id(part.operand) for part in inputs}
    for operand in call.operands:
        if id(operand) not in followed:
            raise call.refuse(
                "traced numbers in a list, or an argument whose lineage is not followed",
                "np.stack the list; np.asarray(x), int(x) of another argument ends its lineage there",
            )


def wrapped_result(flow: Workflow, name: str, call: Call, result: Result) -> TracedArray:
    value = result.value
    # Universal functions give new arrays.
    if type(call.function) is not np.ufunc:
        for leaf in leaves((*call.args, *call.kwargs.values())):
            if isinstance(leaf, np.ndarray) and sharing.owner(value) is sharing.owner(leaf):
                # The program may write to the array that it passed.
                value = value.copy()
    is_cut = result.cut_to_width or (call.function in CUTTING and _any_decided_width(call))
    if is_cut:
        flow.leak_width(name)
    taken = constants_of(flow, call)
    return TracedArray(
        flow,
        value,
        name,
        result.inputs,
        constants=is_cut or taken["constants"],
        may_hold=taken["may_hold"],
        decided_axes=result.decided_axes,
        decided_width=result.decided_width,
    )


def _any_decided_width(call: Call) -> bool:
    return any(operand.node.decided_width for operand in call.operands)
