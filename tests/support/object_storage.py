"""A server that stands in for S3, or for Google Cloud Storage, in a process of its own: it counts requests, takes its time, and fails where a test wants it to.

``python -m tests.support.object_storage s3`` (or ``gs``) prints its port. Buckets and objects are moto's, in memory. What delta-rs
sends to Google is its XML API, which has the requests and answers of S3, but for the login and for what a write depends on.
"""

from __future__ import annotations

import functools
import itertools
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

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import WSGIRequestHandler, make_server

from lineage.stack.ports import LOOPBACK

BUCKET = "bucket"
ACCOUNT = "123456789012"
CONTROL = "/_control"
LOGIN = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
GENERATION = "HTTP_X_GOOG_IF_GENERATION_MATCH"
"""0 in this header of Google's: write only what is not there yet. S3 says it by `If-None-Match: *`."""
MEETING_S = 30.0
"""How long a request waits for others at most."""

_folders = itertools.count()


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
    """A WSGI application: moto behind counts, a delay and faults.

    ``scheme``: of the addresses that it is for. A program that speaks otherwise is refused.
    """

    def __init__(self, scheme: str) -> None:
        self._scheme = scheme
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
            if self._scheme == "gs":
                _as_of_s3(environ)
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


def _as_of_s3(environ: dict[str, Any]) -> None:
    """Make a request of Google's API one of S3. Without a login there is none."""
    if environ.get("HTTP_AUTHORIZATION", "").startswith("Bearer ey"):
        environ["HTTP_AUTHORIZATION"] = LOGIN
    generation = environ.pop(GENERATION, None)
    if generation is not None:
        assert generation == "0"
        environ["HTTP_IF_NONE_MATCH"] = "*"


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
    scheme: str

    @property
    def settings(self) -> dict[str, str]:
        """The environment of programs that use it."""
        endpoint = f"http://{LOOPBACK}:{self.port}"
        if self.scheme == "gs":
            return {"GOOGLE_SERVICE_ACCOUNT_KEY": _google_account(endpoint)}
        return {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }

    def folder(self) -> str:
        """The URL of a folder that is not there yet."""
        return f"{self.scheme}://{BUCKET}/lakes/{next(_folders)}"

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


@functools.cache
def _google_account(endpoint: str) -> str:
    """The key of a service account, by which programs sign their logins, for a server of our own."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return json.dumps(
        {
            "type": "service_account",
            "client_email": "tests@example.org",
            "private_key": pem.decode(),
            "private_key_id": "1",
            "gcs_base_url": endpoint,
        }
    )


@contextmanager
def object_storage(scheme: str = "s3") -> Iterator[ObjectStorage]:
    """Start a server with an empty `BUCKET`, for addresses with `s3` or `gs`; it ends with the block."""
    command = [sys.executable, "-m", "tests.support.object_storage", scheme]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield ObjectStorage(int(server.stdout.readline()), scheme)
    finally:
        server.kill()
        server.communicate()


class _Silent(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_: Any, **__: Any) -> None: ...


def main(scheme: str) -> None:
    """Serve until standard input ends: with the process that started it."""
    storage = CountedStorage(scheme)
    server = make_server(LOOPBACK, 0, storage, threaded=True, request_handler=_Silent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
