"""Answers about rows of DataFrames, as those about records are: items by node, with places and texts.

The caller passes a Spark session; `query` says which queries are answered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from lineage_core.contract.address import named_space
from lineage_core.contract.graph import NodeRecord
from lineage_core.contract.region import Region
from lineage_core.errors import LineageError
from lineage_core.recipe.document import File, Recipe, Source
from lineage_core.recipe.names import KAFKA
from lineage_core.tracing.budget import TooMuchError, current_budget
from lineage_core.tracing.joined_items import NOT_EXACT
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_dataframes.errors import (
    ChangedSourceError,
    FramesError,
    NoMatchError,
    NotComputedError,
    RowError,
)
from lineage_dataframes.rewrite.functions import NO_CODE
from lineage_dataframes.rewrite.grouping import LOSSLESS_FORMATS
from lineage_dataframes.sources.file_changes import (
    IMMUTABLE,
    check_local,
    local_file_status,
    local_path,
)
from lineage_dataframes.sources.jdbc import check_tables
from lineage_dataframes.sources.locations import row_locations
from lineage_dataframes.sources.row_texts import text_of_plan_row, text_of_row
from lineage_dataframes.sources.witnesses import JoinedRows, SourceRow, Witnesses
from lineage_dataframes.spark.connected import in_thread
from lineage_dataframes.trace.allowed import check_files_allowed, check_recipe_allowed
from lineage_dataframes.trace.backward import trace_backward
from lineage_dataframes.trace.forward import ForwardRows, trace_forward
from lineage_dataframes.trace.moved_outputs import find_moved, held_output
from lineage_dataframes.trace.overwritten import CurrentRecipe, current_recipe, mark_current
from lineage_dataframes.trace.rows import (
    OutputPlaces,
    all_ordinals,
    check_forward_rows,
    find_file,
    find_in_output,
    find_source,
    ordinal_in_file,
    output_of,
    rows_with_values,
    texts_of_rows,
    values_at,
    values_in_file,
)
from lineage_dataframes.trace.written_records import find_standing, trace_record
from lineage_query.answers import Answer, Group, Item, NotQueried
from lineage_query.names import Names
from lineage_query.pairs import PairedRow, Pairs
from lineage_query.recipe_rows import RecipePlace
from lineage_query.record_tracing import RecordTracer, end_warning, incomplete_warning
from lineage_query.rows.places import Location, ValuedPlace, names_record, parse_place
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_query.verdicts import verdict_of
from lineage_store.errors import NoSuchRowError
from lineage_store.paths import canonical, plain_path, shown_path
from lineage_store.port import GraphStore
from lineage_store.recipes import read_recipe

EQUAL_OUTPUT_ROWS = "the output has equal rows, some of which were made from others"
EQUAL_IN_COMPUTED_VALUES = "the output has rows that are equal in all that can be computed anew, some of which were made from others"
EQUAL_RECORDS = "the topic has equal records, some of which were made from other rows, written again, or written by another program"
DIFFERENT_IN_FILES = "the files hold them otherwise than Spark gave them"

LISTED_MAX = 200_000
"""Maximum number of rows of a node that are listed."""
NOWHERE_ELSE: Mapping[str, str] = MappingProxyType({})
"""No file is read in the place of another one."""
AMONG_RECORDS = "which records of RDDs belong together is not known beyond DataFrames"

SourceRows = list[tuple[Source | None, str, NDArray[np.uint64]]]
"""Rows by source and file: their ordinals, ascending."""
RowSelector = Callable[[Recipe, str], SourceRows]
"""What says which rows of a source (its node) are meant, as a recipe reads it."""


def wider_reason(recipe: Recipe, *, computed: bool) -> str:
    """Why more rows of an output than were made may have been found. ``computed``: some of their values can't be computed anew."""
    if recipe.output.format == KAFKA:
        return EQUAL_RECORDS
    return EQUAL_IN_COMPUTED_VALUES if computed else EQUAL_OUTPUT_ROWS


@dataclass
class ForwardAnswer:
    """Where rows of sources went.

    ``groups``: by node, the output rows of DataFrames. ``became``: by space, the records that some of these are.
    ``requested``: by node, the rows that were requested of DataFrames, by file; ``answer_count``: how many answers there were,
    ``refused``: why there were no others.
    """

    groups: dict[str, Group] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    refused: list[LineageError] = field(default_factory=list)
    became: dict[str, Region] = field(default_factory=dict)
    requested: dict[str, dict[str, NDArray[np.uint64]]] = field(default_factory=dict)
    answer_count: int = 0

    def add_request(self, user: str, rows: SourceRows) -> bool:
        """Record that rows are requested of a DataFrame; False where all of them were requested before."""
        earlier = self.requested.get(user, {})
        merged = dict(earlier)
        for _, path, ordinals in rows:
            merged[path] = np.union1d(merged.get(path, ordinals), ordinals)
        self.requested[user] = merged
        sizes = {path: len(ordinals) for path, ordinals in earlier.items()}
        return sizes != {path: len(ordinals) for path, ordinals in merged.items()}

    def refusal(self) -> LineageError | None:
        """Why there is no answer, if so: "no row matches" only where all rows were searched."""
        if self.answer_count or not self.refused:
            return None
        other_refusals = [
            refusal for refusal in self.refused if not isinstance(refusal, NoSuchRowError)
        ]
        return (other_refusals or self.refused)[0]


@dataclass
class DataFrameAnswers(ABC):
    """Traces by recipes of one application, as far as DataFrames reach: see `crossing`.

    ``reader``: says which files may be read. ``key``: of recipes' Python functions, as in `backward.trace_backward`.
    """

    spark: SparkSession
    store: GraphStore
    reader: RowReader
    app: str
    query: TraceQuery
    key: str | None = None

    def __post_init__(self) -> None:
        self._graph = self.store.graph(self.app)
        self._nodes = {node.node: node for node in self._graph.nodes()}
        self._names = Names(list(self._nodes.values()))
        self._tracer = RecordTracer(self.store, self.reader)
        self._warnings: list[str] = []
        self._recipes: list[Recipe] = []
        self._current_recipes: list[CurrentRecipe] = []
        self._reasons: list[str] = []
        self._not_queried: list[NotQueried] = []
        self._joined: list[tuple[str, Recipe, JoinedRows]] = []
        self._went_through_records = False

    def answer_row(self, recipe_place: RecipePlace) -> Answer:
        """The trace of the row that stands at a place."""
        location, node = recipe_place.location, recipe_place.nodes[0]
        if recipe_place.files:
            files = {canonical(parse_place(file).path) for file in recipe_place.files}
            return self._trace_forward(recipe_place, partial(self._rows_of_files, files))
        if self.query.direction is Direction.FORWARD:
            return self._trace_forward(recipe_place, partial(self._row_at, location))
        if self._nodes[node].kind == "frame-source":
            return self._trace_source_row(node, location)
        if location.number is None:
            return self._answer_whole(recipe_place)
        recipe = self._recipe(node)
        output = output_of(self.spark, recipe)
        file = find_file(output.files, location)
        if recipe_place.held_in is not None:
            held = held_output(replace(output, files=(file,)), {file: recipe_place.held_in})
            output, (file,) = held.source, held.source.files
            # Its name is none of the recipe's.
            of_held = replace(recipe, output=replace(recipe.output, files=(file,)))
            check_files_allowed(of_held, self.reader)
        ordinal = self._ordinal(output, file, location)
        row = values_at(self.spark, recipe, output, file, ordinal)
        is_in_output = output.format in LOSSLESS_FORMATS
        with ThreadPoolExecutor(1) as pool:
            rows: SourceRows = [(output, file.path, np.array([ordinal], np.uint64))]
            start = pool.submit(in_thread(self.spark, self._group), node, recipe, rows)
            witnesses = trace_backward(
                self.spark,
                recipe,
                [row],
                is_in_output=is_in_output,
                written=output.format,
                key=self.key,
            )
        self._add_witnesses(node, recipe, witnesses)
        return self._trace_further([start.result()])

    def _answer_whole(self, recipe_place: RecipePlace) -> Answer:
        """The trace of all rows of an output, or of one of its files."""
        location = recipe_place.location

        def trace(recipe: Recipe) -> Witnesses:
            path = canonical(location.path)
            others = [file for file in recipe.output.files if canonical(file.path) != path]
            if not others or len(others) == len(recipe.output.files):
                return trace_backward(self.spark, recipe, key=self.key)
            output = output_of(self.spark, recipe)
            rows = values_in_file(self.spark, recipe, output, find_file(output.files, location))
            if not rows:
                return Witnesses({}, 0)
            return trace_backward(
                self.spark,
                recipe,
                rows,
                is_in_output=output.format in LOSSLESS_FORMATS,
                written=output.format,
                key=self.key,
            )

        return self._trace_back(recipe_place, trace, f"{recipe_place.place} has no rows")

    def answer_values(self, recipe_place: RecipePlace, valued_place: ValuedPlace) -> Answer:
        """The trace of the rows that have some values."""
        if self.query.direction is Direction.FORWARD:
            return self._trace_forward(
                recipe_place,
                lambda recipe, node: self._rows_with_values(recipe, node, valued_place),
            )

        def trace(recipe: Recipe) -> Witnesses:
            if recipe.output.format == KAFKA and names_record(valued_place):
                return trace_record(self.spark, recipe, valued_place, self.key)
            return trace_backward(self.spark, recipe, values=valued_place.values, key=self.key)

        return self._trace_back(recipe_place, trace, "no row of the output has these values")

    def answer_condition(self, recipe_place: RecipePlace, where: str) -> Answer:
        """The trace of an output's rows that fulfil a condition in Spark's SQL."""

        def trace(recipe: Recipe) -> Witnesses:
            return trace_backward(self.spark, recipe, where=where, key=self.key)

        return self._trace_back(recipe_place, trace, f"no row of the output fulfils {where}")

    def _trace_back(
        self, recipe_place: RecipePlace, trace: Callable[[Recipe], Witnesses], no_match: str
    ) -> Answer:
        """The rows that the traceable writes of an output were made of.

        Raises:
            NoMatchError: no row of any write matches; ``no_match`` says so.
            LineageError: no row of the traceable writes matches, and other writes can't be traced.
        """
        start: list[Group] = []
        refused: list[LineageError] = []
        for node in recipe_place.nodes:
            recipes = len(self._recipes)
            try:
                recipe = self._recipe(node)
                witnesses = trace(recipe)
            except LineageError as problem:
                del self._recipes[recipes:]
                refused.append(problem)
                self._add_not_queried(node, self._reason_text(problem))
                continue
            if witnesses.matched:
                self._reasons += filter(None, [recipe_place.uncertainties.get(node)])
                start.append(self._grouped(self._nodes[node], witnesses.matched, []))
                self._add_witnesses(node, recipe, witnesses)
        if start:
            return self._trace_further(start)
        raise refused[0] if refused else NoMatchError(no_match)

    def _add_not_queried(self, node: str, reason: str) -> None:
        not_queried = NotQueried(self.app, reason, node)
        if not_queried not in self._not_queried:
            self._not_queried.append(not_queried)

    def mark_answer(self, answer: Answer) -> Answer:
        """The answer, marked where files were read as they are now, with the rows that belong together."""
        marked = mark_current(answer, self._current_recipes)
        if answer.direction is not Direction.BACKWARD:
            return marked
        return replace(marked, pairs=self._pairs(marked))

    def _pairs(self, answer: Answer) -> Pairs:
        """Which rows of an answer were joined with each other."""
        if not answer.exact:
            return Pairs((), (NOT_EXACT,))
        unknown = [reason for _, _, joined in self._joined for reason in joined.unknown]
        unknown += [AMONG_RECORDS] * self._went_through_records
        rows: dict[tuple[PairedRow, ...], None] = {}
        for node, recipe, joined in self._joined:
            names = self._paired_rows(node, recipe, joined)
            for together in joined.rows:
                paired = tuple(names[row] for row in together)
                for row in paired:
                    current_budget().count_name(row.address, 2)
                rows[paired] = None
        pairs = Pairs(tuple(rows), tuple(dict.fromkeys(unknown)))
        return pairs.among({group.node for group in answer.groups})

    def _paired_rows(
        self, node: str, recipe: Recipe, joined: JoinedRows
    ) -> dict[SourceRow, PairedRow]:
        """What an answer calls the rows that were joined."""
        ordinals: dict[tuple[int | None, str], set[int]] = {}
        for place, path, ordinal in {row for together in joined.rows for row in together}:
            ordinals.setdefault((place, path), set()).add(ordinal)
        names: dict[SourceRow, PairedRow] = {}
        for (place, path), numbers in ordinals.items():
            of = self._source_node(node, recipe, place)
            source = None if place is None else recipe.sources[place]
            ordered = sorted(numbers)
            addresses, locations = self._row_names(
                self._nodes[of], source, path, np.array(ordered, np.uint64)
            )
            for number, address, location in zip(ordered, addresses, locations, strict=True):
                names[place, path, number] = PairedRow(of, self._names.label(of), address, location)
        return names

    @abstractmethod
    def _add_witnesses(self, node: str, recipe: Recipe, witnesses: Witnesses) -> None:
        """Add rows of sources that an output's rows were made of."""

    @abstractmethod
    def _trace_further(self, start: Sequence[Group]) -> Answer:
        """The answer: the rows of sources that were added, and whatever lies behind them."""

    @abstractmethod
    def _trace_source_row(self, node: str, location: Location) -> Answer:
        """The trace back of a source's row."""

    def _end_answer(self, node: str, location: Location | None) -> Answer:
        """Of a row at which traces of this application end: the row itself, from which those of others go on."""
        place, direction = self.query.places[0], self.query.direction
        self._warnings.append(end_warning(place, self.app, direction))
        start: list[Group] = []
        if location is not None and location.number is not None:
            item = Item(str(location), str(location), None)
            start.append(self._grouped(self._nodes[node], 1, [item]))
        return self._answer(start, [], ())

    def _trace_forward(self, recipe_place: RecipePlace, rows_of: RowSelector) -> Answer:
        """The output rows, of all DataFrames that read them, that rows of a source went into."""
        node = recipe_place.nodes[0]
        if self._nodes[node].kind != "frame-source":
            is_placed = recipe_place.valued is None and not self.query.where
            return self._end_answer(node, recipe_place.location if is_placed else None)
        forward = ForwardAnswer()
        start = self._output_rows(
            recipe_place.nodes, rows_of, forward, of_each=bool(recipe_place.files)
        )
        refusal = forward.refusal()
        if refusal is not None:
            raise refusal
        return self._continue_forward(start, forward)

    def _output_rows(
        self,
        nodes: Iterable[str],
        rows_of: RowSelector,
        forward: ForwardAnswer,
        *,
        of_each: bool = False,
    ) -> list[Group]:
        """Add what DataFrames that read some sources made of rows of these; gives the rows themselves, once.

        ``of_each``: the sources may have read others of the rows.
        """
        start: dict[str, list[Group]] = {}
        for node in nodes:
            for user in self._readers(node):
                rows = self._output_rows_of(user, node, rows_of, forward)
                key = node if of_each else ""
                start[key] = start.get(key) or rows
        return [group for groups in start.values() for group in groups]

    def _output_rows_of(
        self, user: str, node: str, rows_of: RowSelector, forward: ForwardAnswer
    ) -> list[Group]:
        record = self._nodes[user]
        subject = f"what {record.name or record.op} (node {user}) made of it"
        if record.kind == "unknown":
            forward.reasons.append(f"{subject} is not known: {record.reason}")
            self._add_not_queried(user, record.reason)
            return []
        recipes = len(self._recipes)
        start: list[Group] = []
        try:
            recipe = self._recipe(user)
            rows = rows_of(recipe, node)
            start = [self._group(node, recipe, rows)]
            if not forward.add_request(user, rows):
                return start
            requested = {
                path: ordinals.tolist() for path, ordinals in forward.requested[user].items()
            }
            outcome = trace_forward(self.spark, recipe, requested, self.key)
        except LineageError as problem:
            del self._recipes[recipes:]
            forward.refused.append(problem)
            if not isinstance(problem, NoSuchRowError):
                forward.reasons.append(f"{subject} can't be traced: {self._reason_text(problem)}")
                self._add_not_queried(user, self._reason_text(problem))
            return start
        forward.answer_count += 1
        forward.reasons += outcome.reasons
        if outcome.rows:
            group = self._output_group(user, recipe, outcome, forward.reasons)
            if group.count:
                forward.groups[user] = group
        if outcome.rows and recipe.names_rows:
            forward.became |= self._records(user, outcome)
        return start

    @abstractmethod
    def _continue_forward(self, start: list[Group], forward: ForwardAnswer) -> Answer:
        """The answer, with what became of records that rows of DataFrames became."""

    def _readers(self, node: str) -> list[str]:
        """What read a source."""
        return [link.dest for link in self._graph.links() if link.src == node]

    def _records(self, node: str, outcome: ForwardRows) -> dict[str, Region]:
        """The records that rows of a DataFrame became, by space."""
        names = np.array([row[-1] for row in outcome.rows], np.int64).view(np.uint64)
        region = Region.from_positions(names)
        return {named_space(link.dest): region for link in self._graph.links() if link.src == node}

    def _row_at(self, location: Location, recipe: Recipe, node: str) -> SourceRows:
        source, file = find_source(self._sources_of(node, recipe), location)
        if location.number is None:
            return [(source, file.path, all_ordinals(self.spark, recipe, source, file))]
        ordinal = self._ordinal(source, file, location)
        return [(source, file.path, np.array([ordinal], np.uint64))]

    def _sources_of(self, node: str, recipe: Recipe) -> list[Source]:
        """The sources of a recipe that a node stands for. Others may call the columns of the same files otherwise."""
        return [source for source in recipe.sources if source.name == self._nodes[node].path]

    def _rows_of_files(self, paths: Collection[str], recipe: Recipe, node: str) -> SourceRows:
        """All rows of those files that a source has. ``paths``: canonical."""
        rows: dict[str, tuple[Source, str, NDArray[np.uint64]]] = {}
        count = 0
        for source in self._sources_of(node, recipe):
            for file in source.files:
                current_budget().check()
                if file.path in rows or canonical(file.path) not in paths:
                    continue
                ordinals = all_ordinals(self.spark, recipe, source, file)
                rows[file.path] = source, file.path, ordinals
                count += len(ordinals)
                check_forward_rows(f"{len(rows):,} of its files", count)
        if not rows:
            raise RowError(f"{self._nodes[node].path} has none of these files")
        return list(rows.values())

    def _rows_with_values(self, recipe: Recipe, node: str, valued_place: ValuedPlace) -> SourceRows:
        sources = self._sources_of(node, recipe)
        rows_by_path: dict[str, tuple[Source, str, NDArray[np.uint64]]] = {}
        missing = [RowError(f"{valued_place.of} was not read")]
        for source in sources:
            try:
                rows = rows_with_values(self.spark, recipe, source, valued_place.values)
            except RowError as problem:
                missing.append(problem)
                continue
            for path, ordinals in rows.items():
                _, _, earlier = rows_by_path.get(path, (source, path, ordinals))
                rows_by_path[path] = source, path, np.union1d(earlier, ordinals)
        if not rows_by_path:
            raise missing[-1]
        return list(rows_by_path.values())

    def _answer(
        self, start: Sequence[Group], groups: Sequence[Group], reasons: Iterable[str]
    ) -> Answer:
        for source in (source for recipe in self._recipes for source in recipe.sources):
            # It was read while the trace was computed: what was written meanwhile may be in it.
            check_local(source)
        distinct_reasons = tuple(dict.fromkeys(reasons))
        verdict = verdict_of(self.store, self.app)
        if not verdict.complete:
            self._warnings.append(incomplete_warning(self.app, verdict))
        return Answer(
            app=self.app,
            direction=self.query.direction,
            requested_places=self.query.places,
            start=tuple(start),
            exact=not distinct_reasons,
            reasons=distinct_reasons,
            groups=tuple(groups),
            warnings=tuple(dict.fromkeys([*self._warnings, *self._not_queried_warnings()])),
            changed=any(group.changed for group in groups),
            complete=verdict.complete and not self._not_queried,
            not_queried=tuple(self._not_queried),
        )

    def _not_queried_warnings(self) -> Iterator[str]:
        return (not_queried.warning() for not_queried in self._not_queried)

    def _reason_text(self, problem: LineageError) -> str:
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
        if self.query.as_now:
            # An answer never shows the state of files that may not be read.
            check_files_allowed(recipe, self.reader)
            self._current_recipes.append(current_recipe(recipe))
            recipe = self._current_recipes[-1].recipe
        self._recipes.append(recipe)
        check_recipe_allowed(recipe, self.reader)
        if self.key == NO_CODE:
            check_tables(recipe)
        return recipe

    def _ordinal(self, source: Source, file: File, location: Location) -> int:
        if location.number is None:
            raise RowError(f"{location.path} names no row")
        return ordinal_in_file(
            self.spark, source, file, location.number, line=location.unit == "line"
        )

    def _source_node(self, node: str, recipe: Recipe, source: int | None) -> str:
        """The node that read a source; where it is not known, the node itself."""
        if source is None:
            return node
        path = recipe.sources[source].name
        producers = [link.src for link in self._graph.links() if link.dest == node]
        return next(
            (producer for producer in producers if self._nodes[producer].path == path), node
        )

    def _group(
        self,
        node: str,
        recipe: Recipe,
        rows: Sequence[tuple[Source | None, str, NDArray[np.uint64]]],
        written: Mapping[str, str] = NOWHERE_ELSE,
    ) -> Group:
        """Rows of some files, by ordinal, as items; the first of them where there are many. ``written``: see `_find_standing`."""
        record, items = self._nodes[node], list[Item]()
        count = sum(len(ordinals) for _, _, ordinals in rows)
        if self.query.limit is None and count > LISTED_MAX:
            raise TooMuchError(
                f"{count:,} rows of {record.path or node} are more than are listed", "give a limit"
            )
        for source, path, ordinals in rows:
            shown = ordinals
            if self.query.limit is not None:
                shown = ordinals[: self.query.limit - len(items)]
            if len(shown):
                items += self._row_items(record, recipe, source, path, shown, written)
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

    def _row_items(
        self,
        record: NodeRecord,
        recipe: Recipe,
        source: Source | None,
        path: str,
        ordinals: NDArray[np.uint64],
        written: Mapping[str, str],
    ) -> list[Item]:
        addresses, places = self._row_names(record, source, path, ordinals, written)
        texts: Iterable[str | None] = [None] * len(places)
        if self.query.texts and source is None:
            node = recipe.plan[int(path.removeprefix("plan:"))]
            texts = [text_of_plan_row(node, ordinal) for ordinal in ordinals.tolist()]
        elif self.query.texts and source is not None:
            read = texts_of_rows(self.spark, recipe, source, path, ordinals)
            texts = [read.get(ordinal) for ordinal in ordinals.tolist()]
            missing = [place for place, text in zip(places, texts, strict=True) if text is None]
            if missing and source.version is None:
                raise NoMatchError(f"{missing[0]}: there is no such row")
            self._warnings += [
                f"{place} is not among the rows that were read: it is deleted in version {source.version}, or there is none"
                for place in missing[:1]
            ]
        return [Item(*item_fields) for item_fields in zip(addresses, places, texts, strict=True)]

    def _row_names(
        self,
        record: NodeRecord,
        source: Source | None,
        path: str,
        ordinals: NDArray[np.uint64],
        written: Mapping[str, str] = NOWHERE_ELSE,
    ) -> tuple[list[str], Sequence[str | None]]:
        """The addresses and locations of rows of one file; rows of the plan itself have no location. ``written``: see `_find_standing`."""
        local = local_path(path)
        if local is not None:
            local = local_path(written.get(str(local), path))
        shown = path if local is None else shown_path(str(local), record.path)
        # As an address, and as a location.
        current_budget().count_name(shown, 2 * len(ordinals))
        addresses = [f"{shown}#{ordinal}" for ordinal in ordinals.tolist()]
        if source is None:
            return addresses, [None] * len(addresses)
        return addresses, row_locations(self.spark, source, path, ordinals, shown)

    def _output_group(
        self, node: str, recipe: Recipe, outcome: ForwardRows, reasons: list[str]
    ) -> Group:
        """Output rows as they stand in the output's files, or else by their values, as far as these are known."""
        try:
            output, standing, written = self._find_standing(recipe, outcome.rows)
        except FramesError as problem:
            return self._group_by_values(node, recipe, outcome, outcome.rows, problem)
        if standing.wider:
            reasons.append(wider_reason(recipe, computed=bool(outcome.warnings)))
        by_file = [
            (output, path, np.array([ordinal for _, ordinal in rows], np.uint64))
            for path, rows in groupby(standing.places, key=lambda place: place[0])
        ]
        placed = self._group(node, recipe, by_file, written)
        if written:
            status = local_file_status(recipe.output.files, recipe.output.format or "")
            placed = replace(placed, file_status=status)
        missing = outcome.missing(recipe, output, standing)
        if not missing:
            return placed
        by_values = self._group_by_values(
            node, recipe, outcome, missing, RowError(DIFFERENT_IN_FILES)
        )
        items = (*placed.items, *by_values.items)[: self.query.limit]
        return replace(placed, count=placed.count + by_values.count, items=items)

    def _find_standing(
        self, recipe: Recipe, rows: Sequence[Sequence[Any]]
    ) -> tuple[Source, OutputPlaces, Mapping[str, str]]:
        """Where output rows stand, as :func:`find_standing`; and, by path of a file that is read in its place, the one that was written."""
        try:
            return *find_standing(self.spark, recipe, rows), {}
        except ChangedSourceError:
            if recipe.output.format in {KAFKA, *IMMUTABLE}:
                raise
            moved = find_moved(self.store, self.reader, recipe, output_of(self.spark, recipe))
            if moved is None:
                raise
        standing = find_in_output(self.spark, recipe, moved.source, rows)
        return moved.source, standing, moved.written

    def _group_by_values(
        self,
        node: str,
        recipe: Recipe,
        outcome: ForwardRows,
        rows: Sequence[Sequence[Any]],
        problem: FramesError,
    ) -> Group:
        """Output rows that have no place, with the reason where there are files."""
        if recipe.output.files or recipe.output.format == KAFKA:
            self._warnings.append(
                f"rows are identified by their values: {self._reason_text(problem)}"
            )
        self._warnings += outcome.warnings
        columns = outcome.columns[:-1] if recipe.names_rows else outcome.columns
        label = self._names.label(node)
        shown = rows[: self.query.limit]
        items = [Item(label, None, text_of_row(columns, row[: len(columns)])) for row in shown]
        file_status = local_file_status(recipe.output.files, recipe.output.format or "")
        return replace(self._grouped(self._nodes[node], len(rows), items), file_status=file_status)
