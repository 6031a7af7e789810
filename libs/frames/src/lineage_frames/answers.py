"""Answers about rows of DataFrames, as those about records are: items by node, with places and texts.

Who asks gives a Spark; `asking` says for which questions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from lineage_core.address import named_space
from lineage_core.graph import NodeRecord
from lineage_core.recipe import File, Recipe, Source
from lineage_core.region import Region
from lineage_core.trace_result import Direction, TraceError
from lineage_frames.changed import check_here, local_path
from lineage_frames.errors import FramesError, NotComputedError, RefusedError, RowError
from lineage_frames.forward import Outcome, trace_forward
from lineage_frames.functions import NO_CODE
from lineage_frames.grouping import KEEP_VALUES
from lineage_frames.jdbc import check_tables
from lineage_frames.locations import names_of
from lineage_frames.overwritten import AsNow, as_now, marked
from lineage_frames.row_texts import text_in_plan, text_of_row
from lineage_frames.rows import (
    file_in,
    output_of,
    place_in,
    places_of,
    rows_with,
    source_with,
    texts_at,
    values_at,
)
from lineage_frames.tracing import trace_back
from lineage_frames.vetting import vet, vet_files
from lineage_frames.witnesses import Witnesses
from lineage_store.answers import Answer, Group, Item
from lineage_store.asking import Asker, Question, said_end, said_incomplete
from lineage_store.names import Names
from lineage_store.paths import plain_path, shown_path
from lineage_store.places import Location, ValuedPlace
from lineage_store.port import GraphStore
from lineage_store.recipes import read_recipe
from lineage_store.rows import RowReader
from lineage_store.verdicts import verdict_of

EQUAL_ROWS = "the output has equal rows, some of which were made from others"
EQUAL_IN_ALL_KNOWN = "the output has rows that are equal in all that can be computed anew, some of which were made from others"
HELD_OTHERWISE = "the files hold them otherwise than Spark gave them"

Rows = list[tuple[Source | None, str, NDArray[np.uint64]]]
"""Rows by source and file: their ordinals, ascending."""


@dataclass
class Forth:
    """Where rows of sources went.

    ``groups``: by node, the output rows of DataFrames. ``became``: by space, the records that some of these are.
    ``told``: how many DataFrames could tell, ``refused``: why others could not.
    """

    groups: dict[str, Group] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    refused: list[RefusedError] = field(default_factory=list)
    became: dict[str, Region] = field(default_factory=dict)
    told: int = 0


@dataclass
class Frames(ABC):
    """Traces by recipes of one application, as far as DataFrames reach: see `crossing`.

    ``reader``: says which files may be read. ``key``: of recipes' Python functions, as in `tracing.trace_back`.
    """

    spark: SparkSession
    store: GraphStore
    reader: RowReader
    app: str
    question: Question
    key: str | None = None

    def __post_init__(self) -> None:
        self._graph = self.store.graph(self.app)
        self._nodes = {node.node: node for node in self._graph.nodes()}
        self._names = Names(list(self._nodes.values()))
        self._asker = Asker(self.store, self.reader)
        self._warnings: list[str] = []
        self._recipes: list[Recipe] = []
        self._as_now: list[AsNow] = []

    def row(self, node: str, place: Location) -> Answer:
        """The trace of the row that stands at a place."""
        if self.question.direction is Direction.FORWARD:
            readers = self._readers_of(node, place)
            return self._forward(node, readers, lambda recipe: self._at(recipe, place))
        if self._nodes[node].kind == "frame-source":
            return self._of_source(node, place)
        recipe = self._recipe(node)
        output = output_of(self.spark, recipe)
        file = file_in(output.files, place)
        ordinal = self._ordinal(output, file, place)
        row = values_at(self.spark, recipe, output, file, ordinal)
        start = self._group(node, recipe, [(output, file.path, np.array([ordinal], np.uint64))])
        there = output.format in KEEP_VALUES
        found = trace_back(self.spark, recipe, [row], there=there, key=self.key)
        return self._sources(node, recipe, [start], found)

    def valued(self, node: str, place: ValuedPlace) -> Answer:
        """The trace of the rows that have some values."""
        if self.question.direction is Direction.FORWARD:
            readers = self._readers(node)
            return self._forward(
                node, readers, lambda recipe: self._with_values(recipe, node, place)
            )
        recipe = self._recipe(node)
        found = trace_back(self.spark, recipe, values=place.values, key=self.key)
        if not found.matched:
            raise RowError("no row of the output has these values")
        return self._back(node, recipe, found)

    def where(self, node: str, where: str) -> Answer:
        """The trace of an output's rows that fulfil a condition in Spark's SQL."""
        recipe = self._recipe(node)
        found = trace_back(self.spark, recipe, where=where, key=self.key)
        if not found.matched:
            raise RowError(f"no row of the output fulfils {where}")
        return self._back(node, recipe, found)

    def _back(self, node: str, recipe: Recipe, found: Witnesses) -> Answer:
        start = self._grouped(self._nodes[node], found.matched, [])
        return self._sources(node, recipe, [start], found)

    def told(self, answer: Answer) -> Answer:
        """The answer, marked where files were read as they are now."""
        return marked(answer, self._as_now)

    @abstractmethod
    def _sources(
        self, node: str, recipe: Recipe, start: Sequence[Group], found: Witnesses
    ) -> Answer:
        """The answer that rows of sources, and whatever lies behind them, are."""

    @abstractmethod
    def _of_source(self, node: str, place: Location) -> Answer:
        """The trace back of a source's row."""

    def _end(self) -> Answer:
        place, direction = self.question.places[0], self.question.direction
        self._warnings.append(said_end(place, self.app, direction))
        return self._answer([], [], ())

    def _forward(
        self, node: str, readers: Sequence[str], rows_of: Callable[[Recipe], Rows]
    ) -> Answer:
        """The output rows, of all DataFrames that read them, that rows of a source went into."""
        if self._nodes[node].kind != "frame-source":
            return self._end()
        forth = Forth()
        start = self._made_of(node, readers, rows_of, forth)
        if forth.refused and not forth.told:
            raise forth.refused[0]
        return self._gone_on(start, forth)

    def _made_of(
        self,
        node: str,
        readers: Sequence[str],
        rows_of: Callable[[Recipe], Rows],
        forth: Forth,
    ) -> list[Group]:
        """Note what the DataFrames that read a source (``readers``) made of some of its rows; the rows themselves."""
        start: list[Group] = []
        for user in readers:
            record = self._nodes[user]
            made = f"what {record.name or record.op} (node {user}) made of it"
            if record.kind == "unknown":
                forth.reasons.append(f"{made} is not known: {record.reason}")
                continue
            recipe = self._recipe(user)
            rows = rows_of(recipe)
            start = start or [self._group(node, recipe, rows)]
            asked = {path: ordinals.tolist() for _, path, ordinals in rows}
            try:
                outcome = trace_forward(self.spark, recipe, asked, self.key)
            except RefusedError as problem:
                forth.refused.append(problem)
                forth.reasons.append(f"{made} can't be told: {self._why(problem)}")
                continue
            forth.told += 1
            forth.reasons += outcome.reasons
            if outcome.rows:
                forth.groups[user] = self._outcome(user, recipe, outcome, forth.reasons)
            if outcome.rows and recipe.names_rows:
                forth.became |= self._records(user, outcome)
        return start

    @abstractmethod
    def _gone_on(self, start: list[Group], forth: Forth) -> Answer:
        """The answer, with what became of records that rows of DataFrames became."""

    def _readers(self, node: str) -> list[str]:
        """What read a source."""
        return [link.dest for link in self._graph.links() if link.src == node]

    def _readers_of(self, node: str, place: Location) -> list[str]:
        """What read the file of a place, as it is known to a source: other versions of a table have it, too."""
        own = self._readers(node)
        path, files = self._nodes[node].path, set(self._files_at(own, place))
        same = [one for one in self._nodes.values() if one.kind == "frame-source"]
        others = [
            user
            for one in same
            if one.path == path and one.node != node
            for user in self._readers(one.node)
            if self._nodes[user].kind == "unknown" or files & set(self._files_at([user], place))
        ]
        return list(dict.fromkeys([*own, *others]))

    def _files_at(self, users: Iterable[str], place: Location) -> Iterator[File]:
        for user in users:
            if self._nodes[user].kind != "unknown":
                with suppress(RowError):
                    yield source_with(self._recipe(user), place)[1]

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
            check_here(source)
        said = tuple(dict.fromkeys(reasons))
        verdict = verdict_of(self.store, self.app)
        if not verdict.complete:
            self._warnings.append(said_incomplete(self.app, verdict))
        return Answer(
            app=self.app,
            direction=self.question.direction,
            asked=self.question.places,
            start=tuple(start),
            exact=not said,
            reasons=said,
            groups=tuple(groups),
            warnings=tuple(dict.fromkeys(self._warnings)),
            changed=False,
            complete=verdict.complete,
        )

    def _why(self, problem: RefusedError) -> str:
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
            vet_files(recipe, self.reader)
            self._as_now.append(as_now(recipe))
            recipe = self._as_now[-1].recipe
        self._recipes.append(recipe)
        vet(recipe, self.reader)
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
            said = [text_in_plan(node, n) if self.question.texts else None for n in numbers]
            return [
                Item(address, None, text) for address, text in zip(addresses, said, strict=True)
            ]
        places = names_of(self.spark, source, path, ordinals, shown)
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
        return self._grouped(self._nodes[node], placed.count + others.count, items)

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
            self._warnings.append(f"rows are told by their values: {why}")
        self._warnings += outcome.warnings
        columns = outcome.columns[:-1] if recipe.names_rows else outcome.columns
        label = self._names.label(node)
        shown = rows[: self.question.limit]
        items = [Item(label, None, text_of_row(columns, row[: len(columns)])) for row in shown]
        return self._grouped(self._nodes[node], len(rows), items)
