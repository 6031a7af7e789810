"""Requests to a query server of its own process, over real sockets: also what no client would send."""

from __future__ import annotations

import atexit
import gzip
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import h11
import httpx

from lineage_query_api.problems import MEDIA_TYPE, PROBLEM_SCHEMA
from tests.fuzz.fuzzing import BYTES_MAX, Target
from tests.fuzz.mutating import mutated_bytes
from tests.fuzz.requests import BODIES, Asked, Failed, There, drawn_request, operations_of
from tests.fuzz.served import FRAMES_APP, RDD_APP

ANSWER_S = 60
"""A request that framing shows to be whole is answered by then, on a machine that has other work, too."""
SILENCE_S = 0.02
"""So long an answer is waited for to what may be no whole request."""
TICKS = os.sysconf("SC_CLK_TCK")
TYPES = {"string": str, "integer": int}
COOKIES = (b"lineage_8484=x", b"a=b; c", b"=;=;,", b'"\\', b"\xff=\xfe", b"a=" + b"b" * 9_000)
ENCODINGS = (b"gzip", b"br", b"identity", b"gzip, gzip", b"x" * 500)
CONTENT_TYPES = (b"application/json", b"application/json; charset=utf-16", b"text/plain", b"multipart/form-data; boundary=a",
                 b"application/x-www-form-urlencoded", b"a/b/c", b"")  # fmt: skip
ODD_HEADERS = (b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n", b"Host: a\r\n", b" folded\r\n",
               b"Upgrade: websocket\r\nConnection: Upgrade\r\n", b"Connection: close\r\n", b"X: \0\r\n", b"Range: bytes=0-0,-1\r\n",
               b"X-Forwarded-For: " + b"1," * 9_000 + b"\r\n", b"A:\r\n" * 2_000, b"Origin: null\r\n")  # fmt: skip


class Server:
    """The server, and what it costs."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lineage-fuzz-")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.served", self._folder.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        atexit.register(self.close)
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        at = urlsplit(self.address)
        self.at = at.hostname or "", at.port or 0
        self.operations = operations_of(httpx.get(self.address + "/openapi.json").json())
        path = f"{self.address}/v1/applications/{RDD_APP}/traces"
        trace = httpx.post(path, json=BODIES[0]).json()["trace"]
        # Imports for the first time what takes about a second.
        httpx.get(f"{self.address}/v1/applications/{RDD_APP}/openlineage")
        self.there: There = {
            "app": (RDD_APP, FRAMES_APP),
            "node": ("read", "write", "frame1"),
            "trace": (trace,),
        }

    def close(self) -> None:
        """End it."""
        if self._process.returncode is None:
            self._process.communicate("")
        self._folder.cleanup()

    def is_well(self) -> bool:
        """Whether it answers."""
        return httpx.get(self.address + "/readyz", timeout=ANSWER_S).status_code == 200

    def seconds(self) -> float:
        """Seconds of a core that it has spent."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def forget_peak(self) -> int:
        """Count the peak of its memory anew; the bytes that it has."""
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")
        return self._memory("VmRSS:")

    def peak(self) -> int:
        """Most bytes that it had since."""
        return self._memory("VmHWM:")

    def _memory(self, name: str) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition(name)[2].split(maxsplit=1)[0]) << 10


@cache
def the_server() -> Server:
    """The one server of this process's mutations."""
    return Server()


def _seconds() -> float:
    return the_server().seconds()


def _exchange(draw: random.Random) -> None:
    """One connection, with one or some requests."""
    server = the_server()
    asked = [
        drawn_request(draw, server.operations, server.there)
        for _ in range(1 if draw.random() < 0.85 else draw.randrange(2, 6))
    ]
    raw = b"".join(_written(draw, one) for one in asked)
    methods: list[str] | None = [one.method for one in asked]
    # An answer to HEAD has no body: who does not know where it is can't read what follows.
    if draw.random() < 0.15 and all(one.method != "HEAD" for one in asked):
        raw, methods = _broken(draw, raw), None
    memory = server.forget_peak()
    statuses = _answered(server, raw, methods)
    if server.peak() - memory > BYTES_MAX:
        raise Failed(f"took {server.peak() - memory >> 20} MB: {raw[:2_000]!r}")
    if not statuses and methods is not None:
        raise Failed(f"no answer: {raw[:2_000]!r}")
    if draw.random() < 0.002 and not server.is_well():
        raise Failed(f"does not answer after {raw[:2_000]!r}")


def _written(draw: random.Random, asked: Asked) -> bytes:
    """A request, by one of the framings of HTTP/1.1."""
    headers = {**asked.headers, "host": b"localhost"}
    for name in ("content-length", "transfer-encoding"):
        headers.pop(name, None)
    if draw.random() < 0.1:
        headers["cookie"] = draw.choice(COOKIES)
    if draw.random() < 0.1:
        headers["content-type"] = draw.choice(CONTENT_TYPES)
    body = asked.body
    if draw.random() < 0.1:
        headers["content-encoding"] = draw.choice(ENCODINGS)
        body = gzip.compress(body) if draw.random() < 0.5 else body
    if draw.random() < 0.1:
        headers["accept-encoding"] = draw.choice(ENCODINGS)
    framed = body
    if body and draw.random() < 0.3:
        headers["transfer-encoding"] = b"chunked"
        framed = b"".join(_chunks(draw, body))
    elif body or draw.random() < 0.1:
        headers["content-length"] = str(len(body)).encode()
    lines = b"".join(name.encode() + b": " + value + b"\r\n" for name, value in headers.items())
    return f"{asked.method} {asked.path} HTTP/1.1\r\n".encode() + lines + b"\r\n" + framed


def _chunks(draw: random.Random, body: bytes) -> Iterator[bytes]:
    size = draw.choice((1, 7, 100, 10_000))
    for at in range(0, len(body), size):
        part = body[at : at + size]
        extension = draw.choice((b"", b";a=b", b"")) if at == 0 else b""
        yield f"{len(part):x}".encode() + extension + b"\r\n" + part + b"\r\n"
    yield b"0\r\n" + draw.choice((b"", b"", b"X-Trailer: a\r\n")) + b"\r\n"


def _broken(draw: random.Random, raw: bytes) -> bytes:
    """What may be no request any more: half of one, with other headers, or with mutated bytes."""
    match draw.randrange(3):
        case 0:
            return raw[: draw.randrange(len(raw))]
        case 1:
            at = raw.find(b"\r\n") + 2
            return raw[:at] + draw.choice(ODD_HEADERS) + raw[at:]
        case _:
            return mutated_bytes(draw, raw, b"HTTP/1.1\r\n\r\nTransfer-Encoding: chunked\r\n")


def _answered(server: Server, raw: bytes, methods: list[str] | None) -> list[int]:
    """Statuses of the answers; ``methods``: of the requests, None where nobody knows how many there are.

    Raises:
        Failed: one is no HTTP, a failure of the server, or an error without its form.
    """
    statuses: list[int] = []
    with socket.create_connection(server.at, timeout=ANSWER_S) as client:
        try:
            client.sendall(raw)
        except (ConnectionResetError, BrokenPipeError):
            return [400]  # It was refused before it had come to its end.
        if methods is None:
            client.settimeout(SILENCE_S)
        said = b""
        try:
            while methods is None or len(statuses) < len(methods):
                is_head = methods is not None and methods[len(statuses)] == "HEAD"
                answer, said = _next_answer(client, said, is_head=is_head)
                if answer is None:
                    break
                statuses.append(checked(answer, raw, is_head=is_head))
        except TimeoutError:
            if methods is not None:
                raise Failed(f"no answer within {ANSWER_S} s: {raw[:2_000]!r}") from None
        except ConnectionResetError:
            return statuses or [400]
    return statuses


Answer = tuple[h11.Response, bytes]


def _next_answer(
    client: socket.socket, said: bytes, *, is_head: bool
) -> tuple[Answer | None, bytes]:
    """The next answer (None: the server closed), and what was read behind it."""
    reading = h11.Connection(h11.CLIENT)
    method = b"HEAD" if is_head else b"GET"
    reading.send(h11.Request(method=method, target=b"/", headers=[(b"host", b"a")]))
    reading.send(h11.EndOfMessage())
    if said:
        reading.receive_data(said)
    head, body = None, b""
    while True:
        event = reading.next_event()
        if event is h11.NEED_DATA:
            got = client.recv(1 << 20)
            if not got and head is None and not reading.trailing_data[0]:
                return None, b""
            reading.receive_data(got)
        elif isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            return (head, body), bytes(reading.trailing_data[0])
        elif isinstance(event, h11.ConnectionClosed):
            return None, b""


def checked(answer: Answer, raw: bytes, *, is_head: bool) -> int:
    """The status of an answer.

    Raises:
        Failed: it is a failure of the server, or an error that does not fit the schema of errors.
    """
    head, body = answer
    status = head.status_code
    if status >= 500:
        raise Failed(f"{status}: {raw[:2_000]!r}")
    if status >= 400 and not (is_head and not body):
        headers = dict(head.headers)
        kind = headers.get(b"content-type", b"").decode()
        if headers.get(b"content-encoding") == b"gzip":
            body = gzip.decompress(body)
        if kind != MEDIA_TYPE or not _is_problem(body, status):
            raise Failed(f"{status} is no problem: {body[:200]!r} to {raw[:2_000]!r}")
    return status


def _is_problem(body: bytes, status: int) -> bool:
    """Whether it fits the schema of errors."""
    try:
        found = json.loads(body)
    except ValueError:
        return False
    properties: dict[str, dict[str, str]] = PROBLEM_SCHEMA["properties"]  # type: ignore[assignment]
    return (
        isinstance(found, dict)
        and set(PROBLEM_SCHEMA["required"]) <= set(found) <= set(properties)
        and all(isinstance(found[name], TYPES[properties[name]["type"]]) for name in found)
        and found["status"] == status
    )


TARGETS = (Target("http", _exchange, (), "requests over HTTP", _seconds),)
