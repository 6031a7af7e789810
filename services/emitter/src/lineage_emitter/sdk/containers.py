"""Containers of nodes (jobs, stages, tasks of an engine), and links between all nodes of two types inside one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from lineage_core.errors import AddressError

LINKS_MAX = 10_000
"""Links that one archetype makes: nodes of two types multiply."""


@dataclass(slots=True)
class _Archetype:
    src_type: str
    dest_type: str
    within: str
    links: int = 0


@dataclass(slots=True)
class _Container:
    parent: str
    type: str
    is_committed: bool = False
    nodes: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Nodes inside, at any depth, by type."""
    archetypes: list[_Archetype] = field(default_factory=list)


class Containers:
    """The tree of containers of one application. Not thread-safe."""

    def __init__(self) -> None:
        self._containers: dict[str, _Container] = {}
        self._container_of: dict[str, str] = {}

    def handle(self, name: str, parent: str) -> str:
        """The handle of an instance: its path in the tree of containers, the same in each run.

        Raises:
            AddressError: the parent is no container.
        """
        if not parent:
            return name
        if parent not in self._containers:
            raise AddressError(f"{parent[:80]!r} is not registered as a container")
        return f"{parent}:{name}"

    def add_container(self, handle: str, parent: str, container_type: str) -> None:
        """Add a container; again, it stays as it is."""
        self._containers.setdefault(handle, _Container(parent, container_type))

    def types_around(self, parent: str) -> dict[str, str]:
        """A container and those that it is in, from the outermost: their types by their handles."""
        handles = [*self._chain(parent)][::-1]
        return {handle: self._containers[handle].type for handle in handles}

    def add_node(self, node: str, parent: str, node_type: str) -> Iterator[tuple[str, str]]:
        """Add a node; gives the links that archetypes make of it, from and to.

        Raises:
            TooManyLinksError: an archetype makes too many; those given before stand.
        """
        if node in self._container_of or not parent:
            return
        self._container_of[node] = parent
        for name in list(self._chain(parent)):
            container = self._containers[name]
            for archetype in container.archetypes:
                if archetype.dest_type == node_type:
                    for src in container.nodes[archetype.src_type]:
                        yield self._counted(archetype, src, node)
                if archetype.src_type == node_type:
                    for dest in container.nodes[archetype.dest_type]:
                        yield self._counted(archetype, node, dest)
            container.nodes[node_type].append(node)

    def add_archetype(
        self, src_type: str, dest_type: str, within: str
    ) -> Iterator[tuple[str, str]]:
        """Link all nodes of two types inside a container, those to come too; gives the links of those that are there.

        Raises:
            AddressError: it is no container.
            TooManyLinksError: these are too many; those given before stand.
        """
        if within not in self._containers:
            raise AddressError(f"{within[:80]!r} is not registered as a container")
        container = self._containers[within]
        archetype = _Archetype(src_type, dest_type, within)
        container.archetypes.append(archetype)
        for src in container.nodes[src_type]:
            for dest in container.nodes[dest_type]:
                if src != dest:
                    yield self._counted(archetype, src, dest)

    def _counted(self, archetype: _Archetype, src: str, dest: str) -> tuple[str, str]:
        archetype.links += 1
        if archetype.links > LINKS_MAX:
            raise TooManyLinksError(
                f"{archetype.src_type} and {archetype.dest_type} inside {archetype.within} have more than "
                f"{LINKS_MAX} links"
            )
        return src, dest

    def commit(self, handle: str) -> None:
        """Commit a container.

        Raises:
            AddressError: it is no container.
        """
        if handle not in self._containers:
            raise AddressError(f"{handle[:80]!r} is not registered as a container")
        self._containers[handle].is_committed = True

    def is_inside(self, node: str, container: str) -> bool:
        """Whether a node is inside a container, at any depth."""
        return container in self._chain(self._container_of.get(node, ""))

    def is_committed(self, node: str) -> bool:
        """Whether a container that the node is inside of is committed."""
        chain = self._chain(self._container_of.get(node, ""))
        return any(self._containers[name].is_committed for name in chain)

    def _chain(self, container: str) -> Iterator[str]:
        while container:
            yield container
            container = self._containers[container].parent


class TooManyLinksError(Exception):
    """An archetype makes more links than are kept; never leaves this package."""
