"""What a server keeps of applications, when their lineage changes or another run gets their id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from lineage_core.contract.message import Split, Splits
from lineage_query_api.app import create_app
from lineage_query_api.auth import new_token
from lineage_query_api.settings import read_settings
from lineage_store.sqlite.store import SqliteStore
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
GRANT = '[[grant]]\ncallers = ["token:ann"]\napplications = ["shop *"]\nrows = true\n'


def _client(folder: Path, grants: str) -> tuple[TestClient, dict[str, str]]:
    token, line = new_token("ann", "reader", rows=True)
    (folder / "tokens.toml").write_text(line)
    (folder / "grants.toml").write_text(grants)
    settings = read_settings(
        store="sqlite:///x",
        api_tokens=str(folder / "tokens.toml"),
        api_grants=str(folder / "grants.toml"),
        api_roots=str(folder),
    )
    client = TestClient(create_app(SqliteStore(folder / "lineage.db"), settings))
    return client, {"Authorization": f"Bearer {token}"}


def test_a_late_message_that_names_a_hidden_file_shows_nothing_of_it(tmp_path: Path) -> None:
    secret = tmp_path / "secret" / "data.txt"
    secret.parent.mkdir()
    secret.write_text("TOPSECRET one\nTOPSECRET two\n")
    url = f"sqlite:///{tmp_path}/lineage.db"
    (tmp_path / "shop").mkdir()
    store_run(url, tmp_path / "shop", "nightly", name="shop sales")
    client, headers = _client(tmp_path, f'{GRANT}[[hide]]\ndatasets = ["{secret.parent}/*"]\n')
    with client:

        def ask(path: str, **body: Any) -> str:
            reply = (
                client.post(path, headers=headers, json=body)
                if body
                else client.get(path, headers=headers)
            )
            return reply.text

        # It is complete and shows all of itself: both are kept.
        assert "in.txt" in ask("/v1/applications/nightly/graph")
        state = secret.stat()
        split = Split(
            partition=5,
            path=f"file:{secret}",
            start=0,
            length=state.st_size,
            file_size=state.st_size,
            mtime=state.st_mtime,
        )
        with SqliteStore(tmp_path / "lineage.db") as store:
            store.write("nightly", [Splits(app="nightly", node="0", splits=(split,))])
        traced = ask(
            "/v1/applications/nightly/traces",
            direction="backward",
            start={"places": ["read#5#0"]},
        )
        answered = ask("/v1/answers", direction="backward", places=[f"{secret}:1"])
    for text in (traced, answered):
        assert "TOPSECRET" not in text
    assert str(secret) not in traced


def test_another_application_is_not_shown_under_the_id_of_a_deleted_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lineage.db"
    for folder in ("shop", "other"):
        (tmp_path / folder).mkdir()
    store_run(url, tmp_path / "shop", "nightly", name="shop sales")
    client, headers = _client(tmp_path, GRANT)
    with client:

        def trace() -> dict[str, Any]:
            body = {"direction": "backward", "start": {"places": ["write#0#0"]}}
            reply = client.post("/v1/applications/nightly/traces", headers=headers, json=body)
            assert reply.status_code == 200, reply.text
            shown: dict[str, Any] = reply.json()
            return shown

        before = trace()
        with SqliteStore(tmp_path / "lineage.db") as store:
            (number,) = store._db.execute("SELECT id FROM application").fetchone()
            store.delete("nightly")
        store_run(url, tmp_path / "other", "other", name="secret job")
        with SqliteStore(tmp_path / "lineage.db") as store:
            assert store._db.execute("SELECT id FROM application").fetchone() > (number,)
        assert client.get("/v1/applications/nightly/graph", headers=headers).status_code == 404
        store_run(url, tmp_path / "shop", "nightly", name="shop sales", started_at=2000.0)
        after = trace()
    assert str(tmp_path / "other") not in str(after)
    ids = "id", "created_at"
    assert {key: value for key, value in after.items() if key not in ids} == {
        key: value for key, value in before.items() if key not in ids
    }
