"""Requests to the query API, in this process: paths, parameters, headers and bodies."""

from __future__ import annotations

import asyncio
import atexit
import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode

import httpx
import structlog

from lineage_query_api.app import create_app
from lineage_query_api.settings import read_settings
from lineage_store.url import open_store
from tests.fuzz.fuzzing import Target
from tests.fuzz.mutating import NUMBERS, TEXTS, json_text, mutated_bytes, mutated_json
from tests.fuzz.served import FRAMES_APP, RDD_APP, dropped, store_lineage

BODIES = (
    {"direction": "backward", "start": {"places": ["write#0#1"]}},
    {"direction": "forward", "start": {"places": ["read#0#0", "in.txt:1"]}, "limit": 3},
)
HEADERS = ("x-request-id", "content-type", "accept", "authorization", "content-length", "host", "x-forwarded-for", "range",
           "if-none-match", "cookie", "transfer-encoding")  # fmt: skip


class Failed(Exception):
    """An answer that no request may bring about."""


class Client:
    """A client of a query API over a small word count; both in this process."""

    def __init__(self) -> None:
        # Lines of the log would be kept without end.
        structlog.configure(processors=[dropped])
        self._folder = tempfile.TemporaryDirectory(prefix="lineage-fuzz-")
        atexit.register(self._close)
        url = store_lineage(Path(self._folder.name))
        store = open_store(url)
        app = create_app(
            store,
            read_settings(
                store=url, api_roots=self._folder.name, api_open=True, api_rate="1000000000/second"
            ),
        )
        self._loop = asyncio.new_event_loop()
        transport = httpx.ASGITransport(app, raise_app_exceptions=True)
        self._client = httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", timeout=60
        )
        self.operations = operations_of(app.openapi())
        made = self.ask("POST", "/v1/applications/app-1/traces", json=BODIES[0])
        trace = json.loads(made.content)["trace"]
        self.there = {
            "app": (RDD_APP, FRAMES_APP),
            "node": ("read", "write", "frame1"),
            "trace": (trace,),
        }

    def _close(self) -> None:
        self._loop.close()
        self._folder.cleanup()

    def ask(self, method: str, path: str, **given: object) -> httpx.Response:
        """One answer."""
        request = self._client.request(method, path, **given)  # type: ignore[arg-type]
        return self._loop.run_until_complete(request)


def operations_of(described: dict[str, object]) -> list[tuple[str, str, list[str]]]:
    """Method, path and names of parameters of each; but none that deletes what others ask for."""
    found = []
    for path, methods in described["paths"].items():  # type: ignore[attr-defined]
        for method, operation in methods.items():
            names = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
            if method != "delete":
                found.append((method.upper(), path, names))
    return found


class _Lazily:
    client: Client | None = None

    @classmethod
    def get(cls) -> Client:
        cls.client = cls.client or Client()
        return cls.client


There = Mapping[str, Sequence[str]]
"""Names of what there is, by kind."""


@dataclass
class Asked:
    """One request, as a client that keeps to HTTP may send it. ``path``: with its query."""

    method: str
    path: str
    headers: dict[str, bytes] = field(default_factory=dict)
    body: bytes = b""


def drawn_request(
    draw: random.Random, operations: Sequence[tuple[str, str, list[str]]], there: There
) -> Asked:
    """A request of one of the operations, with some of its parts mutated."""
    method, path, names = draw.choice(operations)
    for name in there:
        path = path.replace(f"{{{name}}}", _part(draw, there[name]))
    for hole in ("{path}", "{place}", "{row}", "{name}"):
        path = path.replace(hole, _part(draw, ("write#0#1",)))
    if draw.random() < 0.1:
        path = quote(mutated_bytes(draw, path.encode(), b"/v1/../"), safe="/%?#&")
    if draw.random() < 0.05:
        method = draw.choice(("GET", "POST", "PUT", "HEAD", "OPTIONS", "PATCH", "BREW"))
    query = {name: _value(draw) for name in names if draw.random() < 0.4}
    asked = Asked(method, "/" + path.lstrip("/"))
    if query:
        asked.path += "?" + urlencode(query, errors="surrogatepass")
    if method not in ("GET", "HEAD"):
        asked.body = _body(draw)
    if draw.random() < 0.2:
        asked.headers[draw.choice(HEADERS)] = _header(draw)
    asked.headers.setdefault("content-type", b"application/json")
    return asked


def _request(draw: random.Random) -> None:
    client = _Lazily.get()
    asked = drawn_request(draw, client.operations, client.there)
    try:
        answer = client.ask(asked.method, asked.path, content=asked.body, headers=asked.headers)
    except (httpx.InvalidURL, httpx.LocalProtocolError, UnicodeEncodeError):
        return  # No client can send it.
    if answer.status_code >= 500:
        raise Failed(f"{answer.status_code}: {asked.method} {asked.path}")


def _part(draw: random.Random, there: Sequence[str]) -> str:
    given = draw.choice(there)
    if draw.random() < 0.5:
        return quote(given, safe="")
    if draw.random() < 0.3:
        return quote(draw.choice(TEXTS)[:2_000].encode("utf-8", "surrogatepass"), safe="")
    return quote(mutated_bytes(draw, given.encode(), b"read"), safe="")


VALUES = ("1", "backward", "forward", "csv", "json", "read", "write#0#1", "in.txt:1", "true", "a")


def _value(draw: random.Random) -> str:
    match draw.randrange(4):
        case 0:
            return str(draw.choice(NUMBERS))
        case 1:
            return draw.choice(TEXTS)[:2_000].encode("utf-8", "replace").decode()
        case 2:
            given = draw.choice(VALUES).encode()
            return mutated_bytes(draw, given, b"0").decode("utf-8", "replace")
        case _:
            return draw.choice(VALUES)


def _header(draw: random.Random) -> bytes:
    raw = mutated_bytes(
        draw, draw.choice((b"application/json", b"Bearer x", b"9", b"bytes=0-3")), b"127.0.0.1"
    )
    return bytes(one for one in raw if one >= 32 and one != 127)


def _body(draw: random.Random) -> bytes:
    body, other = draw.choice(BODIES), draw.choice(BODIES)
    if draw.random() < 0.1:
        return mutated_bytes(draw, json.dumps(body).encode(), b"[]")
    return json_text(draw, mutated_json(draw, body, other)).encode("utf-8", "surrogatepass")


TARGETS = (Target("request", _request, (), "requests"),)
