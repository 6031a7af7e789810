"""Materialised lineage stays when its application is deleted: who takes the id over is granted nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from lineage_query_api import granted_store
from lineage_query_api.app import create_app
from lineage_query_api.auth import new_token
from lineage_query_api.settings import read_settings
from lineage_store.materialised import NAME_ENDING
from lineage_store.sqlite.store import SqliteStore
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
SECRET = "hr-merger"


@pytest.mark.parametrize("rule", ["", '[[hide]]\ndatasets = ["/nowhere/*"]\n'])
@pytest.mark.parametrize("taken_over", [False, True])
def test_who_takes_over_the_id_of_an_application_sees_no_rows_of_the_former(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str, taken_over: bool
) -> None:
    monkeypatch.setattr(granted_store, "NAMES_S", 0.0)
    url = f"sqlite:///{tmp_path}/lineage.db"
    name = "hush" if taken_over else "shop sales"
    for folder in (SECRET, "mine"):
        (tmp_path / folder).mkdir()
    store_run(url, tmp_path / SECRET, "a.rows", name=f"{name}{NAME_ENDING}")
    # Either its application, or another one that came after it.
    store_run(url, tmp_path / "mine", "a", name="shop sales")
    token, line = new_token("ann", "reader", rows=True)
    (tmp_path / "tokens.toml").write_text(line)
    grant = '[[grant]]\ncallers = ["token:ann"]\napplications = ["shop sales"]\nrows = true\n'
    (tmp_path / "grants.toml").write_text(grant + rule)
    settings = read_settings(
        store=url,
        api_tokens=str(tmp_path / "tokens.toml"),
        api_grants=str(tmp_path / "grants.toml"),
        api_roots=str(tmp_path),
    )
    trace = {"direction": "backward", "start": {"places": ["write#0#0"]}}
    with (
        SqliteStore(tmp_path / "lineage.db") as store,
        TestClient(create_app(store, settings), base_url="http://127.0.0.1:8484") as client,
    ):
        client.headers["Authorization"] = f"Bearer {token}"
        of_rows = "/v1/applications/a.rows"
        replies = [
            client.get(of_rows),
            client.get(f"{of_rows}/graph"),
            client.get(f"{of_rows}/rows", params={"address": "read#0#0"}),
            client.post(f"{of_rows}/traces", json=trace),
        ]
        assert client.get("/v1/applications/a").status_code == 200
        listed = {one["app"] for one in client.get("/v1/applications").json()["items"]}
    assert {reply.status_code for reply in replies} <= ({403, 404} if taken_over else {200, 201})
    assert listed == ({"a"} if taken_over else {"a", "a.rows"})
    assert any(SECRET in reply.text for reply in replies) != taken_over
