"""Plans to erase and answers of access requests: by rights of their own, over all applications or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from lineage.main import app as commands
from lineage_core.contract.message import Begin, Recipe
from lineage_core.recipe.document import Recipe as Document
from lineage_core.recipe.document import Source
from lineage_core.recipe.plan import Attribute, Values
from lineage_query_api.app import create_app
from lineage_query_api.auth import Oidc, Role, TokenGate, new_token
from lineage_query_api.erasure_models import PlanModel
from lineage_query_api.errors import SettingsError
from lineage_query_api.settings import read_settings
from lineage_store.url import open_store
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
HOST = "http://127.0.0.1:8484"
ROUTES = {"erase": "/v1/erasure-plans", "access": "/v1/access-reports"}
RIGHTS: dict[str, tuple[Role, dict[str, bool]]] = {
    "admin": ("admin", {"rows": True, "delete": True}),
    "eraser": ("reader", {"rows": False, "erase": True}),
    "accessor": ("reader", {"rows": True, "access": True}),
    "blind": ("reader", {"rows": False, "access": True}),
    "both": ("admin", {"rows": True, "erase": True, "access": True}),
}
ALL = '[[grant]]\ncallers = ["token:CALLER"]\napplications = ["*"]\nrows = true\n'
PARTS = {
    "other applications": ALL.replace('["*"]', '["shop *"]'),
    "all that there are now": ALL.replace('["*"]', '["job"]'),
    "all by another pattern": ALL.replace('["*"]', '["?*"]'),
    "none": "",
    "datasets": ALL + 'datasets = ["/data/*"]\n',
    "rows of datasets": ALL + 'row_datasets = ["/data/*"]\n',
    "a second grant of datasets": f'{ALL}\n{ALL}datasets = ["/data/*"]\n',
    "hide": ALL + '[[hide]]\ncallers = ["token:CALLER"]\ndatasets = ["/nowhere/*"]\n',
    "mask": ALL
    + '[[mask]]\ncallers = ["token:CALLER"]\ndatasets = ["/nowhere/*"]\ncolumns = ["name"]\n',
}
"""Grants of callers who may not see all, though there is nothing now that is kept from some of them."""
NO_ROWS = ALL.replace("rows = true", "rows = false")
PARTS_OF_ROWS = {"no rows": NO_ROWS, "rows of some": NO_ROWS + ALL.replace('["*"]', '["job"]')}
GRANTS = "".join(
    grants.replace("CALLER", caller)
    for caller, grants in (dict.fromkeys(RIGHTS, ALL) | PARTS | PARTS_OF_ROWS).items()
)
# A rule that holds for others hides nothing from these.
GRANTS += f'[[hide]]\ndatasets = ["*"]\nunless = {json.dumps([f"token:{name}" for name in (*RIGHTS, *PARTS_OF_ROWS)])}\n'


class Served:
    """A server over one word count, `in.txt` of which has the rows `a b`, `b` and others."""

    def __init__(self, folder: Path, browser: TestClient, tokens: dict[str, str]) -> None:
        self.source, self.browser, self._tokens = str(folder / "in.txt"), browser, tokens

    def ask(self, caller: str, purpose: str, body: Any = None, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {self._tokens[caller]}"}
        body = {"source": self.source, "rows": [1]} | (body or {}) | more
        return self.browser.post(ROUTES[purpose], headers=headers, json=body)

    def me(self, caller: str) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._tokens[caller]}"}
        document: dict[str, Any] = self.browser.get("/v1/me", headers=headers).json()
        return document


@contextmanager
def served(folder: Path, **settings: Any) -> Iterator[Served]:
    url = f"sqlite:///{folder}/lineage.db"
    store_run(url, folder)
    callers = dict.fromkeys((*PARTS, *PARTS_OF_ROWS), RIGHTS["both"]) | RIGHTS
    made = {name: new_token(name, role, **rights) for name, (role, rights) in callers.items()}
    (folder / "tokens.toml").write_text("".join(lines for _, lines in made.values()))
    given = {"api_roots": str(folder), "api_tokens": folder / "tokens.toml"} | settings
    with (
        open_store(url) as store,
        TestClient(
            create_app(store, read_settings(store=url, **given)),
            base_url=HOST,
            raise_server_exceptions=False,
        ) as browser,
    ):
        yield Served(folder, browser, {name: token for name, (token, _) in made.items()})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    (folder / "keys.csv").write_text("value\na\nzz\n")
    (folder / "two.txt").write_text("a b\nc d\n")
    (folder / "grants.toml").write_text(GRANTS)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    """Shared by the tests that read."""
    with served(folder, api_grants=folder / "grants.toml") as server:
        yield server


@pytest.mark.parametrize("caller", RIGHTS)
def test_only_who_has_the_right_gets_a_plan(server: Served, caller: str) -> None:
    rights = RIGHTS[caller][1]
    me = server.me(caller)
    assert (me["erase"], me["access"]) == (
        rights.get("erase", False),
        rights.get("access", False),
    )
    planned = server.ask(caller, "erase")
    assert planned.status_code == (200 if me["erase"] else 403), planned.text
    reported = server.ask(caller, "access")
    assert reported.status_code == (200 if me["access"] and me["rows"] else 403), reported.text
    for refused in (planned, reported):
        if refused.status_code == 403:
            assert "a b" not in refused.text
            assert "ask for" in refused.json()["hint"]


def test_a_refusal_is_the_same_whatever_was_asked_for(server: Served) -> None:
    bodies: tuple[dict[str, Any], ...] = (
        {},
        {"source": "/nowhere"},
        {"source": "not absolute"},
        {"rows": [99]},
        {"unknown": 1},
    )
    for caller, purpose in (("admin", "erase"), ("accessor", "erase"), ("blind", "access")):
        refusals = []
        for body in bodies:
            refused = server.ask(caller, purpose, body)
            refusals.append((refused.status_code, refused.json()["detail"], refused.json()["hint"]))
        assert refusals[0][0] == 403
        assert refusals == [refusals[0]] * len(bodies)


def test_a_plan_has_no_texts_and_a_report_has_them(server: Served) -> None:
    where = {"rows": [], "where": "value = 'a b'"}
    plan = server.ask("eraser", "erase", where).json()
    assert {row["text"] for row in plan["rows"]} == {None}
    assert (plan["purpose"], plan["texts"], len(plan["rows"])) == ("erase", [], 2)
    report = server.ask("accessor", "access", where).json()
    assert report["texts"] == ["a b"]
    assert [row["text"] for row in report["rows"]] == ["a", "b"]
    assert (plan["complete"], plan["exact"]) == (True, True)
    assert any("kept rows" in line for line in plan["not_removed"])
    for document in (plan, report):
        assert PlanModel.model_validate(document).model_dump(mode="json") == document


QUERIES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "rows": ({"rows": [2, 1]}, ("--rows", "2,1")),
    "where": ({"rows": [], "where": "value = 'a'"}, ("--where", "value = 'a'")),
    "expect": (
        {"rows": [], "where": "value IN ('a', 'a b')", "expect": 2},
        ("--where", "value IN ('a', 'a b')", "--expect", "2"),
    ),
    "identity": (
        {"rows": [], "where": "value = 'a'", "identity": ["value"]},
        ("--where", "value = 'a'", "--identity", "value"),
    ),
    "subjects": (
        {"rows": [], "subjects": {"columns": ["value"], "keys": [["a"], ["zz"]]}},
        ("--subjects", "keys.csv"),
    ),
    "columns": (
        {
            "rows": [],
            "where": "first = 'a'",
            "format": "csv",
            "columns": ["first", "second"],
            "separator": " ",
            "source": "two.txt",
        },
        (
            "--where",
            "first = 'a'",
            "--format",
            "csv",
            "--columns",
            "first,second",
            "--separator",
            " ",
        ),
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_the_digest_is_that_of_the_command_over_the_store(
    server: Served, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    body, words = QUERIES[name]
    monkeypatch.chdir(folder)
    source = str(folder / body.get("source", "in.txt"))
    answer = server.ask("both", "erase", body | {"source": source})
    assert answer.status_code == 200, answer.text
    url = f"sqlite:///{folder}/lineage.db"
    command = ("erase", "--plan", "--source", source, *words, "--store", url, "--json")
    printed = CliRunner().invoke(commands, command)
    assert printed.stdout, printed.output
    over, own = answer.json(), json.loads(printed.stdout)
    assert over["digest"] == own["digest"]
    different = {"kept", "not_removed"}
    assert {key: over[key] for key in over.keys() - different} == {
        key: own[key] for key in own.keys() - different
    }


def test_a_table_is_named_as_captured_programs_named_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "warehouse" / "people"
    folder.mkdir(parents=True)
    (folder / "part-0.csv").write_text("id,name\n1,ann\n2,bob\n")
    # A file of that name where the server was started is another thing.
    (tmp_path / "people").write_text("id,name\n2,other\n")
    monkeypatch.chdir(tmp_path)
    source = Source("csv", (str(folder),), '{"type":"struct","fields":[]}', table="c.db.people")
    plan = (Values((Attribute(1, "v", "string"),), ()),)
    recipe = Document("4.1", {}, (source,), plan).to_json()
    with served(tmp_path) as server:
        with open_store(f"sqlite:///{tmp_path}/lineage.db") as store:
            store.write("a", [Begin(app="a", name="a", started_at=1.0)])
            store.write("a", [Recipe(app="a", node="f1", recipe=recipe)])
        by = {"rows": [], "where": "id = 2"}
        answers = [
            server.ask("both", "erase", by, source=named)
            for named in ("people", "db.people", str(folder))
        ]
        assert [answer.status_code for answer in answers] == [200] * 3, answers[0].text
        assert {answer.json()["digest"] for answer in answers} == {answers[0].json()["digest"]}
        assert answers[0].json()["subject"] == [f"{folder}/part-0.csv:3"]
        unknown = server.ask("both", "erase", by, source="peopl")
        assert unknown.status_code == 422
        assert "give the whole path" in unknown.json()["detail"]
    with served(tmp_path, api_roots=str(tmp_path / "own")) as server:
        outside = server.ask("both", "erase", by, source="people")
        assert outside.status_code == 422
        assert "no such file or folder" in outside.json()["detail"]


@pytest.mark.parametrize("caller", PARTS)
def test_who_sees_a_part_alone_gets_no_plan(server: Served, caller: str) -> None:
    """Over the part it would be called complete."""
    for purpose in ROUTES:
        answer = server.ask(caller, purpose)
        assert answer.status_code == 403, answer.text
        assert "a b" not in answer.text
    assert 'applications = ["*"]' in server.ask(caller, "erase").json()["hint"]


@pytest.mark.parametrize("caller", PARTS_OF_ROWS)
def test_rows_of_a_part_are_enough_for_a_plan_and_for_no_report(
    server: Served, caller: str
) -> None:
    plan = server.ask(caller, "erase")
    assert plan.json()["digest"] == server.ask("both", "erase").json()["digest"]
    assert server.ask(caller, "access").status_code == 403


def test_sources_outside_of_the_roots_look_as_if_they_were_not_there(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "link").symlink_to(tmp_path / "in.txt")
    with served(tmp_path, api_roots=str(tmp_path / "own")) as server:
        for source in (
            str(tmp_path / "in.txt"),
            str(tmp_path / "own" / "link"),
            str(tmp_path / "own" / ".." / "in.txt"),
            f"file://{tmp_path}/in.txt",
            str(tmp_path / "absent.txt"),
            str(tmp_path / "out"),
            "/etc",
        ):
            for rows in ({}, {"rows": [], "where": "value = 'b'"}):
                answer = server.ask("both", "access", rows, source=source)
                assert answer.status_code == 422
                said = "no such file or folder; a table is named by its folder"
                assert answer.json()["detail"] == f"{source}: {said}"


@pytest.mark.parametrize(
    "wrong",
    [
        {"source": "in.txt"},
        {"source": "~/in.txt"},
        {"source": "file:in.txt"},
        {"source": "/in\0txt"},
        {"rows": [-1]},
        {"rows": [1.5]},
        {"rows": [10**18]},
        {"rows": [0]},
        {"rows": [10**18 - 1]},
        {"rows": [1] * 10_001},
        {"rows": []},
        {"where": "value = 'b'"},
        {"rows": [], "where": "rand() > 0"},
        {"rows": [], "where": "value = (SELECT 1)"},
        {"rows": [], "where": "nothing = 1"},
        {"rows": [], "subjects": {"columns": ["value"], "keys": []}},
        {"rows": [], "subjects": {"columns": ["value"], "keys": [["b", "c"]]}},
        {"rows": [], "subjects": {"columns": ["value"], "keys": [[""]]}},
        {"rows": [], "subjects": {"columns": [], "keys": [[]]}},
        {"rows": [], "where": "value LIKE '%'"},
        {"rows": [], "where": "value > ''"},
        {"rows": [], "where": "value > ''", "expect": 1},
        {"rows": [], "where": "value = 'nobody'"},
        {"format": "orc"},
        {"separator": ";;"},
        {"separator": '"'},
        {"expect": 0},
        {"place": "/tmp"},
        {"purpose": "access"},
        {"rows": [], "where": "value = 'b'", "identity": ["nothing"]},
    ],
)
def test_what_can_not_be_a_query_is_refused(server: Served, wrong: dict[str, Any]) -> None:
    answer = server.ask("both", "erase", wrong)
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"]


def test_a_plan_ends_with_the_time_of_its_request(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("b\n" * 2_000_000)
    with served(tmp_path, api_query_s=0.05, api_stream_s=0.1) as server:
        body = {"rows": [], "where": "value = 'nobody'", "source": str(tmp_path / "long.txt")}
        answer = server.ask("both", "erase", body)
        assert answer.status_code == 504, answer.text


def test_each_is_recorded_before_it_starts(tmp_path: Path) -> None:
    with served(tmp_path, api_audit=str(tmp_path / "audit")) as server:
        assert server.ask("eraser", "erase").status_code == 200
        assert server.ask("accessor", "access").status_code == 200
        assert server.ask("eraser", "access").status_code == 403
    (file,) = (tmp_path / "audit").iterdir()
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert [
        (record["event"], record["path"], record["caller"]["name"], record.get("status"))
        for record in records
    ] == [
        ("request", ROUTES["erase"], "eraser", None),
        ("response", ROUTES["erase"], "eraser", 200),
        ("request", ROUTES["access"], "accessor", None),
        ("response", ROUTES["access"], "accessor", 200),
        ("response", ROUTES["access"], "eraser", 403),
    ]
    body = {"source": str(tmp_path / "in.txt"), "rows": [1]}
    assert [record["question"] for record in records] == [body] * 5
    assert (records[0]["caller"]["erase"], records[0]["caller"]["access"]) == (True, False)


def test_nothing_is_read_where_no_record_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("it started without a record")

    with served(tmp_path, api_audit=str(tmp_path / "audit")) as server:
        monkeypatch.setattr("lineage_query_api.lineages.make_plan", never)
        monkeypatch.setattr("lineage_query_api.audit_log._Folder._append", never)
        for purpose in ROUTES:
            assert server.ask("both", purpose).status_code == 503


def test_files_of_tokens_of_before_give_neither_right(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    token, lines = new_token("bob", "admin", rows=True, delete=True)
    assert "erase" not in lines
    assert "access" not in lines
    file.write_text(lines)
    caller = TokenGate(file).authenticate(f"Bearer {token}")
    assert (caller.delete, caller.erase, caller.access) == (True, False, False)
    for wrong in ('erase = "yes"\n', "access = 1\n"):
        file.write_text(lines + wrong)
        with pytest.raises(SettingsError, match=r"token\.0\."):
            TokenGate(file)


@pytest.mark.parametrize(
    ("roles", "role", "rights"),
    [
        (["lineage-admin", "lineage-delete"], "admin", (True, False, False)),
        (["lineage-erase"], "reader", (False, True, False)),
        (["lineage-access"], "reader", (False, False, True)),
        (["lineage-rows", "lineage-access", "lineage-erase"], "reader", (True, True, True)),
        (["lineage-admin", "lineage-access"], "admin", (True, False, True)),
        (["lineage-reader", "lineage-erases"], "reader", (False, False, False)),
    ],
)
def test_an_issuer_gives_the_rights_by_roles_of_their_own(
    roles: list[str], role: str, rights: tuple[bool, bool, bool]
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    claims = {"iss": "https://i", "aud": "a", "sub": "s", "exp": 1 << 33, "roles": roles}
    keys = SimpleNamespace(get_signing_key_from_jwt=lambda _: SimpleNamespace(key=key.public_key()))
    found = Oidc("https://i", "a", "roles", keys).principal(jwt.encode(claims, key, "ES256"))
    assert (found.role, (found.rows, found.erase, found.access)) == (role, rights)


def test_the_command_gives_a_right_where_it_is_told_to() -> None:
    made = CliRunner().invoke(commands, ["token", "ann", "--erase"])
    assert {"erase = true"} == {
        line for line in made.stdout.splitlines() if "= true" in line and "rows" not in line
    }
    made = CliRunner().invoke(commands, ["token", "ann", "--rows", "--access"])
    assert {"rows = true", "access = true"} <= set(made.stdout.splitlines())
    assert "erase" not in made.stdout
