"""Sessions of Spark Connect, whose driver is another process: what goes another way in these.

They take Spark 4.1 and the packages of ``pyspark[connect]``. Files are read where the server is.
"""

from __future__ import annotations

import logging
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from lineage_core.environment.shown_address import shown_address
from lineage_dataframes.errors import NoSparkError
from lineage_dataframes.spark.pyspark_parts import SINCE_4, SPARK_ERRORS, is_connected, spark_reason

T = TypeVar("T")
SCHEME = "sc://"
PORT = 15002
"""The default port of servers."""

CONNECT_TIMEOUT_S = 10.0
"""Spark's client tries for many minutes."""

_SESSION_TAGS: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()
"""Sessions that were made beside others here, and the tag by which their queries are cancelled."""


def connect_to_server(address: str) -> SparkSession:
    """A session of the server at an address as Spark has them: ``sc://host:port/;token=...``.

    Raises:
        NoSparkError: there is none, or it refuses.
    """
    if not SINCE_4:
        raise NoSparkError("Spark Connect takes Spark 4")
    try:
        split = urlsplit(address)
        host_and_port = (split.hostname or "localhost", split.port or PORT)
        socket.create_connection(host_and_port, CONNECT_TIMEOUT_S).close()
        # Errors say what is wrong, and the server logs settings that are deprecated.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        warnings.filterwarnings("ignore", module=r"pyspark\.sql\.connect\.conf")
        session: SparkSession = SparkSession.builder.remote(address).getOrCreate()
    except (*SPARK_ERRORS, OSError, ValueError) as problem:
        reason = spark_reason(problem)
        # Parameters may be secrets.
        for parameter in sorted(address.partition(";")[2].split(";"), key=len, reverse=True):
            for secret in (parameter, parameter.partition("=")[2]):
                reason = reason.replace(secret, "...") if secret else reason
        raise NoSparkError(
            f"{shown_address(address.partition(';')[0])} gives no session: {reason}"
        ) from problem
    return session


def new_session(spark: SparkSession) -> SparkSession:
    """A session beside another, with settings and views of its own."""
    if not is_connected(spark):
        return spark.newSession()
    other: Any = spark
    session: SparkSession = type(other)(other.client._builder, other.client._user_id)
    _SESSION_TAGS[session] = _SESSION_TAGS.get(spark, "")
    return session


def stop_session(spark: SparkSession) -> None:
    """Stop a session, and with one of Spark Connect those that were made beside it.

    Its client waits for ever for calls that are open where it is closed as late as when Python ends.
    """
    if is_connected(spark):
        for session in list(_SESSION_TAGS):
            session.stop()
    spark.stop()


@contextmanager
def cancellable_session(spark: SparkSession, tag: str) -> Iterator[SparkSession]:
    """A session for the body, whose queries `cancel_queries` ends."""
    if is_connected(spark):
        tagged_session = new_session(spark)
        _SESSION_TAGS[tagged_session] = tag
        try:
            yield tagged_session
        finally:
            for session in _sessions_tagged(tag):
                session.stop()
        return
    # Of this thread's jobs.
    spark.sparkContext.addJobTag(tag)
    try:
        yield spark
    finally:
        spark.sparkContext.removeJobTag(tag)


def in_thread(spark: SparkSession, function: Callable[..., T]) -> Callable[..., T]:
    """A function for a thread of its own: in this one's context, where `cancel_queries` ends its queries as those of this thread."""
    context = copy_context()

    def in_context(*arguments: Any) -> T:
        return context.copy().run(function, *arguments)

    if is_connected(spark):
        return in_context
    # Spark 3.5 takes the function alone, Spark 4 warns where it is not given the session.
    wrapper: Any = inheritable_thread_target(spark) if SINCE_4 else inheritable_thread_target
    wrapped: Callable[..., T] = wrapper(in_context)
    return wrapped


def cancel_queries(spark: SparkSession, tag: str) -> None:
    """End the queries that run under a tag now."""
    if not is_connected(spark):
        spark.sparkContext.cancelJobsWithTag(tag)
        return
    for session in _sessions_tagged(tag):
        session.interruptAll()


def _sessions_tagged(tag: str) -> list[SparkSession]:
    return [session for session, session_tag in list(_SESSION_TAGS.items()) if session_tag == tag]
