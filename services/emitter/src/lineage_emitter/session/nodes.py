"""Nodes of a program's graph: sources, operators and sinks, as capture meets them."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lineage_core.contract.verdict import QUARANTINE
from lineage_emitter import scope
from lineage_emitter.errors import UnsupportedOperatorError
from lineage_emitter.worker.detail import Detail

if TYPE_CHECKING:
    from pyspark import RDD

    from lineage_emitter.sdk.api import LineageApi
    from lineage_emitter.session.hadoop import FileSource
    from lineage_emitter.session.problems import Problems
    from lineage_emitter.session.rules import Details
    from lineage_emitter.settings import Settings


@dataclass(eq=False)
class Node:
    """A registered node, with what a job that reaches it needs to know."""

    name: str
    parents: tuple[Node, ...] = ()
    op: str = ""
    map_side: RDD[Any] | None = None
    """Of a shuffle: the RDD whose every partition its map stage computes."""
    files: FileSource | None = None
    """Of a source: the files that it reads, until they are recorded."""
    expected: tuple[int, ...] = field(default=())
    detail: Detail = field(default_factory=lambda: Detail(""))
    path: str = ""
    """Of a source or sink of files: what the program named."""
    call_site: str = ""


class Nodes:
    """Names nodes and sends them, their links, and what has no lineage. Thread-safe."""

    def __init__(
        self, api: LineageApi, problems: Problems, settings: Settings, details: Details
    ) -> None:
        self._api = api
        self._problems = problems
        self._settings = settings
        self.details = details
        self.unknowns: dict[tuple[str, str], Node | None] = {}
        """What has no lineage, by what it is and its call site; where it is a node, that one."""
        self._lock = threading.RLock()
        self._count = 0
        self._aliases: set[str] = set()
        self._alias_numbers: dict[str, int] = {}
        """The last number that was given, by what it was added to: a stream has a source a batch."""
        self._linked: set[tuple[str, str]] = set()

    def register(
        self,
        kind: Any,
        op: str,
        parents: Iterable[Node] = (),
        *,
        exact: bool = True,
        reason: str = "",
        path: str | None = None,
        description: str = "",
        alias: str | None = None,
    ) -> Node:
        """Name a new node and link it to its parents."""
        running = scope.outermost()
        name = running.name if running is not None else op
        attributes = {"exact": exact, "reason": reason, "path": path, "description": description}
        with self._lock:
            return self.register_as(
                self.next_id(), name, kind, op, parents, alias=alias, **attributes
            )

    def register_as(
        self,
        node_id: str,
        name: str,
        kind: Any,
        op: str,
        parents: Iterable[Node] = (),
        *,
        alias: str | None = None,
        **attributes: Any,
    ) -> Node:
        """:meth:`register` a node whose id was taken before, by :meth:`next_id`, and whose name is given."""
        running = scope.outermost()
        parents = tuple(parents)
        with self._lock:
            node = Node(node_id, parents, op)
            path_of_calls = f"{running.call_path}.{next(running.nodes)}" if running else ""
            description = attributes.pop("description", "")
            fields = {
                "kind": kind,
                "op": op,
                "call_site": running.call_site if running is not None else scope.call_site(),
                "call_path": path_of_calls,
                "alias": self._alias(alias, attributes.get("path")),
                "inputs": len(dict.fromkeys(parents)),
                **attributes,
            }
            node.detail = self.details.of(node.name, fields, name)
            node.path, node.call_site = str(fields.get("path") or ""), str(fields["call_site"])

            def register() -> None:
                self._api.register(node.name, name, description, **fields)

            self._problems.guard("register a node", register)
            for parent in dict.fromkeys(parents):
                self._problems.guard(
                    "link a node", functools.partial(self._api.link, parent.name, node.name)
                )
        return node

    def register_quarantine(self, name: str, parent: str, call_site: str) -> None:
        """Name the sink of what the operator ``parent`` set aside; no action waits for it."""
        with self._lock:
            alias = self._alias(QUARANTINE, None)

        def register() -> None:
            self._api.register(
                name,
                QUARANTINE,
                kind="sink",
                op=QUARANTINE,
                call_site=call_site,
                alias=alias,
                inputs=1,
            )
            self._api.link(parent, name)

        self._problems.guard("register a node", register)

    def next_id(self) -> str:
        """The name of the next node that is made."""
        with self._lock:
            self._count += 1
            return str(self._count - 1)

    def _alias(self, alias: str | None, path: str | None) -> str | None:
        """``read`` for the first source, ``read:flights`` for the next ones."""
        if alias is None:
            return None
        if alias in self._aliases:
            stem = os.path.basename((path or "").rstrip("/")).split(".")[0]
            stem = "".join(c if c.isalnum() or c in "_-" else "-" for c in stem)[:40]
            base, number = (f"{alias}:{stem}", 1) if stem else (f"{alias}:1", 1)
            alias, number = base, self._alias_numbers.get(base, number)
            while alias in self._aliases:
                number += 1
                alias = f"{base}-{number}" if stem else f"{base[:-1]}{number}"
            self._alias_numbers[base] = number
        self._aliases.add(alias)
        return alias

    def refuse(
        self, what: str, reason: str, way_out: str, parents: Iterable[Node] | None = None
    ) -> Node | None:
        """An operator without lineage: an error, or a part of the graph that is unknown.

        ``reason`` says why it has none, ``way_out`` what the program can do instead.

        Raises:
            UnsupportedOperatorError: unless settings say to go on.
        """
        if self._settings.unsupported == "refuse":
            raise UnsupportedOperatorError(what, f"{reason}; {way_out}")
        return self.unknown(what, reason, parents)

    def unknown(self, what: str, reason: str, parents: Iterable[Node] | None = None) -> Node | None:
        """Record a part of the program that has no lineage; the verdict names it.

        With ``parents`` (there may be none) it is a node of the graph that reads from them.
        """
        running = scope.outermost()
        site = running.call_site if running is not None else scope.call_site()
        with self._lock:
            if (what, site) not in self.unknowns:
                node = None
                if parents is not None:
                    node = self.register("unknown", what, exact=False, reason=reason)
                self.unknowns[what, site] = node
                self._problems.guard("note it", lambda: self._api.unknown(what, reason, site))
            node = self.unknowns[what, site]
            if node is not None:
                for parent in parents or ():
                    self.link(parent, node)
        return node

    def link(self, parent: Node, node: Node) -> None:
        """Show in the graph that a node reads from another; no action waits for it."""
        if parent is not node and (parent.name, node.name) not in self._linked:
            self._linked.add((parent.name, node.name))
            self._problems.guard("link a node", lambda: self._api.link(parent.name, node.name))


def upstream_nodes(node: Node) -> list[Node]:
    """The node and all that it reads from, in whatever order."""
    nodes: dict[int, Node] = {}
    todo = [node]
    while todo:
        current = todo.pop()
        if id(current) not in nodes:
            nodes[id(current)] = current
            todo.extend(current.parents)
    return list(nodes.values())
