"""Clients that send or take hardly anything hold neither the server nor others up."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from lineage_core.contract.block import U64
from lineage_query.rows.reader import RootedReader
from lineage_query_api import connections
from lineage_query_api.app import create_app
from lineage_query_api.connections import BoundedConnection, Bounds
from lineage_query_api.settings import read_settings
from lineage_store.url import open_store
from tests.support.api_server import running
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
WAIT_S = 30
SHORT_S = 0.4
LONG = Bounds(request_s=WAIT_S, stalled_s=WAIT_S, answer_s=WAIT_S)


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Released for each connection that is ended as it is; and connections are looked at often."""
    counted = threading.Semaphore(0)
    drop = BoundedConnection._drop

    def counting(connection: BoundedConnection) -> None:
        drop(connection)
        counted.release()

    monkeypatch.setattr(BoundedConnection, "_drop", staticmethod(counting))
    monkeypatch.setattr(connections, "CHECK_EVERY_S", 0.02)
    return counted


@contextmanager
def served(folder: Path, bounds: Bounds) -> Iterator[tuple[str, int]]:
    url = f"sqlite:///{folder}/lineage.db"
    store_run(url, folder)
    with open_store(url) as store:
        app = create_app(store, read_settings(store=url, api_open=True, api_roots=str(folder)))
        app.state.bounds = bounds
        with running(app) as address:
            at = urlsplit(address)
            assert at.hostname is not None
            assert at.port is not None
            yield at.hostname, at.port


def until_closed(client: socket.socket, piece: bytes) -> bytes:
    """What a server says until it closes, to who sends a bit at a time as long as it listens."""
    said = b""
    client.settimeout(WAIT_S)
    for _ in range(WAIT_S * 100):
        if piece:
            try:
                client.sendall(piece)
            except OSError:
                piece = b""
        if select.select([client], [], [], 0.01 if piece else WAIT_S)[0]:
            try:
                got = client.recv(1 << 16)
            except ConnectionResetError:
                return said
            said += got
            if not got:
                return said
    raise AssertionError(f"the server did not close the connection; it said {said!r}")


def is_answered(at: tuple[str, int]) -> None:
    for path in ("/healthz", "/v1/applications"):
        assert httpx.get(f"http://{at[0]}:{at[1]}{path}", timeout=WAIT_S).status_code == 200


POST = b"POST /v1/answers HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SLOW: dict[str, tuple[bytes, bytes]] = {
    "line": (b"GET", b"a"),
    "headers": (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"a: b\r\n"),
    "body": (POST + b"Content-Length: 1000000\r\n\r\n", b" "),
    "chunks": (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "half": (POST + b"Content-Length: 100\r\n\r\n{", b""),
}


@pytest.mark.parametrize("name", SLOW)
@pytest.mark.usefixtures("dropped")
def test_a_request_that_does_not_end_is_refused_in_time(name: str, tmp_path: Path) -> None:
    begin, piece = SLOW[name]
    with (
        served(tmp_path, replace(LONG, request_s=SHORT_S)) as at,
        socket.create_connection(at) as client,
    ):
        client.sendall(begin)
        is_answered(at)
        head, _, body = until_closed(client, piece).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        assert b"content-type: application/problem+json" in head
        assert json.loads(body)["status"] == 408
        is_answered(at)


@pytest.mark.usefixtures("dropped")
def test_who_asks_nothing_is_closed_without_a_word(tmp_path: Path) -> None:
    with (
        served(tmp_path, replace(LONG, request_s=SHORT_S)) as at,
        socket.create_connection(at) as client,
    ):
        assert until_closed(client, b"") == b""


@pytest.mark.usefixtures("dropped")
@pytest.mark.parametrize(
    "rest", ["Content-Length: 1000000\r\n\r\n", "\r\nGET / HTTP/1.1\r\n"], ids=["body", "next"]
)
def test_a_first_answer_gives_no_time_without_end(rest: str, tmp_path: Path) -> None:
    """Neither to the body of a request that was answered already, nor to the request behind it."""
    # A busy machine answers late.
    method = "POST" if rest[0] == "C" else "GET"
    with (
        served(tmp_path, replace(LONG, request_s=5 * SHORT_S)) as at,
        socket.create_connection(at) as client,
    ):
        client.sendall(f"{method} /healthz HTTP/1.1\r\nHost: localhost\r\n{rest}".encode())
        said = until_closed(client, b"x")
        assert said.startswith(b"HTTP/1.1 405" if method == "POST" else b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "bounds",
    [replace(LONG, stalled_s=SHORT_S), replace(LONG, answer_s=SHORT_S)],
    ids=["stalled", "in all"],
)
def test_an_answer_that_nobody_takes_is_given_up(
    bounds: Bounds, tmp_path: Path, dropped: threading.Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = BoundedConnection.connection_made

    def small(connection: BoundedConnection, transport: asyncio.Transport) -> None:
        # Else the kernel takes all of the answer.
        accepted = transport.get_extra_info("socket")
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        made(connection, transport)

    monkeypatch.setattr(BoundedConnection, "connection_made", small)
    (tmp_path / "in.txt").write_text("".join(f"{row} {'x' * 60_000}\n" for row in range(5)))
    path = "/v1/applications/app-1/nodes/read/items"
    with served(tmp_path, bounds) as at, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(at)
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert dropped.acquire(timeout=WAIT_S)
        is_answered(at)


@pytest.mark.parametrize("sent", [b"", b"GET / HT", POST + b"Content-Length: 9\r\n\r\n"])
def test_hundreds_of_half_open_connections_keep_nobody_out(
    sent: bytes, tmp_path: Path, dropped: threading.Semaphore
) -> None:
    bound = 32
    with served(tmp_path, replace(LONG, connections=bound)) as at, ExitStack() as stack:
        clients = []
        for _ in range(400):
            clients.append(stack.enter_context(socket.create_connection(at)))
            clients[-1].sendall(sent)
            if len(clients) % 50 == 0:
                is_answered(at)
        for _ in range(400 - bound):
            assert dropped.acquire(timeout=WAIT_S)
        # Those that have waited longest.
        assert all(until_closed(client, b"") == b"" for client in clients[: 400 - bound])
        assert not select.select(clients[-5:], [], [], 0)[0]


def test_a_request_that_is_answered_is_not_ended_for_others(
    tmp_path: Path, dropped: threading.Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released = threading.Event(), threading.Event()
    rows = RootedReader.rows

    def held(reader: RootedReader, path: str, wanted: U64) -> list[str | None]:
        begun.set()
        released.wait(WAIT_S)
        return rows(reader, path, wanted)

    monkeypatch.setattr(RootedReader, "rows", held)
    with served(tmp_path, replace(LONG, connections=16)) as at, ExitStack() as stack:
        asking = stack.enter_context(socket.create_connection(at))
        asking.sendall(
            b"GET /v1/applications/app-1/nodes/read/items HTTP/1.1\r\nHost: localhost\r\n"
            b"Connection: close\r\n\r\n"
        )
        assert begun.wait(WAIT_S)
        for _ in range(40):
            stack.enter_context(socket.create_connection(at))
        for _ in range(25):
            assert dropped.acquire(timeout=WAIT_S)
        released.set()
        assert until_closed(asking, b"").startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n\r\n\0",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\na: " + b"b" * 100_000,
        POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
        POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ],
    ids=lambda sent: repr(sent[:20]),
)
def test_what_is_no_request_is_refused_by_a_problem(sent: bytes, tmp_path: Path) -> None:
    with served(tmp_path, LONG) as at, socket.create_connection(at) as client:
        client.sendall(sent)
        head, _, body = until_closed(client, b"").partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert b"content-type: application/problem+json" in head
        assert json.loads(body)["status"] == 400
        is_answered(at)


@pytest.mark.parametrize("host", ["elsewhere.example", "a b", "localhost:x", ""])
def test_an_unknown_name_is_refused_by_a_problem(host: str, tmp_path: Path) -> None:
    with served(tmp_path, LONG) as at, socket.create_connection(at) as client:
        client.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        head, _, body = until_closed(client, b"").partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert json.loads(body)["detail"] == "the server does not go by the name in the Host header"
