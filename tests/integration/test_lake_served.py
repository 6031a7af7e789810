"""The query API over a lake, and over a database with a lake behind it, answers as over SQLite."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from lineage_store.lake.address import LakeAddress
from lineage_store.lake.store import LakeStore
from lineage_store.moving import move_application
from lineage_store.sqlite.store import SqliteStore
from tests.support.api_server import serving
from tests.support.chained_runs import Chain, link_chain, place, spool_chain

pytestmark = pytest.mark.integration


@dataclass
class Served:
    """A server over the store under test, one over SQLite, and what both have."""

    client: httpx.Client
    oracle: httpx.Client
    chain: Chain
    folder: Path


@pytest.fixture(params=["lake", "tiers"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    chain = spool_chain(tmp_path / "spool", tmp_path, random.Random(7), jobs=3)
    address = LakeAddress(f"{tmp_path}/lake")
    with (
        SqliteStore(tmp_path / "hot.db") as hot,
        SqliteStore(tmp_path / "oracle.db") as oracle,
        LakeStore(address) as lake,
    ):
        link_chain(tmp_path / "spool", hot, oracle)
        for number, app in enumerate(chain.apps):
            is_cold = request.param == "lake" or number % 2
            place(app, "cold" if is_cold else "hot", hot, lake, oracle)
    urls = {
        "lake": str(address),
        "tiers": f"sqlite:///{tmp_path}/hot.db,{address}",
        "oracle": f"sqlite:///{tmp_path}/oracle.db",
    }
    with ExitStack() as stack:
        clients = [
            stack.enter_context(
                httpx.Client(
                    base_url=stack.enter_context(serving(urls[name], api_roots=str(tmp_path))),
                    timeout=60,
                )
            )
            for name in (request.param, "oracle")
        ]
        yield Served(clients[0], clients[1], chain, tmp_path)


def paths(chain: Chain) -> list[str]:
    """What is read of applications, jobs, datasets and rows."""
    of_each = (
        "", "/completeness", "/graph", "/nodes", "/nodes/1/columns", "/nodes/1/items", "/openlineage", "/progress",
        "/rows?address=1%230%230",
    )  # fmt: skip
    return [
        *(f"/v1/applications/{app}{path}" for app in (*chain.apps, "gone") for path in of_each),
        "/v1/applications", "/v1/applications?limit=2", "/v1/applications?search=app-3", "/v1/applications?complete=true",
        "/v1/applications/latest", "/v1/records", "/v1/records?search=data-1", "/v1/jobs", "/v1/jobs?limit=1",
        *(f"/v1/runs?job=job%20{app}" for app in chain.apps),
        *(f"/v1/jobs/graph?job=job%20{app}&depth=3" for app in chain.apps),
        "/v1/datasets", "/v1/datasets?search=data-2",
        *(f"/v1/datasets/runs?namespace=file&name={file}" for file in chain.files),
    ]  # fmt: skip


def without_names(answer: Any) -> Any:
    """Without what is drawn anew for each answer."""
    if isinstance(answer, dict):
        drawn = {"trace", "request_id", "updated_at"}
        return {key: without_names(value) for key, value in answer.items() if key not in drawn}
    return answer


def test_all_that_is_read_is_the_same_to_its_tag(served: Served) -> None:
    answered = 0
    for path in paths(served.chain):
        found, wanted = served.client.get(path), served.oracle.get(path)
        assert found.status_code == wanted.status_code, path
        assert without_names(found.json()) == without_names(wanted.json()), path
        assert found.headers.get("etag") == wanted.headers.get("etag"), path
        if found.headers.get("etag"):
            tag = {"If-None-Match": found.headers["etag"]}
            assert served.client.get(path, headers=tag).status_code == 304, path
            answered += 1
    assert answered > 25


def test_all_traces_are_the_same(served: Served) -> None:
    for row in (f"{file}:1" for file in served.chain.files):
        for direction in ("backward", "forward"):
            start = {"direction": direction, "start": {"places": [row]}}
            for body in (
                start,
                start | {"all_jobs": True},
                start | {"all_jobs": True, "by": "job"},
            ):
                found, wanted = (
                    client.post("/v1/answers", json=body)
                    for client in (served.client, served.oracle)
                )
                assert found.status_code == wanted.status_code, body
                assert without_names(found.json()) == without_names(wanted.json()), body
    for app in served.chain.apps:
        asked = {"direction": "backward", "start": {"places": ["1#0#0"]}}
        found, wanted = (
            client.post(f"/v1/applications/{app}/traces", json=asked)
            for client in (served.client, served.oracle)
        )
        assert without_names(found.json()) == without_names(wanted.json())
        assert found.status_code == 200
        for of_trace in ("", "/nodes/0/items", "/items.ndjson", "/export?format=csv"):
            texts = [
                client.get(f"/v1/traces/{made.json()['trace']}{of_trace}")
                for client, made in ((served.client, found), (served.oracle, wanted))
            ]
            assert texts[0].status_code == texts[1].status_code == 200, of_trace
            if of_trace:
                assert texts[0].text == texts[1].text, of_trace


def test_what_is_archived_or_deleted_meanwhile_is_answered_as_it_is_now(
    served: Served,
) -> None:
    every = paths(served.chain)[::4]
    before = {path: served.client.get(path) for path in every}
    app = served.chain.apps[0]
    asked = {"direction": "backward", "start": {"places": ["1#0#0"]}}
    made = served.client.post(f"/v1/applications/{app}/traces", json=asked).json()
    items = served.client.get(f"/v1/traces/{made['trace']}/nodes/0/items").json()
    if (served.folder / "hot.db").exists():
        with (
            SqliteStore(served.folder / "hot.db") as hot,
            LakeStore(LakeAddress(f"{served.folder}/lake")) as lake,
        ):
            for moved in hot.application_ids():
                move_application(hot, lake, moved)
    again = served.client.get(f"/v1/traces/{made['trace']}/nodes/0/items")
    assert (again.status_code, again.json()) == (200, items)
    for path, answer in before.items():
        tag = {"If-None-Match": answer.headers["etag"]} if "etag" in answer.headers else {}
        now = served.client.get(path, headers=tag)
        assert now.status_code == (304 if tag else answer.status_code), path
    for client in (served.client, served.oracle):
        assert client.delete(f"/v1/applications/{app}").status_code == 204
    for path in every:
        found, wanted = served.client.get(path), served.oracle.get(path)
        assert (found.status_code, without_names(found.json())) == (
            wanted.status_code,
            without_names(wanted.json()),
        ), path
    with LakeStore(LakeAddress(f"{served.folder}/lake")) as lake:
        assert app not in lake.application_ids()


def test_a_lake_that_is_gone_is_no_empty_store(served: Served) -> None:
    app = served.chain.apps[0]
    assert served.client.get("/v1/applications").json()["total"] == 3
    (served.folder / "lake").rename(served.folder / "elsewhere")
    for path in ("/v1/applications", f"/v1/applications/{app}", "/v1/jobs", "/v1/datasets"):
        answer = served.client.get(path)
        assert (answer.status_code, "disk mounted" in answer.text) == (503, True), path
    (served.folder / "elsewhere").rename(served.folder / "lake")
    assert served.client.get("/v1/applications").json()["total"] == 3
