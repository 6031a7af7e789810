"""Workflows: what was computed from what, as a graph whose nodes are arrays."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lineage_arrays.cells import Shape
from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.mappings import Mapping

AnyArray = npt.NDArray[Any]

_HOME = str(Path(__file__).parent)
_NUMPY = str(Path(np.__file__).parent)


class Operand:
    """An array of a workflow: its current value, and the node that records how it was made.

    ``is_number``: it stands for a number, as NumPy gives one for a sum or a cell: nobody writes to it, no view looks at it.
    """

    __slots__ = ("__weakref__", "flow", "is_number", "node", "value")

    def __init__(
        self, flow: Workflow, node: Node, value: AnyArray, is_number: bool = False
    ) -> None:
        self.is_number = is_number
        self.flow = flow
        self.node = node
        self.value = value


@dataclass(frozen=True)
class Input:
    """One operand of a call and how its cells belong to the result's.

    ``superset``: why the mapping may hold cells that the result was not made from; empty where it is exact.
    """

    operand: Operand
    mapping: Mapping
    superset: str = ""


@dataclass(frozen=True)
class Edge:
    """An input of a node. ``superset``: as in :class:`Input`."""

    node: Node
    mapping: Mapping
    superset: str = ""


@dataclass(frozen=True, eq=False)
class Node:
    """An array that a workflow computed or, with a name, received."""

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


@dataclass
class Workflow:
    """The arrays of one run of a program and how they were computed.

    Nodes are numbered in the order in which they were made, so an input has a lower number than what was made
    from it.
    """

    nodes: list[Node] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    """Where values left the workflow (``float(x)``, ``np.asarray(x)``, ``if x:``), in order."""

    def add(
        self,
        operator: str,
        value: AnyArray,
        inputs: Sequence[Input] = (),
        *,
        name: str = "",
        constants: bool = False,
    ) -> Node:
        """Record a new array.

        Args:
            operator: the operator that made it.
            value: the array.
            inputs: what it was made from.
            name: of an array that came from outside.
            constants: whether values without lineage took part.

        Raises:
            ArrayLineageError: an input belongs to another workflow.
        """
        if any(part.operand.flow is not self for part in inputs):
            raise ArrayLineageError(
                "arrays of several workflows in one call: record them in one workflow"
            )
        node = Node(
            number=len(self.nodes),
            operator=operator,
            shape=value.shape,
            dtype=value.dtype,
            inputs=tuple(Edge(part.operand.node, part.mapping, part.superset) for part in inputs),
            name=name,
            call_site=call_site(),
            constants=constants,
            after_leaks=len(self.leaks),
        )
        self.nodes.append(node)
        return node

    def leak(self, how: str) -> None:
        """Record that values left the workflow."""
        self.leaks.append(f"{how} at {call_site()}")


def call_site() -> str:
    """``file:line`` of the program that calls, outside of this package and of NumPy."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_HOME, _NUMPY)):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
