"""Traces that cross between DataFrames and RDDs, as often as a program does.

Rows of a DataFrame that became records (``df.rdd``) are identified by names, records that became rows of a DataFrame
(``toDF``) by the files that store them. What lies among records is looked up in the graph, what lies among rows is
found by queries; each round of a trace does both with all that is known so far, until a round finds nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

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
from lineage_dataframes.trace.answers import (
    DataFrameAnswers,
    ForwardAnswer,
    RowSelector,
    SourceRows,
)
from lineage_dataframes.trace.backward import trace_named
from lineage_dataframes.trace.rows import find_source
from lineage_dataframes.trace.session import translate_spark_errors
from lineage_query.answers import Answer, Group, Item
from lineage_query.recipe_rows import RecipePlace
from lineage_query.record_trace import NamedRows, RecordTrace, RowsInFiles
from lineage_query.rows.places import Location
from lineage_query.rows.reader import RowReader, reading_by
from lineage_query.trace_query import TraceQuery
from lineage_query.verdicts import verdict_of
from lineage_store.port import GraphStore

RegionsBySpace = Mapping[str, Region]
GROUPS_AT_ONCE = 4
"""Of how many nodes rows are read at once."""


def answer_through(
    spark: SparkSession,
    store: GraphStore,
    reader: RowReader,
    query: TraceQuery,
    traced: RecordTrace,
    key: str | None = None,
) -> Answer:
    """The answer to a question about records, through the recipes of the DataFrames that they came from or went into.

    Where rows can't be traced the answer ends, and says why.

    Args:
        spark: any session; traces run in new ones beside it.
        store: has the recipes.
        reader: says which files may be read.
        query: about records.
        traced: what came of it, with `RecordTrace.crosses`.
        key: of recipes' Python functions, as in `lineage_dataframes.trace.backward.trace_backward`.

    Raises:
        ForbiddenRowsError: a file of the trace may not be read.
        FramesError: the files are not what they were.
    """
    crossing = DataFrameCrossing(spark, store, reader, traced.app, query, key)
    with reading_by(reader), translate_spark_errors():
        return crossing.mark_answer(crossing.answer_records(traced))


@dataclass
class DataFrameCrossing(DataFrameAnswers):
    """Traces of one application through its DataFrames and its RDDs."""

    _dataframe_groups: dict[str, Group] = field(default_factory=dict)
    """By node, rows of DataFrames that records are."""
    _source_rows: dict[str, tuple[Recipe, dict[str, tuple[Source | None, NDArray[np.uint64]]]]] = (
        field(default_factory=dict)
    )
    """Rows of sources: by node, with a recipe that reads it, by file."""
    _ends: set[str] = field(default_factory=set)
    """Nodes of records whose trace goes on: in the answer other groups stand for them."""
    _groups_of_stored_rows: dict[str, Group] = field(default_factory=dict)
    """By source, rows of DataFrames that records became."""
    _queried_rows: dict[str, object] = field(default_factory=dict)
    """By node, the rows that a query of an earlier round traced."""

    def answer_records(self, traced: RecordTrace) -> Answer:
        """What was found among records, and beyond them."""
        first = traced
        if self.query.direction is Direction.FORWARD:
            forward = ForwardAnswer()
            for recipe_place in traced.recipe_places:
                self._add_outputs_of(recipe_place, forward)
            complete = verdict_of(self.store, self.app).complete
            first = traced = replace(traced, recipe_places=(), complete=complete)
            last_trace = self._follow(traced, forward)
            groups = self._forth_groups(forward)
        else:
            last_trace = self._go_back(traced)
            groups = self._back_groups()
        answer = self._merge_answer(last_trace, groups)
        start = (
            answer.start
            if last_trace is first
            else first.answer(self.query.limit, texts=self.query.texts).start
        )
        return replace(answer, start=start, requested_places=first.requested_places)

    def _add_outputs_of(self, recipe_place: RecipePlace, forward: ForwardAnswer) -> None:
        """Add what DataFrames made of a row that is a record, too."""
        self._output_rows(recipe_place.nodes, partial(self._row_at, recipe_place.location), forward)

    def _merge_answer(self, last_trace: RecordTrace, groups: list[Group]) -> Answer:
        """What was found among records, with what was found beyond."""
        record_answer = last_trace.answer(self.query.limit, texts=self.query.texts)
        end_warnings = set(last_trace.end_warnings())
        reasons = tuple(dict.fromkeys([*record_answer.reasons, *self._reasons]))
        return replace(
            record_answer,
            groups=(
                *(group for group in record_answer.groups if group.node not in self._ends),
                *groups,
            ),
            exact=not reasons,
            reasons=reasons,
            warnings=tuple(
                dict.fromkeys(
                    [
                        *(
                            warning
                            for warning in record_answer.warnings
                            if warning not in end_warnings
                        ),
                        *self._warnings,
                        *self._not_queried_warnings(),
                    ]
                )
            ),
            changed=record_answer.changed or any(group.changed for group in groups),
            complete=record_answer.complete and not self._not_queried,
            not_queried=(*record_answer.not_queried, *self._not_queried),
        )

    def _trace(self, regions: RegionsBySpace) -> RecordTrace:
        """What lies among records, from items of them."""
        query = replace(self.query, places=(), app=self.app, regions=regions, where="")
        return self._tracer.trace(query)

    # -- back ----------------------------------------------------------------------------------

    def _add_witnesses(self, node: str, recipe: Recipe, witnesses: Witnesses) -> None:
        self._warnings += witnesses.warnings
        self._reasons += witnesses.reasons
        self._collect(node, recipe, witnesses)

    def _trace_source_row(self, node: str, location: Location) -> Answer:
        if not self._has_stored_rows(node):
            return self._end_answer(node, location)
        user = next(link.dest for link in self._graph.links() if link.src == node)
        recipe = self._recipe(user)
        source, file = find_source(self._sources_of(node, recipe), location)
        rows: SourceRows = [
            (source, file.path, np.array([self._ordinal(source, file, location)], np.uint64))
        ]
        self._source_rows[node] = (
            recipe,
            {path: (row_source, ordinals) for row_source, path, ordinals in rows},
        )
        start = self._group(node, recipe, rows)
        answer = self._trace_further([])
        return replace(
            answer,
            start=(start,),
            groups=tuple(group for group in answer.groups if group.node != node),
        )

    def _trace_further(self, start: Sequence[Group]) -> Answer:
        """The answer with the rows of sources that are found, and what records they were."""
        regions = self._stored_regions()
        if not regions:
            return self._answer(start, self._back_groups(), self._reasons)
        last_trace = self._go_back(self._trace(regions))
        answer = self._merge_answer(last_trace, [])
        source_groups = self._back_groups()
        return replace(
            answer,
            start=tuple(start),
            requested_places=self.query.places,
            groups=(*source_groups, *answer.groups),
        )

    def _go_back(self, traced: RecordTrace) -> RecordTrace:
        """Go on until nothing is found any more; the last trace among records."""
        self._went_through_records = True
        while True:
            for rows in traced.named_rows():
                if self._is_new(rows.source, (rows.signed.tobytes(), rows.records)):
                    self._name_rows(rows)
            regions = self._stored_regions()
            more = _merge_regions(traced.start_regions, regions)
            if more == dict(traced.start_regions):
                return traced
            traced = self._trace(more)

    def _is_new(self, node: str, rows: object) -> bool:
        """Whether the rows of a node to trace differ from those of the round before."""
        before, self._queried_rows[node] = self._queried_rows.get(node), rows
        return before != rows

    def _name_rows(self, rows: NamedRows) -> None:
        shown = self.query.limit if self.query.texts else 0
        recipe = self._recipe(rows.frame)
        try:
            named_witnesses = trace_named(
                self.spark, recipe, rows.signed, records=rows.records, shown=shown, key=self.key
            )
        except RefusedError as problem:
            label, reason = self._names.label(rows.source), self._reason_text(problem)
            self._reasons.append(f"where the rows of {label} come from can't be traced: {reason}")
            self._add_not_queried(rows.frame, reason)
            return
        self._ends.add(rows.source)
        label = self._names.label(rows.frame)
        items = [Item(label, None, text) for text in named_witnesses.texts[: self.query.limit]]
        record = self._nodes[rows.frame]
        self._dataframe_groups[rows.frame] = self._grouped(
            record, named_witnesses.witnesses.matched, items
        )
        self._reasons += named_witnesses.witnesses.reasons
        self._warnings += named_witnesses.witnesses.warnings
        self._collect(rows.frame, recipe, named_witnesses.witnesses)

    def _collect(self, node_of_rows: str, recipe: Recipe, witnesses: Witnesses) -> None:
        self._joined.append((node_of_rows, recipe, witnesses.joined))
        of_sources = sorted(witnesses.rows.items(), key=lambda item: (item[0][0] is None, *item[0]))
        for (place, path), ordinals in of_sources:
            node = self._source_node(node_of_rows, recipe, place)
            source = None if place is None else recipe.sources[place]
            _, rows_by_path = self._source_rows.setdefault(node, (recipe, {}))
            _, earlier = rows_by_path.get(path, (source, ordinals))
            rows_by_path[path] = source, np.union1d(earlier, ordinals)

    def _back_groups(self) -> list[Group]:
        """Rows of DataFrames and of sources, those that were records before others."""
        nodes = sorted(self._source_rows, key=lambda node: not self._has_stored_rows(node))
        # Small queries, which wait for Spark more than they compute; each with properties of Spark's own.
        with ThreadPoolExecutor(GROUPS_AT_ONCE) as pool:
            futures = [
                pool.submit(in_thread(self.spark, self._source_group), node) for node in nodes
            ]
        return [*self._dataframe_groups.values(), *(future.result() for future in futures)]

    def _source_group(self, node: str) -> Group:
        recipe, rows_by_path = self._source_rows[node]
        return self._group(
            node, recipe, [(source, path, rows) for path, (source, rows) in rows_by_path.items()]
        )

    def _has_stored_rows(self, node: str) -> bool:
        """Whether a source is what is kept of a DataFrame's rows: then it has a sink above it."""
        of_frame = self._nodes[node].kind == "frame-source"
        return of_frame and any(link.dest == node for link in self._graph.links())

    def _stored_regions(self) -> dict[str, Region]:
        """Of the rows that are found those that were records, by space."""
        return {
            row_file_space(path): Region.from_positions(ordinals)
            for node, (_, rows_by_path) in self._source_rows.items()
            if self._has_stored_rows(node)
            for path, (_, ordinals) in rows_by_path.items()
        }

    # -- forth ---------------------------------------------------------------------------------

    def _continue_forward(self, start: list[Group], forward: ForwardAnswer) -> Answer:
        if not forward.became:
            return self._answer(start, list(forward.groups.values()), forward.reasons)
        last_trace = self._follow(self._trace(forward.became), forward)
        answer = self._merge_answer(last_trace, self._forth_groups(forward))
        return replace(answer, start=tuple(start), requested_places=self.query.places)

    def _follow(self, traced: RecordTrace, forward: ForwardAnswer) -> RecordTrace:
        """Go on until nothing is reached any more; the last trace among records."""
        while True:
            for stored_rows in traced.stored_rows():
                if not self._is_new(stored_rows.source, dict(stored_rows.rows)):
                    continue
                rows = self._output_rows(
                    [stored_rows.source], select_stored_rows(stored_rows), forward
                )
                if rows:
                    self._ends.add(stored_rows.sink)
                    self._groups_of_stored_rows[stored_rows.source] = rows[0]
            more = _merge_regions(traced.start_regions, forward.became)
            if more == dict(traced.start_regions):
                return traced
            traced = self._trace(more)

    def _forth_groups(self, forward: ForwardAnswer) -> list[Group]:
        """Rows that records became, and the output rows that were made of them."""
        self._reasons += forward.reasons
        return [*self._groups_of_stored_rows.values(), *forward.groups.values()]


def select_stored_rows(stored_rows: RowsInFiles) -> RowSelector:
    """What says of a recipe that reads kept rows which of its sources' rows they are."""

    def rows_of(recipe: Recipe, _: str) -> SourceRows:
        return [
            (source, file.path, stored_rows.rows[file.path].positions())
            for source in recipe.sources
            for file in source.files
            if file.path in stored_rows.rows
        ]

    return rows_of


def _merge_regions(first: RegionsBySpace, second: RegionsBySpace) -> dict[str, Region]:
    spaces = {**first, **second}
    return {space: first.get(space, Region()) | second.get(space, Region()) for space in spaces}
