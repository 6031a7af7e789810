"""Rows of DataFrames: no block holds them, so a trace that looks things up must not answer for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lineage_core.address import parse_space
from lineage_core.graph import NOTED, FlowGraph, NodeRecord
from lineage_core.recipe import Recipe
from lineage_core.trace_result import Direction, TraceError
from lineage_store.finding import NotFoundError, find_application
from lineage_store.materialised import whose_rows
from lineage_store.names import Names
from lineage_store.paths import canonical
from lineage_store.places import Location, ValuedPlace, parse_location, parse_valued
from lineage_store.port import GraphStore


class NotedRowError(TraceError):
    """A row of a DataFrame was asked for: its trace is a query, made from the recipe of ``node``."""

    def __init__(self, place: str, app: str, record: NodeRecord) -> None:
        what = record.name or record.op
        told = f"{place} is a row of what {what} at {record.call_site} "
        told += "read" if record.kind == "frame-source" else "gave"
        if record.kind == "unknown":
            told += f": it has no lineage ({record.reason})"
        else:
            told += f" (node {record.node} of {app}): it is traced by a query over the recipe that was noted: "
            told += "ask `lineage back` or `forward` where the store and Spark are"
        super().__init__(told)
        self.place = place
        self.app = app
        self.node = record.node
        self.kind = record.kind


@dataclass(frozen=True, slots=True)
class NotedPlace:
    """Rows of a DataFrame by what they were asked for: the node, and their values or else where they stand."""

    app: str
    node: str
    place: str
    valued: ValuedPlace | None = None

    @property
    def location(self) -> Location:
        """Where the row stands.

        Raises:
            LocationError: the place names none.
        """
        return parse_location(self.place)

    @classmethod
    def of(cls, error: NotedRowError) -> NotedPlace:
        """The place that could not be looked up.

        Raises:
            NotedRowError: it has no lineage.
        """
        if error.kind == "unknown":
            raise error
        return cls(error.app, error.node, error.place)


def noted_by_values(
    store: GraphStore, places: Sequence[str], direction: Direction, app: str | None
) -> NotedPlace | None:
    """The rows that ``OUTPUT#column=value`` (forward: ``SOURCE#``) names, the first place; None where it has another form.

    Raises:
        NotFoundError: the application is not there.
    """
    valued = parse_valued(places[0]) if places else None
    found = valued and noted_called(store, valued.of, direction, app)
    return NotedPlace(*found, places[0], valued) if found else None


def noted_called(
    store: GraphStore, name: str, direction: Direction, app: str | None
) -> tuple[str, str] | None:
    """The latest application, and its node, that gave an output (forward: read a source) of that path, table or name.

    Of one that holds the materialised lineage of another, this.

    Raises:
        NotFoundError: the application is not there.
    """
    kind = "frame" if direction is Direction.BACKWARD else "frame-source"
    path = canonical(name)
    ids = store.application_ids()
    found = None if app is None else find_application(store, app)
    for one in ids if found is None else [whose_rows(found, ids) or found]:
        nodes = store.graph(one).nodes()
        wanted = [node for node in nodes if node.kind == kind]
        for node in reversed(wanted):
            if node.path is not None and (node.path == name or canonical(node.path) == path):
                return one, node.node
        names = Names(nodes)
        for node in wanted:
            if name in {node.node, names.label(node.node)}:
                return one, node.node
    return None


def output_called(store: GraphStore, name: str, app: str | None) -> NotedPlace:
    """The output of that path, table or name.

    Raises:
        NotFoundError: no application gave one.
    """
    found = noted_called(store, name, Direction.BACKWARD, app)
    if found is None:
        raise NotFoundError(
            f"no DataFrame's output is called {name!r}: give its path, its table or its node "
            "(lineage graph lists them)"
        )
    return NotedPlace(*found, name)


def columns_of(graph: FlowGraph, nodes: Iterable[NodeRecord], node: str) -> list[tuple[str, str]]:
    """Names and types of the columns of a DataFrame's output or source; none where they are not known.

    Raises:
        LineageError: its recipe can't be read.
    """
    record = next((one for one in nodes if one.node == node), None)
    if record is None or record.kind not in NOTED:
        return []
    users = [node] if record.kind == "frame" else [e.dest for e in graph.links() if e.src == node]
    for text in filter(None, map(graph.recipe, users)):
        recipe = Recipe.from_json(text)
        if record.kind == "frame":
            return [(one.name, one.type) for one in recipe.columns]
        for source in recipe.sources:
            if record.path in {*source.paths[:1], source.table}:
                return source.columns()
    return []


def noted_among(nodes: Iterable[NodeRecord], ids: Iterable[str]) -> list[NodeRecord]:
    """Of some nodes those whose rows are in no block. A file of an unknown node is a DataFrame's."""
    wanted = set(ids)
    kinds = NOTED | {"unknown"}
    return [node for node in nodes if node.node in wanted and node.kind in kinds]


def node_of(space: str) -> str:
    """The node that a space belongs to."""
    return parse_space(space).name
