"""Answers are compressed for clients that take that, but for lines that tell of progress."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.support.api_server import word_count_served

pytestmark = pytest.mark.integration
TRACED = {"direction": "backward", "start": {"places": ["write#0#1"]}}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with word_count_served(tmp_path_factory.mktemp("compressed")) as client:
        yield client


def test_an_answer_is_compressed_for_who_takes_it(client: httpx.Client) -> None:
    graph = "/v1/applications/latest/graph"
    packed = client.get(graph, headers={"Accept-Encoding": "gzip"})
    plain = client.get(graph, headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.json() == plain.json()
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"])
    # A cache between must not give one for the other, and the caller's own asks first whether it has changed.
    assert "accept-encoding" in packed.headers["vary"].lower()
    assert "accept-encoding" in plain.headers["vary"].lower()
    assert packed.headers["cache-control"] == plain.headers["cache-control"] == "private, no-cache"


def test_lines_come_as_they_are_written(client: httpx.Client) -> None:
    trace = client.post("/v1/applications/latest/traces", json=TRACED).json()["trace"]
    lines = client.get(f"/v1/traces/{trace}/items.ndjson", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in lines.headers
    assert lines.text.count("\n") >= 1
