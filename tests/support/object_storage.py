"""A server that stands in for S3, in a process of its own: it counts requests, takes its time, and fails where a test wants it to.

``python -m tests.support.object_storage`` prints its port. Buckets and objects are moto's, in memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import WSGIRequestHandler, make_server

from lineage.stack.ports import LOOPBACK

BUCKET = "bucket"
ACCOUNT = "123456789012"
CONTROL = "/_control"
MEETING_S = 30.0
"""How long a request waits for others at most."""


@dataclass
class Fault:
    """What goes wrong with requests of one method whose path has a text in it.

    ``times``: how many requests fail. ``is_done``: what was asked for is done nevertheless, and only the answer is lost.
    """

    method: str
    text: str
    status: str = "503 Service Unavailable"
    times: int = 1
    is_done: bool = False


class CountedStorage:
    """A WSGI application: moto behind counts, a delay and faults."""

    def __init__(self) -> None:
        self._inner = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Condition()
        self._counts: Counter[str] = Counter()
        self._at_once = self._most_at_once = 0
        self._delay_s = 0.0
        self._meeting = 0
        self._faults: list[Fault] = []
        s3_backends[ACCOUNT]["aws"].create_bucket(BUCKET, "us-east-1")

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == CONTROL:
            length = int(environ.get("CONTENT_LENGTH") or 0)
            told = json.loads(environ["wsgi.input"].read(length) or b"{}")
            start("200 OK", [("Content-Type", "application/json")])
            return [json.dumps(self._control(told)).encode()]
        fault = self._counted(environ)
        try:
            self._wait(environ)
            if fault is None:
                return list(self._inner(environ, start))
            if fault.is_done:
                list(self._inner(environ, lambda *_: None))
            else:
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start(fault.status, [("Content-Type", "text/plain")])
            return [b"as the test wants it"]
        finally:
            with self._lock:
                self._at_once -= 1

    def _wait(self, environ: Mapping[str, Any]) -> None:
        time.sleep(self._delay_s)
        with self._lock:
            self._lock.notify_all()
            if environ["REQUEST_METHOD"] == "GET" and environ["PATH_INFO"].endswith(".parquet"):
                self._lock.wait_for(lambda: self._most_at_once >= self._meeting, MEETING_S)

    def _counted(self, environ: dict[str, Any]) -> Fault | None:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        kind = "LIST" if "list-type" in environ.get("QUERY_STRING", "") else method
        with self._lock:
            self._counts[kind] += 1
            self._at_once += 1
            self._most_at_once = max(self._most_at_once, self._at_once)
            for fault in self._faults:
                if fault.times and fault.method == kind and fault.text in path:
                    fault.times -= 1
                    return fault
        return None

    def _control(self, told: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            said = {"counts": dict(self._counts), "at_once": self._most_at_once}
            said["faults_left"] = sum(fault.times for fault in self._faults)
            self._counts.clear()
            self._most_at_once = self._at_once
            self._delay_s = told.get("delay_s", self._delay_s)
            self._meeting = told.get("meeting", 0)
            if "faults" in told:
                self._faults = [Fault(**fault) for fault in told["faults"]]
        return said


@dataclass(frozen=True)
class Requests:
    """What was asked of the server since the last look. ``at_once``: most requests at the same time."""

    counts: Mapping[str, int]
    at_once: int
    faults_left: int

    @property
    def total(self) -> int:
        """How many there were."""
        return sum(self.counts.values())


@dataclass(frozen=True)
class ObjectStorage:
    """A running server."""

    port: int

    @property
    def settings(self) -> dict[str, str]:
        """The environment of programs that use it."""
        return {
            "AWS_ENDPOINT_URL": f"http://{LOOPBACK}:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }

    def requests(self) -> Requests:
        """What was asked since the last call."""
        return Requests(**self._tell({}))

    def delay(self, seconds: float) -> None:
        """Have each request take so long."""
        self._tell({"delay_s": seconds})

    def meet(self, count: int) -> None:
        """Have those that read files wait until so many requests are there at the same time; forgets what was counted."""
        self._tell({"meeting": count})

    def fail(self, *faults: Fault) -> None:
        """Have these requests fail, and no others."""
        self._tell({"faults": [asdict(fault) for fault in faults]})

    def _tell(self, what: Mapping[str, Any]) -> Any:
        body = json.dumps(what).encode()
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self.port}{CONTROL}", body, 60) as reply:
            return json.load(reply)


@contextmanager
def object_storage() -> Iterator[ObjectStorage]:
    """Start a server with an empty `BUCKET`; it ends with the block."""
    command = [sys.executable, "-m", "tests.support.object_storage"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield ObjectStorage(int(server.stdout.readline()))
    finally:
        server.kill()
        server.communicate()


class _Silent(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_: Any, **__: Any) -> None: ...


def main() -> None:
    """Serve until standard input ends: with the process that started it."""
    server = make_server(LOOPBACK, 0, CountedStorage(), threaded=True, request_handler=_Silent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
