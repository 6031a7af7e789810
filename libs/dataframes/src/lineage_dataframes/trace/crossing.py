"""Traces that cross between DataFrames and RDDs, as often as a program does.

Rows of a DataFrame that became records (``df.rdd``) are told by names, records that became rows of a DataFrame
(``toDF``) by the files that keep them. What lies among records is looked up in the graph, what lies among rows is
asked by queries; each round of a trace does both with all that is known so far, until a round finds nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from lineage_core.contract.address import row_file_space
from lineage_core.contract.region import Region
from lineage_core.recipe.document import Recipe, Source
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.sources.witnesses import Witnesses
from lineage_dataframes.spark.connected import in_thread
from lineage_dataframes.trace.answers import DataFrameAnswers, ForwardAnswer, Rows, RowsOf
from lineage_dataframes.trace.backward import trace_named
from lineage_dataframes.trace.rows import source_with
from lineage_dataframes.trace.session import told
from lineage_query.answers import Answer, Group, Item
from lineage_query.engine import TraceQuery
from lineage_query.recipe_rows import RecipePlace
from lineage_query.rows.places import Location
from lineage_query.rows.reader import RowReader, reading_by
from lineage_query.trace import KeptRows, NamedRows, Trace
from lineage_query.verdicts import verdict_of
from lineage_store.port import GraphStore

Regions = Mapping[str, Region]
GROUPS_AT_ONCE = 4
"""Of how many nodes rows are read at once."""


def answer_through(
    spark: SparkSession,
    store: GraphStore,
    reader: RowReader,
    question: TraceQuery,
    traced: Trace,
    key: str | None = None,
) -> Answer:
    """The answer to a question about records, through the recipes of the DataFrames that they came from or went into.

    Where rows can't be traced the answer ends, and says why.

    Args:
        spark: any session; traces run in new ones beside it.
        store: has the recipes.
        reader: says which files may be read.
        question: about records.
        traced: what came of it, with `Trace.crosses`.
        key: of recipes' Python functions, as in `lineage_dataframes.trace.backward.trace_backward`.

    Raises:
        ForbiddenRowsError: a file of the trace may not be read.
        FramesError: the files are not what they were.
    """
    crossing = Crossing(spark, store, reader, traced.app, question, key)
    with reading_by(reader), told():
        return crossing.told(crossing.records(traced))


@dataclass
class Crossing(DataFrameAnswers):
    """Traces of one application through its DataFrames and its RDDs."""

    _frames: dict[str, Group] = field(default_factory=dict)
    """By node, rows of DataFrames that records are."""
    _found: dict[str, tuple[Recipe, dict[str, tuple[Source | None, NDArray[np.uint64]]]]] = field(
        default_factory=dict
    )
    """Rows of sources: by node, with a recipe that reads it, by file."""
    _ends: set[str] = field(default_factory=set)
    """Nodes of records whose trace goes on: in the answer other groups stand for them."""
    _kept: dict[str, Group] = field(default_factory=dict)
    """By source, rows of DataFrames that records became."""
    _asked: dict[str, object] = field(default_factory=dict)
    """By node, the rows that a query was asked about in an earlier round."""

    def records(self, traced: Trace) -> Answer:
        """What was found among records, and beyond them."""
        begun = traced
        if self.question.direction is Direction.FORWARD:
            forth = ForwardAnswer()
            for noted in traced.beside:
                self._beside(noted, forth)
            complete = verdict_of(self.store, self.app).complete
            begun = traced = replace(traced, beside=(), complete=complete)
            last = self._follow(traced, forth)
            groups = self._forth_groups(forth)
        else:
            last = self._go_back(traced)
            groups = self._back_groups()
        answer = self._of_records(last, groups)
        start = (
            answer.start
            if last is begun
            else begun.answer(self.question.limit, texts=self.question.texts).start
        )
        return replace(answer, start=start, asked=begun.asked)

    def _beside(self, noted: RecipePlace, forth: ForwardAnswer) -> None:
        """Note what DataFrames made of a row that is a record, too."""
        self._made_of(noted.nodes, lambda recipe, _: self._at(recipe, noted.location), forth)

    def _of_records(self, last: Trace, groups: list[Group]) -> Answer:
        """What was found among records, with what was found beyond."""
        found = last.answer(self.question.limit, texts=self.question.texts)
        said = set(last.stops())
        reasons = tuple(dict.fromkeys([*found.reasons, *self._reasons]))
        return replace(
            found,
            groups=(*(one for one in found.groups if one.node not in self._ends), *groups),
            exact=not reasons,
            reasons=reasons,
            warnings=tuple(
                dict.fromkeys(
                    [
                        *(one for one in found.warnings if one not in said),
                        *self._warnings,
                        *self._left_out(),
                    ]
                )
            ),
            changed=found.changed or any(group.changed for group in groups),
            complete=found.complete and not self._not_asked,
            not_asked=(*found.not_asked, *self._not_asked),
        )

    def _trace(self, regions: Regions) -> Trace:
        """What lies among records, from items of them."""
        question = replace(self.question, places=(), app=self.app, regions=regions)
        return self._engine.trace(question)

    # -- back ----------------------------------------------------------------------------------

    def _take(self, node: str, recipe: Recipe, found: Witnesses) -> None:
        self._warnings += found.warnings
        self._reasons += found.reasons
        self._collect(node, recipe, found)

    def _of_source(self, node: str, place: Location) -> Answer:
        if not self._is_kept(node):
            return self._end()
        user = next(link.dest for link in self._graph.links() if link.src == node)
        recipe = self._recipe(user)
        source, file = source_with(recipe, place)
        rows: Rows = [
            (source, file.path, np.array([self._ordinal(source, file, place)], np.uint64))
        ]
        self._found[node] = recipe, {path: (of, ordinals) for of, path, ordinals in rows}
        start = self._group(node, recipe, rows)
        answer = self._beyond([])
        return replace(
            answer, start=(start,), groups=tuple(one for one in answer.groups if one.node != node)
        )

    def _beyond(self, start: Sequence[Group]) -> Answer:
        """The answer with the rows of sources that are found, and what records they were."""
        regions = self._kept_regions()
        if not regions:
            return self._answer(start, self._back_groups(), self._reasons)
        last = self._go_back(self._trace(regions))
        answer = self._of_records(last, [])
        ahead = self._back_groups()
        return replace(
            answer,
            start=tuple(start),
            asked=self.question.places,
            groups=(*ahead, *answer.groups),
        )

    def _go_back(self, traced: Trace) -> Trace:
        """Go on until nothing is found any more; the last trace among records."""
        while True:
            for rows in traced.named_rows():
                if self._is_new(rows.source, (rows.signed.tobytes(), rows.records)):
                    self._name_rows(rows)
            regions = self._kept_regions()
            more = _together(traced.begun, regions)
            if more == dict(traced.begun):
                return traced
            traced = self._trace(more)

    def _is_new(self, node: str, rows: object) -> bool:
        """Whether other rows of a node are to be asked about than in the round before."""
        before, self._asked[node] = self._asked.get(node), rows
        return before != rows

    def _name_rows(self, rows: NamedRows) -> None:
        shown = self.question.limit if self.question.texts else 0
        recipe = self._recipe(rows.frame)
        try:
            found = trace_named(
                self.spark, recipe, rows.signed, records=rows.records, shown=shown, key=self.key
            )
        except RefusedError as problem:
            label, why = self._names.label(rows.source), self._why(problem)
            self._reasons.append(f"where the rows of {label} come from can't be told: {why}")
            self._leave_out(rows.frame, why)
            return
        self._ends.add(rows.source)
        label = self._names.label(rows.frame)
        items = [Item(label, None, text) for text in found.texts[: self.question.limit]]
        record = self._nodes[rows.frame]
        self._frames[rows.frame] = self._grouped(record, found.witnesses.matched, items)
        self._reasons += found.witnesses.reasons
        self._warnings += found.witnesses.warnings
        self._collect(rows.frame, recipe, found.witnesses)

    def _collect(self, frame: str, recipe: Recipe, found: Witnesses) -> None:
        of_sources = sorted(found.rows.items(), key=lambda one: (one[0][0] is None, *one[0]))
        for (place, path), ordinals in of_sources:
            node = self._source_node(frame, recipe, place)
            source = None if place is None else recipe.sources[place]
            _, of = self._found.setdefault(node, (recipe, {}))
            _, known = of.get(path, (source, ordinals))
            of[path] = source, np.union1d(known, ordinals)

    def _back_groups(self) -> list[Group]:
        """Rows of DataFrames and of sources, those that were records before others."""
        nodes = sorted(self._found, key=lambda node: not self._is_kept(node))
        # Small queries, which wait for Spark more than they compute; each with properties of Spark's own.
        with ThreadPoolExecutor(GROUPS_AT_ONCE) as pool:
            asked = [pool.submit(in_thread(self.spark, self._found_group), node) for node in nodes]
        return [*self._frames.values(), *(one.result() for one in asked)]

    def _found_group(self, node: str) -> Group:
        recipe, of = self._found[node]
        return self._group(
            node, recipe, [(source, path, rows) for path, (source, rows) in of.items()]
        )

    def _is_kept(self, node: str) -> bool:
        """Whether a source is what is kept of a DataFrame's rows: then it has a sink above it."""
        of_frame = self._nodes[node].kind == "frame-source"
        return of_frame and any(link.dest == node for link in self._graph.links())

    def _kept_regions(self) -> dict[str, Region]:
        """Of the rows that are found those that were records, by space."""
        return {
            row_file_space(path): Region.from_positions(ordinals)
            for node, (_, of) in self._found.items()
            if self._is_kept(node)
            for path, (_, ordinals) in of.items()
        }

    # -- forth ---------------------------------------------------------------------------------

    def _gone_on(self, start: list[Group], forth: ForwardAnswer) -> Answer:
        if not forth.became:
            return self._answer(start, list(forth.groups.values()), forth.reasons)
        last = self._follow(self._trace(forth.became), forth)
        answer = self._of_records(last, self._forth_groups(forth))
        return replace(answer, start=tuple(start), asked=self.question.places)

    def _follow(self, traced: Trace, forth: ForwardAnswer) -> Trace:
        """Go on until nothing is reached any more; the last trace among records."""
        while True:
            for kept in traced.kept_rows():
                if not self._is_new(kept.source, dict(kept.rows)):
                    continue
                rows = self._made_of([kept.source], kept_in(kept), forth)
                if rows:
                    self._ends.add(kept.sink)
                    self._kept[kept.source] = rows[0]
            more = _together(traced.begun, forth.became)
            if more == dict(traced.begun):
                return traced
            traced = self._trace(more)

    def _forth_groups(self, forth: ForwardAnswer) -> list[Group]:
        """Rows that records became, and the output rows that were made of them."""
        self._reasons += forth.reasons
        return [*self._kept.values(), *forth.groups.values()]


def kept_in(kept: KeptRows) -> RowsOf:
    """What says of a recipe that reads kept rows which of its sources' rows they are."""

    def rows_of(recipe: Recipe, _: str) -> Rows:
        return [
            (source, file.path, kept.rows[file.path].positions())
            for source in recipe.sources
            for file in source.files
            if file.path in kept.rows
        ]

    return rows_of


def _together(one: Regions, other: Regions) -> dict[str, Region]:
    spaces = {**one, **other}
    return {space: one.get(space, Region()) | other.get(space, Region()) for space in spaces}
