"""Rows of a stream's file that came too late for a window of time: a trace forward names them, as they went into none of what it had given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from lineage_core.contract.message import Message, Stream
from lineage_core.contract.stream_progress import ID_CHARS
from lineage_core.recipe.document import Recipe
from lineage_dataframes.trace.following import RowTracing
from lineage_query.follow_events import Gap, Late, Read, Tracing, late_text
from lineage_query.followed import FollowedFile
from lineage_query.following import Follow
from lineage_query.rows.places import Location
from lineage_query.rows.reader import RowReader
from lineage_store.port import GraphStore

UNKNOWN_ENDS = "whether rows came too late for a window is not known"
MESSAGES_MAX = 20_000
"""Messages about streams of an application that are gone through; each batch has one, beside its recipe."""
TEXTS_MAX = 10


@dataclass(frozen=True, slots=True)
class _Ends:
    """Computes which windows rows are in, and not what was made of them. Implements `lineage_query.follow_events.Tracing`."""

    tracing: RowTracing

    def rows(self, recipe: Recipe) -> None:
        """Nothing: the trace itself tells."""

    def ends(self, windows: Recipe, batch: Recipe) -> Sequence[int]:
        """As `RowTracing`."""
        return self.tracing.ends(windows, batch)


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
        A line for each query that dropped some, or of which that is not known; the first, and how many more there are.
    """
    streams = store.messages(app, "stream")
    if not any(isinstance(message, Stream) and message.keeps == "windows" for message in streams):
        return []
    if len(streams) > MESSAGES_MAX:
        return [f"{UNKNOWN_ENDS}: the application has more than {MESSAGES_MAX:,} batches"]
    tracing = _Ends(RowTracing(session, reader, location, key))
    messages = store.messages(app, "stream", "recipe")
    texts = list(dict.fromkeys(late_texts(messages, FollowedFile(location.path), tracing)))
    more = len(texts) - TEXTS_MAX
    return texts if more <= 0 else [*texts[:TEXTS_MAX], f"{more:,} more such queries"]


def late_texts(
    messages: Iterable[Message], followed: FollowedFile, tracing: Tracing[None]
) -> Iterator[str]:
    """What is to be said of rows of a file that queries dropped as late.

    Args:
        messages: about streams, and recipes, of an application, in the order written.
        followed: the file.
        tracing: computes which windows the rows are in.
    """
    follow: Follow[None] = Follow(followed, tracing)
    windowed: set[str] = set()
    with_ends: set[str] = set()
    read: set[str] = set()
    for message in messages:
        if isinstance(message, Stream):
            windowed |= {message.query} if message.keeps == "windows" else set()
            with_ends |= {message.query} if message.windows else set()
        # Of a query that has read them it is known, or said already that it is not.
        known = frozenset(read)
        for event in follow.take(message):
            if isinstance(event, Late):
                yield late_text(event)
            elif isinstance(event, Gap) and event.query in windowed - known:
                yield f"{UNKNOWN_ENDS}: query {event.query[:ID_CHARS]}: {event.reason}"
            elif isinstance(event, Read) and event.batch.query in windowed - known:
                query = event.batch.query
                read.add(query)
                name = f"query {query[:ID_CHARS]}"
                if query not in with_ends:
                    yield f"{UNKNOWN_ENDS}: {name}: their windows can't be computed apart"
                elif not isinstance(message, Stream) or message.state != "batch":
                    yield f"{UNKNOWN_ENDS}: {name}: of the batch that has read them no watermark is known"
