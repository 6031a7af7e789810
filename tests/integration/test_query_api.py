"""The HTTP API over a small word count: what each route answers, and to whom."""

from __future__ import annotations

import csv
import io
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lineage_core.tracing.trace_result import Direction
from lineage_query.engine import QueryEngine
from lineage_query.exports import FORMATS, export
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_query_api import trace_ids
from lineage_query_api.auth import new_token, read_tokens
from lineage_query_api.errors import ProblemError, SettingsError
from lineage_query_api.models import StartModel, TraceRequest
from lineage_query_api.settings import read_settings
from lineage_store.url import open_store
from tests.support.api_server import serving, word_count_served
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.integration


OF_EACH_ANSWER = {"date", "x-request-id"}
"""Headers whose text is another each time."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[httpx.Client]:
    with word_count_served(folder) as client:
        yield client


def got(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    assert answer.headers["X-Request-Id"]
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    if status >= 400:
        assert answer.headers["Content-Type"] == "application/problem+json"
        problem = answer.json()
        assert problem["status"] == status
        assert problem["request_id"] == answer.headers["X-Request-Id"]
    return answer.json() if answer.content else None


def backward(*places: str, **more: Any) -> dict[str, Any]:
    return {"direction": "backward", "start": {"places": list(places)}, **more}


def lines(items: list[dict[str, Any]], folder: Path) -> list[str]:
    found = [f"{item['location']}: {item['text']}" for item in items]
    return [line.removeprefix(f"{folder}/") for line in found]


def test_applications_are_listed_filtered_and_shown(client: httpx.Client) -> None:
    page = got(client.get("/v1/applications"))
    (one,) = page["items"]
    assert (one["app"], one["status"], one["complete"], one["exact"]) == ("app-1", "ok", True, True)
    assert (one["flows"], page["total"], page["next"]) == (10, 1, None)
    for wrong in ({"search": "other"}, {"status": "failed"}, {"complete": "false"}):
        assert got(client.get("/v1/applications", params=wrong))["items"] == []
    details = got(client.get("/v1/applications/latest"))
    assert [node["label"] for node in details["sources"] + details["sinks"]] == ["read", "write"]
    assert (details["answerable"], details["refusals"]) == (True, [])
    verdict = got(client.get("/v1/applications/app/completeness"))
    assert (verdict["complete"], verdict["received"], verdict["answerable"]) == (True, True, True)
    assert verdict["tasks"] == {"expected": 3, "committed": 3}
    progress = got(client.get("/v1/applications/app-1/progress"))
    assert (progress["capture"]["tasks"], progress["link"]["blocks_linked"]) == (3, 3)


def test_pages_of_applications_go_on_where_they_ended(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lineage.db"
    for number in range(5):
        store_run(url, tmp_path, f"app-{number}", started_at=1000.0 + number)
    with serving(url) as address, httpx.Client(base_url=address) as client:
        seen: list[str] = []
        cursor: str | None = None
        while True:
            params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
            page = got(client.get("/v1/applications", params=params))
            seen += [one["app"] for one in page["items"]]
            cursor = page["next"]
            if cursor is None:
                break
            assert page["total"] == 5
        assert seen == ["app-4", "app-3", "app-2", "app-1", "app-0"]
        got(client.get("/v1/applications", params={"cursor": "gone"}), 422)
        for other in ("latest", "app-", "app", "app-3 ", "gone"):
            said = got(client.delete(f"/v1/applications/{other}"), 404)
            assert "give the whole id" in said["detail"]
        assert got(client.get("/v1/applications"))["total"] == 5
        got(client.delete("/v1/applications/app-3"), 204)
        got(client.get("/v1/applications/app-3"), 404)
        got(client.get("/v1/applications/app-"), 404)


def test_the_graph_has_stages_and_says_which_nodes_keep_items(client: httpx.Client) -> None:
    graph = got(client.get("/v1/applications/app-1/graph"))
    nodes = {node["label"]: node for node in graph["nodes"]}
    assert {label for label, node in nodes.items() if node["has_items"]} == {"read", "write"}
    assert nodes["read"]["stage"] == nodes["1"]["stage"] == nodes["2"]["stage"]
    assert nodes["write"]["stage"] != nodes["2"]["stage"]
    assert {"src": "2", "dest": "3"} in graph["links"]


def test_items_of_a_node_come_page_by_page(client: httpx.Client, folder: Path) -> None:
    seen: list[str] = []
    cursor = None
    for _ in range(10):
        params = {"limit": 4} | ({"cursor": cursor} if cursor else {})
        page = got(client.get("/v1/applications/app-1/nodes/read/items", params=params))
        seen += lines(page["items"], folder)
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == [
        "in.txt:1: a b", "in.txt:2: b", "in.txt:3: c a", "in.txt:4: d", "in.txt:4: b", "in.txt:5: a"
    ]  # fmt: skip
    second = got(client.get("/v1/applications/app-1/nodes/0/items", params={"partition": 1}))
    assert [item["address"] for item in second["items"]] == [f"read#1#{at}" for at in range(4)]
    got(client.get("/v1/applications/app-1/nodes/read/items", params={"cursor": "9.9"}), 422)
    got(client.get("/v1/applications/app-1/nodes/nothing/items"), 404)


def test_rows_are_searched_by_their_text(client: httpx.Client) -> None:
    page = got(client.get("/v1/applications/app-1/nodes/read/items", params={"search": "a"}))
    assert [item["text"] for item in page["items"]] == ["a b", "c a", "a"]
    assert (page["scanned"], page["next"]) == (6, None)


def test_a_trace_counts_lists_pages_and_streams(client: httpx.Client, folder: Path) -> None:
    made = got(client.post("/v1/applications/app-1/traces", json=backward("write#0#1")))
    assert (made["count"], made["exact"], made["complete"]) == (3, True, True)
    (group,) = made["groups"]
    assert lines(group["items"], folder) == ["in.txt:1: a b", "in.txt:2: b", "in.txt:4: b"]
    assert {(one["label"], one["count"]) for one in made["passed"]} == {
        ("read", 3), ("2", 1), ("write", 1)
    }  # fmt: skip
    again = got(client.get(f"/v1/traces/{made['trace']}"))
    assert again == made
    path = f"/v1/traces/{made['trace']}/nodes/read/items"
    first = got(client.get(path, params={"limit": 2}))
    second = got(client.get(path, params={"limit": 2, "cursor": first["next"]}))
    assert first["items"] + second["items"] == group["items"]
    assert second["next"] is None
    got(client.get(f"/v1/traces/{made['trace']}/nodes/1/items"), 404)
    streamed = client.get(f"/v1/traces/{made['trace']}/items.ndjson")
    assert [json.loads(line) for line in streamed.text.splitlines()] == [
        {"node": "0", **item} for item in group["items"]
    ]


@pytest.mark.parametrize("name", list(FORMATS))
def test_a_trace_is_a_file(client: httpx.Client, folder: Path, name: str) -> None:
    """The same file as the command writes over the store."""
    made = got(client.post("/v1/applications/app-1/traces", json=backward("write#0#1")))
    found = client.get(f"/v1/traces/{made['trace']}/export", params={"format": name})
    assert found.status_code == 200, found.text
    assert found.headers["Content-Type"].startswith(FORMATS[name].media_type)
    assert f"lineage-app-1.{FORMATS[name].extension}" in found.headers["Content-Disposition"]
    url = f"sqlite:///{folder}/lineage.db"
    with open_store(url) as store:
        question = TraceQuery(Direction.BACKWARD, ("write#0#1",), app="app-1")
        traced = QueryEngine(store, RowReader()).trace_records(question)
        expected = io.BytesIO()
        export(traced, name, expected)
    assert found.content == expected.getvalue()


def test_a_trace_begins_at_texts_regions_and_several_places(client: httpx.Client) -> None:
    path = "/v1/applications/app-1/traces"
    by_text = {"direction": "forward", "start": {"node": "read", "contains": "c a"}}
    found = got(client.post(path, json=by_text))
    assert [item["text"] for item in found["groups"][0]["items"]] == ["a"]
    # Its id holds the items, and not the text: the same trace, whatever is written meanwhile.
    assert trace_ids.unpack(found["trace"]).request.start.places == ["read#1#0"]
    by_region = {
        "direction": "forward", "start": {"regions": [{"space": "read#0", "ranges": "0-1"}]}
    }  # fmt: skip
    by_places = {"direction": "forward", "start": {"places": ["read#0#0", "read#0#1"]}}
    expected = got(client.post(path, json=by_places))
    assert got(client.post(path, json=by_region))["groups"] == expected["groups"]
    step = got(client.post(path, json=backward("write#0#0", steps=1)))
    assert [group["label"] for group in step["groups"]] == ["2"]
    until = got(client.post(path, json=backward("write#0#0", "write#0#1", until="2")))
    assert until["count"] == 2


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"direction": "sideways", "start": {"places": ["write#0#0"]}}, 422),
        ({"direction": "backward", "start": {}}, 422),
        ({"direction": "backward", "start": {"node": "read"}}, 422),
        ({"direction": "backward", "start": {"node": "read", "contains": "no such text"}}, 404),
        ({"direction": "backward", "start": {"places": ["write#0#99"]}}, 422),
        ({"direction": "backward", "start": {"places": ["nothing#0#1"]}}, 422),
        ({"direction": "backward", "start": {"places": ["/etc/passwd:1"]}}, 404),
        ({"direction": "backward", "start": {"places": ["http://127.0.0.1:1/x:1"]}}, 404),
        ({"direction": "backward", "start": {"places": ["a\0b:1"]}}, 422),
        ({"direction": "backward", "start": {"places": ["write#0#0"]}, "until": "9"}, 422),
        ({"direction": "backward", "start": {"regions": [{"space": "read#0", "ranges": "x"}]}}, 422),
        (
            {"direction": "backward", "start": {"places": [f"write#0#{'1' * 30}{n}" for n in range(900)]}},
            422,
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_traced_is_refused_with_a_reason(
    client: httpx.Client, body: dict[str, Any], status: int
) -> None:
    problem = got(client.post("/v1/applications/app-1/traces", json=body), status)
    assert problem["detail"]


def test_rows_come_with_those_around(client: httpx.Client) -> None:
    path = "/v1/applications/app-1/rows"
    found = got(client.get(path, params={"address": "read#1#1", "around": 1}))
    assert [(row["text"], row["asked"]) for row in found["rows"]] == [
        ("c a", False), ("d", True), ("b", False)
    ]  # fmt: skip
    assert (found["unit"], found["changed"]) == ("line", False)
    got(client.get(path, params={"address": "read#1#9"}), 422)
    got(client.get(path, params={"address": "2@0#5"}), 404)


def test_two_traces_are_compared_and_shared_inputs_ranked(client: httpx.Client) -> None:
    body = {"left": backward("write#0#0"), "right": backward("write#0#1")}
    found = got(client.post("/v1/applications/app-1/diff", json=body))
    for side, row in (("left", "part-00000:1"), ("right", "part-00000:2")):
        (started,) = found[side]["start"]
        (item,) = started["items"]
        again = got(client.get(f"/v1/traces/{found[side]['trace']}"))
        assert found[side]["start"] == again["start"]
        assert item["location"].endswith(row)
        assert item["text"]
    (group,) = found["groups"]
    assert [item["text"] for item in group["only_left"]["items"]] == ["c a", "a"]
    assert [item["text"] for item in group["only_right"]["items"]] == ["b", "b"]
    assert group["both"] == 1
    places = {"places": ["write#0#0", "write#0#1", "write#0#0"]}
    ranked = got(client.post("/v1/applications/app-1/suspects", json=places))
    assert (ranked["outputs"], ranked["total"]) == (2, 5)
    assert (ranked["exact"], ranked["complete"], ranked["reasons"]) == (True, True, [])
    assert [(item["text"], item["outputs"]) for item in ranked["items"]][:1] == [("a b", 2)]
    assert all(item["outputs"] == 1 for item in ranked["items"][1:])
    labels = {"places": ["write#0#0"], "good": ["write#0#1"], "formula": "dstar"}
    ranked = got(client.post("/v1/applications/app-1/suspects", json=labels))
    # "a b" went into both, and is no suspect.
    assert (ranked["outputs"], ranked["good"], ranked["suspected"]) == (1, 1, ranked["total"] - 1)
    assert "a b" not in {item["text"] for item in ranked["items"]}
    assert {(i["good_outputs"], i["rank"], i["score"]) for i in ranked["items"]} == {(0, 1, None)}


def test_rows_outside_of_the_roots_are_not_read(folder: Path, tmp_path: Path) -> None:
    """Not even those of files that an application read: whoever wrote the lineage may lie."""
    store_run(f"sqlite:///{tmp_path}/lineage.db", folder)
    with (
        serving(f"sqlite:///{tmp_path}/lineage.db", api_roots=str(tmp_path)) as address,
        httpx.Client(base_url=address) as client,
    ):
        made = got(client.post("/v1/applications/app-1/traces", json=backward("write#0#1")))
        (group,) = made["groups"]
        assert [item["text"] for item in group["items"]] == [None] * 3
        assert group["count"] == 3
        assert not made["changed"]
        assert any("not read by this server" in warning for warning in made["warnings"])
        rows = got(client.get("/v1/applications/app-1/rows", params={"address": "read#0#0"}))
        assert [row["text"] for row in rows["rows"]] == [None]


def test_rights_are_those_of_the_token(tmp_path: Path) -> None:
    secrets: dict[str, str] = {}
    text = ""
    for name, role, rows in (
        ("looks", "reader", False),
        ("reads", "reader", True),
        ("rules", "admin", False),
    ):
        secrets[name], lines_of_it = new_token(name, role, rows=rows)  # type: ignore[arg-type]
        text += lines_of_it
    old, lines_of_it = new_token("late", "admin", rows=True)
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(text + lines_of_it + "expires = 2020-01-01T00:00:00Z\n")
    assert not any(secret in tokens.read_text() for secret in secrets.values())
    with word_count_served(tmp_path, api_tokens=tokens) as client:

        def by(name: str) -> dict[str, str]:
            return {"Authorization": f"Bearer {secrets.get(name, name)}"}

        for headers in ({}, by("wrong"), by(old), {"Authorization": f"Basic {secrets['rules']}"}):
            refused = client.get("/v1/applications", headers=headers)
            got(refused, 401)
            assert refused.headers["WWW-Authenticate"].startswith("Bearer")
        assert got(client.get("/v1/me", headers=by("looks"))) | {"version": ""} == {
            "name": "looks", "role": "reader", "rows": False, "delete": False, "erase": False, "access": False, "watch": False, "auth": "token", "version": "",
            # Where the store lies is for the user of a local server alone.
            "store": None,
        }  # fmt: skip
        path = "/v1/applications/app-1"
        items = f"{path}/nodes/read/items"
        assert got(client.get(items, headers=by("looks")))["items"][0]["text"] is None
        got(client.get(items, params={"search": "a"}, headers=by("looks")), 403)
        got(client.get(f"{path}/rows", params={"address": "read#0#0"}, headers=by("looks")), 403)
        got(client.get(f"{path}/dump", headers=by("looks")), 403)
        by_text = {"direction": "forward", "start": {"node": "read", "contains": "c a"}}
        got(client.post(f"{path}/traces", json=by_text, headers=by("looks")), 403)
        made = got(client.post(f"{path}/traces", json=backward("write#0#0"), headers=by("looks")))
        assert [item["text"] for item in made["groups"][0]["items"]] == [None] * 3
        assert got(client.get(items, headers=by("reads")))["items"][0]["text"] == "a b"
        got(client.delete(path, headers=by("reads")), 403)
        view = f"{path}/record-view"
        got(client.post(view, json={}, headers=by("reads")), 403)
        got(client.delete(view, headers=by("reads")), 403)
        assert "stored in Neo4j" in got(client.delete(view, headers=by("rules")), 422)["detail"]
        asked = {"direction": "backward", "places": ["write#0#0"], "app": "app-1"}
        for name, text_of in (("looks", ""), ("reads", "a b")):
            file = client.post("/v1/answers/file", json=asked, headers=by(name)).text
            told, _, table = file.partition("\n")
            assert json.loads(told)["bytes"] == len(table)
            first = next(csv.DictReader(io.StringIO(table, newline="")))
            assert (first["address"], first["text"]) == ("read#0#0", text_of)
        assert got(client.get(f"{path}/openlineage", headers=by("looks")))["app"] == "app-1"
        # A token that is taken away is refused at once.
        tokens.write_text(text.partition('[[token]]\nname = "reads"')[0])
        got(client.get("/v1/me", headers=by("reads")), 401)
        assert got(client.get("/v1/me", headers=by("looks")))["role"] == "reader"


def test_callers_and_bodies_are_bounded(tmp_path: Path) -> None:
    with word_count_served(tmp_path, api_rate="3/minute", api_body_bytes=2048) as client:
        long = {"direction": "backward", "start": {"places": ["x" * 4000]}}
        got(client.post("/v1/applications/app-1/traces", json=long), 413)

        def pieces() -> Iterator[bytes]:
            yield from [b"x" * 1500] * 2

        got(client.post("/v1/applications/app-1/traces", content=pieces()), 413)
        got(client.get("/v1/me"))
        got(client.get("/v1/me"))
        refused = client.get("/v1/me")
        assert "try again" in got(refused, 429)["hint"]
        assert int(refused.headers["Retry-After"]) >= 1
        assert client.get("/healthz").json() == {"status": "ok"}


def test_a_trace_that_costs_too_much_says_how_to_narrow_it(tmp_path: Path) -> None:
    with word_count_served(tmp_path, api_query_blocks=1) as client:
        problem = got(client.post("/v1/applications/app-1/traces", json=backward("write#0#0")), 422)
        assert "narrow it" in problem["hint"]
        step = backward("write#0#0", steps=1)
        assert got(client.post("/v1/applications/app-1/traces", json=step))["count"] == 1


@pytest.mark.parametrize("node", ["nothing", "99", "*"])
def test_a_node_that_does_not_exist_is_not_found(client: httpx.Client, node: str) -> None:
    address = "/v1/applications/app-1/nodes"
    for listed in ("items", "columns"):
        assert node in got(client.get(f"{address}/{node}/{listed}"), 404)["detail"]
    trace = got(client.post("/v1/applications/app-1/traces", json=backward("write#0#0")))["trace"]
    got(client.get(f"/v1/traces/{trace}/nodes/{node}/items"), 404)


def test_a_parameter_that_an_address_has_not_is_refused_by_name(client: httpx.Client) -> None:
    problem = got(client.get("/v1/applications", params={"serach": "flights"}), 422)
    assert "serach" in problem["detail"]
    assert problem["hint"] == (
        "it takes call_site, column, complete, cursor, dataset, limit, search, since, status, until"
    )
    assert got(client.get("/v1/sign-in?a=1"), 422)["hint"] == "it takes none"
    refused = client.post("/v1/applications/app-1/traces?limit=1", json=backward("write#0#0"))
    assert "limit" in got(refused, 422)["detail"]
    trace = got(client.post("/v1/applications/app-1/traces", json=backward("write#0#0")))["trace"]
    assert client.get(f"/v1/traces/{trace}/export?format=csv").status_code == 200


def test_head_is_answered_as_get_without_the_body(client: httpx.Client) -> None:
    def differing(headers: httpx.Headers) -> dict[str, str]:
        return {name: text for name, text in headers.items() if name not in OF_EACH_ANSWER}

    trace = got(client.post("/v1/applications/app-1/traces", json=backward("write#0#0")))["trace"]
    for address in (
        "/v1/me",
        "/v1/applications",
        "/v1/applications/app-1/graph",
        "/v1/applications/nothing",
        f"/v1/traces/{trace}/items.ndjson",
        f"/v1/traces/{trace}/export?format=csv",
        "/v1/nothing",
        "/openapi.json",
        "/healthz",
    ):
        full, head = client.get(address), client.head(address)
        assert full.content, address
        assert head.content == b"", address
        assert head.status_code == full.status_code, address
        assert differing(head.headers) == differing(full.headers), address
    told = 'lineage_api_requests_total{method="HEAD",route="/v1/applications/{app}/graph",status="200"}'
    assert told in client.get("/metrics").text


def test_a_probe_behind_a_question_on_one_connection_has_no_part_in_its_budget(
    client: httpx.Client,
) -> None:
    question = "GET /v1/applications/app-1/graph HTTP/1.1\r\nHost: localhost\r\n\r\n"
    probe = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    at = (client.base_url.host, client.base_url.port)
    with socket.create_connection(at, timeout=30) as connection, connection.makefile("rb") as read:
        connection.sendall((question + probe).encode())
        answers = read.read()
    assert answers.count(b"HTTP/1.1 200") == 2, answers


def test_probes_metrics_and_unknown_addresses(client: httpx.Client) -> None:
    assert client.get("/readyz").json() == {"ready": True, "problems": {}}
    got(client.get("/v1/me"))
    assert (
        'lineage_api_requests_total{method="GET",route="/v1/me",status="200"}'
        in client.get("/metrics").text
    )
    got(client.get("/v1/nothing"), 404)
    assert "LINEAGE_KAFKA" in got(client.get("/v1/dead-letters"), 404)["hint"]
    assert client.get("/v1/me", headers={"Host": "evil.example"}).status_code == 400
    assert got(client.get("/v1/me", headers={"X-Request-Id": "mine-1"})) is not None
    assert (
        client.get("/v1/me", headers={"X-Request-Id": "mine-1"}).headers["X-Request-Id"] == "mine-1"
    )


@pytest.mark.parametrize("text", ["", "abc", "a" * 20_000, "eNqrVkosKFCyApG6hko6", "ä"])
def test_what_is_no_trace_is_not_found(text: str) -> None:
    with pytest.raises(ProblemError) as refused:
        trace_ids.unpack(text)
    assert refused.value.status == 404


def test_a_trace_id_is_the_question() -> None:
    start = StartModel(places=["write#0#1", "a:b/ü:3"])
    request = TraceRequest(direction="forward", start=start, until="4", steps=None)
    found = trace_ids.unpack(trace_ids.pack("app-1", request))
    assert (found.app, found.request) == ("app-1", request)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"api_host": "0.0.0.0"}, "LINEAGE_API_TOKENS"),
        ({"api_rate": "often"}, "LINEAGE_API_RATE"),
        ({"oidc_issuer": "https://issuer.example"}, "LINEAGE_OIDC_AUDIENCE"),
        ({"api_port": 70_000}, "LINEAGE_API_PORT"),
    ],
)
def test_settings_that_cannot_be_used_are_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        read_settings(**given)


def test_a_file_of_tokens_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    for text in ("no toml", '[[token]]\nname = "a"\nsha256 = "short"\n', "[[token]]\nother = 1\n"):
        file.write_text(text)
        with pytest.raises(SettingsError, match=r"tokens\.toml"):
            read_tokens(file)


def test_a_source_that_changes_is_said_by_every_answer(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lineage.db"
    run = store_run(url, tmp_path, summed=True)
    base = "/v1/applications/app-1"
    with serving(url, api_roots=str(tmp_path)) as address, httpx.Client(base_url=address) as client:
        made = got(client.post(f"{base}/traces", json=backward("write#0#1")))
        assert {item["binding"] for item in made["groups"][0]["items"]} == {"checksum"}
        run.source.write_bytes(b"x y\n" + run.source.read_bytes())

        again = got(client.get(f"/v1/traces/{made['trace']}"))
        (group,) = again["groups"]
        assert (again["changed"], group["standing"]) == (True, "changed")
        assert any("may belong to another row" in warning for warning in again["warnings"])
        items = got(client.get(f"/v1/traces/{made['trace']}/nodes/read/items"))
        listed = got(client.get(f"{base}/nodes/read/items"))
        rows = got(client.get(f"{base}/rows", params={"address": "read#0#0"}))
        assert items["changed"]
        assert listed["changed"]
        assert rows["changed"]
        for some in (group["items"], items["items"], listed["items"], rows["rows"]):
            assert {one["binding"] for one in some} == {"now"}
        table = client.get(f"/v1/traces/{made['trace']}/export").text
        assert {row["binding"] for row in csv.DictReader(io.StringIO(table))} == {"now"}
        lined = client.get(f"/v1/traces/{made['trace']}/items.ndjson").text.splitlines()
        assert {json.loads(line)["binding"] for line in lined} == {"now"}

        sides = {"left": backward("write#0#0"), "right": backward("write#0#1")}
        diff = got(client.post(f"{base}/diff", json=sides))
        asked = {"places": ["write#0#0", "write#0#1"]}
        suspects = got(client.post(f"{base}/suspects", json=asked))
        assert {one["binding"] for one in suspects["items"]} == {"now"}
        assert {one["binding"] for one in diff["groups"][0]["only_left"]["items"]} == {"now"}
        for answer in (diff, suspects):
            assert answer["changed"]
            assert any("in.txt has changed since" in warning for warning in answer["warnings"])
