"""Traces back through an RDD's records that go on where the records are rows of a DataFrame."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from lineage_core.recipe import Recipe, Source
from lineage_frames.answers import Frames
from lineage_frames.errors import RefusedError
from lineage_frames.session import told
from lineage_frames.tracing import trace_named
from lineage_frames.witnesses import Witnesses
from lineage_store.answers import Answer, Group, Item
from lineage_store.asking import Question
from lineage_store.port import GraphStore
from lineage_store.rows import RowReader
from lineage_store.traced import NamedRows, Traced


def answer_through(
    spark: SparkSession,
    store: GraphStore,
    reader: RowReader,
    question: Question,
    traced: Traced,
    key: str | None = None,
) -> Answer:
    """The answer to a question about records, through the recipes of the DataFrames whose rows they are.

    Records whose rows can't be traced are the end of the answer, which says why.

    Args:
        spark: any session; traces run in new ones beside it.
        store: has the recipes.
        reader: says which files may be read.
        question: traced backward.
        traced: what came of it, with `Traced.named_rows`.
        key: of recipes' Python functions, as in `lineage_frames.tracing.trace_back`.

    Raises:
        ForbiddenRowsError: a file of the trace may not be read.
        FramesError: the files are not what they were.
    """
    crossing = _Crossing(spark, store, reader, traced.app, question, key)
    with told():
        return crossing.answer(traced)


@dataclass
class _Crossing(Frames):
    _groups: list[Group] = field(default_factory=list)
    """Rows of DataFrames."""
    _found: dict[str, tuple[Recipe, dict[str, tuple[Source | None, NDArray[np.uint64]]]]] = field(
        default_factory=dict
    )
    """Rows of sources: by node, with a recipe that reads it, by file."""
    _reasons: list[str] = field(default_factory=list)

    def answer(self, traced: Traced) -> Answer:
        """What was found among records, and what the rows of DataFrames among it were made from."""
        before = traced.answer(self.question.limit, texts=self.question.texts)
        stops = set()
        for rows in traced.named_rows():
            try:
                self._go_on(rows)
            except RefusedError as problem:
                label = self._names.label(rows.source)
                self._reasons.append(
                    f"where the rows of {label} come from can't be told: {self._why(problem)}"
                )
            else:
                stops.add(rows.source)
        said = {one.stop(self.app, self._names) for one in traced.named_rows()}
        reasons = tuple(dict.fromkeys([*before.reasons, *self._reasons]))
        sources = [
            self._group(node, recipe, [(source, path, rows) for path, (source, rows) in of.items()])
            for node, (recipe, of) in sorted(self._found.items())
        ]
        return replace(
            before,
            groups=(
                *(one for one in before.groups if one.node not in stops),
                *self._groups,
                *sources,
            ),
            exact=not reasons,
            reasons=reasons,
            warnings=tuple(
                dict.fromkeys(
                    [*(one for one in before.warnings if one not in said), *self._warnings]
                )
            ),
        )

    def _go_on(self, rows: NamedRows) -> None:
        recipe = self._recipe(rows.frame)
        shown = self.question.limit if self.question.texts else 0
        found = trace_named(
            self.spark, recipe, rows.signed, records=rows.records, shown=shown, key=self.key
        )
        label = self._names.label(rows.frame)
        items = [Item(label, None, text) for text in found.texts[: self.question.limit]]
        self._groups.append(self._grouped(self._nodes[rows.frame], found.witnesses.matched, items))
        self._reasons += found.witnesses.reasons
        self._warnings += found.witnesses.warnings
        self._collect(rows.frame, recipe, found.witnesses)

    def _collect(self, frame: str, recipe: Recipe, found: Witnesses) -> None:
        for (place, path), ordinals in found.rows.items():
            node = self._source_node(frame, recipe, place)
            source = None if place is None else recipe.sources[place]
            _, of = self._found.setdefault(node, (recipe, {}))
            _, known = of.get(path, (source, ordinals))
            of[path] = source, np.union1d(known, ordinals)
