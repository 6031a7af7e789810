"""Applications that a caller is not granted are not there: no route tells their ids, paths, names or rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from fastapi.testclient import TestClient

from lineage_core.contract.message import Begin
from lineage_query.trace_query import LEVELS
from lineage_query_api.app import create_app
from lineage_query_api.auth import Oidc, Principal, Role, new_token
from lineage_query_api.errors import SettingsError
from lineage_query_api.granted_store import NAMES_S, ApplicationNames, GrantedStore
from lineage_query_api.grants import Grants, read_grants
from lineage_query_api.models import TraceRequest
from lineage_query_api.settings import read_settings
from lineage_query_api.trace_ids import pack
from lineage_store.materialised import NAME_ENDING, delete_application
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import open_store
from tests.support.drawn import drawn
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
HOST = "http://127.0.0.1:8484"
OWN, HIDDEN, ABSENT = "app-own", "secret-77", "absent-77"
GRANTS = """
[[grant]]
callers = ["token:ann"]
applications = ["shop *"]
rows = true

[[grant]]
callers = ["token:ann", "token:rex"]
applications = ["audit *"]

[[grant]]
callers = ["token:all"]
applications = ["*"]
rows = true
"""
CALLERS: dict[str, Role] = {"ann": "admin", "rex": "admin", "nobody": "admin", "all": "admin"}
BACKWARD = {"direction": "backward", "start": {"places": ["write#0#0"]}}
QUERY = {
    "/v1/applications/{app}/rows": {"address": "read#0#0"},
    "/v1/applications/{app}/arrays/{array}/values": {"ranges": "0"},
    "/v1/runs": {"job": "shop sales"},
    "/v1/jobs/graph": {"job": "shop sales"},
    "/v1/datasets/runs": {"namespace": "file", "name": "/"},
}
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("post", "/v1/applications/{app}/traces"): BACKWARD,
    ("post", "/v1/applications/{app}/diff"): {"left": BACKWARD, "right": BACKWARD},
    ("post", "/v1/applications/{app}/suspects"): {"places": ["write#0#0"]},
    ("post", "/v1/applications/{app}/record-view"): {},
    ("post", "/v1/applications/{app}/watch"): {"node": "map", "condition": "record == 0"},
    ("post", "/v1/applications/{app}/arrays/trace"): {"direction": "backward", "cells": "x[0]"},
    ("post", "/v1/arrays/trace"): {"direction": "backward", "cells": "x[0]", "app": "{app}"},
    ("post", "/v1/answers"): {"direction": "backward", "places": ["write#0#0"], "app": "{app}"},
    ("post", "/v1/answers/file"): {
        "direction": "backward", "places": ["write#0#0"], "app": "{app}"
    },
    ("post", "/v1/answers/diff"): {
        "direction": "backward", "left": ["write#0#0"], "right": ["write#0#0"], "app": "{app}"
    },
    ("post", "/v1/answers/runs-diff"): {
        "left": {"app": "{app}", "places": ["write#0#0"]},
        "right": {"app": OWN, "places": ["write#0#0"]},
    },
    ("post", "/v1/answers/suspects"): {"places": ["write#0#0"], "app": "{app}"},
    ("post", "/v1/answers/influence"): {"place": "write#0#0", "app": "{app}"},
    ("post", "/v1/erasure-plans"): {"source": "/{app}/in.txt", "rows": [1]},
    ("post", "/v1/access-reports"): {"source": "/{app}/in.txt", "rows": [1]},
}  # fmt: skip


class Served:
    """A server of callers with grants of their own, over one application of each kind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/lineage.db"
        for app, name in ((OWN, "shop sales"), ("app-audit", "audit sales"), (HIDDEN, "hush")):
            (folder / app).mkdir()
            store_run(self.url, folder / app, app, name=name)
        made = {
            name: new_token(name, role, rows=True, delete=True, erase=True, access=True, watch=True)
            for name, role in CALLERS.items()
        }
        self.tokens = {name: token for name, (token, _) in made.items()}
        (folder / "tokens.toml").write_text("".join(lines for _, lines in made.values()))
        (folder / "grants.toml").write_text(GRANTS)
        self.settings = read_settings(
            store=self.url,
            api_tokens=folder / "tokens.toml",
            api_grants=folder / "grants.toml",
            api_roots=str(folder),
            api_rate="100000/minute",
        )

    def ask(self, caller: str, method: str, path: str, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.tokens[caller]}"}
        return self.client.request(method, path, headers=headers, **more)

    def start(self, store: SqliteStore) -> Iterator[Served]:
        self.app = create_app(store, self.settings)
        with TestClient(self.app, base_url=HOST, raise_server_exceptions=False) as self.client:
            yield self


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    server = Served(tmp_path)
    with open_store(server.url) as store:
        yield from server.start(store)  # type: ignore[arg-type]


def asked(method: str, path: str, app: str) -> tuple[str, dict[str, Any]]:
    """A request of each operation, of one application."""
    request = TraceRequest.model_validate(BACKWARD)
    filled = path.format(app=app, node="read", trace=pack(app, request), array="source-0")
    more: dict[str, Any] = {"params": QUERY.get(path, {})}
    if method == "post":
        body = json.dumps(BODIES[method, path])  # A new operation stands there, too.
        more["json"] = json.loads(body.replace("{app}", app))
    return filled, more


def test_no_route_tells_of_an_application_that_is_not_granted(served: Served) -> None:
    operations = [
        (method, path) for path, one in served.app.openapi()["paths"].items() for method in one
    ]
    assert len(operations) > 20
    secrets = (HIDDEN, "hush", str(served.folder / HIDDEN), f"{HIDDEN}/in.txt", "a b", "c a")
    for caller in ("nobody", "rex", "ann"):
        for method, path in operations:
            told = []
            for app in (HIDDEN, ABSENT):
                filled, more = asked(method, path, app)
                answer = served.ask(caller, method, filled, **more)
                assert answer.status_code != 500, (caller, method, path)
                text = answer.text
                if answer.headers["content-type"].endswith("json"):
                    body = answer.json()
                    body.pop("request_id", None)
                    text = json.dumps(body)
                # What the caller sent may be repeated.
                text = text.replace(filled, "").replace(app, "APP")
                told.append((answer.status_code, text))
            assert told[0] == told[1], (caller, method, path)
            if caller == "nobody" or "{" in path:
                hits = [one for one in secrets if one in told[0][1]]
                assert hits == [], (caller, method, path)
    assert served.ask("all", "get", f"/v1/applications/{HIDDEN}").status_code == 200


@pytest.mark.parametrize("level", drawn(LEVELS, 3))
def test_no_level_tells_of_an_application_that_is_not_granted(served: Served, level: str) -> None:
    for direction, end in (("backward", "out/part-00000:1"), ("forward", "in.txt:1")):
        told = []
        asked_for = {"direction": direction, "by": level, "all_jobs": True}
        for app in (HIDDEN, ABSENT):
            places = [f"{served.folder}/{app}/{end}"]
            answer = served.ask("ann", "post", "/v1/answers", json=asked_for | {"places": places})
            body = answer.json()
            body.pop("request_id", None)
            told.append((answer.status_code, json.dumps(body).replace(app, "APP")))
        assert told[0] == told[1]
        assert told[0][0] == 404
        places = [f"{served.folder}/{OWN}/{end}"]
        answer = served.ask("ann", "post", "/v1/answers", json=asked_for | {"places": places})
        assert (answer.status_code, bool(answer.json()["containers"])) == (200, level != "row")


def test_lists_latest_and_beginnings_are_of_granted_ones(served: Served) -> None:
    def ids(caller: str) -> set[str]:
        found = served.ask(caller, "get", "/v1/applications").json()
        records = served.ask(caller, "get", "/v1/records").json()["applications"]
        assert found["total"] == len(found["items"]) == len(records)
        assert {one["app"] for one in records} == {one["app"] for one in found["items"]}
        return {one["app"] for one in found["items"]}

    assert ids("nobody") == set()
    assert ids("rex") == {"app-audit"}
    assert ids("ann") == {OWN, "app-audit"}
    assert ids("all") == {OWN, "app-audit", HIDDEN}
    # "app" fits two of the store, and one that rex is granted.
    assert served.ask("rex", "get", "/v1/applications/app").json()["app"] == "app-audit"
    assert served.ask("rex", "get", "/v1/applications/latest").json()["app"] == "app-audit"
    assert served.ask("nobody", "get", "/v1/applications/latest").status_code == 404


def test_jobs_and_datasets_are_those_of_granted_applications(served: Served) -> None:
    def jobs(caller: str) -> set[str]:
        page = served.ask(caller, "get", "/v1/jobs").json()
        assert page["total"] == len(page["items"])
        return {job["name"] for job in page["items"]}

    def datasets(caller: str) -> set[str]:
        page = served.ask(caller, "get", "/v1/datasets").json()
        assert (page["runs"], page["total"]) == (page["runs_total"], len(page["items"]))
        return {dataset["name"] for dataset in page["items"]}

    def status(caller: str, path: str, **query: str) -> int:
        answer: int = served.ask(caller, "get", path, params=query).status_code
        return answer

    of_apps = {
        app: {f"{served.folder}/{app}/in.txt", f"{served.folder}/{app}/out"}
        for app in (OWN, "app-audit", HIDDEN)
    }
    assert jobs("nobody") == datasets("nobody") == set()
    assert (jobs("rex"), datasets("rex")) == ({"audit sales"}, of_apps["app-audit"])
    assert jobs("all") == {"shop sales", "audit sales", "hush"}
    assert datasets("all") == set().union(*of_apps.values())
    for caller, found in (("rex", 404), ("all", 200)):
        assert status(caller, "/v1/runs", job="hush") == found
        name = f"{served.folder}/{HIDDEN}/out"
        assert status(caller, "/v1/datasets/runs", namespace="file", name=name) == found
        assert status(caller, "/v1/jobs/graph", job="hush") == found
        assert status(caller, "/v1/jobs/graph", app=HIDDEN) == found
        assert status(caller, "/v1/jobs/graph", namespace="file", name=name) == found
    graph = served.ask("rex", "get", "/v1/jobs/graph", params={"app": "app-audit"}).json()
    assert {node["name"] for node in graph["nodes"]} == of_apps["app-audit"] | {"audit sales"}
    assert (graph["runs"], graph["runs_total"], graph["runs_withheld"]) == (1, 1, 0)


def test_who_else_uses_a_dataset_is_not_told(served: Served) -> None:
    """One that is granted and one that is not read the same file."""
    store_run(served.url, served.folder / OWN, "secret-78", name="hush", started_at=2000.0)
    query = {"namespace": "file", "name": f"{served.folder}/{OWN}/out"}
    for caller, apps in (("ann", [OWN]), ("all", ["secret-78", OWN])):
        page = served.ask(caller, "get", "/v1/datasets/runs", params=query).json()
        assert ([run["app"] for run in page["items"]], page["total"]) == (apps, len(apps))
        listed = served.ask(caller, "get", "/v1/datasets").json()["items"]
        [dataset] = [one for one in listed if one["name"] == query["name"]]
        assert dataset["last_write"]["app"] == apps[0]
        assert ("hush" in dataset["writers"]) == (caller == "all")
        graph = served.ask(caller, "get", "/v1/jobs/graph", params=query).json()
        assert (graph["nodes"][0]["runs"], graph["nodes"][0]["last_app"]) == (len(apps), apps[0])
        assert graph["nodes"][0]["upstream"] == len(apps)
        assert ("hush" in {node["name"] for node in graph["nodes"]}) == (caller == "all")


def test_rows_are_read_of_those_whose_rows_are_granted(served: Served) -> None:
    def texts(caller: str, app: str) -> set[object]:
        answer = served.ask(caller, "post", f"/v1/applications/{app}/traces", json=BACKWARD).json()
        page = served.ask(caller, "get", f"/v1/traces/{answer['trace']}/nodes/read/items").json()
        typed = {"direction": "backward", "places": ["write#0#0"], "app": app}
        printed = served.ask(caller, "post", "/v1/answers", json=typed)
        found = {item["text"] for group in answer["groups"] for item in group["items"]}
        assert ("a b" in printed.text) == ("a b" in found)
        return found | {item["text"] for item in page["items"]}

    def status(caller: str, app: str, path: str) -> int:
        found: int = served.ask(caller, "get", f"/v1/applications/{app}/{path}").status_code
        return found

    assert texts("ann", OWN) == {"a b", "c a", "a"} - {"a"} | texts("all", OWN)
    assert texts("ann", "app-audit") == texts("rex", "app-audit") == {None}
    for path in ("dump", "rows?address=read%230%230", "nodes/read/items?search=a"):
        assert status("ann", OWN, path) == 200
        assert status("ann", "app-audit", path) == 403
        assert status("rex", "app-audit", path) == 403


def test_a_question_over_all_mixes_no_rights_and_says_what_it_leaves_out(served: Served) -> None:
    for app, places in ((OWN, True), ("app-audit", True), (HIDDEN, False)):
        asked_for = {
            "direction": "backward",
            "places": [f"{served.folder}/{app}/out/part-00000:1"],
        }
        answer = served.ask("ann", "post", "/v1/answers", json=asked_for)
        assert answer.status_code == (200 if places else 404)
        assert "a b" not in answer.text
        if places:
            assert "not granted to you" in " ".join(answer.json()["warnings"])


@pytest.mark.parametrize(
    "end",
    [
        *("out/part-00000:1", "out/gone:1", "out:1", "out#1"),
        *("out", "out/", "out/part-00000", "out/part-00000@0+3", "."),
    ],
)
def test_files_that_only_others_know_are_as_files_that_are_not_there(
    served: Served, end: str
) -> None:
    told = []
    for place in (f"{served.folder}/{HIDDEN}/{end}", f"{served.folder}/not/{end}"):
        asked_for = {"direction": "backward", "places": [place]}
        answer = served.ask("nobody", "post", "/v1/answers", json=asked_for)
        body = answer.json()
        body.pop("request_id")
        told.append((answer.status_code, body))
    assert told[0] == told[1]
    assert told[0][0] == 404


def test_who_may_delete_deletes_what_is_granted(served: Served) -> None:
    assert served.ask("rex", "delete", f"/v1/applications/{HIDDEN}").status_code == 404
    assert served.ask("rex", "delete", "/v1/applications/app-audit").status_code == 204
    assert served.ask("ann", "get", "/v1/applications/app-audit").status_code == 404
    assert served.ask("all", "get", f"/v1/applications/{HIDDEN}").status_code == 200


def test_a_second_name_opens_nothing(served: Served) -> None:
    """Who may write to a topic may send any message of any application."""
    with SqliteStore(served.folder / "lineage.db") as store:
        store.write(HIDDEN, [Begin(app=HIDDEN, name="audit of mine", started_at=5.0)])
    assert served.ask("rex", "get", f"/v1/applications/{HIDDEN}").status_code == 404


def test_a_name_that_came_first_does_not_stay_the_only_one(served: Served) -> None:
    """An id that is guessed can be named before its program begins."""
    now = [0.0]
    with SqliteStore(served.folder / "lineage.db") as store:
        store.write("guessed-1", [Begin(app="guessed-1", name="audit mine", started_at=1.0)])
        names = ApplicationNames(store, lambda: now[0])
        granted = GrantedStore(store, names, frozenset({"audit *"}))
        assert granted.shows("guessed-1")
        store.write("guessed-1", [Begin(app="guessed-1", name="hush", started_at=2.0)])
        now[0] += NAMES_S
        assert not granted.shows("guessed-1")
        with pytest.raises(KeyError):
            granted.messages("guessed-1")


def test_materialised_rows_are_of_their_application(served: Served) -> None:
    (served.folder / "rows").mkdir()
    store_run(served.url, served.folder / "rows", f"{HIDDEN}.rows", name="audit rows")
    assert served.ask("rex", "get", f"/v1/applications/{HIDDEN}.rows").status_code == 404


def test_materialised_rows_of_a_deleted_application_are_not_those_of_the_next_one_of_its_id(
    served: Served,
) -> None:
    for app, name in ((f"{HIDDEN}.rows", f"hush{NAME_ENDING}"), ("gone.rows", "hush")):
        (served.folder / app).mkdir()
        store_run(served.url, served.folder / app, app, name=name)
    assert served.ask("all", "get", f"/v1/applications/{HIDDEN}.rows").status_code == 200
    assert served.ask("all", "delete", f"/v1/applications/{HIDDEN}").status_code == 204
    with SqliteStore(served.folder / "lineage.db") as store:
        assert not {HIDDEN, f"{HIDDEN}.rows"} & set(store.application_ids())
        # What came late, or is of before, is not shown by the name of the new application either.
        for app in (HIDDEN, "gone"):
            store.write(app, [Begin(app=app, name="shop new", started_at=9.0)])
        store.write(f"{HIDDEN}.rows", [Begin(app=f"{HIDDEN}.rows", name="hush", started_at=1.0)])
    for path, status in (("", 404), ("/graph", 404), ("/rows?address=read%230%230", 403)):
        for app in (HIDDEN, "gone", ABSENT):
            answer = served.ask("ann", "get", f"/v1/applications/{app}.rows{path}")
            assert answer.status_code == status, (path, app)


def test_materialised_rows_are_granted_by_the_exact_name_of_their_application(
    tmp_path: Path,
) -> None:
    with SqliteStore(tmp_path / "lineage.db") as store:
        for app, name in (("a", "shop"), ("a.rows", f"shop{NAME_ENDING}")):
            store.write(app, [Begin(app=app, name=name, started_at=1.0)])
        granted = GrantedStore(store, ApplicationNames(store), frozenset({"shop"}))
        assert set(granted.application_ids()) == {"a", "a.rows"}
        assert delete_application(granted, "a") == ["a.rows", "a"]
        assert not store.application_ids()


def test_the_graph_of_jobs_names_no_deleted_application_while_another_request_updates_it(
    served: Served,
) -> None:
    graph = "/v1/jobs/graph"
    shown = served.ask("all", "get", graph, params={"app": HIDDEN})
    assert f"{served.folder}/{HIDDEN}" in shown.text
    caller = Principal("all", "admin", True, True, "token", frozenset({"token:all"}))
    index = served.app.state.scopes.of(caller).listed.dataset_index
    with index._updating:
        with SqliteStore(served.folder / "lineage.db") as store:
            store.delete(HIDDEN)
            store.write(HIDDEN, [Begin(app=HIDDEN, name="shop new", started_at=9.0)])
        for start in ({"app": HIDDEN}, {"job": "hush"}, {"job": "shop sales"}):
            shown = served.ask("ann", "get", graph, params=start | {"read_s": 0})
            assert "hush" not in shown.text.replace("'hush'", ""), start
            assert f"{served.folder}/{HIDDEN}" not in shown.text


def test_earlier_applications_of_a_run_are_not_named(served: Served) -> None:
    begin = Begin(app="late-1", name="audit late", started_at=9.0, earlier=(HIDDEN, "app-audit"))
    with SqliteStore(served.folder / "lineage.db") as store:
        store.write("late-1", [begin])
    told = served.ask("rex", "get", "/v1/applications/late-1/completeness").json()
    assert told["earlier"] == ["app-audit"]


def test_callers_of_different_grants_share_bounds_and_no_answers(served: Served) -> None:
    """Else each set of grants would have turns, memory and a Spark of its own."""
    scopes = served.app.state.scopes
    place = f"{served.folder}/{OWN}/out/part-00000:1"
    body = {"direction": "backward", "start": {"places": [place]}}
    for caller in ("ann", "all", "ann"):
        path = f"/v1/applications/{OWN}/traces"
        answer = served.ask(caller, "post", path, json=body).json()
        assert ("not granted to you" in json.dumps(answer)) == (caller == "ann")
    known = {
        name: scopes.of(Principal(name, "admin", True, True, "token", frozenset({f"token:{name}"})))
        for name in ("ann", "rex", "all")
    }
    ann, rex, everything = (known[name].traced for name in ("ann", "rex", "all"))
    assert ann is not rex
    assert ann is not everything
    assert ann._cache is rex._cache is everything._cache
    assert len({id(one.recipe_traces._spark) for one in (ann, rex, everything)}) == 1
    assert len(everything._cache.traces) == 2
    assert served.ask("ann", "delete", f"/v1/applications/{OWN}").status_code == 204
    assert not everything._cache.traces
    assert everything._cache.runs == 0


def test_signing_in_asks_for_no_grant_and_tells_of_none(served: Served) -> None:
    answer = served.client.get("/v1/sign-in")
    assert (answer.status_code, answer.json()) == (200, {"oidc": None})


def test_grants_are_read_again_and_a_broken_file_lets_nobody_in(served: Served) -> None:
    file = served.folder / "grants.toml"
    path = f"/v1/applications/{OWN}"
    assert served.ask("ann", "get", path).status_code == 200
    file.write_text("[[grant]]")
    broken = served.ask("ann", "get", path)
    assert broken.status_code == 500
    assert str(file) not in broken.text
    file.write_text("")
    assert served.ask("ann", "get", path).status_code == 404
    file.write_text(GRANTS)
    assert served.ask("ann", "get", path).status_code == 200


def test_a_tag_stands_for_what_its_caller_sees(served: Served) -> None:
    tagged = [
        path
        for path, one in served.app.openapi()["paths"].items()
        if "304" in one.get("get", {}).get("responses", {})
        # The applications here recorded none.
        and "/arrays" not in path
    ]
    assert len(tagged) >= 12
    refused = differing = 0
    for path in tagged:
        filled, more = asked("get", path, HIDDEN)
        if path == "/v1/datasets/runs":
            source = str(served.folder / HIDDEN / "in.txt")
            more["params"] = {"namespace": "file", "name": source}
        if path == "/v1/jobs/graph":
            more["params"] = {"app": HIDDEN}
        of_all = served.ask("all", "get", filled, **more)
        assert of_all.status_code == 200, path
        for caller in ("all", "ann", "rex", "nobody"):
            own = served.ask(caller, "get", filled, **more)
            headers = {
                "Authorization": f"Bearer {served.tokens[caller]}",
                "If-None-Match": of_all.headers["etag"],
            }
            again = served.client.get(filled, headers=headers, **more)
            if own.status_code == 200 and own.content == of_all.content:
                assert again.status_code == 304, (caller, path)
                continue
            assert again.status_code == own.status_code != 304, (caller, path)
            assert own.headers.get("etag") != of_all.headers["etag"], (caller, path)
            refused += own.status_code == 404
            differing += own.status_code == 200
        stranger = {"Authorization": "Bearer x", "If-None-Match": of_all.headers["etag"]}
        assert served.client.get(filled, headers=stranger, **more).status_code == 401
    assert refused >= 12
    assert differing >= 6


def test_a_tag_of_before_the_grants_changed_opens_nothing(served: Served) -> None:
    path = f"/v1/applications/{OWN}/graph"
    tag = served.ask("ann", "get", path).headers["etag"]
    headers = {"Authorization": f"Bearer {served.tokens['ann']}", "If-None-Match": tag}
    assert served.client.get(path, headers=headers).status_code == 304
    hidden = '[[hide]]\ncallers = ["*"]\ndatasets = ["*/in.txt"]\n'
    (served.folder / "grants.toml").write_text(GRANTS + hidden)
    changed = served.client.get(path, headers=headers)
    assert changed.status_code == 200
    assert "in.txt" not in changed.text
    (served.folder / "grants.toml").write_text("")
    assert served.client.get(path, headers=headers).status_code == 404
    (served.folder / "grants.toml").write_text(GRANTS)
    assert served.client.get(path, headers=headers).status_code == 304


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("grant = 1", "grant"),
        ("[[grants]]", "grants"),
        ('[[grant]]\ncallers = ["token:a"]', r"grant\.0\.applications"),
        ('[[grant]]\ncallers = []\napplications = ["a"]', r"grant\.0\.callers"),
        ('[[grant]]\ncallers = ["ann"]\napplications = ["a"]', r"grant\.0\.callers\.0"),
        ('[[grant]]\ncallers = ["user:ann"]\napplications = ["a"]', r"grant\.0\.callers\.0"),
        ('[[grant]]\ncallers = ["*"]\napplications = [""]', r"grant\.0\.applications\.0"),
        ('[[grant]]\ncallers = ["*"]\napplications = ["a"]\nrows = "yes"', r"grant\.0\.rows"),
        ('[[grant]]\ncallers = ["*"]\napplications = ["a"]\nrow = true', r"grant\.0\.row"),
        ("\x00", "grants.toml"),
    ],
)
def test_what_is_no_grant_is_refused_at_start(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "grants.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=said):
        read_grants(file)


def test_grants_need_callers_and_keep_names_out_of_metrics(tmp_path: Path) -> None:
    file = tmp_path / "grants.toml"
    with pytest.raises(SettingsError, match="LINEAGE_API_TOKENS"):
        read_settings(api_grants=file)
    with pytest.raises(SettingsError, match="LINEAGE_API_METRICS_APPLICATIONS"):
        read_settings(api_grants=file, api_tokens=file, api_metrics_applications=1)
    with pytest.raises(SettingsError, match="LINEAGE_API_GRANTS"):
        Grants(file)


def test_an_issuers_callers_are_known_by_subject_and_roles_alone(tmp_path: Path) -> None:
    """The name that is shown may be one that people choose themselves."""
    key = ec.generate_private_key(ec.SECP256R1())
    keys = SimpleNamespace(get_signing_key_from_jwt=lambda _: SimpleNamespace(key=key.public_key()))
    claims = {"iss": "https://i", "aud": "a", "sub": "s-1", "exp": 1 << 33}
    told = {**claims, "preferred_username": "ann", "roles": ["lineage-rows", "team"]}
    found = Oidc("https://i", "a", "roles", keys).principal(jwt.encode(told, key, "ES256"))
    assert found.identities == {"sub:s-1", "role:lineage-rows", "role:team"}
    file = tmp_path / "grants.toml"
    file.write_text(
        '[[grant]]\ncallers = ["token:ann", "sub:ann", "role:ann"]\napplications = ["a"]\n'
        '[[grant]]\ncallers = ["role:team"]\napplications = ["b"]\n'
    )
    assert Grants(file).of(found).traced == {"b"}
    token = Principal("s-1", "admin", True, True, "token", frozenset({"token:s-1"}))
    assert Grants(file).of(token).traced == set()
