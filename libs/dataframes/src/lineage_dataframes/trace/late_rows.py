"""Rows of a stream's file that came too late for a window of time: a trace forward names them, as they went into none of what it had given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from lineage_core.contract.message import Stream
from lineage_core.errors import LineageError
from lineage_core.recipe.document import Recipe
from lineage_dataframes.trace.following import RowTracing
from lineage_query.follow_events import Late, late_text
from lineage_query.followed import FollowedFile
from lineage_query.following import Follow
from lineage_query.rows.places import Location
from lineage_query.rows.reader import RowReader
from lineage_store.port import GraphStore

UNKNOWN_ENDS = "whether rows came too late for a window is not known"


@dataclass
class _Ends:
    """Computes which windows rows are in, and not what was made of them. Implements `lineage_query.follow_events.Tracing`."""

    tracing: RowTracing
    problem: str = ""

    def rows(self, recipe: Recipe) -> None:
        """Nothing: the trace itself tells."""

    def ends(self, windows: Recipe, batch: Recipe) -> Sequence[int]:
        """As `RowTracing`."""
        try:
            return self.tracing.ends(windows, batch)
        except LineageError as problem:
            self.problem = f"{UNKNOWN_ENDS}: {problem}"
            raise


def late_rows(
    session: Callable[[], SparkSession],
    store: GraphStore,
    reader: RowReader,
    app: str,
    location: Location,
    key: str | None = None,
) -> list[str]:
    """What is to be said of rows of a source that an application's queries dropped as late.

    Args:
        session: gives Spark's session; not called where no query gives windows.
        store: has the messages of the application.
        reader: says which files may be read.
        app: the application.
        location: a row of a file, or all of one.
        key: of recipes' Python functions, as in `lineage_dataframes.trace.backward.trace_backward`.

    Returns:
        A line for each query that dropped some, or of which that is not known.
    """
    streams = store.messages(app, "stream")
    if not any(isinstance(message, Stream) and message.windows for message in streams):
        return []
    tracing = _Ends(RowTracing(session, reader, location, key))
    follow: Follow[None] = Follow(FollowedFile(location.path), tracing)
    texts: list[str] = []
    for message in store.messages(app, "stream", "recipe"):
        events = follow.take(message)
        texts += [late_text(event) for event in events if isinstance(event, Late)]
        if tracing.problem:
            texts.append(tracing.problem)
            tracing.problem = ""
    return texts
