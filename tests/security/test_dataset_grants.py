"""Hidden datasets and masked columns are in no answer of any route: paths, rows, names, values, nor what tells of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

from lineage_core.contract.block import BlockId
from lineage_core.contract.message import (
    Begin,
    Link,
    Message,
    Read,
    RecordFiles,
    RecordSplit,
    RecordSplits,
    Register,
    SinkFile,
    SinkFiles,
    Split,
    Splits,
    Unknown,
)
from lineage_core.contract.message import Recipe as RecipeMessage
from lineage_core.recipe.document import File, Output, Recipe, Source
from lineage_core.recipe.plan import Attribute, Range
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer, Group, Item
from lineage_query.pairs import NOT_SHOWN
from lineage_query.rows.reader import RootedReader, RowReader
from lineage_query.trace_query import LEVELS
from lineage_query_api.app import create_app
from lineage_query_api.auth import Principal, Role, new_token
from lineage_query_api.grants import DatasetGrant, DatasetRules, Mask
from lineage_query_api.masking import masked_answer, masked_row
from lineage_query_api.models import TraceRequest
from lineage_query_api.scopes import ALLOWED_WHERE_HIDDEN, ALLOWED_WHERE_MASKED
from lineage_query_api.settings import read_settings
from lineage_query_api.trace_ids import pack
from lineage_query_api.visibility import (
    HIDDEN,
    WITHHELD,
    DatasetVisibility,
    Visibility,
    VisibleApplication,
    build_visible_application,
)
from lineage_query_api.visible_store import VisibleReader
from lineage_store.dataset_paths import table_of_database
from lineage_store.paths import RowsError
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import open_store
from tests.security.test_grants import BODIES, HOST, OWN
from tests.support.drawn import drawn
from tests.support.spool_builder import Spool
from tests.support.stored_lineage import flows, key, store_run

pytestmark = pytest.mark.security
APP = "app-secret"
CANARY = "kanari"
"""Stands in all that is hidden."""
WORD = f"{CANARY}word"
GRANTS = """
[[grant]]
callers = ["token:hid", "token:masked", "token:only", "token:some", "token:all"]
applications = ["shop *"]
rows = true

[[grant]]
callers = ["token:narrow"]
applications = ["shop *"]
datasets = ["*/out"]
rows = true

[[grant]]
callers = ["token:listed"]
applications = ["shop *"]
rows = true
row_datasets = ["*/out"]

[[hide]]
callers = ["token:hid"]
datasets = ["*/kanari*.txt"]

[[mask]]
unless = ["token:all", "token:hid", "token:narrow", "token:listed"]
datasets = ["*/kanari-people.txt"]
columns = ["salary"]
"""
CALLERS: dict[str, Role] = {
    "hid": "admin", "masked": "admin", "narrow": "admin", "listed": "admin", "all": "admin"
}  # fmt: skip
HIDES = ("hid", "narrow")
"""Callers from whom the source is hidden."""
BACKWARD = {"direction": "backward", "start": {"places": ["write#0#0"]}}


def store_secret(
    url: str, folder: Path, app: str = APP, *, name: str = "shop pay", ended: bool = True
) -> None:
    """A job over a file of people; whatever a program may say of it holds the canary."""
    source, sink = folder / "kanari-people.txt", folder / "out" / "part-00000"
    source.write_text(f"{CANARY}-row-1 5000kr\n{CANARY}-row-2 7000kr\n")
    sink.parent.mkdir(exist_ok=True)
    sink.write_text("sum 1\nsum 2\n")
    spool = Spool(folder / "spool", app)
    spool.send(
        Begin(app=app, name=name, started_at=50.0, argv=(f"--in={CANARY}",), cwd=f"/{CANARY}"),
        Unknown(app=app, what=f"{CANARY}.toPandas", reason=f"{CANARY} can't be followed"),
    )
    said: dict[str, Any] = {
        "description": f"{CANARY} d",
        "call_site": f"{CANARY}.py:1",
        "call_path": CANARY,
        "containers": (f"{CANARY}-c",),
        "container_types": ("stage",),
    }
    spool.node(
        "0",
        "source",
        f"{CANARY}File",
        alias=f"read:{CANARY}",
        path=f"{CANARY}-people.txt",
        name=f"{CANARY} n",
        **said,
    )
    spool.node(
        "1",
        "shuffle",
        f"{CANARY}Key",
        name=f"{CANARY} n",
        exact=False,
        reason=f"{CANARY} r",
        **said,
    )
    spool.node("2", "sink", f"{CANARY}Save", alias="write", path="out", **said)
    spool.send(Link(app=app, src="0", dest="1"), Link(app=app, src="1", dest="2"))
    stat = source.stat()
    split = Split(
        partition=0,
        path=f"file:{source}",
        start=0,
        length=stat.st_size,
        file_size=stat.st_size,
        mtime=stat.st_mtime,
    )
    spool.send(Splits(app=app, node="0", splits=(split,)))
    words = [([0, 1], key(WORD)), ([1], key("b"))]
    first = flows(BlockId("1", 0, 0, 0), "0#0", "1@0", words, app)
    first = replace(first, values=[f"{CANARY} v", f"{CANARY} w"], exact=False, reason=f"{CANARY} x")
    reads = (Read(space="0#0", rows=2, exhausted=True),)
    spool.task("1", 0, 0, [first], flows=2, reads=reads, superset_reasons=(f"{CANARY} s",))
    last = flows(BlockId("2", 0, 1, 0), "1@0", "2#0", [([key(WORD)], 0), ([key("b")], 1)], app)
    spool.task("2", 0, 1, [last], flows=2, rows=2)
    spool.job("2", n1=1, n2=1)
    out = sink.stat()
    file = SinkFile(partition=0, path=f"file:{sink}", size=out.st_size, mtime=out.st_mtime, rows=2)
    spool.send(SinkFiles(app=app, node="2", path=str(sink.parent), files=(file,)))
    if ended:
        spool.end(blocks=2, tasks=2)
    with SqliteStore(url.removeprefix("sqlite:///")) as store:
        ingest_all(store, folder / "spool")


class Served:
    """A server of callers that see more and less of one application, and all of another."""

    client: TestClient

    def __init__(self, folder: Path, grants: str = GRANTS) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/lineage.db"
        (folder / APP).mkdir()
        store_secret(self.url, folder / APP)
        (folder / OWN).mkdir()
        store_run(self.url, folder / OWN, OWN, name="shop sales")
        made = {
            one: new_token(one, role, rows=True, delete=True, erase=True, access=True, watch=True)
            for one, role in CALLERS.items()
        }
        self.tokens = {name: token for name, (token, _) in made.items()}
        (folder / "tokens.toml").write_text("".join(lines for _, lines in made.values()))
        (folder / "grants.toml").write_text(grants)
        settings = read_settings(
            store=self.url,
            api_tokens=folder / "tokens.toml",
            api_grants=folder / "grants.toml",
            api_roots=str(folder),
            api_rate="100000/minute",
        )
        self.store = open_store(self.url)
        self.app = create_app(self.store, settings)

    def ask(self, caller: str, method: str, path: str, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.tokens[caller]}"}
        return self.client.request(method, path, headers=headers, **more)

    def trace(self, caller: str, place: str, direction: str = "backward", **more: Any) -> Any:
        asked = {"direction": direction, "start": {"places": [place]}, **more}
        return self.ask(caller, "post", f"/v1/applications/{APP}/traces", json=asked)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    server = Served(tmp_path)
    with (
        server.store,
        TestClient(server.app, base_url=HOST, raise_server_exceptions=False) as server.client,
    ):
        yield server


def requests_of(method: str, path: str, app: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Requests of an operation of one application, of its output and of its source."""
    for node, address, way in (
        ("write", "write#0#0", "backward"),
        ("read", "read#0#0", "forward"),
        ("1", "1@0#77", "forward"),
        ("2", "2#0#1", "backward"),
    ):
        asked = {"direction": way, "start": {"places": [address]}}
        named = pack(app, TraceRequest.model_validate(asked))
        for ends in ("read", "write", "1"):
            of_node = ends if "trace" in path else node
            filled = path.format(app=app, node=of_node, trace=named, array="source-0")
            more: dict[str, Any] = (
                {"params": {"address": address}} if path.endswith("/rows") else {}
            )
            if method == "post":
                body = json.dumps(BODIES[method, path])
                body = body.replace("{app}", app).replace("write#0#0", address)
                more["json"] = json.loads(body.replace('"backward"', f'"{way}"'))
            yield filled, more
            for level in (*LEVELS[1:], "phase") if path == "/v1/answers" else ():
                yield filled, more | {"json": more["json"] | {"by": level}}


@pytest.mark.parametrize("caller", drawn(["hid", "narrow", "masked", "listed"], 2))
def test_no_route_tells_what_is_hidden_or_masked(served: Served, caller: str) -> None:
    operations = [
        (method, path) for path, one in served.app.openapi()["paths"].items() for method in one
    ]
    of_app = {
        f"{m.upper()} {path}" for m, path in operations if "{app}" in path or "{trace}" in path
    }
    of_app |= {"POST /v1/answers", "POST /v1/answers/file"}
    of_app |= {
        f"POST /v1/answers/{name}" for name in ("diff", "runs-diff", "suspects", "influence")
    }
    assert ALLOWED_WHERE_HIDDEN < ALLOWED_WHERE_MASKED < of_app
    deletes = ("delete", "/v1/applications/{app}")
    answered = set()
    for method, path in operations:
        if (method, path) == deletes:
            continue
        for filled, more in requests_of(method, path, APP):
            answer = served.ask(caller, method, filled, **more)
            operation = f"{method.upper()} {path}"
            assert answer.status_code != 500, (caller, operation, answer.text)
            told = f"{answer.text} {answer.headers}"
            if caller in HIDES:
                assert CANARY not in told, (caller, operation, more)
            else:
                # Paths and the program's words are known; texts and values are not.
                for hidden in ("-row-", "5000kr", "7000kr", f"{CANARY} v", f"{CANARY} w", WORD):
                    assert hidden not in told, (caller, operation, more)
            assert str(key(WORD)) not in told, (caller, operation, more)
            if answer.status_code == 200:
                answered.add(operation)
            elif path.endswith("/watch"):
                # For callers without narrower grants alone.
                assert answer.status_code == 403, (caller, operation)
            elif operation in of_app and operation not in ALLOWED_WHERE_MASKED:
                assert (answer.status_code, "hidden" in answer.text) == (403, True), operation
    known = ALLOWED_WHERE_HIDDEN if caller in HIDES else ALLOWED_WHERE_MASKED
    assert answered & of_app == known - {"DELETE /v1/applications/{app}"}, caller
    assert served.ask(caller, "get", f"/v1/applications/{OWN}/graph").status_code == 200
    assert served.ask("all", "get", f"/v1/applications/{APP}/dump").status_code == 200
    assert served.ask("hid", *deletes[:1], f"/v1/applications/{APP}").status_code == 204


def test_levels_tell_of_a_hidden_file_what_rows_tell(served: Served) -> None:
    asked = {"direction": "backward", "places": ["write#0#0"], "app": APP}
    for caller in HIDES:
        rows = served.ask(caller, "post", "/v1/answers", json=asked).json()
        (group,) = rows["sources"]
        for level in LEVELS[1:]:
            answer = served.ask(caller, "post", "/v1/answers", json=asked | {"by": level})
            if level == "stage":
                assert (answer.status_code, "hidden" in answer.text) == (403, True)
                continue
            (container,) = answer.json()["containers"]
            assert container["rows"] == group["count"]
            if level in {"file", "split"}:
                # The bytes of its split would say how large it is.
                name = group["items"][0]["location"].rpartition(":")[0]
                assert container["name"] == (name if level == "file" else f"{name}@0+1")


def test_a_folder_is_as_one_that_is_not_there_where_a_dataset_is_hidden(served: Served) -> None:
    folder = f"{served.folder}/{APP}"
    for caller in HIDES:
        for place, way in ((folder, "forward"), (f"{folder}/out", "backward")):
            told = []
            for named in (place, f"{place}/gone"):
                asked = {"direction": way, "places": [named], "app": APP, "by": "file"}
                answer = served.ask(caller, "post", "/v1/answers", json=asked)
                body = answer.json()
                body.pop("request_id")
                told.append((answer.status_code, json.dumps(body)))
            assert told[0] == told[1]
            assert told[0][0] == 404
    asked = {"direction": "forward", "places": [folder], "app": APP}
    assert served.ask("all", "post", "/v1/answers", json=asked).status_code == 200


def test_what_a_run_used_is_not_told_where_a_dataset_of_it_is_hidden(served: Served) -> None:
    for caller in ("hid", "narrow", "listed", "masked", "all"):
        jobs = served.ask(caller, "get", "/v1/jobs").json()["items"]
        [job] = [one for one in jobs if one["last_run"]["app"] == APP]
        [run] = served.ask(caller, "get", "/v1/runs", params={"job": job["name"]}).json()["items"]
        assert (run["app"], run["complete"]) == (APP, False)
        datasets = served.ask(caller, "get", "/v1/datasets").json()
        users = {one["last_write"]["app"] for one in datasets["items"] if one["last_write"]}
        names = {"namespace": "file", "name": f"{served.folder}/{APP}/out"}
        status = served.ask(caller, "get", "/v1/datasets/runs", params=names).status_code
        own = names | {"name": f"{served.folder}/{OWN}/out"}
        of_own = served.ask(caller, "get", "/v1/datasets/runs", params=own)
        if of_own.status_code == 200:
            # Who else used it is not said to be nobody.
            told = [of_own.json()[field] for field in ("runs", "runs_total", "runs_withheld")]
            assert told == [datasets[field] for field in ("runs", "runs_total", "runs_withheld")]
        around_job = served.ask(caller, "get", "/v1/jobs/graph", params={"app": APP}).json()
        around_name = served.ask(caller, "get", "/v1/jobs/graph", params=names).status_code
        assert around_job["nodes"][0]["name"] == job["name"]
        fields = ("runs", "runs_total", "runs_withheld")
        assert [around_job[field] for field in fields] == [datasets[field] for field in fields]
        around = {node["name"] for node in around_job["nodes"]}
        assert (names["name"] in around, around_name) == (status == 200, status)
        assert caller not in HIDES or around == {job["name"]}
        wanted = [{"dataset": "kanari-people"}, {"call_site": f"{CANARY}.py"}]
        for search in wanted:
            page = served.ask(caller, "get", "/v1/applications", params=search).json()
            assert (APP in {one["app"] for one in page["items"]}) == (caller not in HIDES), search
            assert (page["withheld"] >= 1) == (caller in HIDES)
            assert page["total"] == len(page["items"])
        if caller in HIDES:
            assert run["content"] is job["last_run"]["content"] is None
            assert datasets["runs_withheld"] >= 1
            assert (APP in users, status) == (False, 404)
        else:
            assert [use["name"] for use in run["content"]["writes"]] == [names["name"]]
            assert datasets["runs_withheld"] == 0
            assert (APP in users, status) == (True, 200)


def test_who_is_denied_nothing_sees_all(served: Served) -> None:
    found = served.trace("all", "write#0#0")
    assert f"{CANARY}-row-1 5000kr" in found.text
    assert "kanari-people.txt:2" in found.text
    assert not any("hidden" in one or "masked" in one for one in found.json()["warnings"])


@pytest.mark.parametrize("caller", ["hid", "narrow"])
def test_a_hidden_source_is_named_and_counted(served: Served, caller: str) -> None:
    found = served.trace(caller, "write#0#0").json()
    (group,) = found["groups"]
    assert (group["what"], group["path"], group["count"]) == ("hidden", None, 2)
    assert [one["location"] for one in group["items"]] == ["hidden://1:1", "hidden://1:2"]
    assert found["pairs"] == {"rows": [], "unknown": [NOT_SHOWN]}
    assert {one["text"] for one in group["items"]} == {None}
    assert found["start"][0]["items"][0]["text"] == "sum 1"
    assert found["start"][0]["items"][0]["location"].endswith("/out/part-00000:1")
    assert any("hidden from you" in one for one in found["warnings"])
    # What is inexact stays so, and why is not told.
    assert (found["exact"], len(found["reasons"])) == (False, 1)


def test_hiding_changes_no_claim(served: Served) -> None:
    for place, way in (("write#0#0", "backward"), ("write#0#1", "backward"), ("0#0#1", "forward")):
        claims = []
        for caller in ("all", "hid", "narrow", "masked", "listed"):
            found = served.trace(caller, place, way).json()
            items = [[one["address"] for one in group["items"]] for group in found["groups"]]
            # The name of a node by itself is what its file adds.
            shown = json.dumps(items).replace(f"read:{CANARY}", "read")
            claims.append((found["exact"], found["complete"], found["count"], shown))
        assert len(set(claims)) == 1, claims


def test_an_answer_is_not_called_complete_by_hiding_why_it_is_not(served: Served) -> None:
    for caller in ("hid", "masked", "all"):
        told = served.ask(caller, "get", f"/v1/applications/{APP}/completeness").json()
        assert (told["complete"], len(told["reasons"]) > 0) == (False, True)
        assert told["tasks"] == {"expected": 2, "committed": 2}
        listed = served.ask(caller, "get", "/v1/applications").json()["items"]
        for found in (json.dumps(told), json.dumps(listed)):
            assert ("toPandas" in found) == ("followed" in found) == (caller == "all")
            assert caller != "hid" or CANARY not in found


def test_masked_rows_of_text_have_no_value_and_withheld_ones_no_text(served: Served) -> None:
    def texts(caller: str) -> set[object]:
        (group,) = served.trace(caller, "write#0#0").json()["groups"]
        assert group["path"] == "kanari-people.txt"
        return {one["text"] for one in group["items"]}

    assert texts("masked") == {"***"}
    assert texts("listed") == {None}
    shown = served.ask("masked", "get", f"/v1/applications/{APP}/rows?address=0%230%230").json()
    assert {one["text"] for one in shown["rows"]} == {"***"}


@pytest.mark.parametrize("caller", drawn(["masked", "hid", "narrow", "listed"], 2))
@pytest.mark.parametrize(
    "start",
    [
        {"node": "0", "contains": "5000"},
        {"node": "0", "contains": "9999"},
        {"node": "write", "values": [{"column": "salary", "value": "5000"}]},
        {"node": "write", "values": [{"column": "salary", "value": "9999"}]},
        {"places": ["write#salary=5000"]},
        {"places": ["write#salary=9999"]},
        {"places": [f"1@0#{key(WORD)}"]},
        {"places": ["1@0#12345"]},
        {"places": ["*@0#12345"]},
        {"regions": [{"space": "1@0", "ranges": str(key(WORD))}]},
        {"regions": [{"space": "1@0", "ranges": "12345"}]},
    ],
)
def test_questions_that_test_a_value_are_refused_whatever_it_is(
    served: Served, caller: str, start: dict[str, Any]
) -> None:
    for direction in ("backward", "forward"):
        asked = {"direction": direction, "start": start}
        answer = served.ask(caller, "post", f"/v1/applications/{APP}/traces", json=asked)
        assert answer.status_code == 403, answer.text
        refused = answer.json()
        refused.pop("request_id")
        assert set(refused) == {"type", "title", "status", "detail", "hint"}
        assert "may tell what is hidden" in refused["detail"]
    found = served.ask(caller, "get", f"/v1/applications/{APP}/nodes/0/items?search=5000")
    assert found.status_code == 403


@pytest.mark.parametrize("place", ["write#salary=5000", "write#salary=9999"])
def test_a_question_over_all_leaves_out_what_is_not_shown_wholly(
    served: Served, place: str
) -> None:
    statuses = set()
    for where in (
        place,
        f"{served.folder}/{APP}/out/part-00000:1",
        f"{served.folder}/{APP}/kanari-people.txt:1",
    ):
        asked = {"direction": "backward", "places": [where]}
        for caller in ("hid", "masked", "narrow"):
            answer = served.ask(caller, "post", "/v1/answers", json=asked)
            statuses.add(answer.status_code)
            assert "5000kr" not in answer.text.replace(where, "")
    assert statuses == {404}


@pytest.mark.parametrize("end", ["kanari-people.txt:1", "kanari-people.txt#0", "kanari-people.txt"])
def test_a_hidden_file_is_as_one_that_is_not_there(served: Served, end: str) -> None:
    (served.folder / APP / "link.txt").symlink_to(served.folder / APP / "kanari-people.txt")
    for caller in HIDES:
        told = []
        for place in (end, f"../{APP}/{end}", end.replace("kanari-people", "link"), "gone/" + end):
            asked = {
                "direction": "forward", "places": [f"{served.folder}/{APP}/{place}"], "app": APP
            }  # fmt: skip
            answer = served.ask(caller, "post", "/v1/answers", json=asked)
            body = answer.json()
            body.pop("request_id")
            told.append((answer.status_code, json.dumps(body)))
        assert len(set(told)) == 1, told
        assert told[0][0] == 404


def test_a_running_application_is_not_taken_for_one_that_is_shown_wholly(tmp_path: Path) -> None:
    server = Served(tmp_path)
    (tmp_path / "run").mkdir()
    with server.store, TestClient(server.app, base_url=HOST) as server.client:
        store_secret(server.url, tmp_path / "run", "app-runs", name="shop runs", ended=False)
        # Of its datasets the caller is denied none, so far.
        (tmp_path / "grants.toml").write_text(GRANTS.replace("kanari*.txt", "not-yet"))
        assert served_status(server, "hid", "app-runs", "dump") == 403
        assert served_status(server, "hid", OWN, "dump") == 200
        assert served_status(server, "all", "app-runs", "dump") == 200


def test_rows_that_another_application_holds_are_not_shown_beside_what_is_hidden(
    tmp_path: Path,
) -> None:
    server = Served(tmp_path)
    held = f"{APP}.rows"
    (tmp_path / "held").mkdir()
    store_secret(server.url, tmp_path / "held", held)
    with server.store, TestClient(server.app, base_url=HOST) as server.client:
        for path in ("", "/graph", "/nodes", "/completeness", "/rows?address=0%230%230"):
            statuses = {}
            for caller in ("masked", "hid", "narrow", "all"):
                answer = server.ask(caller, "get", f"/v1/applications/{held}{path}")
                statuses[caller] = answer.status_code
            assert statuses == {"masked": 403, "hid": 403, "narrow": 403, "all": 200}, path


def served_status(server: Served, caller: str, app: str, what: str) -> int:
    found: int = server.ask(caller, "get", f"/v1/applications/{app}/{what}").status_code
    return found


def test_nodes_that_a_program_named_itself_are_not_shown_beside_what_is_hidden(
    served: Served,
) -> None:
    with SqliteStore(served.folder / "lineage.db") as store:
        named = store.messages(APP, "register")[0].model_copy(update={"node": f"{CANARY}"})
        store.write(APP, [named])
    for path in ("", "/graph", "/nodes", "/completeness", "/progress"):
        answer = served.ask("narrow", "get", f"/v1/applications/{APP}{path}")
        assert (answer.status_code, CANARY in answer.text) == (403, False)


@pytest.mark.parametrize("caller", ["hid", "masked"])
def test_what_capture_kept_of_values_is_not_loaded(served: Served, caller: str) -> None:
    """Keys and records in detailed mode, and strings of the SDK, are values of what they were made of."""
    known = Principal(caller, "admin", True, True, "token", frozenset({f"token:{caller}"}))
    scope = served.app.state.scopes.of(known, "GET /v1/applications/{app}/graph")
    graph = scope.within(APP)[0].open(APP).graph
    whole = served.store.graph(APP)
    ids = [ref.block_id for ref in whole.blocks()]
    assert f"{CANARY} v" in str([block.values for block in whole.load(ids).values()])
    for block in graph.load(ids).values():
        assert (block.values, block.in_text, block.out_text, block.reason) == (None, None, None, "")


def rules(**more: Any) -> Visibility:
    mask = Mask(frozenset({"*/pay*"}), ("salary", "a.b"))
    given = {
        "visible": (frozenset({"*"}),),
        "read": (frozenset({"*"}),),
        "hidden": frozenset({"/data/hr", "hr.*"}),
        "masks": (mask,),
    }
    return Visibility(**(given | more))


@pytest.mark.parametrize(
    "name",
    [
        "/data/hr",
        "/data/hr/",
        "file:/data/hr/a.csv",
        "file:///data/hr/a.csv",
        "/data//hr/x",
        "/data/shop/../hr/x",
        "/data/h%72/x",
        "hr.people",
        "/x/pay.csv/salary=5000/part-0",
        "/x/pay.csv/SALARY=5000/part-0",
        "/x/pay.csv/s%61lary=5000/part-0",
        "/x/pay.csv/a=1/part-0",
    ],
)
def test_a_dataset_is_hidden_however_it_is_spelled(name: str) -> None:
    assert rules().shown([name]) == HIDDEN
    assert rules().shown(["/data/shop", name]) == HIDDEN


def test_what_is_granted_is_of_all_names_of_an_application() -> None:
    """Who sends a second name for an application of others opens none of its datasets."""
    grants = (
        DatasetGrant(frozenset({"shop *"}), frozenset({"/shop/*"}), frozenset({"/shop/*"})),
        DatasetGrant(frozenset({"mine"}), frozenset({"*"}), frozenset({"*"})),
        DatasetGrant(frozenset({"shop b"}), frozenset({"/b/*"}), frozenset()),
    )
    given = DatasetRules(grants, frozenset(), ())
    assert Visibility.of(given, {"mine"}).shown(["/hr/a"]) == DatasetVisibility()
    assert Visibility.of(given, {"shop a"}).shown(["/shop/a"]) == DatasetVisibility()
    assert Visibility.of(given, {"shop b"}).shown(["/b/a"]) == WITHHELD
    for names in ({"shop a"}, {"shop a", "mine"}, {"shop b", "shop a"}, set[str](), {"other"}):
        assert Visibility.of(given, names).shown(["/b/a"]) == HIDDEN


@pytest.mark.parametrize(
    ("node", "is_plain"),
    [("4", True), ("4.1", True), ("4:quarantine", True), ("4:salary", False), ("ann", False)],
)
def test_ids_of_nodes_that_a_program_chose_are_known(node: str, *, is_plain: bool) -> None:
    named = Register(app=APP, node=node, kind="sink", op="quarantine")
    assert build_visible_application([named], rules(), final=True).ids_are_plain is is_plain


ROW = '{"name":"ann","salary":5000,"rate":1.10,"big":12345678901234567890.10}'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (ROW, '{"name":"ann","rate":1.10,"big":12345678901234567890.10,"salary":"***"}'),
        (ROW.replace('"salary":5000,', ""), '{"name":"ann","rate":1.10,"big":12345678901234567890.10,"salary":"***"}'),
        ('{"Salary":5000,"SALARY":6000}', '{"salary":"***"}'),
        ('{"pay":{"salary":5000},"all":[5000]}', '{"pay":"***","all":"***","salary":"***"}'),
        ('{"_corrupt_record":"5000"}', '{"salary":"***"}'),
        ("ann,5000", "***"),
        ("5000", "***"),
        ("[5000]", "***"),
        ('{"salary":50', "***"),
        ("[" * 100_000, "***"),
        (None, None),
    ],
)  # fmt: skip
def test_a_masked_column_leaves_no_value_no_length_and_no_null(
    text: str | None, shown: str | None
) -> None:
    assert masked_row(text, ["salary"]) == shown
    assert masked_row(text, []) == text


def test_columns_are_masked_by_patterns_and_by_their_very_names() -> None:
    row = '{"name":"ann","Salary_2025":1,"salary_2026":2,"pay[EUR]":3}'
    assert masked_row(row, ["salary*", "pay[EUR]"]) == (
        '{"name":"ann","salary*":"***","pay[EUR]":"***"}'
    )
    assert masked_row(row, ["*"]) == '{"*":"***"}'
    masks = (Mask(frozenset({"*/pay*"}), ("sal*",)),)
    assert rules(masks=masks).shown(["/x/pay/salary=5000/part-0"]) == HIDDEN


def frame_look(
    source: Source, settings: dict[str, str] | None = None, **more: Any
) -> VisibleApplication:
    recipe = Recipe(
        spark="4.1.0",
        settings=settings or {},
        sources=(source,),
        plan=(Range(columns=(Attribute(1, "id", "bigint"),), start=0, end=1, step=1),),
        output=Output(kind="files", path="/out", format="parquet"),
    )
    app = "frames-1"
    messages: list[Message] = [
        Register(app=app, node="0.0", kind="frame-source", op=source.format, path=source.name),
        Register(app=app, node="0", kind="frame", op="write", path="/out"),
        RecipeMessage(app=app, node="0", recipe=recipe.to_json()),
    ]
    return build_visible_application(messages, rules(**more), final=True)


def source(kind: str, *columns: str, path: str = "/x/pay", **options: str) -> Source:
    fields = [{"name": one, "type": "string", "nullable": True, "metadata": {}} for one in columns]
    schema = json.dumps({"type": "struct", "fields": fields})
    file = File(path=f"file:{path}/part-0", size=1, mtime=1)
    return Source(kind, (path,), schema, options=options, files=(file,))


@pytest.mark.parametrize(
    ("read", "shown"),
    [
        (source("parquet", "name", "salary"), {"name": "ann", "salary": "***", "a.b": "***"}),
        (source("json", "name"), {"name": "ann", "salary": "***", "a.b": "***"}),
        (source("csv", "name", "salary", "a", header="true"), {"name": "ann", "salary": "***", "a.b": "***"}),
        # It may be there by another name.
        (source("csv", "name", "pay", header="true"), "***"),
        (source("csv", "salary", "name", "a", header="true"), "***"),
        (source("csv", "name", "salary", "a", "b", header="true"), "***"),
        (source("csv", "name", "salary", "a", header="true", sep=";"), "***"),
        (source("csv", "name", "salary", "a"), "***"),
        (source("csv", "name", "salary", "a", header="true", columnNameOfCorruptRecord="bad"), "***"),
        (source("json", "name", "bad", columnNameOfCorruptRecord="bad"), "***"),
        (source("text", "value"), "***"),
        (source("avro", "name", "salary", "a"), "***"),
    ],
)  # fmt: skip
def test_rows_of_dataframes_are_masked_by_name_where_a_format_tells_names(
    read: Source, shown: object
) -> None:
    # A setting may name what an option does.
    named = read.options.get("columnNameOfCorruptRecord", "_corrupt_record")
    settings = {"spark.sql.columnNameOfCorruptRecord": named}
    for visible_app in (
        frame_look(read),
        frame_look(replace(read, options=without(read)), settings),
    ):
        assert (visible_app.hides, visible_app.traceable, visible_app.is_fully_visible) == (
            False,
            True,
            False,
        )
        check_masked(visible_app, shown)


def without(read: Source) -> dict[str, str]:
    return {key: one for key, one in read.options.items() if key != "columnNameOfCorruptRecord"}


def check_masked(visible_app: VisibleApplication, shown: object) -> None:
    text = '{"name":"ann","salary":"5000","A":{"b":"5000"}}'
    copied = '{"salary":"5000","total":1}'

    def group(node: str, row: str) -> Group:
        return Group(node, node, "", None, 1, (Item("0", "/x:1", row, "state"),))

    made = Answer(
        "frames-1", Direction.BACKWARD, (), (group("0", copied),), True, (),
        (group("0.0", text), group("0", text), group("9", text)), (), False, True,
    )  # fmt: skip
    found = masked_answer(
        made, visible_app, lambda path: 'name,"Salary",a' if path == "/x" else None
    )
    (told,) = found.groups[0].items
    assert told.text is not None
    assert (told.text if shown == "***" else json.loads(told.text)) == shown
    # What a program copies by the same name is masked there, too; so is what may be of any node.
    assert [one.text for one in found.start[0].items] == ['{"salary":"***","total":1}']
    assert "5000" not in json.dumps(found.to_json())
    assert (found.exact, found.complete) == (True, True)


def of_table(table: str, **options: str) -> VisibleApplication:
    kind = "jdbc" if table.startswith("jdbc:") else "parquet"
    return frame_look(replace(source(kind, "name", **options), paths=(), files=(), table=table))


@pytest.mark.parametrize(
    "table",
    [
        "hr.staff",
        "spark_catalog.hr.staff",
        "lake.hr.staff",
        "jdbc:postgresql://db:5432/x/hr.staff",
        "jdbc:postgresql://db:5432/x/HR.Staff",
        'jdbc:postgresql://db:5432/x/"hr"."staff"',
        "jdbc:sqlserver://db/x.[hr].[staff]",
    ],
)
def test_a_table_is_hidden_in_whatever_catalog_and_however_it_is_quoted(table: str) -> None:
    at = table.rpartition("/")[2]
    assert of_table(table, dbtable=at).nodes["0.0"] == HIDDEN
    assert of_table(table.replace("hr", "hq").replace("HR", "hq"), dbtable=at).is_fully_visible


def test_a_table_is_hidden_by_what_stands_for_it_in_messages_about_files() -> None:
    for table, hidden in (("hr.staff", True), ("shop.staff", False)):
        dataset = table_of_database("jdbc:postgresql://db:5432/x", table)
        assert dataset is not None
        file = SinkFile(partition=0, path=dataset.path, size=0, mtime=1)
        messages: list[Message] = [
            Register(app="a", node="0", kind="unknown", op="write"),
            RecordFiles(app="a", node="0", path=dataset.path, files=(file,)),
        ]
        visible_app = build_visible_application(messages, rules(), final=True)
        assert (visible_app.nodes["0"] == HIDDEN) == hidden


@pytest.mark.parametrize("of", ["s3://lake/hr", "S3A://lake/hr", "s3n://lake/hr", "s3a://lake/hr"])
@pytest.mark.parametrize("rule", ["s3://lake/hr/*", "s3a://lake/hr", "[sS]3*e/hr/*"])
def test_a_dataset_is_hidden_by_whichever_scheme_leads_to_it(of: str, rule: str) -> None:
    assert rules(hidden=frozenset({rule})).shown([f"{of}/a.csv"]) == HIDDEN
    assert rules(hidden=frozenset({rule})).shown([f"{of}q/a.csv"]) == DatasetVisibility()


def test_a_table_of_the_sessions_catalog_is_granted_by_its_name() -> None:
    shop = (frozenset({"shop.*", "/out"}),)
    for table, shown in (("spark_catalog.shop.a", True), ("shop.a", True), ("other.shop.a", False)):
        stored = replace(source("parquet", "name", path="/w/x"), table=table)
        visible_app = frame_look(stored, visible=shop, read=shop, masks=())
        assert (visible_app.is_fully_visible, visible_app.nodes["0.0"].visible) == (shown, shown), (
            table
        )


def test_an_output_is_hidden_by_the_name_of_its_table() -> None:
    recipe = Recipe(
        spark="4.1.0",
        settings={},
        sources=(),
        plan=(Range(columns=(Attribute(1, "id", "bigint"),), start=0, end=1, step=1),),
        output=Output(kind="table", path="/w/hr.db/out", table="spark_catalog.hr.out"),
    )
    messages: list[Message] = [
        Register(app="a", node="0", kind="frame", op="write", path="/w/hr.db/out"),
        RecipeMessage(app="a", node="0", recipe=recipe.to_json()),
    ]
    assert build_visible_application(messages, rules(), final=True).nodes == {"0": HIDDEN}


@pytest.mark.parametrize(
    "paths",
    [
        ("/lake/shop/a", "/lake/hr/b"),
        ("/lake/hr/b", "/lake/shop/a"),
        ("/lake/shop/../hr/b",),
        ("/lake/shop/%2e%2e/hr/b",),
    ],
)
def test_what_is_granted_opens_nothing_that_is_read_with_it(paths: tuple[str, ...]) -> None:
    shop: dict[str, Any] = {"visible": (frozenset({"/lake/shop/*", "/out"}),)}
    shop["read"] = shop["visible"]
    files = [f"/lake/{'hr/b' if 'hr' in path else 'shop/a'}/part-0" for path in paths]
    one = replace(
        source("parquet", "name"),
        paths=paths,
        files=tuple(File(f"file:{path}", 1, 1) for path in files),
    )
    visible_app = frame_look(one, **shop)
    assert (
        visible_app.is_fully_visible,
        visible_app.nodes["0.0"],
        visible_app.of_file(files[-1]),
    ) == (False, HIDDEN, HIDDEN)
    splits = tuple(
        Split(partition=0, path=f"file:{path}", start=0, length=1, file_size=1, mtime=1)
        for path in files
    )
    for found in ((), splits):
        messages: list[Message] = [
            Register(app="a", node="0", kind="source", op="textFile", path=",".join(paths)),
            Splits(app="a", node="0", splits=found),
        ]
        assert build_visible_application(messages, rules(**shop), final=True).nodes == {"0": HIDDEN}
    alone = replace(one, paths=("/lake/shop/a",), files=(File("file:/lake/shop/a/part-0", 1, 1),))
    assert frame_look(alone, **shop).is_fully_visible


def test_dataframes_over_what_is_hidden_are_not_traced() -> None:
    hidden = frame_look(source("parquet", "name", path="/data/hr/pay"))
    assert (hidden.hides, hidden.traceable, hidden.is_fully_visible) == (True, False, False)
    folder = frame_look(
        replace(source("parquet", "name"), files=(File("file:/x/pay/salary=5000/a", 1, 1),))
    )
    assert (folder.hides, folder.traceable) == (True, False)
    other = frame_look(source("parquet", "name", path="/x/shop"))
    assert (other.hides, other.is_fully_visible) == (False, True)
    database = of_table("jdbc:x/pay", dbtable="pay")
    assert (database.hides, database.traceable) == (False, False)
    # Which tables a query reads is not told.
    assert of_table("jdbc:x/(select 1) q", dbtable="(select 1) q").hides
    assert of_table("jdbc:x/select 1", query="select 1").hides
    unread = build_visible_application(
        [RecipeMessage(app="a", node="0", recipe='{"version": 99}')], rules(), final=True
    )
    assert (unread.is_fully_visible, unread.hides, unread.traceable) == (False, True, False)


def test_records_of_parquet_are_masked_by_column(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "kanari-people.txt.parquet"
    pq.write_table(pa.table({"name": ["ann", "bob"], "salary": [5000, None]}), file)
    stat = file.stat()
    split = RecordSplit(
        partition=0, path=f"file:{file}", start=0, length=stat.st_size, first=0,
        file_size=stat.st_size, mtime=stat.st_mtime,
    )  # fmt: skip
    messages: list[Message] = [
        Register(app="a", node="0", kind="source", op="read", path=str(file)),
        RecordSplits(app="a", node="0", whole=False, splits=(split,)),
    ]
    masks = (Mask(frozenset({"*.parquet"}), ("Salary",)),)
    visible_app = build_visible_application(messages, rules(masks=masks), final=True)
    reader = VisibleReader(RowReader(), visible_app)
    texts = reader.records(str(file), np.array([0, 1, 2], np.uint64))
    assert texts == ['{"name":"ann","Salary":"***"}', '{"name":"bob","Salary":"***"}', None]


def test_every_way_to_read_rows_is_masked() -> None:
    """What a reader of rows offers later is not taken over unmasked."""
    copies = {"without_links", "without_unknown_files", "with_readers_of_applications"}
    offered = {name for name in vars(RowReader) if not name.startswith("_")} - copies
    assert offered <= {*vars(VisibleReader)}


def test_a_header_is_compared_of_files_below_the_roots_alone(tmp_path: Path) -> None:
    (tmp_path / "pay").mkdir()
    visible_app = frame_look(source("csv", "name", "salary", path=f"{tmp_path}/pay"), masks=())
    reader = VisibleReader(RootedReader([str(tmp_path)]), visible_app)
    for text, told in (
        (b"name,salary\r\nann,5000\n", "name,salary"),
        (b"\xef\xbb\xbfname,salary\nann,5000\n", "name,salary"),
        (b"name\xff,salary\n", None),
        (b"name,salary", None),
        (b"n" * (1 << 17) + b"\n", None),
    ):
        (tmp_path / "pay" / "part-0").write_bytes(text)
        assert reader.header(f"{tmp_path}/pay/part-0") == told
    assert reader.header(f"{tmp_path}/pay/gone") is None
    outside = VisibleReader(RootedReader([f"{tmp_path}/other"]), visible_app)
    (tmp_path / "pay" / "part-0").write_bytes(b"name,salary\n")
    assert outside.header(f"{tmp_path}/pay/part-0") is None
    with pytest.raises(RowsError):
        outside.opened(f"{tmp_path}/pay/part-0")


def test_bytes_of_a_masked_file_are_opened_for_nobody(tmp_path: Path) -> None:
    file = tmp_path / "pay"
    file.write_text("ann,5000\n")
    visible_app = build_visible_application(
        [
            Register(app="a", node="0", kind="source", op="textFile", path=str(file)),
            Splits(
                app="a",
                node="0",
                splits=(
                    Split(
                        partition=0, path=f"file:{file}", start=0, length=9, file_size=9, mtime=1
                    ),
                ),
            ),
        ],
        rules(),
        final=True,
    )
    reader = VisibleReader(RowReader(), visible_app)
    with pytest.raises(RowsError, match="masked"):
        reader.opened(str(file))
    # A trace computes with it, and masks its answer.
    computing = reader.computing()
    with closing(computing.opened(str(file))) as opened:
        assert opened.read(0, 100) == b"ann,5000\n"
    assert computing.lines(str(file), *[np.array([1], np.uint64)] * 2) == ["***"]
    hides = build_visible_application(
        [Register(app="a", node="0", kind="source", op="textFile", path=str(file))],
        rules(hidden=frozenset({str(file)})),
        final=True,
    )
    with pytest.raises(RowsError, match="hidden"):
        VisibleReader(RowReader(), hides).computing().opened(str(file))
    rooted = VisibleReader(RootedReader([f"{tmp_path}/other"]), visible_app).computing()
    with pytest.raises(RowsError, match="not read by this server"):
        rooted.opened(str(file))


@pytest.mark.parametrize("caller", ["hid", "narrow", "masked", "listed"])
@pytest.mark.parametrize("salary", [5000, 9999])
def test_conditions_are_refused_whatever_they_say(served: Served, caller: str, salary: int) -> None:
    asked = {
        "direction": "backward",
        "places": ["write"],
        "app": APP,
        "where": f"salary = {salary}",
    }
    for route in ("/v1/answers", "/v1/answers/file"):
        answer = served.ask(caller, "post", route, json=asked)
        assert answer.status_code == 403, answer.text
        assert "hidden from you" in answer.json()["detail"]


@pytest.mark.parametrize("rule", ["mnt/secret/*", "mnt/secret", "mnt/sec*/in.txt", "mnt/*"])
def test_a_rule_that_goes_through_a_link_holds_where_it_leads(tmp_path: Path, rule: str) -> None:
    (tmp_path / "data" / "secret").mkdir(parents=True)
    (tmp_path / "mnt").symlink_to(tmp_path / "data")
    hidden = rules(hidden=frozenset({f"{tmp_path}/{rule}"}))
    for folder in ("data", "mnt"):
        assert hidden.shown([f"{tmp_path}/{folder}/secret/in.txt"]) == HIDDEN
    assert hidden.shown([f"{tmp_path}/other/in.txt"]) == DatasetVisibility()
