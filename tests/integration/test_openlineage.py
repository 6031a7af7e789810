"""Events over HTTP, to a real server on loopback that answers what a test says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from openlineage.client.event_v2 import RunEvent
from typer.testing import CliRunner

from lineage.main import app
from lineage_core.contract.message import Begin
from lineage_openlineage.errors import OpenLineageError, OpenLineageUnavailableError
from lineage_openlineage.facts import facts_of
from lineage_openlineage.sending import Endpoint, events_of, lines_of, send
from lineage_openlineage.settings import OpenLineageSettings
from lineage_store.copying import copy_application
from lineage_store.neo4j.connection import read_address
from lineage_store.neo4j.published_runs import CLAIM_S
from lineage_store.neo4j.store import Neo4jStore
from lineage_store.sqlite.store import SqliteStore
from lineage_writer.metrics import Metrics
from lineage_writer.publishing import Publisher
from tests.support.servers import Neo4jUnderTest
from tests.support.stored_lineage import store_run
from tests.support.stores import empty_neo4j
from tests.support.writer_process import wait_until

pytestmark = pytest.mark.integration


@dataclass
class Backend:
    """What a server was sent, and what it answers: one status after the other, then 201."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    requests: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)


@contextmanager
def serving(backend: Backend) -> Iterator[Backend]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            backend.requests.append((self.command, self.path, dict(self.headers), body))
            status = backend.statuses.pop(0) if backend.statuses else 201
            self.send_response(status)
            if status in (301, 302):
                self.send_header("Location", f"{backend.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET = _answer

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    backend.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield backend
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def backend() -> Iterator[Backend]:
    with serving(Backend()) as found:
        yield found


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[RunEvent]:
    """Those of a word count, which the store of the working directory holds."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".lineage").mkdir()
    store_run("sqlite:///.lineage/lineage.db", tmp_path)
    with SqliteStore(tmp_path / ".lineage/lineage.db") as store:
        return events_of(facts_of(store, "app-1"))


def bodies(backend: Backend) -> list[Any]:
    return [body for *_, body in backend.requests]


def test_events_arrive_in_order_and_whole(backend: Backend, events: list[RunEvent]) -> None:
    send(events, Endpoint(backend.url, api_key="a key"))
    assert bodies(backend) == [json.loads(line) for line in lines_of(events)]
    for method, path, headers, _ in backend.requests:
        assert (method, path) == ("POST", "/api/v1/lineage")
        assert headers["Authorization"] == "Bearer a key"
        assert headers["Content-Type"] == "application/json"


def test_a_url_with_a_path_is_the_endpoint_itself(backend: Backend, events: list[RunEvent]) -> None:
    send(events, Endpoint(f"{backend.url}/base/lineage?x=1"))
    assert [path for _, path, *_ in backend.requests] == ["/base/lineage?x=1"] * 2
    assert all("Authorization" not in headers for *_, headers, _ in backend.requests)


def test_a_backend_that_stumbles_is_asked_again(backend: Backend, events: list[RunEvent]) -> None:
    backend.statuses = [503]
    send(events, Endpoint(backend.url))
    assert [body["eventType"] for body in bodies(backend)] == ["START", "START", "COMPLETE"]


@pytest.mark.parametrize(
    ("statuses", "kind", "message"),
    [
        ([503] * 9, OpenLineageUnavailableError, "can't reach|answers 503"),
        ([400], OpenLineageError, "refuses the event: 400"),
        ([401], OpenLineageError, "LINEAGE_OPENLINEAGE_API_KEY"),
        ([429], OpenLineageUnavailableError, "429: send again later"),
        ([302], OpenLineageError, "redirect"),
    ],
)
def test_what_is_not_taken_is_said(
    backend: Backend,
    events: list[RunEvent],
    statuses: list[int],
    kind: type[Exception],
    message: str,
) -> None:
    backend.statuses = statuses
    with pytest.raises(kind, match=message) as error:
        send(events, Endpoint(backend.url, api_key="a key"))
    assert "a key" not in str(error.value)


def test_nobody_there(events: list[RunEvent]) -> None:
    with serving(Backend()) as gone:
        url = gone.url
    with pytest.raises(OpenLineageUnavailableError, match="can't reach the OpenLineage backend"):
        send(events, Endpoint(url))


def test_settings_of_the_client_do_not_matter(
    backend: Backend, events: list[RunEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    send(events, Endpoint(backend.url))
    assert bodies(backend) == [json.loads(line) for line in lines_of(events)]


def lineage(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(app, arguments, env=env)


@pytest.mark.long
def test_writers_tell_of_each_application_once(
    backend: Backend, neo4j: Neo4jUnderTest, events: list[RunEvent]
) -> None:
    settings = OpenLineageSettings(openlineage_url=backend.url)
    address = read_address(neo4j.uri, neo4j.settings)
    with (
        empty_neo4j(neo4j) as store,
        SqliteStore(Path(".lineage/lineage.db")) as sqlite,
        Neo4jStore(address) as again,
    ):
        copy_application(sqlite, store, "app-1")
        store.write("running", [Begin(app="running", name="job", started_at=time.time())])
        first = Publisher(settings, lambda: store, Metrics())
        second = Publisher(settings, lambda: again, Metrics())
        backend.statuses = [400]
        first.publish_ended()
        assert store.published_runs().unpublished() == ["app-1"]
        # A claim that nobody finishes keeps others away, for a while.
        assert store.published_runs().claim("app-1", time.time())
        second.publish_ended()
        assert not again.published_runs().claim("app-1", time.time())
        assert again.published_runs().claim("app-1", time.time() + CLAIM_S + 1)
        again.published_runs().release("app-1")
        backend.requests.clear()
        third = Publisher(settings, lambda: again, Metrics())
        third.start()
        wait_until(lambda: not store.published_runs().unpublished(), "app-1 is told of")
        third.stop(60)
        assert bodies(backend) == [json.loads(line) for line in lines_of(events)]
        # An end that came late is told of, too; what was told so is not.
        store.published_runs().record_published("app-1", "abandoned")
        assert store.published_runs().unpublished() == ["app-1"]
        store.published_runs().record_published("app-1", "ok")
        # Its thread has closed it; the other one has nothing left to tell.
        first.publish_ended()
        assert len(bodies(backend)) == 2


def test_the_command_sends_and_sends_again_the_same(
    backend: Backend, events: list[RunEvent]
) -> None:
    named = {"LINEAGE_OPENLINEAGE_URL": backend.url}
    result = lineage("openlineage", "app-1", **named)
    assert result.exit_code == 0, result.output
    assert "START and COMPLETE of run" in result.stdout
    again = lineage("openlineage", "--url", backend.url, "--json")
    assert json.loads(again.stdout)["events"] == ["START", "COMPLETE"]
    first, second = bodies(backend)[:2], bodies(backend)[2:]
    assert first == second
