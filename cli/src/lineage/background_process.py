"""The process of a background session: python -m lineage.background_process NAME STORE IDLE_S [warm].

It listens before its Spark has started, answers one query after the other, and ends when no query arrives for a while,
on a signal, and when its Spark is not healthy. It ends within a minute (`END_S`) even when it is busy. ``warm``: until the first request
arrives, it traces a row of the latest output, because the first query of a new Spark takes several times as long.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sqlite3
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage.access import StoredAccess
from lineage.background.sessions import (
    BackgroundSession,
    locked,
    peer_uid,
    record_of,
    socket_address,
    socket_of,
)
from lineage.background.wire import (
    REPLY_BYTES_MAX,
    REQUEST_BYTES_MAX,
    Answered,
    Failed,
    Message,
    QueryRequest,
    Refused,
    WireError,
    encoded,
    receive,
    send,
)
from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import Direction
from lineage_query.trace_query import TraceQuery
from lineage_store.errors import NoSuchRowError
from lineage_store.paths import plain_path
from lineage_store.port import GraphStore
from lineage_store.recipes import read_recipe
from lineage_store.url import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUESTION_S = 3600.0
"""Seconds that a query may take."""
END_S = 60.0
"""Seconds within which the process exits once it has to end; its Java may write an archive of classes."""
NOT_COMPUTED = "NotComputedError"
"""The type of error of a Spark query that Spark refused or could not run."""
SPEAKS_S = 5.0
"""Seconds within which a client must begin its request, once it has connected."""
LOOK_S = 0.5
"""Seconds between checks whether the client is still connected."""
LATEST = 5
"""Applications that are searched for an output to trace for the warm-up."""


def say(event: str) -> None:
    """Write a line to the log."""
    sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {event}\n")
    sys.stderr.flush()


class StartedSpark:
    """A Spark session that starts on its own thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._session: SparkSession | None = None
        self._problem: BaseException | None = None
        self._loaded = threading.Event()
        self._thread = threading.Thread(target=self._start, daemon=True)
        self._thread.start()

    def _start(self) -> None:
        try:
            try:
                from lineage.frame_traces import started_here
            finally:
                self._loaded.set()
            self._session = started_here(self._folder, archived=True)
        except BaseException as problem:
            self._problem = problem

    def load(self) -> None:
        """Wait until PySpark is loaded: two threads that import it at once would each see a partial module."""
        self._loaded.wait()

    def session(self) -> SparkSession:
        """Spark's session, once it is there.

        Raises:
            TraceError: it does not start.
        """
        self._thread.join()
        if self._session is None:
            assert self._problem is not None
            raise self._problem
        return self._session

    def is_well(self) -> bool:
        """Whether the Spark session has started and still runs."""
        if self._session is None:
            return False
        from lineage_dataframes.spark.own_spark import is_alive

        return is_alive(self._session)

    def stop(self) -> None:
        """End it, and its Java."""
        self._thread.join(END_S)
        if self._session is None:
            return
        from lineage_dataframes.sandbox import starting
        from lineage_dataframes.spark.class_archive import store_archive

        sandbox = starting.active_sandbox()
        context: Any = self._session.sparkContext
        java = context._gateway.proc
        with suppress(Exception):
            self._session.stop()
        java.stdin.close()
        with suppress(Exception):
            # A Java that was killed has left a part: who reads that crashes.
            if java.wait(END_S) == 0:
                store_archive(None if sandbox is None else sandbox.written)
        if sandbox is not None:
            # This process ends without whatever else would remove it.
            starting.remove_folder(sandbox.folder)


class BackgroundServer:
    """Answers the queries of this user over one store."""

    def __init__(self, url: str, idle_s: float, spark: StartedSpark) -> None:
        self._url = url
        self._idle_s = idle_s
        self._spark = spark
        self._busy = threading.Event()
        """Set once the session has received a request."""

    def warm_up(self) -> None:
        """Trace a row of the latest output, on a separate thread, until a request arrives."""
        threading.Thread(target=self._warm_up, daemon=True).start()

    def _warm_up(self) -> None:
        started = time.monotonic()
        is_warm = False
        self._spark.load()
        with suppress(Exception), open_store(self._url) as store:
            access = StoredAccess(store, self._url, lambda: self._watched(self._busy.is_set))
            questions = likely(store)
            while not (is_warm or self._busy.is_set()) and (question := next(questions, None)):
                with suppress(LineageError):
                    access.trace(question)
                    is_warm = True
        if not self._busy.is_set():
            outcome = "is warm" if is_warm else "found nothing to warm up by"
            say(f"{outcome} after {time.monotonic() - started:.2f} s")

    def serve(self, listener: socket.socket) -> str:
        """Answer requests until there is a reason to end; return that reason."""
        try:
            return self._serve(listener)
        finally:
            self._busy.set()

    def _serve(self, listener: socket.socket) -> str:
        due = time.monotonic() + self._idle_s
        while (seconds_left := due - time.monotonic()) > 0:
            listener.settimeout(seconds_left)
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                break
            with connection:
                # A client that connects and sends nothing does not extend the lifetime.
                request = _received_request(connection, min(seconds_left, SPEAKS_S))
                if request is None:
                    continue
                self._busy.set()
                why = self._answer(connection, request)
            if why:
                return why
            due = time.monotonic() + self._idle_s
        return f"no query for {self._idle_s:g} s"

    def _answer(self, connection: socket.socket, request: QueryRequest) -> str:
        """Answer a request; return why the session has to end, or an empty string."""
        started = time.monotonic()
        try:
            reply = self._reply(connection, request)
            body = encoded(reply)
            if len(body) > REPLY_BYTES_MAX:
                body = encoded(Failed(f"its answer has {len(body):,} bytes"))
        except Exception:
            say(traceback.format_exc())
            reply = Failed("an error, which is in its log")
            body = encoded(reply)
        say(f"{type(reply).__name__.lower()} within {time.monotonic() - started:.2f} s")
        ends = isinstance(reply, Failed) or not self._spark.is_well()
        if ends and isinstance(reply, Refused) and self._spark_started():
            # A refusal by a Spark that has ended has nothing to do with the query.
            body = encoded(Failed("its Spark has ended"))
        with suppress(OSError):
            send(connection, body)
        return "Spark is not as it should be" if ends else ""

    def _spark_started(self) -> bool:
        with suppress(Exception):
            self._spark.session()
            return True
        return False

    def _reply(self, connection: socket.socket, request: QueryRequest) -> Message:
        os.chdir(request.folder)
        self._spark.load()
        try:
            with open_store(self._url) as store:
                access = StoredAccess(store, self._url, lambda: self._watched(_gone(connection)))
                answer = access.trace(request.question())
        except (LineageError, OSError, sqlite3.Error) as error:
            kind = getattr(error, "kind", type(error).__name__)
            if kind == NOT_COMPUTED:
                # The failure may be due to this Spark: let another one try.
                return Failed("Spark could not run a query of the trace")
            return Refused(kind, str(error), isinstance(error, NoSuchRowError))
        finally:
            os.chdir("/")
        return Answered(answer.to_json())

    @contextmanager
    def _watched(self, ends: Callable[[], bool]) -> Iterator[SparkSession]:
        """Spark's session; its queries are cancelled when ``ends`` returns true, or when they take too long."""
        # This import loads PySpark, so it is made while Spark starts.
        from lineage_dataframes.spark.connected import cancel_queries, cancellable_session

        session = self._spark.session()
        tag = f"lineage-{os.getpid()}-{time.monotonic_ns()}"
        finished, due = threading.Event(), time.monotonic() + QUESTION_S

        def watch() -> None:
            over = False
            while not finished.wait(LOOK_S):
                over = over or ends() or time.monotonic() > due
                if over:
                    # A trace is a chain of Spark queries: cancel the next ones, too.
                    with suppress(Exception):
                        cancel_queries(session, tag)

        watching = threading.Thread(target=watch, daemon=True)
        with cancellable_session(session, tag) as cancellable:
            watching.start()
            try:
                yield cancellable
            finally:
                finished.set()
                watching.join()


def _gone(connection: socket.socket) -> Callable[[], bool]:
    """A function that returns whether the client has disconnected."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
    return lambda: bool(poll.poll(0))


def likely(store: GraphStore) -> Iterator[TraceQuery]:
    """Queries about rows of the latest outputs of DataFrames in files."""
    for app in store.application_ids()[:LATEST]:
        graph = store.graph(app)
        for node in reversed(graph.nodes()):
            recipe = read_recipe(graph, node.node) if node.kind == "frame" else None
            if recipe is not None and recipe.output.files:
                path = plain_path(recipe.output.files[0].path)
                # The first line of a text file may be a header.
                for place in (f"{path}#0", f"{path}:2"):
                    yield TraceQuery(Direction.BACKWARD, (place,), app=app)


def _received_request(connection: socket.socket, begins_s: float) -> QueryRequest | None:
    """The request on a connection; None where it is invalid, or another user's."""
    try:
        if peer_uid(connection) != os.geteuid():
            say("refused another user")
            return None
        message = receive(connection, REQUEST_BYTES_MAX, begins_s)
    except (OSError, WireError) as problem:
        say(f"no request: {problem}")
        return None
    return message if isinstance(message, QueryRequest) else None


@contextmanager
def listening(name: str) -> Iterator[socket.socket]:
    """A socket that only this user can connect to."""
    place = socket_of(name)
    place.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        mask = os.umask(0o177)
        try:
            with socket_address(name) as address:
                listener.bind(address)
        finally:
            os.umask(mask)
        listener.listen(1)
        try:
            yield listener
        finally:
            place.unlink(missing_ok=True)


def run(name: str, url: str, idle_s: float, *, warm: bool = False) -> int:
    """Run the session until it ends; return the exit code."""
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    record = record_of(name)
    with locked(record) as mine:
        if not mine:
            say("another session has this name")
            return 1
        began = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        description = BackgroundSession(name, os.getpid(), url, began, idle_s)
        record.write_text(json.dumps(asdict(description)), encoding="utf-8")
        say(f"session {name} of {url} began, process {os.getpid()}")
        with tempfile.TemporaryDirectory(prefix="lineage-session-") as folder:
            with listening(name) as listener:
                spark = StartedSpark(Path(folder))
                server = BackgroundServer(url, idle_s, spark)
                if warm:
                    server.warm_up()
                try:
                    why = server.serve(listener)
                except SystemExit:
                    why = "a signal"
                # From here on clients find no session.
            say(f"ends: {why}")
            _end_at_the_latest(END_S)
            spark.stop()
        record.unlink(missing_ok=True)
    say("ended")
    return 0


def _end(*_: object) -> None:
    raise SystemExit(0)


def _end_at_the_latest(seconds: float) -> None:
    def end() -> None:
        say("ends without an end of Spark")
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    code = run(sys.argv[1], sys.argv[2], float(sys.argv[3]), warm=sys.argv[4:] == ["warm"])
    sys.stderr.flush()
    # Threads of PySpark must not keep the process alive.
    os._exit(code)
