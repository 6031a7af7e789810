"""Modules of SciPy through which traces of cells go."""

from __future__ import annotations

import functools
from collections.abc import Callable
from collections.abc import Mapping as ReadOnly
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from lineage_arrays.calls import Call, name_of, operands, plain
from lineage_arrays.errors import ArrayLineageError, UntracedError
from lineage_arrays.scipy_functions.rules import Row, positional_names
from lineage_arrays.traced import LEAVES, TracedArray, flow_of, wrapped

_OVERWRITE = "overwrite_"


class TracedModule:
    """A module of SciPy: its functions take traced arrays, too; all else in it is SciPy's own.

    Args:
        name: of SciPy's module.
        table: how its functions are traced.

    Raises:
        ArrayLineageError: SciPy is not installed.
    """

    def __init__(self, name: str, table: ReadOnly[str, Row]) -> None:
        if find_spec("scipy") is None:
            raise ArrayLineageError(
                f"{name} is not there: the extra [arrays] of lineage-master brings SciPy"
            )
        self._module: ModuleType = import_module(name)
        self._table = table
        self.public = [part for part in self._module.__all__ if part != "test"]

    @functools.cache  # noqa: B019  # modules live as long as the program
    def attribute(self, name: str) -> Any:
        """What SciPy's module has under a name; a public function as one that takes traced arrays.

        Raises:
            AttributeError: it has none.
        """
        found = getattr(self._module, name)
        is_function = name in self.public and callable(found) and not isinstance(found, type)
        return traced(found, self._table.get(name)) if is_function else found


def traced(function: Callable[..., Any], row: Row | None) -> Callable[..., Any]:
    """A function of SciPy that takes traced arrays, too. Without any it is SciPy's own."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if next(operands([*args, kwargs]), None) is None:
            return function(*args, **kwargs)
        output = kwargs.get("output")
        if isinstance(output, TracedArray) and not output.is_number:
            return _written_to(output, call, args, kwargs)
        flow = flow_of(list(operands([*args, kwargs])))
        args, kwargs = _keeping(function, args, kwargs)
        of_call = Call(function, args, kwargs)
        if row is None:
            raise UntracedError(f"the lineage of {of_call.name} is not known", LEAVES)
        if row.handler is not None:
            return wrapped(flow, of_call, row.handler(of_call))
        if row.kind == "leaves":
            flow.leak(name_of(function))
        return function(*plain(args), **plain(kwargs))

    return call


def _written_to(
    output: TracedArray, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]
) -> Any:
    """A call that writes its one result into a traced array, with the type of its cells."""
    result = function(*args, **{**kwargs, "output": output.dtype})
    if not isinstance(result, TracedArray) or result.shape != output.shape:
        raise UntracedError(
            "output= of an array of another shape, or of a call that has no traced result",
            "assign the result: x[...] = ...",
        )
    output[...] = result
    return output


def _keeping(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments without leave to overwrite arrays: LAPACK writes into those that are marked as read-only, too."""
    positional = [*positional_names(function), *[""] * len(args)]
    return (
        tuple(
            False if name.startswith(_OVERWRITE) else value
            for name, value in zip(positional, args, strict=False)
        ),
        {name: value for name, value in kwargs.items() if not name.startswith(_OVERWRITE)},
    )
