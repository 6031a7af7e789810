"""Where queries of Structured Streaming are noticed, which are recorded by micro-batches."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lineage_emitter import scope
from lineage_emitter.dataframes import stream_frames
from lineage_emitter.dataframes.earlier_runs import RunNotes
from lineage_emitter.dataframes.stream_tables import tables_of
from lineage_emitter.dataframes.streams import Seen, mark_of_state
from lineage_emitter.dataframes.topic_ids import SeenTopics, ids_of_stream
from lineage_emitter.dataframes.topic_sinks import sink_of_writer
from lineage_emitter.session.streams import streams_of

if TYPE_CHECKING:
    from lineage_emitter.session.session import Session

_HAS_FUNCTION = "_lineage_has_function"
"""Attribute of a writer whose function of ``foreachBatch`` is noticed."""
_TOPICS = "_lineage_topics"
"""Attribute of a writer: the topics that its query reads, before it begins."""


def hook_stream_writers(active_session: Callable[[], Session | None]) -> None:
    """Record the micro-batches of queries that are begun from now on."""
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    writer: Any = DataStreamWriter
    for name in ("start", "toTable"):
        setattr(
            writer, name, _begin(getattr(writer, name), f"DataStreamWriter.{name}", active_session)
        )
    writer.foreachBatch = _foreach_batch(writer.foreachBatch, active_session)


def _begin(stock: Any, method_name: str, active_session: Callable[[], Session | None]) -> Any:
    @functools.wraps(stock)
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        session = None if scope.is_suspended() else active_session()
        if session is None:
            with scope.suspended():
                return stock(self, *arguments, **named)
        has_function = _HAS_FUNCTION in self.__dict__
        with scope.suspended():
            self.__dict__[_TOPICS] = topics = ids_of_stream(self._df)
            seen = Seen(topics, tables_of(self._df), sink_of_writer(self))
        with scope.operator(method_name) as running:
            try:
                # A function's writes are recorded one by one; others are named.
                with session.recorded(writes=not has_function, lasting=True), scope.suspended():
                    query = stock(self, *arguments, **named)
            finally:
                session.jobs.record_lazy_jobs()
            session.problems.guard(
                "record a streaming query",
                lambda: streams_of(session).watch(
                    query, running, has_function=has_function, seen=seen
                ),
            )
        return query

    return method


def _foreach_batch(stock: Any, active_session: Callable[[], Session | None]) -> Any:
    @functools.wraps(stock)
    def method(self: Any, func: Any) -> Any:
        if scope.is_suspended() or active_session() is None:
            return stock(self, func)
        self.__dict__[_HAS_FUNCTION] = True
        return stock(self, _noticed(func, self, active_session))

    return method


def _noticed(func: Any, writer: Any, active_session: Callable[[], Session | None]) -> Any:
    """A function of ``foreachBatch``, of whose frames it is known which batches they are. ``writer``: PySpark's object."""
    java_session = writer._spark._jsparkSession

    @functools.wraps(func, updated=())
    def call(frame: Any, number: int) -> Any:
        session = active_session()
        if session is not None:
            with scope.suspended():
                session.problems.guard(
                    "record which batch a function was given",
                    functools.partial(
                        stream_frames.begin_batch,
                        java_session,
                        frame,
                        number,
                        writer.__dict__.get(_TOPICS, SeenTopics()),
                        RunNotes(session.settings.query_folder()),
                        mark_of_state,
                    ),
                )
        return func(frame, number)

    return call
