"""Warming a Spark up for rows that are followed: its first traces take some ten times as long as those after them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pyspark

from lineage_core.contract.message import Recipe as RecipeMessage
from lineage_core.contract.message import Stream
from lineage_core.errors import LineageError
from lineage_core.recipe.document import File, Output, Recipe, Source
from lineage_core.recipe.plan import Attribute, Column, Project, Scan
from lineage_dataframes.trace.followed_rows import Place, warm_places
from lineage_dataframes.trace.following import FollowedRows
from lineage_query.follow_events import Tracing
from lineage_query.message_feed import Item
from lineage_query.rows.places import Location

WARM_S = 0.5
WARM_RUNS_MAX = 20
"""The first trace of a Spark took 30 s of the processor, the fifth 2.0 s, the twentieth 1.2 s, beside other work."""
SAMPLE_RUNS_MAX = 10
_SCHEMA = (
    '{"type":"struct","fields":[{"name":"number","type":"integer","nullable":true,"metadata":{}}]}'
)


class WarmUp:
    """Traces a row of what the latest batch has read, whichever it is, and forgets the answer: to be run while rows are waited for.

    Args:
        tracing_of: computes the rows of a place.
        place: what is followed: the like of it is traced.
        sample: a folder for files of a batch that is traced as long as none is committed; None: nothing is traced before.
    """

    def __init__(
        self,
        tracing_of: Callable[[Place], Tracing[FollowedRows]],
        place: Place,
        sample: Path | None = None,
    ) -> None:
        self._tracing_of = tracing_of
        self._place = place
        self._sample = sample
        self._recorded: RecipeMessage | None = None
        self._committed: RecipeMessage | None = None
        self._useless: RecipeMessage | None = None
        """The latest batch that has nothing to trace."""
        self._runs_left = WARM_RUNS_MAX
        self._samples_left = 0 if sample is None else SAMPLE_RUNS_MAX

    def take(self, item: Item) -> None:
        """Take the next message: the latest batch that is committed is traced."""
        if isinstance(item, RecipeMessage):
            self._recorded = item
        elif isinstance(item, Stream) and item.state == "batch":
            self._committed = self._recorded

    @property
    def is_due(self) -> bool:
        """Whether there is a batch to trace, and traces are not known to be quick."""
        return (self._samples_left if self._batch() is None else self._runs_left) > 0

    def _batch(self) -> RecipeMessage | None:
        committed = self._committed
        return None if committed is self._useless else committed

    def run(self) -> None:
        """Trace once more, unless that is quick by now. May run beside what takes messages."""
        committed = self._batch()
        if not self.is_due:
            return
        started = time.monotonic()
        # What can't be traced is of no concern here.
        with suppress(LineageError):
            if committed is None:
                self._trace_sample()
            else:
                self._trace_batch(committed)
            if time.monotonic() - started < WARM_S:
                self._samples_left = 0
                self._runs_left = self._runs_left if committed is None else 0

    def _trace_sample(self) -> None:
        self._samples_left -= 1
        if self._sample is not None:
            recipe, place = sample_in(self._sample)
            self._tracing_of(place).rows(recipe)

    def _trace_batch(self, committed: RecipeMessage) -> None:
        self._runs_left -= 1
        recipe = Recipe.from_json(committed.recipe)
        places = list(warm_places(recipe, self._place))
        if recipe.batch is None or not places:
            # Another may have been taken meanwhile, which is traced next.
            self._useless = committed
            self._samples_left = 0
            return
        self._trace(recipe, places)

    def _trace(self, recipe: Recipe, places: Sequence[Place]) -> None:
        *some, last = places
        for place in some:
            with suppress(LineageError):
                self._tracing_of(place).rows(recipe)
                return
        self._tracing_of(last).rows(recipe)


def sample_in(folder: Path) -> tuple[Recipe, Location]:
    """A recipe like that of a small batch, and a row that it has read. ``folder``: for the files, which are written."""
    read, written = folder / "sample.csv", folder / "sample" / "part-0.json"
    written.parent.mkdir(exist_ok=True)
    read.write_text("1\n2\n", encoding="utf-8")
    written.write_text('{"number":1}\n{"number":2}\n', encoding="utf-8")
    paths = (f"file:{read}",)
    source = Source("csv", paths, _SCHEMA, files=(_file(read),))
    plan = (
        Scan((Attribute(0, "number", "int"),), 0, ("number",)),
        Project((Attribute(1, "number", "int"),), 0, (Column(0),)),
    )
    output = Output(
        "files", f"file:{written.parent}", format="json", files=(_file(written),), action="start"
    )
    recipe = Recipe(pyspark.__version__, {}, (source,), plan, output)
    return recipe, Location(str(read), 2)


def _file(path: Path) -> File:
    state = path.stat()
    return File(f"file:{path}", state.st_size, state.st_mtime_ns // 1_000_000)
