"""Answers that a client has are not sent again, and none that differs is taken for the one it has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient

from lineage_query_api.app import create_app
from lineage_query_api.settings import read_settings
from lineage_store.url import open_store
from tests.support.api_server import word_count_served
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.integration
APP = "/v1/applications/app-1"
PATHS = (
    APP,
    f"{APP}/completeness",
    f"{APP}/graph",
    f"{APP}/nodes",
    f"{APP}/nodes/read/columns",
    f"{APP}/nodes/read/failed-calls",
    f"{APP}/openlineage",
    "/v1/applications",
    "/v1/records",
    "/v1/jobs",
    "/v1/runs?job=job",
    "/v1/datasets",
)
UNTAGGED = (
    f"{APP}/progress",
    f"{APP}/nodes/read/items",
    f"{APP}/rows?address=read%230%230",
    "/v1/me",
    "/v1/sign-in",
)
"""What depends on the time, on files or on the caller alone."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with word_count_served(tmp_path_factory.mktemp("tagged")) as client:
        yield client


@pytest.mark.parametrize("path", PATHS)
def test_an_answer_that_the_client_has_is_not_sent_again(client: httpx.Client, path: str) -> None:
    first = client.get(path)
    tag = first.headers["etag"]
    assert first.status_code == 200
    assert first.content
    assert re.fullmatch('"[0-9a-f]{64}(-gzip)?"', tag)
    assert first.headers["cache-control"] == "private, no-cache"
    assert "authorization" in first.headers["vary"].lower()
    for sent in (tag, f'"other", {tag}', f"W/{tag}"):
        again = client.get(path, headers={"If-None-Match": sent})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
        assert again.headers["cache-control"] == "private, no-cache"
        assert again.headers["x-content-type-options"] == "nosniff"
    for sent in ('"other"', "*", "", tag.strip('"')):
        assert client.get(path, headers={"If-None-Match": sent}).content == first.content


@pytest.mark.parametrize("path", UNTAGGED)
def test_what_may_be_another_answer_at_once_has_no_tag(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    assert "etag" not in answer.headers
    assert answer.headers["cache-control"] == "no-store"


def test_a_head_has_the_tag_of_its_get(client: httpx.Client) -> None:
    tag = client.get(f"{APP}/graph").headers["etag"]
    head = client.head(f"{APP}/graph")
    assert (head.status_code, head.headers["etag"]) == (200, tag)
    again = client.head(f"{APP}/graph", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")


def test_a_compressed_answer_has_a_tag_of_its_own(client: httpx.Client) -> None:
    packed = client.get(f"{APP}/graph", headers={"Accept-Encoding": "gzip"})
    plain = client.get(f"{APP}/graph", headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["etag"] != plain.headers["etag"]
    for answer in (packed, plain):
        tag = answer.headers["etag"]
        again = client.get(f"{APP}/graph", headers={"If-None-Match": tag})
        assert (again.status_code, again.headers["etag"]) == (304, tag)


def test_a_deletion_and_another_application_of_the_same_id_change_the_tag(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lineage.db"
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
    store_run(url, tmp_path / "first", name="job")
    with open_store(url) as store:
        server = create_app(store, read_settings(store=url, api_open=True))
        with TestClient(server, base_url="http://127.0.0.1:8484") as client:
            kept = {path: client.get(path) for path in PATHS}
            assert client.delete(APP).status_code == 204
            for path, before in kept.items():
                after = client.get(path, headers={"If-None-Match": before.headers["etag"]})
                assert after.status_code != 304, path
            store_run(url, tmp_path / "second", name="job", started_at=2000.0)
            unchanged = set()
            for path, before in kept.items():
                after = client.get(path, headers={"If-None-Match": before.headers["etag"]})
                if after.status_code == 304:
                    assert client.get(path).content == before.content
                    unchanged.add(path)
            assert not unchanged & {APP, f"{APP}/openlineage", "/v1/records", "/v1/runs?job=job"}


def test_no_refusal_has_a_tag(client: httpx.Client) -> None:
    tag = client.get(f"{APP}/graph").headers["etag"]
    gone = client.get("/v1/applications/gone/graph", headers={"If-None-Match": tag})
    assert gone.status_code == 404
    assert "etag" not in gone.headers
    assert gone.headers["cache-control"] == "no-store"
