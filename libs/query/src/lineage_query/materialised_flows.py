"""What was materialised of DataFrames' lineage, and whether it or a query answers a question.

A query needs Spark, and the very files that the job read. Materialised flows need neither, but may name more rows than
the query would. So they answer where they are exact; where they are not, the query does; and where that can't be had,
they do, and say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from lineage_core.contract.graph import FlowGraph
from lineage_core.contract.region import Region
from lineage_core.errors import LineageError
from lineage_core.recipe.document import Recipe
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

MADE_AS = {"frame": "sink", "frame-source": "source"}
"""What nodes of DataFrames are where their flows are."""


@dataclass(frozen=True)
class LookedUp:
    """What materialised flows say to a question.

    ``traced``: a trace of the application that holds them. ``missing``: what they don't say, in words.
    """

    traced: RecordTrace
    app: str
    missing: tuple[str, ...] = ()

    @property
    def suffices(self) -> bool:
        """Whether a query can't tell more."""
        return self.traced.result.exact and not self.missing

    def instead_of(self, problem: LineageError) -> RecordTrace:
        """The trace, where the query can't be had."""
        said = f"this is what was materialised, for {self.app} itself can't be asked: {problem}"
        return replace(self.traced, warnings=(*self.traced.warnings, said))


def best(
    found: LookedUp | None,
    question: TraceQuery,
    noted: RecipePlace,
    query: Callable[[], Trace],
    *,
    by_query: bool = False,
) -> Trace:
    """The more exact of two: a trace along materialised flows, or what a query says.

    Args:
        found: what the flows say, if there are any.
        question: what is asked.
        noted: the rows of DataFrames that it names.
        query: asks by a query.
        by_query: the query answers wherever it can be had.

    Raises:
        LineageError: there are no flows, and the query can't be had.
    """
    if question.app is not None and question.app != noted.app:
        # The flows themselves are asked.
        if found is None:
            raise TraceError(f"just a query can tell what these are: ask {noted.app}")
        return Trace(question, found.traced)
    if found is None:
        return query()
    steps = question.until is not None or question.steps is not None
    if steps or (found.suffices and not by_query):
        return Trace(question, found.traced)
    try:
        recomputed = query()
    except StoreUnavailableError:
        raise
    except LineageError as problem:
        current_budget().check()
        return Trace(question, found.instead_of(problem))
    if by_query or question.as_now or found.missing or recomputed.exact:
        return recomputed
    # Both may be too many: the fewer are nearer.
    return (
        recomputed
        if recomputed.count <= found.traced.result.count
        else Trace(question, found.traced)
    )


class MaterialisedFlows:
    """Looks rows of DataFrames up in what was materialised. May be shared by threads."""

    def __init__(
        self, store: GraphStore, reader: RowReader, opener: ApplicationCache | None = None
    ) -> None:
        self._store = store
        self._reader = reader
        self._opener = opener or ApplicationCache(store, reader)
        self._tracer = RecordTracer(store, reader, self._opener)

    def look_up(self, question: TraceQuery, noted: RecipePlace) -> LookedUp | None:
        """What is known of rows of DataFrames of one application; None: nothing, or just a query can tell.

        Args:
            question: about them.
            noted: the rows, by their values or by where they stand.

        Raises:
            ForbiddenRowsError: rows are asked for by their values in a file that may not be read.
        """
        app = f"{noted.app}{SUFFIX}"
        if question.regions or app not in self._store.application_ids():
            return None
        opened = self._opener.open(app)
        held = _held(opened, self._opener.open(noted.app), noted)
        # Of sources that were not materialised the readers are named (`LookedUp.missing`).
        back = question.direction is Direction.BACKWARD
        if not held or (back and len(held) < len(noted.nodes)):
            return None
        asked = replace(question, app=app)
        if noted.valued is not None:
            regions = self._with_values(opened, question.direction, noted, held)
            if not regions:
                return None
            asked = replace(asked, places=(), regions=regions)
        try:
            traced = self._tracer.trace(asked)
        except (ForbiddenRowsError, StoreUnavailableError):
            raise
        except LineageError:
            current_budget().check()
            # Rows that were not materialised, or none at all: the query says which.
            return None
        if traced.app != app:
            return None
        return self._judged(replace(traced, asked=question.places), opened, question, noted)

    def _judged(
        self,
        traced: RecordTrace,
        opened: ApplicationSnapshot,
        question: TraceQuery,
        noted: RecipePlace,
    ) -> LookedUp:
        base = self._opener.open(noted.app)
        missing: tuple[str, ...] = ()
        warnings = traced.warnings
        if question.direction is Direction.FORWARD:
            missing = tuple(_not_materialised(base, opened, noted.nodes))
        if not base.verdict.complete:
            warnings = (*warnings, incomplete_warning(base.app, base.verdict))
        result = traced.result
        if missing:
            result = replace(result, exact=False, reasons=(*result.reasons, *missing))
        complete = traced.complete and base.verdict.complete and not missing
        traced = replace(traced, result=result, complete=complete, warnings=warnings)
        return LookedUp(traced, noted.app, missing)

    def _with_values(
        self,
        opened: ApplicationSnapshot,
        direction: Direction,
        noted: RecipePlace,
        nodes: Iterable[str],
    ) -> dict[str, Region] | None:
        """The rows of some nodes that have values, by space; None where just a query can tell which."""
        if noted.valued is None or noted.doubts:
            return None
        found: dict[str, Region] = {}
        base = self._store.graph(noted.app)
        for node in nodes:
            files = _files_of(base, direction, node)
            if files is None or not self._are_as_then(opened, node, files):
                return None
            rows = positions_with(files, noted.valued.values, self._reader)
            # What was written meanwhile may be in it.
            if rows is None or not self._are_as_then(opened, node, files):
                return None
            found |= {f"{node}#{at}": Region.from_positions(one) for at, one in rows.items()}
        return found

    def _are_as_then(self, opened: ApplicationSnapshot, node: str, files: Files) -> bool:
        """Whether files are what the job left or saw."""
        try:
            standings = opened.locations.as_now().standings(node)
        except RowsError:
            return False
        return all(standings.get(canonical(one.path)) in {"same", "touched"} for one in files.files)


def _held(opened: ApplicationSnapshot, base: ApplicationSnapshot, noted: RecipePlace) -> list[str]:
    """Of the outputs or sources that are asked for those that flows are of."""
    found: list[str] = []
    for node in noted.nodes:
        there, own = opened.record(node), base.record(node)
        if there is not None and own is not None and there.path == own.path:
            found += [node] if there.kind == MADE_AS.get(own.kind) else []
    return found


def _files_of(graph: FlowGraph, direction: Direction, node: str) -> Files | None:
    """The files that an output has, or that all readers of a source read in one way."""
    if direction is Direction.BACKWARD:
        recipe = read_recipe(graph, node)
        if recipe is None:
            return None
        columns = [(one.name, one.type) for one in recipe.columns]
        return Files.of_output(recipe.output, columns, recipe.settings)
    path = next((one.path for one in graph.nodes() if one.node == node), None)
    found = [
        Files.of_source(source, recipe.settings)
        for recipe in _recipes(graph, _readers(graph, [node]))
        for source in recipe.sources
        if source.name == path
    ]
    return found[0] if found and all(one == found[0] for one in found) else None


def _recipes(graph: FlowGraph, nodes: Iterable[str]) -> Iterator[Recipe]:
    for node in nodes:
        recipe = read_recipe(graph, node)
        if recipe is not None:
            yield recipe


def _readers(graph: FlowGraph, sources: Iterable[str]) -> list[str]:
    wanted = set(sources)
    return [link.dest for link in graph.links() if link.src in wanted]


def _not_materialised(
    base: ApplicationSnapshot, opened: ApplicationSnapshot, sources: Iterable[str]
) -> Iterator[str]:
    """What DataFrames made of sources beyond what was materialised."""
    wanted = set(sources)
    paths = {one.path for one in base.nodes if one.node in wanted}
    # A file may belong to several sources of one path, such as versions of a table.
    same = {one.node for one in base.nodes if one.kind == "frame-source" and one.path in paths}
    there = {node.node for node in opened.nodes}
    for node in dict.fromkeys(_readers(base.graph, wanted | same)):
        record = base.record(node)
        if node not in there and record is not None:
            what = record.name or record.op
            yield f"what {what} (node {node} of {base.app}) made of it is not materialised"
