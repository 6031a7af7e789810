"""Recipes of batches that differ by their files, or offsets, alone from an earlier batch of the same run.

A run of a query has one plan for all its batches. Where that keeps no state and reads one stream of files, or one topic, and nothing else,
the recipe of a batch is that of an earlier one with other files, or offsets, while the settings of the session are the same.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from lineage_core.recipe.document import File, Output, Recipe, Source, StreamBatch
from lineage_core.recipe.functions import read_key, sign_recipe
from lineage_core.recipe.names import KAFKA
from lineage_emitter.dataframes.stream_plans import BatchPlan, helper, logged_range, split
from lineage_emitter.dataframes.stream_topics import with_offsets


@dataclass(frozen=True, slots=True)
class Repeated:
    """What batches have in common. ``recipe``: of one of them. ``settings``: all that were set. ``stream``: Spark's object."""

    recipe: Recipe
    settings: Mapping[str, str]
    stream: Any

    @classmethod
    def of(cls, recipe: Recipe, settings: Mapping[str, str], plan: BatchPlan) -> Repeated | None:
        """What later batches have in common with one that has this recipe and plan; None: nothing is known to be."""
        # A source that is not of the stream may have changed when the next batch runs.
        if plan.stream is None or recipe.sources != plan.sources:
            return None
        # Nor is a module that a function imports bound to stay as it is.
        if any(function.modules for function in recipe.functions):
            return None
        return cls(recipe, settings, plan.stream)

    def recipe_of(
        self,
        offsets: tuple[str, str],
        output: Output,
        batch: StreamBatch,
        settings: Mapping[str, str],
    ) -> Recipe | None:
        """The recipe of another batch; None: it must be made of the plan.

        ``offsets``: where the batch begins and ends in the stream, as JSON, empty where there is none. ``settings``: of now.
        """
        read = self._read(*offsets) if settings == self.settings else None
        if read is None:
            return None
        recipe = replace(self.recipe, sources=(read,), output=output).of_batch(batch)
        if not recipe.functions:
            return recipe
        key = read_key(os.environ)
        return None if key is None else sign_recipe(recipe, key)

    def _read(self, start: str, end: str) -> Source | None:
        """What a batch read, in the place of what the recipe's did; None: it read nothing, or this is not known."""
        source = self.recipe.sources[0]
        if source.format == KAFKA:
            return with_offsets(source, start, end)
        files = _files(self.stream, start, end)
        if not files:
            return None
        return replace(
            source,
            paths=tuple(file.path for file in files),
            files=tuple(sorted(files, key=lambda file: file.path)),
        )


def _files(stream: Any, start: str, end: str) -> list[File]:
    """The files that a stream gave to a batch; none: it gave none, or they are no longer what its log says."""
    if not end or start == end:
        return []
    try:
        found = split(helper().found(stream, *logged_range(start, end)), 4)
    except (Py4JError, PySparkException):
        return []
    if any(mtime != logged for _, mtime, logged, _ in found):
        return []
    return [File(path, int(size), int(mtime)) for size, mtime, _, path in found]
