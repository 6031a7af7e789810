"""Lengths that clients say their bodies have."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from lineage_query_api.app import create_app
from lineage_query_api.settings import read_settings
from lineage_store.sqlite.store import SqliteStore

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("length", "status"), [("9" * 5_000, 413), ("4097", 413), ("0" * 5_000 + "2", 422), ("2", 422)]
)
def test_a_length_of_any_number_of_digits_is_no_failure(
    tmp_path: Path, length: str, status: int
) -> None:
    path = tmp_path / "lineage.db"
    settings = read_settings(store=f"sqlite:///{path}", api_open=True, api_body_bytes=4_096)
    with SqliteStore(path) as store, TestClient(create_app(store, settings)) as client:
        headers = {"content-length": length}
        assert client.post("/v1/answers", content=b"{}", headers=headers).status_code == status
