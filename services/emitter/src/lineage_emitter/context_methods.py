"""Methods of SparkContext and of DataFrames that capture all that a program does, without a word of its own.

They are PySpark's own classes', wrapped once a process; which contexts are captured, and how they begin, is for whoever
installs them to say.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark import SparkContext

from lineage_emitter import scope

if TYPE_CHECKING:
    from lineage_emitter.session.session import Session

SessionOf: TypeAlias = "Callable[[SparkContext], Session | None]"
"""Gives the session of a SparkContext that is captured as a whole."""

SOURCES = ("textFile", "wholeTextFiles", "binaryFiles", "binaryRecords", "sequenceFile",
           "pickleFile", "newAPIHadoopFile", "newAPIHadoopRDD", "hadoopFile", "hadoopRDD",
           "parallelize", "range", "emptyRDD")  # fmt: skip
OF_RDDS = ("union", "runJob")
"""Methods of SparkContext that are captured (as LineageContext's): those that take RDDs, too."""


_notices_frames = False
_given_sources: Callable[[Any], Any] | None = None


def install(session_of: SessionOf) -> None:
    """Capture what methods of SparkContext make, from now on; a second call changes nothing."""
    if is_installed():
        return
    for name in SOURCES:
        _wrap(name, _source(name, session_of))
    for name in OF_RDDS:
        _wrap(name, _of_rdds(name, session_of))


def give_sources_to(receive: Callable[[Any], Any]) -> None:
    """Let the program have what ``receive`` makes of each captured source, from now on."""
    global _given_sources  # noqa: PLW0603 - PySpark's classes are the process's, too
    _given_sources = receive


def is_installed() -> bool:
    """Whether what methods of SparkContext make is captured."""
    return hasattr(SparkContext.textFile, "lineage_stock")


def notice_frames(active_session: Callable[[], Session | None], session_of: SessionOf) -> None:
    """Notice DataFrame work and streams, from now on. They need a context: by then what records them is loaded."""
    global _notices_frames  # noqa: PLW0603 - PySpark's classes are the process's, too
    if _notices_frames:
        return
    _notices_frames = True
    from lineage_emitter.driver.dataframe_hooks import hook_dataframes
    from lineage_emitter.driver.rdd_streams import hook_rdd_streams
    from lineage_emitter.driver.stream_hooks import hook_stream_writers

    hook_dataframes(active_session)
    hook_stream_writers(active_session)
    hook_rdd_streams(session_of)


def _wrap(name: str, make: Callable[..., Any]) -> None:
    stock = getattr(SparkContext, name)

    @functools.wraps(stock)
    def method(self: SparkContext, /, *arguments: Any, **named: Any) -> Any:
        return make(stock, self, *arguments, **named)

    method.lineage_stock = stock  # type: ignore[attr-defined]
    setattr(SparkContext, name, method)


def _plain_call() -> bool:
    return scope.is_suspended() or bool(scope.called_from_pyspark(3))


def _source(name: str, session_of: SessionOf) -> Callable[..., Any]:
    def method(
        stock: Callable[..., Any], sc: SparkContext, /, *arguments: Any, **named: Any
    ) -> Any:
        session = None if scope.is_suspended() else session_of(sc)
        if session is None:
            return stock(sc, *arguments, **named)
        caller = scope.called_from_pyspark()
        if caller:
            from lineage_emitter.pyspark_parts import is_rdd_api

            if not is_rdd_api(caller):
                session.nodes.unknown(
                    f"{caller} ({stock.__name__})", "PySpark makes an RDD by itself", ()
                )
            return stock(sc, *arguments, **named)
        source = _captured(name, session, *arguments, **named)
        return source if _given_sources is None else _given_sources(source)

    return method


def _of_rdds(name: str, session_of: SessionOf) -> Callable[..., Any]:
    def method(
        stock: Callable[..., Any], sc: SparkContext, /, *arguments: Any, **named: Any
    ) -> Any:
        session = None if _plain_call() else session_of(sc)
        if not _any_captured((*arguments, *named.values())):
            if name == "runJob" and session is not None and scope.outermost() is None:
                from lineage_emitter.driver.older_rdds import name_of_job

                name_of_job(session)
            return stock(sc, *arguments, **named)
        if session is None:
            return _uncaptured(stock, sc, *arguments, **named)
        return _captured(name, session, *arguments, **named)

    return method


def _uncaptured(stock: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
    from lineage_emitter.driver.fitness import uncaptured

    plain_named = {key: uncaptured(value) for key, value in named.items()}
    return stock(*map(uncaptured, arguments), **plain_named)


def _captured(name: str, /, *arguments: Any, **named: Any) -> Any:
    # `lineage run` loads it in a thread of its own.
    from lineage_emitter.context import CAPTURED

    return CAPTURED[name](*arguments, **named)


def _any_captured(values: Iterable[Any]) -> bool:
    """Whether there is a captured RDD among some arguments, or in a list among them."""
    from lineage_emitter.driver.rdd import LineageRDD

    return any(
        isinstance(value, LineageRDD) or (isinstance(value, list | tuple) and _any_captured(value))
        for value in values
    )
