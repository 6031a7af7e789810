"""Rows of DataFrames: no block holds them, so a trace over blocks must not answer for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lineage_core.contract.address import parse_space
from lineage_core.contract.graph import RECIPE_NODE_KINDS, FlowGraph, NodeRecord
from lineage_core.tracing.trace_result import TraceError
from lineage_query.rows.places import Location, ValuedPlace, parse_place


class RecipeRowError(TraceError):
    """The query is for rows of DataFrames: they are traced by a query over the recipes of ``nodes`` or of their readers."""

    def __init__(self, place: str, app: str, records: Sequence[NodeRecord]) -> None:
        record = next((node for node in records if node.kind != "unknown"), records[0])
        operation = record.name or record.op
        message = f"{place} is a row that {operation} at {record.call_site} "
        message += "read" if record.kind == "frame-source" else "returned"
        if record.kind == "unknown":
            message += f": it has no lineage ({record.reason})"
        else:
            message += f" (node {record.node} of {app}). It is traced by a query over the recorded recipe: "
            message += (
                "run `lineage back` or `lineage forward` on a machine with the store and Spark"
            )
        super().__init__(message)
        self.place = place
        self.app = app
        self.nodes = tuple(node.node for node in records)
        self.kind = record.kind


@dataclass(frozen=True, slots=True)
class RecipePlace:
    """Rows of DataFrames as a query names them: the nodes, and the values of the rows or else their positions.

    ``place``: of one row, or of all rows of a file or (backward) of an output. ``nodes``: of one application: those that read a
    source, or that wrote an output. ``uncertainties``: by node, why its rows may no longer be in the output.
    ``files``: several whole files of sources, such as those of a folder, of which ``place`` is the first.
    ``held_in``: a file that has the content of that of ``place``, which is not what it was any more; None: it is, or none is known.
    """

    app: str
    nodes: tuple[str, ...]
    place: str
    valued: ValuedPlace | None = None
    uncertainties: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    held_in: str | None = None

    @property
    def location(self) -> Location:
        """The position of the row.

        Raises:
            LocationError: the place names none.
        """
        return parse_place(self.place)


def columns_of(graph: FlowGraph, nodes: Iterable[NodeRecord], node: str) -> list[tuple[str, str]]:
    """Names and types of the columns of a DataFrame's output or source; none where they are not known.

    Raises:
        LineageError: its recipe can't be read.
    """
    record = next((candidate for candidate in nodes if candidate.node == node), None)
    if record is None or record.kind not in RECIPE_NODE_KINDS:
        return []
    # Traces of records do not load this.
    from lineage_core.recipe.document import Recipe

    user_nodes = (
        [node]
        if record.kind == "frame"
        else [link.dest for link in graph.links() if link.src == node]
    )
    for text in filter(None, map(graph.recipe, user_nodes)):
        recipe = Recipe.from_json(text)
        if record.kind == "frame":
            return [(column.name, column.type) for column in recipe.columns]
        for source in recipe.sources:
            if record.path in {*source.paths[:1], source.table}:
                return source.columns()
    return []


def recipe_nodes_among(nodes: Iterable[NodeRecord], ids: Iterable[str]) -> list[NodeRecord]:
    """The nodes among ``ids`` whose rows are in no block. A file of an unknown node belongs to a DataFrame."""
    requested_ids = set(ids)
    kinds = RECIPE_NODE_KINDS | {"unknown"}
    return [node for node in nodes if node.node in requested_ids and node.kind in kinds]


def node_of_space(space: str) -> str:
    """The node of a space."""
    return parse_space(space).name
