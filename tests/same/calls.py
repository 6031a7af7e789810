"""Every public method with every keyword, as calls to be made."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark import RDD, SparkContext
from pyspark.sql import DataFrameReader, DataFrameWriter

from tests.same.arguments import LEFT_OUT, LEFT_OUT_PARAMETERS, has_maker


def _dataframe() -> type[Any]:
    """The class of DataFrames in this JVM: since 4.0 its methods stand in a module of its own."""
    known = importlib.util.find_spec("pyspark.sql.classic")
    name = "pyspark.sql.classic.dataframe" if known else "pyspark.sql.dataframe"
    found: type[Any] = importlib.import_module(name).DataFrame
    return found


OWNERS: dict[str, type[Any]] = {
    "RDD": RDD,
    "SparkContext": SparkContext,
    "DataFrame": _dataframe(),
    "DataFrameReader": DataFrameReader,
    "DataFrameWriter": DataFrameWriter,
}
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Call:
    """One call: of the arguments ``by_place`` are given so, ``by_name`` by their names."""

    owner: str
    method: str
    by_place: tuple[str, ...] = ()
    by_name: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """How reports name it."""
        given = ", ".join((*self.by_place, *(f"{one}=" for one in self.by_name)))
        return f"{self.owner}.{self.method}({given})"


def public(owner: str) -> list[str]:
    """The public methods and properties of a class, but for those that capture adds to it in this process."""
    return [
        name
        for name in sorted(dir(OWNERS[owner]))
        if not (name.startswith("_") or _is_added(inspect.getattr_static(OWNERS[owner], name)))
    ]


def _is_added(found: object) -> bool:
    function = found.fget if isinstance(found, property) else found
    return str(getattr(function, "__module__", "")).startswith("lineage_emitter")


def parameters(owner: str, method: str) -> list[inspect.Parameter] | None:
    """What a method takes beside its object; None: it is a property."""
    found = inspect.getattr_static(OWNERS[owner], method)
    taken = getattr(OWNERS[owner], method)
    if isinstance(found, property) or not callable(taken):
        return None
    listed = list(inspect.signature(taken).parameters.values())
    return listed[0 if isinstance(found, classmethod | staticmethod) else 1 :]


def missing() -> list[str]:
    """Methods and parameters that no call has, although no reason is written down."""
    found = []
    for owner in OWNERS:
        for method in public(owner):
            name = f"{owner}.{method}"
            if name not in LEFT_OUT:
                found += [
                    f"{name}: {one.name}"
                    for one in parameters(owner, method) or ()
                    if not (has_maker(owner, method, one.name) or _is_left_out(name, one.name))
                ]
    return found


def calls() -> Iterator[Call]:
    """All calls: with what must be given, with each further keyword beside it, and with all by name."""
    for owner in OWNERS:
        for method in public(owner):
            if f"{owner}.{method}" not in LEFT_OUT:
                yield from dict.fromkeys(_calls_of(owner, method))


def _calls_of(owner: str, method: str) -> Iterator[Call]:
    listed = [
        one
        for one in parameters(owner, method) or ()
        if not _is_left_out(f"{owner}.{method}", one.name)
    ]
    needed = tuple(
        one.name
        for one in listed
        if (
            one.default is inspect.Parameter.empty and one.kind is not inspect.Parameter.VAR_KEYWORD
        )
    )
    optional = [one.name for one in listed if one.name not in needed]
    yield Call(owner, method, needed)
    for name in optional:
        yield Call(owner, method, needed, (name,))
    if not any(one.kind in _VARIADIC for one in listed):
        yield Call(owner, method, (), (*needed, *optional))
        yield Call(owner, method, (*needed, *optional))


def _is_left_out(method: str, parameter: str) -> bool:
    return f"{method}.{parameter}" in LEFT_OUT_PARAMETERS or parameter in LEFT_OUT_PARAMETERS
