"""Workflows: what was computed from what, as a graph whose nodes are arrays."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lineage_arrays.cells import Shape
from lineage_arrays.errors import ArrayLineageError, UntracedError
from lineage_arrays.mappings import Mapping, axes_behind
from lineage_core.answers import ANSWERS
from lineage_core.contract.collected import CollectedRows

AnyArray = npt.NDArray[Any]
Origin: TypeAlias = tuple[str, int]
"""What a node is known by in all processes: the identity of the workflow of one process, and its number there."""

_HOME = str(Path(__file__).parent)
_NUMPY = str(Path(np.__file__).parent)


def _folders(*packages: str) -> tuple[str, ...]:
    found = map(find_spec, packages)
    return tuple(
        folder
        for package in found
        if package is not None
        for folder in package.submodule_search_locations or ()
    )


_INTERNAL = (_HOME, _NUMPY, *_folders("scipy"))
_GIVES_SIZES = (
    os.path.join(_NUMPY, "ma", ""),
    os.path.join(_NUMPY, "lib", "_arrayterator_impl"),
)
"""Parts of NumPy that read sizes to give them to the program: masks without a protocol, `Arrayterator`."""
_LIBRARIES = (*_INTERNAL, *_folders("xarray", "dask", "distributed", "toolz"))
_LOOKS_FOR_SHAPES = frozenset({"is_arraylike", "is_duck_array", "meta_from_array"})
"""Functions of Dask and xarray that look whether there is a shape, or cut an array without cells out of another one."""


class Forks:
    """How many times this process and those before it were forked: where a workflow has another number the process has a copy of it alone."""

    count = 0


def inherited() -> UntracedError:
    """That the workflow of an array is another process's."""
    return UntracedError(
        "a traced array that a forked process inherited", "give it to the process as an argument"
    )


SEVERAL = "arrays of several workflows in one call: record them in one workflow"


NO_AXES: frozenset[int] = frozenset()
FIRST_AXIS: frozenset[int] = frozenset({0})


def all_axes(value: npt.ArrayLike) -> frozenset[int]:
    """The axes of what a function gave that nothing is known of: values may have decided their lengths, also where these are those of an operand."""
    return frozenset(range(np.ndim(value)))


def has_width(value: AnyArray) -> bool:
    """Whether an array has texts, or bytes or records, as wide as its type says."""
    return value.dtype.kind in "USV"


class Operand:
    """An array of a workflow: its current value, and the node that records how it was made.

    ``is_number``: it stands for a number, as NumPy gives one for a sum or a cell: nobody writes to it, no view looks at it.
    """

    __slots__ = ("__weakref__", "current", "flow", "is_number", "node")

    def __init__(
        self, flow: Workflow, node: Node, value: AnyArray, is_number: bool = False
    ) -> None:
        self.is_number = is_number
        self.flow = flow
        self.node = node
        self.current = value


class Input(NamedTuple):
    """One operand of a call and how its cells belong to the result's.

    ``superset``: why the mapping may hold cells that the result was not made from; empty where it is exact.
    """

    operand: Operand
    mapping: Mapping
    superset: str = ""


class Edge(NamedTuple):
    """An input of a node. ``superset``: as in :class:`Input`."""

    node: Node
    mapping: Mapping
    superset: str = ""


@dataclass(eq=False)
class Node:
    """An array that a workflow computed or, with a name, received. Once it is in a workflow nothing changes it; frozen it would take longest of a call."""

    number: int
    operator: str
    shape: Shape
    dtype: np.dtype[Any]
    inputs: tuple[Edge, ...] = field(default=(), repr=False)
    name: str = ""
    call_site: str = ""
    constants: bool = False
    """Whether values took part that came without lineage."""
    after_leaks: int = 0
    """How many times values had left the workflow before."""
    origin: Origin | None = None
    """Of a node that another process made."""
    decided_axes: frozenset[int] = NO_AXES
    """Axes whose lengths values decided, as that of ``x[x > 0]``."""
    decided_width: bool = False
    """Whether values decided how wide its texts are, as those of ``np.strings.multiply(x, n)``."""
    entire_array: bool = False
    """Whether it is of an operator that says so of itself: all of its cells are made from all cells of each input, and these go into all of them."""
    may_hold: str = ""
    """Which action of a captured engine had given the program rows before, which may be in an array from outside, or among the values that came
    without lineage."""


@dataclass(frozen=True)
class ArrayFile:
    """A file as a workflow read or wrote it.

    ``path``: absolute. ``mtime``: in unix seconds. ``checksum``: of all bytes, as ``sha256:...``. ``member``: the array in
    a file of several; else empty.
    """

    path: str
    size: int
    mtime: float
    checksum: str
    member: str = ""

    def holds_same(self, other: ArrayFile) -> bool:
        """Whether both have the same array, byte for byte."""
        return (self.size, self.checksum, self.member) == (other.size, other.checksum, other.member)

    def is_same_file(self, other: ArrayFile) -> bool:
        """Whether files of the same bytes are one, which was moved or touched at most."""
        return self.path == other.path or self.mtime == other.mtime


@dataclass(frozen=True)
class Output:
    """An array that a workflow gave a name; ``file``: where it was saved."""

    name: str
    node: Node
    file: ArrayFile | None = None


@dataclass(eq=False)
class Workflow:
    """The arrays of one run of a program and how they were computed.

    Nodes are numbered in the order in which they were made, so an input has a lower number than what was made
    from it.
    """

    nodes: list[Node] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    """Where values left the workflow (``float(x)``, ``np.asarray(x)``, ``if x:``), in order."""
    files_read: dict[int, ArrayFile] = field(default_factory=dict)
    """By the number of a node the file that it was read from."""
    rows_collected: dict[int, CollectedRows] = field(default_factory=dict)
    """By the number of a node the rows that it was made of, one along its first axis each."""
    outputs: list[Output] = field(default_factory=list)
    """Arrays that were named or saved, in order; of several with one name the last one has it."""
    identity: str = field(default="", init=False, repr=False)
    """By which other processes name the workflow; empty until they have an array of it."""
    _came: dict[Origin, Node] = field(default_factory=dict, init=False, repr=False)
    """Nodes that other processes made."""
    _forks: int = field(default_factory=lambda: Forks.count, init=False, repr=False)
    """Of the process that made it."""
    _adding: threading.Lock = field(default_factory=threading.Lock, repr=False)
    """Dask computes chunks in threads: each node has a number of its own."""

    def add(  # noqa: PLR0913 - an argument is a field of the node
        self,
        operator: str,
        value: AnyArray,
        inputs: Sequence[Input] = (),
        *,
        name: str = "",
        constants: bool = False,
        decided_axes: frozenset[int] = NO_AXES,
        decided_width: bool = False,
        before: Node | None = None,
        may_hold: str = "",
        entire_array: bool = False,
    ) -> Node:
        """Record a new array.

        Args:
            operator: the operator that made it.
            value: the array.
            inputs: what it was made from.
            name: of an array that came from outside.
            constants: whether values without lineage took part.
            decided_axes: axes whose lengths the call decided by values.
            decided_width: whether the call decided by values how wide texts are.
            before: the array before it was written to, which keeps its shape.
            may_hold: as in :class:`Node`.
            entire_array: as in :class:`Node`.

        Raises:
            ArrayLineageError: an input belongs to another workflow.
        """
        edges = []
        for operand, mapping, superset in inputs:
            if operand.flow is not self:
                raise ArrayLineageError(SEVERAL)
            edges.append(Edge(operand.node, mapping, superset))
            decided_width = decided_width or operand.node.decided_width
            if operand.node.decided_axes and before is None:
                decided_axes |= axes_behind(mapping, operand.node.decided_axes)
        if before is not None:
            decided_axes, decided_width = before.decided_axes, before.decided_width
        return self.adopt(
            Node(
                number=0,
                operator=operator,
                shape=value.shape,
                dtype=value.dtype,
                inputs=tuple(edges),
                name=name,
                call_site=call_site(),
                constants=constants,
                decided_axes=decided_axes,
                decided_width=decided_width and has_width(value),
                may_hold=may_hold,
                entire_array=entire_array,
            )
        )

    def adopt(self, node: Node) -> Node:
        """Keep a node of which all is known but its number here. Of what another process made all leaks so far count: the values that it took may be among them."""
        with self._adding:
            node.number, own = self._next()
            node.after_leaks = len(self.leaks)
            node.origin = node.origin or own
            self._keep(node)
        return node

    def _next(self) -> tuple[int, Origin | None]:
        """The number of the next node, and its origin if it has one by itself."""
        return len(self.nodes), None

    def _keep(self, node: Node) -> None:
        self.nodes.append(node)
        if node.origin is not None:
            self._came[node.origin] = node

    def of_origin(self, origin: Origin) -> Node | None:
        """The node that all processes know by an origin; None: it is not here yet."""
        process, number = origin
        return self.nodes[number] if process == self.identity else self._came.get(origin)

    @property
    def rows_before(self) -> str:
        """Which action of a captured engine gave the program rows last; empty: none did."""
        return ANSWERS.latest

    def check_leak(self, how: str) -> None:
        """Whether values may leave the workflow here: another process refuses it.

        Args:
            how: they leave.

        Raises:
            UntracedError: they may not, as the workflow would not know.
        """
        if self._forks != Forks.count:
            raise inherited()

    def leak_size(self, how: str, node: Node, reader: CodeType) -> None:
        """Record that code has read the size of an array, where values decided that, and where the code may go on with it.

        Args:
            how: it was read; the width of texts is a size, too.
            node: the array.
            reader: the code: that of NumPy, SciPy and this package keeps it for itself, and some looks whether there is a shape alone.
        """
        path = reader.co_filename
        if not (node.decided_axes or node.decided_width):
            return
        if path.startswith(_INTERNAL) and not path.startswith(_GIVES_SIZES):
            return
        if not (reader.co_name in _LOOKS_FOR_SHAPES and _is_library(path)):
            self.leak(f"{how} of an array whose size values decided")

    def leak_width(self, name: str) -> None:
        """Record that a function, or a write, cuts texts to a width that values decided: this is a number that has no lineage."""
        self.leak(f"the width of texts, which values decided, in {name}")

    def leak(self, how: str) -> None:
        """Record that values left the workflow."""
        self.check_leak(how)
        self.leaks.append(f"{how} at {call_site()}")


def call_site() -> str:
    """``file:line`` of the program that calls, outside of this package and of the libraries that call NumPy."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{_basename(frame.f_code.co_filename)}:{frame.f_lineno}"


@functools.cache
def _is_library(path: str) -> bool:
    return path.startswith(_LIBRARIES)


_basename = functools.cache(os.path.basename)
