"""A query API that starts before its store does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from lineage_query_api.app import create_app
from lineage_query_api.lazy_store import RETRY_S, open_lazily
from lineage_query_api.settings import read_settings
from lineage_store.errors import StoreError, StoreUnavailableError
from lineage_store.port import GraphStore
from lineage_store.sqlite.store import SqliteStore
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.unit


def opener(path: Path, silent: int) -> Callable[[], GraphStore]:
    """Opens a store, after so many tries that get no answer."""
    left = silent

    def open_store() -> GraphStore:
        nonlocal left
        left -= 1
        if left >= 0:
            raise StoreUnavailableError(f"nobody answers ({left} to go)")
        return SqliteStore(path)

    return open_store


def test_it_answers_before_the_store_does(tmp_path: Path) -> None:
    now = 0.0
    path = tmp_path / "lineage.db"
    app_id = store_run(f"sqlite:///{path}", tmp_path).app
    store = open_lazily(opener(path, silent=2), clock=lambda: now)
    settings = read_settings(store=f"sqlite:///{path}", api_open=True)
    with TestClient(create_app(store, settings)) as client:
        assert client.get("/healthz").status_code == 200
        away = client.get("/readyz")
        assert away.status_code == 503
        assert away.json()["problems"] == {"store": "nobody answers (0 to go)"}
        # Asked again at once, the store is left alone: the third try would have opened it.
        assert client.get("/v1/applications").status_code == 503
        now += RETRY_S
        assert client.get("/readyz").json() == {"ready": True, "problems": {}}
        assert [one["app"] for one in client.get("/v1/applications").json()["items"]] == [app_id]
    store.close()


def test_what_will_never_do_ends_it_at_once() -> None:
    def refuse() -> GraphStore:
        raise StoreError("the credentials are refused")

    with pytest.raises(StoreError, match="refused"):
        open_lazily(refuse)


def test_a_store_that_never_came_is_closed() -> None:
    def away() -> GraphStore:
        raise StoreUnavailableError("nobody answers")

    open_lazily(away).close()
