"""Traces of DataFrames' rows: rewritten queries over what was noted, on a Spark that this command starts."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lineage_core.graph import NodeRecord
from lineage_core.recipe import File, Recipe, Source
from lineage_core.trace_result import Direction, TraceError
from lineage_frames.changed import local_path
from lineage_frames.errors import FramesError, RowError
from lineage_frames.forward import Outcome, trace_forward
from lineage_frames.locations import has_lines, lines_of
from lineage_frames.rows import output_of, place_in, places_of, texts_at, values_at
from lineage_frames.tracing import trace_back
from lineage_frames.witnesses import Witnesses
from lineage_store.answers import Answer, Group, Item
from lineage_store.asking import Question
from lineage_store.finding import NotFoundError, find_application
from lineage_store.names import Names
from lineage_store.noted import NotedRowError
from lineage_store.paths import canonical, plain_path, shown_path
from lineage_store.places import Location, parse_location
from lineage_store.verdicts import verdict_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lineage_store.port import GraphStore

MASTER = "LINEAGE_SPARK_MASTER"
"""Spark's master for these queries; by default this machine, with all its cores."""

STDERR = 2


def traced(store: GraphStore, question: Question, noted: NotedRowError) -> Answer:
    """Answer a question about a row of a DataFrame.

    Raises:
        NotedRowError: the row has no lineage.
        TraceError: the question asks for what such traces don't have, or Spark does not start.
        FramesError: no sound trace, or the files are not what they were.
    """
    if len(question.places) != 1 or question.regions:
        raise TraceError("rows of DataFrames are traced one at a time")
    _check(question)
    place = parse_location(question.places[0])
    kinds = {node.node: node.kind for node in store.graph(noted.app).nodes()}
    if kinds[noted.node] == "unknown":
        raise noted
    with _spark() as spark:
        frames = _Frames(spark, store, noted.app, question)
        if question.direction is Direction.BACKWARD:
            return frames.back(noted.node, place)
        return frames.forward(noted.node, place)


def traced_where(store: GraphStore, question: Question, where: str) -> Answer:
    """The rows behind all rows of an output that fulfil a condition in Spark's SQL.

    The one place of the question is the output: its path, its table, or its node's name or id.

    Raises:
        NotFoundError: no application gave such an output.
        TraceError, FramesError: as `traced`.
    """
    if len(question.places) != 1:
        raise TraceError("--where takes one output: its path, its table or its node")
    _check(question)
    app, node = _output_called(store, question.places[0], question.app)
    with _spark() as spark:
        return _Frames(spark, store, app, question).back_where(node, where)


def _check(question: Question) -> None:
    if question.until is not None or question.steps is not None:
        raise TraceError("a DataFrame's steps keep no rows: leave out --step and --to")


def _output_called(store: GraphStore, name: str, app: str | None) -> tuple[str, str]:
    """The latest application, and its node, that gave an output."""
    path = canonical(name)
    known = store.application_ids() if app is None else [find_application(store, app)]
    for one in known:
        nodes = store.graph(one).nodes()
        outputs = [node for node in nodes if node.kind == "frame"]
        for node in reversed(outputs):
            if node.path is not None and (node.path == name or canonical(node.path) == path):
                return one, node.node
        names = Names(nodes)
        for node in outputs:
            if name in {node.node, names.label(node.node)}:
                return one, node.node
    raise NotFoundError(
        f"no DataFrame's output is called {name!r}: give its path, its table or its node "
        "(lineage graph lists them)"
    )


@contextmanager
def _spark() -> Iterator[SparkSession]:
    """Spark's session of this process, or one for the while."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    master = os.environ.get(MASTER, "local[*]")
    builder = SparkSession.builder.appName("lineage trace").master(master)
    builder = builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    if master.startswith("local"):
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1")
    with tempfile.TemporaryFile() as said:
        try:
            with _stderr_to(said):
                session = builder.getOrCreate()
        except (PySparkException, OSError) as problem:
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines() or [str(problem)]
            raise TraceError(
                f"rows of DataFrames are traced by Spark, which does not start: {lines[-1]}; "
                f"see that Java is installed, or name a master by {MASTER}"
            ) from problem
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def _stderr_to(file: IO[bytes]) -> Iterator[None]:
    """What this process and those that it starts say on stderr goes to a file: what Spark's JVM says of itself."""
    sys.stderr.flush()
    kept = os.dup(STDERR)
    os.dup2(file.fileno(), STDERR)
    try:
        yield
    finally:
        os.dup2(kept, STDERR)
        os.close(kept)


@dataclass
class _Frames:
    """Traces by recipes of one application."""

    spark: SparkSession
    store: GraphStore
    app: str
    question: Question

    def __post_init__(self) -> None:
        self._graph = self.store.graph(self.app)
        self._nodes = {node.node: node for node in self._graph.nodes()}
        self._names = Names(list(self._nodes.values()))
        self._warnings: list[str] = []

    def back(self, node: str, place: Location) -> Answer:
        """The rows of sources that a row of an output was made from."""
        if self._nodes[node].kind == "frame-source":
            return self._end(f"an input of {self.app}: nothing lies before it")
        recipe = self._recipe(node)
        output = output_of(self.spark, recipe)
        file = _file_in(output.files, place)
        ordinal = self._ordinal(output, file, place)
        row = values_at(self.spark, recipe, output, file, ordinal)
        start = self._group(node, recipe, [(output, file.path, np.array([ordinal], np.uint64))])
        return self._sources(node, recipe, [start], trace_back(self.spark, recipe, [row]))

    def back_where(self, node: str, where: str) -> Answer:
        """The rows of sources that rows of an output were made from."""
        recipe = self._recipe(node)
        found = trace_back(self.spark, recipe, where=where)
        if not found.matched:
            raise RowError(f"no row of the output fulfils {where}")
        start = self._grouped(self._nodes[node], found.matched, [])
        return self._sources(node, recipe, [start], found)

    def _sources(
        self, node: str, recipe: Recipe, start: Sequence[Group], found: Witnesses
    ) -> Answer:
        by_source = sorted(found.rows.items(), key=lambda one: (one[0][0] is None, *one[0]))
        groups = [
            self._group(
                self._source_node(node, recipe, source),
                recipe,
                [
                    (None if source is None else recipe.sources[source], path, ordinals)
                    for (_, path), ordinals in rows
                ],
            )
            for source, rows in groupby(by_source, key=lambda one: one[0][0])
        ]
        return self._answer(start, groups, found.reasons)

    def _end(self, what: str) -> Answer:
        self._warnings.append(f"{self.question.places[0]} is {what}")
        return self._answer([], [], ())

    def forward(self, node: str, place: Location) -> Answer:
        """The output rows, of all DataFrames that read it, that a row of a source went into."""
        if self._nodes[node].kind != "frame-source":
            return self._end(f"an output of {self.app}: nothing lies after it")
        users = [link.dest for link in self._graph.links() if link.src == node]
        start: list[Group] = []
        groups: list[Group] = []
        reasons: list[str] = []
        for user in users:
            record = self._nodes[user]
            if record.kind == "unknown":
                what = record.name or record.op
                reasons.append(
                    f"what {what} (node {user}) made of it is not known: {record.reason}"
                )
                continue
            recipe = self._recipe(user)
            source, file = _source_with(recipe, place)
            ordinal = self._ordinal(source, file, place)
            if not start:
                asked = (source, file.path, np.array([ordinal], np.uint64))
                start = [self._group(node, recipe, [asked])]
            outcome = trace_forward(self.spark, recipe, {file.path: [ordinal]})
            reasons += outcome.reasons
            if outcome.rows:
                groups.append(self._outcome(user, recipe, outcome, reasons))
        return self._answer(start, groups, reasons)

    def _answer(
        self, start: Sequence[Group], groups: Sequence[Group], reasons: Iterable[str]
    ) -> Answer:
        said = tuple(dict.fromkeys(reasons))
        verdict = verdict_of(self.store, self.app)
        if not verdict.complete:
            first = verdict.reasons[0] if verdict.reasons else "see lineage verify"
            self._warnings.append(f"the lineage of {self.app} is incomplete: {first}")
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

    def _recipe(self, node: str) -> Recipe:
        text = self._graph.recipe(node)
        if text is None:
            record = self._nodes[node]
            raise TraceError(
                f"node {node} ({record.name or record.op}) has no recipe: {record.reason}"
            )
        return Recipe.from_json(text)

    def _ordinal(self, source: Source, file: File, place: Location) -> int:
        if place.number is None:
            raise RowError(f"{place.path} names no row")
        return place_in(self.spark, source, file, place.number, line=place.unit == "line")

    def _source_node(self, node: str, recipe: Recipe, source: int | None) -> str:
        """The node that read a source; where it can't be told, the node itself."""
        if source is None:
            return node
        read = recipe.sources[source]
        named = next(iter(read.paths), read.table)
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
            False,
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
            # Rows that stand in the program.
            return [Item(address, None, None) for address in addresses]
        places = addresses
        if has_lines(source):
            lines = lines_of(self.spark, source, path, ordinals).tolist()
            places = [f"{shown}:{line}" for line in lines]
        texts: Iterable[str | None] = [None] * len(places)
        if self.question.texts:
            texts = texts_at(self.spark, recipe, source, path, ordinals)
        return [Item(*one) for one in zip(addresses, places, texts, strict=True)]

    def _outcome(self, node: str, recipe: Recipe, outcome: Outcome, reasons: list[str]) -> Group:
        """Output rows where they stand in the output's files, or else by their values."""
        record = self._nodes[node]
        try:
            output = output_of(self.spark, recipe)
            places = places_of(self.spark, recipe, output, outcome.rows)
        except FramesError as problem:
            if recipe.output.files:
                self._warnings.append(f"rows are told by their values: {problem}")
            texts = [_text(outcome.columns, row) for row in outcome.rows]
            shown = texts[: self.question.limit]
            label = self._names.label(node)
            return self._grouped(record, len(texts), [Item(label, None, text) for text in shown])
        if len(places) > len(outcome.rows):
            reasons.append("the output has equal rows, some of which were made from others")
        by_file = [
            (output, path, np.array([ordinal for _, ordinal in rows], np.uint64))
            for path, rows in groupby(places, key=lambda one: one[0])
        ]
        return self._group(node, recipe, by_file)


def _file_in(files: Iterable[File], place: Location) -> File:
    wanted = canonical(place.path)
    for file in files:
        if canonical(file.path) == wanted:
            return file
    raise RowError(f"{place.path} is no file of this output")


def _source_with(recipe: Recipe, place: Location) -> tuple[Source, File]:
    for source in recipe.sources:
        try:
            return source, _file_in(source.files, place)
        except RowError:
            continue
    raise RowError(f"{place.path} was not read")


def _text(columns: Sequence[str], row: Sequence[Any]) -> str:
    return json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False, default=str)
