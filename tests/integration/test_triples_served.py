"""Traces of triples over HTTP: the answers of the command line, for callers who may read all rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lineage_query_api.errors import ProblemError
from lineage_query_api.served_triples import ServedTriples
from lineage_store.triples.data_sets import TripleStore
from lineage_store.triples.tracing import trace
from lineage_store.url import open_store
from tests.support.api_server import readers, serving

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("triples")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[httpx.Client]:
    """Of a server whose lake has a data set that is indexed and one that waits, and whose audit is in a file."""
    url = f"lake:{folder}/lake"
    open_store(url, create=True).close()
    store = TripleStore(url, create=True)
    path = folder / "a.csv"
    path.write_text("src,dst,op\na/1,b,x\nb,c,y\nb,d,z\n")
    store.add("a set/1", [path])
    store.index("a set/1")
    store.add("waits", [path])
    secrets, tokens = readers(folder)
    grants = folder / "grants.toml"
    grants.write_text(
        '[[grant]]\ncallers = ["token:reads", "token:looks"]\napplications = ["*"]\nrows = true\n'
    )
    given: dict[str, Any] = {"api_tokens": tokens, "api_grants": grants, "api_open": False}
    with (
        serving(url, **given, api_audit=str(folder / "audit")) as address,
        httpx.Client(
            base_url=address, timeout=60, headers={"Authorization": f"Bearer {secrets['reads']}"}
        ) as opened,
    ):
        opened.looks = {"Authorization": f"Bearer {secrets['looks']}"}  # type: ignore[attr-defined]
        yield opened


def test_data_sets_are_listed(client: httpx.Client) -> None:
    listed = client.get("/v1/triples").json()["items"]
    assert [(one["name"], one["rows"], one["is_indexed"]) for one in listed] == [
        ("a set/1", 3, True),
        ("waits", 3, False),
    ]
    assert [one["damaged"] for one in listed] == ["", ""]


@pytest.mark.parametrize("method", ["rq", "ccprov", "csprov", "auto"])
def test_traces_are_those_of_the_store(client: httpx.Client, method: str) -> None:
    asked = {"data_set": "a set/1", "item": "c", "method": method}
    found = client.get("/v1/triples/trace", params=asked).json()
    assert found["items"] == ["a/1", "b"]
    assert found["triples"] == [
        {"src": "a/1", "dst": "b", "op": "x"},
        {"src": "b", "dst": "c", "op": "y"},
    ]
    asked |= {"item": "a/1", "direction": "forward", "limit": "1"}
    found = client.get("/v1/triples/trace", params=asked).json()
    assert (found["items"], found["items_count"]) == (["b"], 3)
    assert (len(found["triples"]), found["count"], found["component_triples"]) == (1, 3, 3)


def test_a_trace_is_exported(client: httpx.Client) -> None:
    asked = {"data_set": "a set/1", "item": "c"}
    answer = client.get("/v1/triples/export", params=asked)
    assert answer.text.splitlines() == ["src,dst,op", "a/1,b,x", "b,c,y"]
    assert answer.headers["content-disposition"] == 'attachment; filename="triples.csv"'
    drawn = client.get("/v1/triples/export", params={**asked, "format": "mermaid"})
    assert drawn.text.count("-->") == 2


@pytest.mark.parametrize(
    ("params", "status", "message"),
    [
        ({"data_set": "no", "item": "c"}, 404, "there are no triples as 'no'"),
        ({"data_set": "a set/1", "item": "e"}, 404, "has no item 'e'"),
        ({"data_set": "waits", "item": "c"}, 422, "lineage triples index waits"),
        ({"data_set": "a set/1", "item": "c", "method": "all"}, 422, "method"),
        ({"data_set": "a set/1", "item": "c", "depth": "1"}, 422, "takes no parameter 'depth'"),
    ],
)
def test_what_is_refused(
    client: httpx.Client, params: dict[str, str], status: int, message: str
) -> None:
    for path in ("/v1/triples/trace", "/v1/triples/export"):
        answer = client.get(path, params=params)
        assert (answer.status_code, message in answer.text) == (status, True), answer.text


def test_only_who_may_read_all_rows_is_answered_and_all_is_audited(
    client: httpx.Client, folder: Path
) -> None:
    for path in ("/v1/triples", "/v1/triples/trace", "/v1/triples/export"):
        params = {} if path == "/v1/triples" else {"data_set": "a set/1", "item": "c"}
        looks: dict[str, str] = client.looks  # type: ignore[attr-defined]
        assert client.get(path, params=params, headers=looks).status_code == 403
        assert client.get(path, params=params, headers={"Authorization": ""}).status_code == 401
    records = [
        json.loads(line)
        for file in (folder / "audit").rglob("*")
        if file.is_file()
        for line in file.read_text().splitlines()
    ]
    asked = [record for record in records if record["path"] == "/v1/triples/trace"]
    assert {record.get("status") for record in asked} >= {403, 401}
    assert any("item=c" in record["query"] for record in asked)


def test_callers_who_are_granted_some_applications_are_refused(
    client: httpx.Client, folder: Path
) -> None:
    secrets, tokens = readers(folder)
    grants = folder / "some.toml"
    grants.write_text(
        '[[grant]]\ncallers = ["token:reads"]\napplications = ["app-*"]\nrows = true\n'
    )
    given: dict[str, Any] = {"api_tokens": tokens, "api_grants": grants, "api_open": False}
    headers = {"Authorization": f"Bearer {secrets['reads']}"}
    with serving(f"lake:{folder}/lake", **given) as address:
        assert httpx.get(f"{address}/v1/triples", headers=headers, timeout=60).status_code == 403


def test_triples_are_opened_once_and_as_soon_as_there_are_some(tmp_path: Path) -> None:
    url, path = f"lake:{tmp_path}/lake", tmp_path / "a.csv"
    served = ServedTriples(url)
    with pytest.raises(ProblemError, match="there are no triples at"), served.opened():
        pass
    for at in range(3):
        path.write_text(f"src,dst,op\n{at},{at + 1},x\n")
        store = TripleStore(url, create=True)
        store.add("set", [path])
        store.index("set")
        with served.opened() as first, served.opened() as second:
            assert first is second
            assert len(trace(first, "set", f"{at + 1}", is_back=True).triples) == at + 1
    shutil.rmtree(tmp_path / "lake.triples")
    with pytest.raises(ProblemError, match="there are no triples at"), served.opened():
        pass


def test_a_server_without_a_lake_has_none(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lineage.db"
    open_store(url, create=True).close()
    with serving(url) as address:
        answer = httpx.get(f"{address}/v1/triples", timeout=60)
        assert answer.status_code == 404
        assert "LINEAGE_STORE" in answer.json()["hint"]
