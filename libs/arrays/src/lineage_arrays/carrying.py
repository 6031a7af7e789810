"""Arrays of a workflow in other processes: what is pickled takes along how it was made there.

An array of the recording's own process goes out as a reference to its node. What another process computes from it has nodes that
are known by that process and a number. When such an array is pickled, all nodes between it and the recording go along, and where it comes
home those that are not there yet are added. So lineage is always that of the very values that arrived: a task that ran twice, or whose worker
was killed, has left nothing else.
"""

from __future__ import annotations

import itertools
import os
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from lineage_arrays.cells import Shape
from lineage_arrays.errors import UntracedError
from lineage_arrays.mappings import Mapping
from lineage_arrays.workflow import Edge, Forks, Node, Origin, Workflow, inherited


@dataclass(frozen=True)
class CarriedNode:
    """A node as it goes to another process. ``edges``: the numbers of its inputs among the nodes that go along, with their mappings."""

    origin: Origin
    operator: str
    shape: Shape
    dtype: np.dtype[Any]
    name: str
    call_site: str
    constants: bool
    may_hold: str
    decided_axes: frozenset[int]
    decided_width: bool
    edges: tuple[tuple[int, Mapping, str], ...]


@dataclass(frozen=True)
class Carried:
    """A node, the last one, with all that it was made from in other processes than the recording's. ``home``: identity of the workflow."""

    home: str
    nodes: tuple[CarriedNode, ...]


class AwayWorkflow(Workflow):
    """What this process computes for a workflow of another one. Nodes are kept by the arrays that are made from them alone."""

    def __init__(self, home: str) -> None:
        super().__init__()
        self.identity = home
        self._process = uuid.uuid4().hex
        self._numbers = itertools.count()
        self._known: WeakValueDictionary[Origin, Node] = WeakValueDictionary()

    @property
    def rows_before(self) -> str:
        """This process does not know; the recording's does, where the array comes home."""
        return "an action"

    def check_leak(self, how: str) -> None:
        """Refuse that values leave: as plain values they would go on to other tasks, and the recording would not know.

        Raises:
            UntracedError: always.
        """
        raise UntracedError(
            f"{how} takes plain values out of a traced array in another process than its recording's, which can't follow them",
            "keep arrays (image / image.max()), or compute where the recording is: scheduler='threads' of Dask",
        )

    def _next(self) -> tuple[int, Origin | None]:
        number = next(self._numbers)
        return number, (self._process, number)

    def _keep(self, node: Node) -> None:
        assert node.origin is not None
        self._known[node.origin] = node

    def of_origin(self, origin: Origin) -> Node | None:
        return self._known.get(origin)


_lock = threading.RLock()
"""No process is forked while it is held."""
_homes: WeakValueDictionary[str, Workflow] = WeakValueDictionary()
"""Workflows of this process of which arrays went out, by identity."""
_away: WeakValueDictionary[str, AwayWorkflow] = WeakValueDictionary()
"""By the identity of a workflow of another process what this one computes for it."""


def _in_forked_process() -> None:
    """A forked process has copies of workflows, whose further nodes would have the numbers of others."""
    Forks.count += 1
    _homes.clear()
    _away.clear()
    _lock.release()


os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_in_forked_process
)


def origin_of(flow: Workflow, node: Node) -> Origin:
    """What a node is known by in all processes.

    Raises:
        UntracedError: a forked process inherited the workflow.
    """
    with _lock:
        if not flow.identity:
            flow.identity = uuid.uuid4().hex
            _homes[flow.identity] = flow
        known = _away if isinstance(flow, AwayWorkflow) else _homes
        if known.get(flow.identity) is not flow:
            raise inherited()
    if isinstance(flow, AwayWorkflow):
        assert node.origin is not None
        return node.origin
    return flow.identity, node.number


def carried(flow: Workflow, node: Node) -> Carried:
    """What goes to another process with an array.

    Raises:
        UntracedError: a forked process inherited the workflow.
    """
    origin_of(flow, node)
    nodes = _of_other_processes(flow, node)
    places = {one.number: at for at, one in enumerate(nodes)}
    return Carried(
        flow.identity,
        tuple(
            CarriedNode(
                origin_of(flow, one),
                one.operator,
                one.shape,
                one.dtype,
                one.name,
                one.call_site,
                one.constants,
                one.may_hold,
                one.decided_axes,
                one.decided_width,
                tuple(
                    (places[edge.node.number], edge.mapping, edge.superset)
                    for edge in (one.inputs if isinstance(flow, AwayWorkflow) else ())
                ),
            )
            for one in nodes
        ),
    )


def _of_other_processes(flow: Workflow, node: Node) -> Sequence[Node]:
    """A node and all that it was made from away from home, inputs first."""
    if not isinstance(flow, AwayWorkflow):
        return (node,)
    met, waiting = {node.number: node}, [node]
    while waiting:
        for edge in waiting.pop().inputs:
            if edge.node.number not in met:
                met[edge.node.number] = edge.node
                waiting.append(edge.node)
    # An input has a lower number, also where it came from elsewhere.
    return [met[number] for number in sorted(met)]


def arrived(what: Carried) -> tuple[Workflow, Node]:
    """The workflow and the node of an array that comes from another process; nodes that are not known here are added."""
    with _lock:
        flow = _homes.get(what.home) or _away.get(what.home)
        if flow is None:
            flow = _away[what.home] = AwayWorkflow(what.home)
        nodes: list[Node] = []
        for one in what.nodes:
            nodes.append(
                flow.of_origin(one.origin)
                or flow.adopt(
                    Node(
                        number=0,
                        operator=one.operator,
                        shape=one.shape,
                        dtype=one.dtype,
                        inputs=tuple(
                            Edge(nodes[at], mapping, superset)
                            for at, mapping, superset in one.edges
                        ),
                        name=one.name,
                        call_site=one.call_site,
                        constants=one.constants,
                        may_hold=flow.rows_before if one.may_hold else "",
                        origin=one.origin,
                        decided_axes=one.decided_axes,
                        decided_width=one.decided_width,
                    )
                )
            )
    return flow, nodes[-1]
