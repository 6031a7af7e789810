"""The explicit way in: a LineageContext over a SparkContext."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pyspark import RDD, SparkContext

from lineage_emitter.connect import watch_connect
from lineage_emitter.driver import frame_actions, plain_saves, sources
from lineage_emitter.driver.dataframe_records import dataframe_records
from lineage_emitter.driver.fitness import uncaptured
from lineage_emitter.driver.methods_on_rdds import RDD_ARGUMENT_METHODS, union
from lineage_emitter.driver.rdd import LineageRDD
from lineage_emitter.driver.sources import SOURCES
from lineage_emitter.errors import TracingError
from lineage_emitter.open_sessions import allow_retry, latest_app, open_session_of
from lineage_emitter.program.drawing import ProgramGraph
from lineage_emitter.program.lookups import open_view
from lineage_emitter.program.tracing import TracedItems, lineage_at
from lineage_emitter.program.waiting import LINKED_S
from lineage_emitter.session.session import Session, capture_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class LineageContext:
    """Sources whose RDDs record lineage; everything else is the SparkContext's own.

    Keyword arguments are settings (see docs/reference/settings.md), e.g.
    ``LineageContext(sc, store="sqlite:///lineage.db")``.

    Raises:
        SettingsError: a setting can't be used.
    """

    def __init__(self, sc: SparkContext, **settings: Any) -> None:
        self.sc = sc
        self.session = capture_session(sc, **settings)
        frame_actions.install(active_session)
        plain_saves.install(open_session_of)
        watch_connect(active_session)
        self.app = latest_app(sc) if self.session is None else self.session.app
        """The application's id, as ``lineage apps`` lists it."""

    @property
    def _session(self) -> Session | None:
        """The session, if anything can be captured."""
        return None if self.session is None or self.session.executors.unfit else self.session

    def textFile(
        self, name: str, minPartitions: int | None = None, use_unicode: bool = True
    ) -> RDD[Any]:
        """``SparkContext.textFile`` with lineage: an item is a line."""
        if self._session is None:
            return self.sc.textFile(name, minPartitions, use_unicode)
        return sources.text_file(self._session, name, minPartitions, use_unicode)

    def parallelize(self, c: Iterable[Any], numSlices: int | None = None) -> RDD[Any]:
        """``SparkContext.parallelize`` with lineage: an item is an element."""
        if self._session is None:
            return self.sc.parallelize(c, numSlices)
        return sources.parallelize(self._session, c, numSlices)

    def rdd(self, frame: DataFrame) -> RDD[Any]:
        """``DataFrame.rdd`` with lineage: an item is a row, and a trace goes on through the DataFrame."""
        if self._session is None:
            return frame.rdd
        return dataframe_records(self._session, frame, lambda of: of.rdd)

    def union(self, rdds: Sequence[RDD[Any]]) -> RDD[Any]:
        """``SparkContext.union`` with lineage."""
        if self._session is None:
            return self.sc.union(uncaptured(list(rdds)))
        return union(self._session, rdds)

    def getLineage(
        self, of: RDD[Any] | str, *more: str, timeout_s: float = LINKED_S
    ) -> TracedItems:
        """The lineage of a captured RDD, or of rows that this program read or wrote.

        Rows are named as for ``lineage back``: ``out/part-00000:2``, or by addresses.

        Raises:
            TracingError: nothing is captured, the RDD is not, or capture has ended.
            LocationError, AddressError, RowsError: a place names no row, or can't be read.
        """
        if self.session is None:
            raise TracingError("capture is switched off, or could not begin: there is no lineage")
        if isinstance(of, str):
            return lineage_at(self.session, (of, *more), timeout_s)
        if not isinstance(of, LineageRDD) or of.session is not self.session:
            raise TracingError("the RDD is not captured by this LineageContext")
        return of.getLineage(timeout_s=timeout_s)

    def graph(self, *, timeout_s: float = LINKED_S) -> ProgramGraph:
        """The program so far; a notebook draws it.

        Raises:
            TracingError: nothing is captured.
        """
        if self.session is None:
            raise TracingError("capture is switched off, or could not begin: there is no lineage")
        with open_view(self.session, timeout_s) as view:
            return ProgramGraph.of(tuple(view.nodes.values()), view.links)

    def close(self) -> None:
        """End the application's lineage; ``sc.stop()`` and the end of the program do so too."""
        if self.session is not None:
            self.session.close()
        else:
            allow_retry(self.sc)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sc, name)

    def __enter__(self) -> LineageContext:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def active_session() -> Session | None:
    """The open session of the active SparkContext."""
    sc = SparkContext._active_spark_context
    return None if sc is None else open_session_of(sc)


CAPTURED = SOURCES | RDD_ARGUMENT_METHODS


def _captured(name: str) -> Callable[..., Any]:
    @functools.wraps(getattr(SparkContext, name))
    def method(self: LineageContext, /, *arguments: Any, **named: Any) -> Any:
        if self._session is None:
            plain_named = {key: uncaptured(value) for key, value in named.items()}
            return getattr(self.sc, name)(*map(uncaptured, arguments), **plain_named)
        return CAPTURED[name](self._session, *arguments, **named)

    return method


for _name in CAPTURED.keys() - vars(LineageContext).keys():
    setattr(LineageContext, _name, _captured(_name))
