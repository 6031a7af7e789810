"""Materialised flows of DataFrames, and the choice between them and a query over the recipe.

A query over the recipe needs Spark, and the same files that the job read. Materialised flows need neither, but may
include more rows. So the flows are used if they are exact, else the query; if the query fails, the flows are used with
a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lineage_core.contract.graph import FlowGraph
from lineage_core.contract.region import Region
from lineage_core.errors import LineageError
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query.recipe_rows import RecipePlace
from lineage_query.record_trace import RecordTrace
from lineage_query.record_tracing import RecordTracer, incomplete_warning
from lineage_query.rows.reader import ForbiddenRowsError, RowReader
from lineage_query.rows.valued_rows import Files, positions_with
from lineage_query.snapshot import ApplicationCache, ApplicationSnapshot
from lineage_query.trace import Trace
from lineage_query.trace_query import TraceQuery
from lineage_store.errors import StoreUnavailableError
from lineage_store.materialised import SUFFIX
from lineage_store.paths import RowsError, canonical
from lineage_store.port import GraphStore
from lineage_store.recipes import read_recipe

if TYPE_CHECKING:
    from lineage_core.recipe.document import Recipe

FLOW_NODE_KINDS = {"frame": "sink", "frame-source": "source"}
"""The kind of a node in the application that holds its flows, by the kind of the node."""


@dataclass(frozen=True)
class MaterialisedTrace:
    """What materialised flows return for a query.

    ``traced``: a trace of the application that holds them. ``missing``: descriptions of what they don't contain.
    """

    traced: RecordTrace
    app: str
    missing: tuple[str, ...] = ()

    @property
    def suffices(self) -> bool:
        """Whether a query over the recipe can't return more."""
        return self.traced.result.exact and not self.missing

    def instead_of_recomputation(self, problem: LineageError) -> RecordTrace:
        """The trace, if the query over the recipe fails."""
        warning = f"these rows are from materialised lineage, because a query of {self.app} failed: {problem}"
        return replace(self.traced, warnings=(*self.traced.warnings, warning))


def choose_trace(
    materialised: MaterialisedTrace | None,
    query: TraceQuery,
    recipe_place: RecipePlace,
    recompute: Callable[[], Trace],
    *,
    by_query: bool = False,
) -> Trace:
    """The more exact of two traces: along materialised flows, or by a query over the recipe.

    Args:
        materialised: what the flows return, if there are any.
        query: the user's query.
        recipe_place: the rows of DataFrames that it names.
        recompute: runs the query over the recipe.
        by_query: prefer the query over the recipe if it succeeds.

    Raises:
        LineageError: there are no flows, and the query over the recipe fails.
    """
    if query.app is not None and query.app != recipe_place.app:
        # The query names the application that holds the flows.
        if materialised is None:
            raise TraceError(
                f"these rows have no materialised lineage: query {recipe_place.app} instead"
            )
        return Trace(query, materialised.traced)
    if materialised is None:
        return recompute()
    is_partial = query.until is not None or query.steps is not None
    if is_partial or (materialised.suffices and not by_query):
        return Trace(query, materialised.traced)
    try:
        recomputed = recompute()
    except StoreUnavailableError:
        raise
    except LineageError as problem:
        current_budget().check()
        return Trace(query, materialised.instead_of_recomputation(problem))
    if by_query or query.as_now or materialised.missing or recomputed.exact:
        return recomputed
    # Both may include too many rows: the smaller result is closer.
    return (
        recomputed
        if recomputed.count <= materialised.traced.result.count
        else Trace(query, materialised.traced)
    )


class MaterialisedFlows:
    """Looks up rows of DataFrames in materialised flows. May be shared by threads."""

    def __init__(
        self,
        store: GraphStore,
        reader: RowReader,
        application_cache: ApplicationCache | None = None,
    ) -> None:
        self._store = store
        self._reader = reader
        self._application_cache = application_cache or ApplicationCache(store, reader)
        self._tracer = RecordTracer(store, reader, self._application_cache)

    def look_up(self, query: TraceQuery, recipe_place: RecipePlace) -> MaterialisedTrace | None:
        """The materialised flows of rows of DataFrames of one application; None: none, or only a query can answer.

        Args:
            query: the user's query.
            recipe_place: the rows, by their values or by their positions.

        Raises:
            ForbiddenRowsError: the query names rows by their values in a file that may not be read.
        """
        app = f"{recipe_place.app}{SUFFIX}"
        if query.regions or app not in self._store.application_ids():
            return None
        opened = self._application_cache.open(app)
        nodes_with_flows = _nodes_with_flows(
            opened, self._application_cache.open(recipe_place.app), recipe_place
        )
        # The answer names the readers of sources that were not materialised (`MaterialisedTrace.missing`).
        is_backward = query.direction is Direction.BACKWARD
        if not nodes_with_flows or (
            is_backward and len(nodes_with_flows) < len(recipe_place.nodes)
        ):
            return None
        flow_query = replace(query, app=app)
        if recipe_place.valued is not None:
            regions = self._regions_by_values(
                opened, query.direction, recipe_place, nodes_with_flows
            )
            if not regions:
                return None
            flow_query = replace(flow_query, places=(), regions=regions)
        try:
            traced = self._tracer.trace(flow_query)
        except (ForbiddenRowsError, StoreUnavailableError):
            raise
        except LineageError:
            current_budget().check()
            # Either the rows were not materialised or there are none: the query over the recipe decides.
            return None
        if traced.app != app:
            return None
        return self._with_completeness(
            replace(traced, requested_places=query.places), opened, query, recipe_place
        )

    def _with_completeness(
        self,
        traced: RecordTrace,
        opened: ApplicationSnapshot,
        query: TraceQuery,
        recipe_place: RecipePlace,
    ) -> MaterialisedTrace:
        base = self._application_cache.open(recipe_place.app)
        missing: tuple[str, ...] = ()
        warnings = traced.warnings
        if query.direction is Direction.FORWARD:
            missing = tuple(_not_materialised(base, opened, recipe_place.nodes))
        if not base.verdict.complete:
            warnings = (*warnings, incomplete_warning(base.app, base.verdict))
        result = traced.result
        if missing:
            result = replace(result, exact=False, reasons=(*result.reasons, *missing))
        complete = traced.complete and base.verdict.complete and not missing
        traced = replace(traced, result=result, complete=complete, warnings=warnings)
        return MaterialisedTrace(traced, recipe_place.app, missing)

    def _regions_by_values(
        self,
        opened: ApplicationSnapshot,
        direction: Direction,
        recipe_place: RecipePlace,
        nodes: Iterable[str],
    ) -> dict[str, Region] | None:
        """The rows of some nodes that have the values, by space; None if only a query over the recipe can find them."""
        if recipe_place.valued is None or recipe_place.uncertainties:
            return None
        regions: dict[str, Region] = {}
        base = self._store.graph(recipe_place.app)
        reader = self._reader.of_application(recipe_place.app)
        for node in nodes:
            files = _files_of(base, direction, node)
            if files is None or not self._are_unchanged(opened, node, files):
                return None
            rows = positions_with(files, recipe_place.valued.values, reader)
            # The rows may include some that were written meanwhile.
            if rows is None or not self._are_unchanged(opened, node, files):
                return None
            regions |= {
                f"{node}#{at}": Region.from_positions(positions) for at, positions in rows.items()
            }
        return regions

    def _are_unchanged(self, opened: ApplicationSnapshot, node: str, files: Files) -> bool:
        """Whether files are in the state that the job wrote or read."""
        try:
            file_statuses = opened.locations.as_now().file_statuses(node)
        except RowsError:
            return False
        return all(
            file_statuses.get(canonical(file.path)) in {"same", "touched"} for file in files.files
        )


def _nodes_with_flows(
    opened: ApplicationSnapshot, base: ApplicationSnapshot, recipe_place: RecipePlace
) -> list[str]:
    """Those of the queried outputs or sources that have flows."""
    nodes_with_flows: list[str] = []
    for node in recipe_place.nodes:
        flow_node, base_node = opened.record(node), base.record(node)
        if flow_node is not None and base_node is not None and flow_node.path == base_node.path:
            nodes_with_flows += (
                [node] if flow_node.kind == FLOW_NODE_KINDS.get(base_node.kind) else []
            )
    return nodes_with_flows


def _files_of(graph: FlowGraph, direction: Direction, node: str) -> Files | None:
    """The files that an output has, or that all readers of a source read in one way."""
    if direction is Direction.BACKWARD:
        recipe = read_recipe(graph, node)
        if recipe is None:
            return None
        columns = [(column.name, column.type) for column in recipe.columns]
        return Files.of_output(recipe.output, columns, recipe.settings)
    path = next((candidate.path for candidate in graph.nodes() if candidate.node == node), None)
    candidates = [
        Files.of_source(source, recipe.settings)
        for recipe in _recipes(graph, _readers(graph, [node]))
        for source in recipe.sources
        if source.name == path
    ]
    return (
        candidates[0]
        if candidates and all(files == candidates[0] for files in candidates)
        else None
    )


def _recipes(graph: FlowGraph, nodes: Iterable[str]) -> Iterator[Recipe]:
    for node in nodes:
        recipe = read_recipe(graph, node)
        if recipe is not None:
            yield recipe


def _readers(graph: FlowGraph, sources: Iterable[str]) -> list[str]:
    source_ids = set(sources)
    return [link.dest for link in graph.links() if link.src in source_ids]


def _not_materialised(
    base: ApplicationSnapshot, opened: ApplicationSnapshot, sources: Iterable[str]
) -> Iterator[str]:
    """What DataFrames computed from the sources beyond the materialised flows."""
    source_ids = set(sources)
    paths = {node.path for node in base.nodes if node.node in source_ids}
    # A file may belong to several sources of one path, such as versions of a table.
    same_path_sources = {
        node.node for node in base.nodes if node.kind == "frame-source" and node.path in paths
    }
    materialised_nodes = {node.node for node in opened.nodes}
    for node in dict.fromkeys(_readers(base.graph, source_ids | same_path_sources)):
        record = base.record(node)
        if node not in materialised_nodes and record is not None:
            operation = record.name or record.op
            yield f"the output of {operation} (node {node} of {base.app}) is not materialised"
