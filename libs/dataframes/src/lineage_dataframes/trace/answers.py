"""Answers about rows of DataFrames, as those about records are: items by node, with places and texts.

Who asks gives a Spark; `asking` says for which questions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from lineage_core.contract.address import named_space
from lineage_core.contract.graph import NodeRecord
from lineage_core.contract.region import Region
from lineage_core.errors import LineageError
from lineage_core.recipe.document import File, Recipe, Source
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_dataframes.errors import FramesError, NoMatchError, NotComputedError, RowError
from lineage_dataframes.rewrite.functions import NO_CODE
from lineage_dataframes.rewrite.grouping import LOSSLESS_FORMATS
from lineage_dataframes.sources.changed import check_local, local_path, local_standing
from lineage_dataframes.sources.jdbc import check_tables
from lineage_dataframes.sources.locations import row_locations
from lineage_dataframes.sources.row_texts import text_of_plan_row, text_of_row
from lineage_dataframes.sources.witnesses import Witnesses
from lineage_dataframes.spark.connected import in_thread
from lineage_dataframes.trace.allowed import check_files_allowed, check_recipe_allowed
from lineage_dataframes.trace.backward import trace_backward
from lineage_dataframes.trace.forward import Outcome, trace_forward
from lineage_dataframes.trace.overwritten import AsNow, as_now, marked
from lineage_dataframes.trace.rows import (
    file_in,
    output_of,
    place_in,
    places_of,
    rows_with,
    source_with,
    texts_at,
    values_at,
)
from lineage_query.answers import Answer, Group, Item, NotAsked
from lineage_query.engine import QueryEngine, TraceQuery, end_warning, incomplete_warning
from lineage_query.names import Names
from lineage_query.recipe_rows import RecipePlace
from lineage_query.rows.places import Location, ValuedPlace
from lineage_query.rows.reader import RowReader
from lineage_query.verdicts import verdict_of
from lineage_store.errors import NoSuchRowError
from lineage_store.paths import plain_path, shown_path
from lineage_store.port import GraphStore
from lineage_store.recipes import read_recipe

EQUAL_ROWS = "the output has equal rows, some of which were made from others"
EQUAL_IN_ALL_KNOWN = "the output has rows that are equal in all that can be computed anew, some of which were made from others"
HELD_OTHERWISE = "the files hold them otherwise than Spark gave them"

Rows = list[tuple[Source | None, str, NDArray[np.uint64]]]
"""Rows by source and file: their ordinals, ascending."""
RowsOf = Callable[[Recipe, str], Rows]
"""What says which rows of a source (its node) are meant, as a recipe reads it."""


@dataclass
class ForwardAnswer:
    """Where rows of sources went.

    ``groups``: by node, the output rows of DataFrames. ``became``: by space, the records that some of these are.
    ``asked``: by node, the rows that DataFrames were asked for, by file; ``told``: how many answers there were,
    ``refused``: why there were no others.
    """

    groups: dict[str, Group] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    refused: list[LineageError] = field(default_factory=list)
    became: dict[str, Region] = field(default_factory=dict)
    asked: dict[str, dict[str, NDArray[np.uint64]]] = field(default_factory=dict)
    told: int = 0

    def adds(self, user: str, rows: Rows) -> bool:
        """Note that a DataFrame is asked for rows; False where it was asked for all of them before."""
        known = self.asked.get(user, {})
        wanted = dict(known)
        for _, path, ordinals in rows:
            wanted[path] = np.union1d(wanted.get(path, ordinals), ordinals)
        self.asked[user] = wanted
        sizes = {path: len(ordinals) for path, ordinals in known.items()}
        return sizes != {path: len(ordinals) for path, ordinals in wanted.items()}

    def refusal(self) -> LineageError | None:
        """Why nothing could be told, if so: that no row matches is said only where all were looked at."""
        if self.told or not self.refused:
            return None
        others = [one for one in self.refused if not isinstance(one, NoSuchRowError)]
        return (others or self.refused)[0]


@dataclass
class DataFrameAnswers(ABC):
    """Traces by recipes of one application, as far as DataFrames reach: see `crossing`.

    ``reader``: says which files may be read. ``key``: of recipes' Python functions, as in `tracing.trace_backward`.
    """

    spark: SparkSession
    store: GraphStore
    reader: RowReader
    app: str
    question: TraceQuery
    key: str | None = None

    def __post_init__(self) -> None:
        self._graph = self.store.graph(self.app)
        self._nodes = {node.node: node for node in self._graph.nodes()}
        self._names = Names(list(self._nodes.values()))
        self._engine = QueryEngine(self.store, self.reader)
        self._warnings: list[str] = []
        self._recipes: list[Recipe] = []
        self._as_now: list[AsNow] = []
        self._reasons: list[str] = []
        self._not_asked: list[NotAsked] = []

    def row(self, noted: RecipePlace) -> Answer:
        """The trace of the row that stands at a place."""
        place, node = noted.location, noted.nodes[0]
        if self.question.direction is Direction.FORWARD:
            return self._forward(noted, lambda recipe, _: self._at(recipe, place))
        if self._nodes[node].kind == "frame-source":
            return self._of_source(node, place)
        recipe = self._recipe(node)
        output = output_of(self.spark, recipe)
        file = file_in(output.files, place)
        ordinal = self._ordinal(output, file, place)
        row = values_at(self.spark, recipe, output, file, ordinal)
        there = output.format in LOSSLESS_FORMATS
        with ThreadPoolExecutor(1) as pool:
            rows: Rows = [(output, file.path, np.array([ordinal], np.uint64))]
            start = pool.submit(in_thread(self.spark, self._group), node, recipe, rows)
            found = trace_backward(
                self.spark, recipe, [row], there=there, written=output.format, key=self.key
            )
        self._take(node, recipe, found)
        return self._beyond([start.result()])

    def valued(self, noted: RecipePlace, place: ValuedPlace) -> Answer:
        """The trace of the rows that have some values."""
        if self.question.direction is Direction.FORWARD:
            return self._forward(noted, lambda recipe, node: self._with_values(recipe, node, place))

        def trace(recipe: Recipe) -> Witnesses:
            return trace_backward(self.spark, recipe, values=place.values, key=self.key)

        return self._back(noted, trace, "no row of the output has these values")

    def where(self, noted: RecipePlace, where: str) -> Answer:
        """The trace of an output's rows that fulfil a condition in Spark's SQL."""

        def trace(recipe: Recipe) -> Witnesses:
            return trace_backward(self.spark, recipe, where=where, key=self.key)

        return self._back(noted, trace, f"no row of the output fulfils {where}")

    def _back(self, noted: RecipePlace, trace: Callable[[Recipe], Witnesses], none: str) -> Answer:
        """The rows that all writes of an output which can be asked were made of.

        Raises:
            NoMatchError: no row of any write matches; ``none`` says so.
            LineageError: no row of those that can be asked matches, and others can't be.
        """
        start: list[Group] = []
        refused: list[LineageError] = []
        for node in noted.nodes:
            recipes = len(self._recipes)
            try:
                recipe = self._recipe(node)
                found = trace(recipe)
            except LineageError as problem:
                del self._recipes[recipes:]
                refused.append(problem)
                self._leave_out(node, self._why(problem))
                continue
            if found.matched:
                self._reasons += filter(None, [noted.doubts.get(node)])
                start.append(self._grouped(self._nodes[node], found.matched, []))
                self._take(node, recipe, found)
        if start:
            return self._beyond(start)
        raise refused[0] if refused else NoMatchError(none)

    def _leave_out(self, node: str, reason: str) -> None:
        left_out = NotAsked(self.app, reason, node)
        if left_out not in self._not_asked:
            self._not_asked.append(left_out)

    def told(self, answer: Answer) -> Answer:
        """The answer, marked where files were read as they are now."""
        return marked(answer, self._as_now)

    @abstractmethod
    def _take(self, node: str, recipe: Recipe, found: Witnesses) -> None:
        """Note rows of sources that an output's rows were made of."""

    @abstractmethod
    def _beyond(self, start: Sequence[Group]) -> Answer:
        """The answer: the rows of sources that are noted, and whatever lies behind them."""

    @abstractmethod
    def _of_source(self, node: str, place: Location) -> Answer:
        """The trace back of a source's row."""

    def _end(self) -> Answer:
        place, direction = self.question.places[0], self.question.direction
        self._warnings.append(end_warning(place, self.app, direction))
        return self._answer([], [], ())

    def _forward(self, noted: RecipePlace, rows_of: RowsOf) -> Answer:
        """The output rows, of all DataFrames that read them, that rows of a source went into."""
        if self._nodes[noted.nodes[0]].kind != "frame-source":
            return self._end()
        forth = ForwardAnswer()
        start = self._made_of(noted.nodes, rows_of, forth)
        refusal = forth.refusal()
        if refusal is not None:
            raise refusal
        return self._gone_on(start, forth)

    def _made_of(self, nodes: Iterable[str], rows_of: RowsOf, forth: ForwardAnswer) -> list[Group]:
        """Note what DataFrames that read some sources made of some rows of theirs; the rows themselves, said once."""
        start: list[Group] = []
        for node in nodes:
            for user in self._readers(node):
                rows = self._made_by(user, node, rows_of, forth)
                start = start or rows
        return start

    def _made_by(self, user: str, node: str, rows_of: RowsOf, forth: ForwardAnswer) -> list[Group]:
        record = self._nodes[user]
        made = f"what {record.name or record.op} (node {user}) made of it"
        if record.kind == "unknown":
            forth.reasons.append(f"{made} is not known: {record.reason}")
            self._leave_out(user, record.reason)
            return []
        recipes = len(self._recipes)
        start: list[Group] = []
        try:
            recipe = self._recipe(user)
            rows = rows_of(recipe, node)
            start = [self._group(node, recipe, rows)]
            if not forth.adds(user, rows):
                return start
            asked = {path: ordinals.tolist() for path, ordinals in forth.asked[user].items()}
            outcome = trace_forward(self.spark, recipe, asked, self.key)
        except LineageError as problem:
            del self._recipes[recipes:]
            forth.refused.append(problem)
            if not isinstance(problem, NoSuchRowError):
                forth.reasons.append(f"{made} can't be told: {self._why(problem)}")
                self._leave_out(user, self._why(problem))
            return start
        forth.told += 1
        forth.reasons += outcome.reasons
        if outcome.rows:
            forth.groups[user] = self._outcome(user, recipe, outcome, forth.reasons)
        if outcome.rows and recipe.names_rows:
            forth.became |= self._records(user, outcome)
        return start

    @abstractmethod
    def _gone_on(self, start: list[Group], forth: ForwardAnswer) -> Answer:
        """The answer, with what became of records that rows of DataFrames became."""

    def _readers(self, node: str) -> list[str]:
        """What read a source."""
        return [link.dest for link in self._graph.links() if link.src == node]

    def _records(self, node: str, outcome: Outcome) -> dict[str, Region]:
        """The records that rows of a DataFrame became, by space."""
        names = np.array([row[-1] for row in outcome.rows], np.int64).view(np.uint64)
        region = Region.from_positions(names)
        return {named_space(link.dest): region for link in self._graph.links() if link.src == node}

    def _at(self, recipe: Recipe, place: Location) -> Rows:
        source, file = source_with(recipe, place)
        ordinal = self._ordinal(source, file, place)
        return [(source, file.path, np.array([ordinal], np.uint64))]

    def _with_values(self, recipe: Recipe, node: str, place: ValuedPlace) -> Rows:
        named = self._nodes[node].path
        sources = [one for one in recipe.sources if one.name == named]
        found: dict[str, tuple[Source, str, NDArray[np.uint64]]] = {}
        missing = [RowError(f"{place.of} was not read")]
        for source in sources:
            try:
                rows = rows_with(self.spark, recipe, source, place.values)
            except RowError as problem:
                missing.append(problem)
                continue
            for path, ordinals in rows.items():
                _, _, known = found.get(path, (source, path, ordinals))
                found[path] = source, path, np.union1d(known, ordinals)
        if not found:
            raise missing[-1]
        return list(found.values())

    def _answer(
        self, start: Sequence[Group], groups: Sequence[Group], reasons: Iterable[str]
    ) -> Answer:
        for source in (source for recipe in self._recipes for source in recipe.sources):
            # It was read while the trace was computed: what was written meanwhile may be in it.
            check_local(source)
        said = tuple(dict.fromkeys(reasons))
        verdict = verdict_of(self.store, self.app)
        if not verdict.complete:
            self._warnings.append(incomplete_warning(self.app, verdict))
        return Answer(
            app=self.app,
            direction=self.question.direction,
            asked=self.question.places,
            start=tuple(start),
            exact=not said,
            reasons=said,
            groups=tuple(groups),
            warnings=tuple(dict.fromkeys([*self._warnings, *self._left_out()])),
            changed=any(group.changed for group in groups),
            complete=verdict.complete and not self._not_asked,
            not_asked=tuple(self._not_asked),
        )

    def _left_out(self) -> Iterator[str]:
        return (one.said() for one in self._not_asked)

    def _why(self, problem: LineageError) -> str:
        """What an answer says of a refusal: that of a server is also for those who may not read rows."""
        if self.key == NO_CODE and isinstance(problem, NotComputedError):
            return "Spark can't compute the plan anew"
        return str(problem)

    def _recipe(self, node: str) -> Recipe:
        recipe = read_recipe(self._graph, node)
        if recipe is None:
            record = self._nodes[node]
            raise TraceError(
                f"node {node} ({record.name or record.op}) has no recipe: {record.reason}"
            )
        if self.question.as_now:
            # Of files that may not be read nobody is told how they are now.
            check_files_allowed(recipe, self.reader)
            self._as_now.append(as_now(recipe))
            recipe = self._as_now[-1].recipe
        self._recipes.append(recipe)
        check_recipe_allowed(recipe, self.reader)
        if self.key == NO_CODE:
            check_tables(recipe)
        return recipe

    def _ordinal(self, source: Source, file: File, place: Location) -> int:
        if place.number is None:
            raise RowError(f"{place.path} names no row")
        return place_in(self.spark, source, file, place.number, line=place.unit == "line")

    def _source_node(self, node: str, recipe: Recipe, source: int | None) -> str:
        """The node that read a source; where it can't be told, the node itself."""
        if source is None:
            return node
        named = recipe.sources[source].name
        producers = [link.src for link in self._graph.links() if link.dest == node]
        return next((one for one in producers if self._nodes[one].path == named), node)

    def _group(
        self,
        node: str,
        recipe: Recipe,
        rows: Sequence[tuple[Source | None, str, NDArray[np.uint64]]],
    ) -> Group:
        """Rows of some files, by ordinal, as items; the first of them where there are many."""
        record, items = self._nodes[node], list[Item]()
        for source, path, ordinals in rows:
            wanted = ordinals
            if self.question.limit is not None:
                wanted = ordinals[: self.question.limit - len(items)]
            if len(wanted):
                items += self._items(record, recipe, source, path, wanted)
        count = sum(len(ordinals) for _, _, ordinals in rows)
        return self._grouped(record, count, items)

    def _grouped(self, record: NodeRecord, count: int, items: Iterable[Item]) -> Group:
        label = self._names.label(record.node)
        return Group(
            record.node,
            label,
            record.name or record.op,
            record.path and plain_path(record.path),
            count,
            tuple(items),
        )

    def _items(
        self,
        record: NodeRecord,
        recipe: Recipe,
        source: Source | None,
        path: str,
        ordinals: NDArray[np.uint64],
    ) -> list[Item]:
        local = local_path(path)
        shown = path if local is None else shown_path(str(local), record.path)
        numbers: list[int] = ordinals.tolist()
        addresses = [f"{shown}#{ordinal}" for ordinal in numbers]
        if source is None:
            node = recipe.plan[int(path.removeprefix("plan:"))]
            said = [text_of_plan_row(node, n) if self.question.texts else None for n in numbers]
            return [
                Item(address, None, text) for address, text in zip(addresses, said, strict=True)
            ]
        places = row_locations(self.spark, source, path, ordinals, shown)
        texts: Iterable[str | None] = [None] * len(places)
        if self.question.texts:
            texts = texts_at(self.spark, recipe, source, path, ordinals)
        return [Item(*one) for one in zip(addresses, places, texts, strict=True)]

    def _outcome(self, node: str, recipe: Recipe, outcome: Outcome, reasons: list[str]) -> Group:
        """Output rows as they stand in the output's files, or else by their values, as far as these are known."""
        try:
            output = output_of(self.spark, recipe)
            standing = places_of(self.spark, recipe, output, outcome.rows)
        except FramesError as problem:
            return self._by_values(node, recipe, outcome, outcome.rows, problem)
        if standing.wider:
            reasons.append(EQUAL_IN_ALL_KNOWN if outcome.warnings else EQUAL_ROWS)
        by_file = [
            (output, path, np.array([ordinal for _, ordinal in rows], np.uint64))
            for path, rows in groupby(standing.places, key=lambda one: one[0])
        ]
        placed = self._group(node, recipe, by_file)
        if not standing.missing:
            return placed
        others = self._by_values(node, recipe, outcome, standing.missing, RowError(HELD_OTHERWISE))
        items = (*placed.items, *others.items)[: self.question.limit]
        return replace(placed, count=placed.count + others.count, items=items)

    def _by_values(
        self,
        node: str,
        recipe: Recipe,
        outcome: Outcome,
        rows: Sequence[Sequence[Any]],
        why: FramesError,
    ) -> Group:
        """Output rows that have no place, with the reason where there are files."""
        if recipe.output.files:
            self._warnings.append(f"rows are told by their values: {self._why(why)}")
        self._warnings += outcome.warnings
        columns = outcome.columns[:-1] if recipe.names_rows else outcome.columns
        label = self._names.label(node)
        shown = rows[: self.question.limit]
        items = [Item(label, None, text_of_row(columns, row[: len(columns)])) for row in shown]
        there = local_standing(recipe.output.files, recipe.output.format or "")
        return replace(self._grouped(self._nodes[node], len(rows), items), standing=there)
