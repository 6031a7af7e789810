"""What is visible of one application may take long to find out: queries that do not name it do not end for its sake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from lineage_core.contract.message import Begin, End, Unknown
from lineage_core.tracing.budget import Budget, TimeUpError, current_budget, use_budget
from lineage_query.verdicts import verdict_of
from lineage_query_api import scopes
from lineage_query_api.app import create_app
from lineage_query_api.auth import new_token
from lineage_query_api.granted_store import ApplicationNames
from lineage_query_api.grants import DatasetGrant, DatasetRules
from lineage_query_api.scopes import SLOW_S, SlowApplicationError, VisibleApplications
from lineage_query_api.settings import read_settings
from lineage_query_api.visibility import VisibleApplication, build_visible_application
from lineage_store.sqlite.store import SqliteStore
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
APP = "forged"
ALL = frozenset({"*"})
RULES = DatasetRules((DatasetGrant(ALL, ALL, ALL),), frozenset({"/hr/*"}), ())
GRANTS = """
[[grant]]
callers = ["token:ann"]
applications = ["shop *"]
rows = true

[[hide]]
datasets = ["/nowhere/*"]
"""


def test_an_application_that_takes_long_is_left_out_of_queries_about_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/lineage.db"
    own = store_run(url, tmp_path, "own", name="shop sales")
    (tmp_path / "forged").mkdir()
    forged = store_run(url, tmp_path / "forged", "forged", name="shop z", started_at=9_000.0)
    token, line = new_token("ann", "reader", rows=True)
    (tmp_path / "tokens.toml").write_text(line)
    (tmp_path / "grants.toml").write_text(GRANTS)
    settings = read_settings(
        store=url,
        api_tokens=str(tmp_path / "tokens.toml"),
        api_grants=str(tmp_path / "grants.toml"),
        api_roots=str(tmp_path),
    )
    build = build_visible_application
    slow, tries = [True], [0]

    def built(messages: Any, *given: Any, **named: Any) -> VisibleApplication:
        if slow[0] and messages[0].app == "forged":
            tries[0] += 1
            while True:
                current_budget().check()
        return build(messages, *given, **named)

    monkeypatch.setattr(scopes, "build_visible_application", built)
    monkeypatch.setattr(scopes, "VISIBLE_EACH_S", 0.5)
    with (
        SqliteStore(tmp_path / "lineage.db") as store,
        TestClient(create_app(store, settings), base_url="http://127.0.0.1:8484") as client,
    ):
        headers = {"Authorization": f"Bearer {token}"}

        def answer(place: str, **more: str) -> Any:
            body = {"direction": "backward", "places": [place], **more}
            return client.post("/v1/answers", headers=headers, json=body)

        for path in ("jobs", "datasets", "jobs/graph?job=shop sales", "applications?dataset=in"):
            listed = client.get(f"/v1/{path}", headers=headers)
            assert listed.status_code == 200, listed.text
        told = answer(f"{own.sink}:1")
        assert (told.status_code, told.json()["app"]) == (200, "own")
        assert answer(f"{forged.sink}:1").status_code == 404
        # Once, and not for each query.
        assert tries == [1]
        slow[0] = False
        # Whoever names it may spend all of the time of a query.
        named = answer(f"{forged.sink}:1", app="forged")
        assert (named.status_code, named.json()["app"]) == (200, "forged")
        found = answer(f"{forged.sink}:1")
        assert (found.status_code, found.json()["app"]) == (200, "forged")


def test_a_slow_application_is_not_tried_again_for_each_message_that_it_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, now = 0, [0.0]

    def slow(*_: object, final: bool) -> VisibleApplication:
        nonlocal tries
        tries += 1
        while True:
            current_budget().check()

    monkeypatch.setattr(scopes, "build_visible_application", slow)
    monkeypatch.setattr(scopes, "VISIBLE_EACH_S", 0.1)
    with SqliteStore(tmp_path / "lineage.db") as store:
        begin = Begin(app=APP, name="shop", started_at=1.0)
        store.write(APP, [begin, End(app=APP, ended_at=2.0, status="ok")])
        applications = VisibleApplications(
            store, ApplicationNames(store), lambda app: verdict_of(store, app), lambda: now[0]
        )
        with use_budget(Budget(seconds=600)):
            for expected, now[0] in ((1, 0.0), (1, 1.0), (1, SLOW_S - 1), (2, SLOW_S + 1)):
                store.write(APP, [Unknown(app=APP, what=f"at {now[0]}")])
                with pytest.raises(SlowApplicationError):
                    applications.of_any(APP, RULES)
                assert tries == expected
        # Who names it gives it all the time of the query.
        with use_budget(Budget(seconds=0.3)), pytest.raises(TimeUpError):
            applications.of(APP, RULES)
        assert tries == 3
