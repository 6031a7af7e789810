"""Calls of functions that failed, of rows of DataFrames that were set aside, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from lineage_core.contract.message import Begin, Recipe, Register
from lineage_core.contract.verdict import QUARANTINE
from lineage_core.recipe.document import Output, Source
from lineage_core.recipe.document import Recipe as RecipeDocument
from lineage_core.recipe.plan import Attribute, Column, Scan
from lineage_emitter.dataframes.set_aside import CALLS_MAX, CalledRows, Calls, SetAsideRows
from lineage_query_api.app import create_app
from lineage_query_api.auth import new_token
from lineage_query_api.settings import read_settings
from lineage_store.url import open_store

pytestmark = pytest.mark.integration
APP = "app-1"
PATH = f"/v1/applications/{APP}/nodes/4/failed-calls"
CALLS: Calls = {("two", "1"): "ValueError: no number", (None, "0"): "ZeroDivisionError: zero"}


MANY: Calls = {(str(n), "1"): "ValueError: no number" for n in range(CALLS_MAX + 1)}


def set_aside(calls: Calls) -> RecipeDocument:
    scan = Scan((Attribute(1, "t", "string"), Attribute(2, "n", "int")), 0, ("t", "n"))
    source = Source("csv", ("file:/in.csv",), "")
    of = RecipeDocument("4.1", {}, (source,), (scan,), Output(kind="files", action="write"))
    arguments = (Column(1), Column(2))
    rows = SetAsideRows(9, "outer(inner)", (CalledRows(0, arguments),), ("string", "int"), calls)
    return rows.recipe(of, [scan])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("failed")
    url = f"sqlite:///{folder}/lineage.db"
    reader, reader_lines = new_token("bob", "reader", rows=False)
    admin, admin_lines = new_token("ann", "admin", rows=True)
    (folder / "tokens.toml").write_text(admin_lines + reader_lines)
    settings = read_settings(store=url, api_tokens=folder / "tokens.toml")
    nodes = [
        Register(app=APP, node="3", kind="frame", op="DataFrameWriter.csv"),
        Register(
            app=APP,
            node="4",
            kind="frame",
            op=QUARANTINE,
            name="outer(inner) of DataFrameWriter.csv",
            call_site="job.py:9",
        ),
    ]
    other = nodes[1].model_copy(update={"node": "5"})
    recipes = [
        Recipe(app=APP, node=node, recipe=set_aside(calls).to_json())
        for node, calls in (("4", CALLS), ("5", MANY))
    ]
    with open_store(url, create=True) as store:
        store.write(APP, [Begin(app=APP, name="job", started_at=1.0), *nodes, other, *recipes])
        with TestClient(create_app(store, settings), base_url="http://127.0.0.1") as client:
            yield {"client": client, "ann": admin, "bob": reader}


def ask(served: dict[str, Any], path: str, caller: str = "ann") -> Any:
    headers = {"Authorization": f"Bearer {served[caller]}"}
    return served["client"].get(path, headers=headers)


def test_calls_are_listed_with_arguments_and_errors(served: dict[str, Any]) -> None:
    found = ask(served, PATH).json()
    assert (found["node"], found["total"], found["more"]) == ("4", 2, False)
    action = "DataFrameWriter.csv at job.py:9"
    first, second = found["items"]
    assert first == {
        "number": 1,
        "function": "outer(inner)",
        "action": action,
        "values": ["'two'", "1"],
        "error": "ValueError: no number",
    }
    assert (second["number"], second["values"]) == (2, ["NULL", "0"])
    cut = ask(served, f"{PATH}?limit=1").json()
    assert (len(cut["items"]), cut["total"]) == (1, 2)
    # A recipe names so many calls.
    many = ask(served, PATH.replace("/4/", "/5/")).json()
    assert (many["total"], many["more"]) == (CALLS_MAX, True)


def test_nodes_of_other_rows_have_none(served: dict[str, Any]) -> None:
    found = ask(served, PATH.replace("/4/", "/3/")).json()
    assert (found["items"], found["total"], found["more"]) == ([], 0, False)
    assert ask(served, PATH.replace("/4/", "/none/")).status_code == 404


def test_who_may_not_read_rows_sees_none(served: dict[str, Any]) -> None:
    answer = ask(served, PATH, "bob")
    assert answer.status_code == 403
    assert "two" not in answer.text
