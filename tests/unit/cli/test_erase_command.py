"""`lineage erase --plan` and `lineage access` over a stored word count."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from lineage.erasing import access, erase
from lineage.main import app
from lineage.plan_options import PlanOptions, options_of
from lineage_query.erasure.finding import SubjectQuery
from lineage_query.erasure.source_rows import SourceForm
from lineage_query_api.audit_log import AuditError
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.unit


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the default store."""
    monkeypatch.chdir(tmp_path)
    for name in ("LINEAGE_STORE", "LINEAGE_SPOOL", "LINEAGE_ROWS_FOLDER"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".lineage").mkdir()
    store_run("sqlite:///.lineage/lineage.db", tmp_path)
    return tmp_path


def lineage(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_both_commands_take_the_options_of_a_plan_and_hand_on_each() -> None:
    named = [field.name for field in fields(PlanOptions)]
    for command in (erase, access):
        assert [name for name in signature(command).parameters if name in named] == named
    given = PlanOptions(
        "s.csv", "a = 1", "2,3", None, 4, ["b"], "csv", "a,b", ";",
    )  # fmt: skip
    form = SourceForm("csv", ";", ("a", "b"))
    assert given.query() == SubjectQuery(
        "s.csv", "a = 1", (2, 3), form=form, expected=4, identity=("b",)
    )
    assert options_of({"source": "s.csv", "rows": "1", "plan": True}) == PlanOptions(
        "s.csv", rows="1"
    )


@pytest.mark.usefixtures("here")
def test_a_plan_names_rows_and_not_what_they_hold() -> None:
    result = lineage("erase", "--plan", "--source", "in.txt", "--rows", "1", "--json")
    assert result.exit_code == 0, result.output
    plan = json.loads(result.stdout)
    assert [(row["place"], row["kind"], row["others"]) for row in plan["rows"]] == [
        ("out/part-00000:1", "mixed", 2),
        ("out/part-00000:2", "mixed", 2),
    ]
    assert (plan["exact"], plan["complete"], plan["texts"]) == (True, True, [])
    assert {row["text"] for row in plan["rows"]} == {None}
    assert plan["digest"].startswith("sha256:")
    again = lineage("erase", "--plan", "--source", "in.txt", "--rows", "1", "--json")
    assert again.stdout == result.stdout


def test_a_report_is_for_its_user_alone(here: Path) -> None:
    result = lineage(
        "access",
        "--source",
        "in.txt",
        "--where",
        "value = 'a b'",
        "--html",
        "a.html",
        "-o",
        "a.json",
    )
    assert result.exit_code == 0, result.output
    assert "in.txt:1: a b" in result.stdout
    assert "2 rows: values that other rows went into, too" in result.stdout
    assert "What this does not remove" in result.stdout
    document = json.loads((here / "a.json").read_text())
    assert document["texts"] == ["a b"]
    assert document["digest"] in (here / "a.html").read_text()
    for name in ("a.html", "a.json"):
        assert stat.S_IMODE((here / name).stat().st_mode) == 0o600


@pytest.mark.usefixtures("here")
def test_lines_begin_at_one() -> None:
    result = lineage("erase", "--plan", "--source", "in.txt", "--rows", "0")
    assert result.exit_code == 2, result.output
    assert "in.txt has no row 0" in result.stderr


def test_rows_that_may_be_missing_are_an_exit_code(here: Path) -> None:
    with (here / "in.txt").open("a") as source:
        source.write("more\n")
    result = lineage("erase", "--plan", "--source", "in.txt", "--rows", "1")
    assert result.exit_code == 1, result.output
    assert "not complete: rows may be missing" in result.stdout
    assert "another version of" in result.stdout


def test_a_plan_is_carried_out_and_lists_rows(here: Path) -> None:
    same = ("--source", "in.txt", "--rows", "1")
    plan = json.loads(lineage("erase", "--plan", *same, "-o", "plan.json", "--json").stdout)
    digest = plan["digest"]
    result = lineage("erase", "--apply", "plan.json", *same)
    assert result.exit_code == 2
    assert "digest of the plan that was approved" in " ".join(result.stderr.split())
    result = lineage("erase", "--apply", "plan.json", "--digest", "sha256:1", *same)
    assert result.exit_code == 2
    assert "and not 'sha256:1'" in result.stderr
    by = ("erase", "--apply", "plan.json", "--digest", digest)
    result = lineage(*by, "--source", "in.txt", "--rows", "2")
    assert result.exit_code == 2
    assert "the plan is another one now" in result.stderr
    assert "condition: 'rows 1' is 'rows 2' now" in result.stderr
    result = lineage(*by, *same, "--list", "rows.csv")
    assert result.exit_code == 0, result.output
    assert "store of app-1: 0 blocks, 1 recipes" not in result.stdout
    assert "2 rows of outputs are yours to delete: listed in rows.csv" in result.stdout
    assert "What this did not remove" in result.stdout
    assert stat.S_IMODE((here / "rows.csv").stat().st_mode) == 0o600
    assert len((here / "rows.csv").read_text().splitlines()) == 3
    result = lineage(*by, *same, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["already"]
    assert lineage("back", "out/part-00000:1").exit_code == 0
    result = lineage(*by, *same, "--delete-from-tables", "--json")
    assert json.loads(result.stdout)["tables"] == []
    result = lineage("erase", "--plan", *same, "--delete-from-tables")
    assert "belong to --apply" in " ".join(result.stderr.split())
    result = lineage("erase", "--verify", "plan.json", *same)
    assert result.exit_code == 1, result.output
    assert "out/part-00000:1: mixed, its file is as it was written" in result.stdout
    assert "could not be looked at" in result.stdout
    result = lineage("erase", "--verify", "plan.json", *same, "--json")
    assert json.loads(result.stdout)["clean"] is False
    result = lineage(*by, *same, "--store", "http://127.0.0.1:9")
    assert "not through a server" in result.stderr


def test_a_server_carries_nothing_out(here: Path) -> None:
    same = ("--source", "in.txt", "--rows", "1")
    assert lineage("erase", "--plan", *same, "-o", "plan.json").exit_code == 0
    for way in (("--apply", "plan.json", "--digest", "sha256:1"), ("--verify", "plan.json")):
        result = lineage("erase", *way, *same, "--store", "http://127.0.0.1:9")
        assert result.exit_code == 2
        assert "not through a server" in result.stderr


def test_a_query_that_names_rows_in_two_ways_is_sent_to_no_server() -> None:
    both = ("--source", "in.txt", "--rows", "1", "--where", "value = 'b'")
    result = lineage("erase", "--plan", *both, "--store", "http://127.0.0.1:9")
    assert result.exit_code == 2
    assert "by one of --where, --rows and --subjects" in result.stderr


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--plan", "--source", "in.txt", "--where", "value > ''"), "perhaps of several subjects"),
        (
            ("--plan", "--source", "in.txt", "--where", "rand() > 1"),
            "is not taken here in a condition",
        ),
        (("--plan", "--source", "in.txt", "--rows", "77"), "has no row 77"),
        (("--plan", "--source", "gone.txt", "--rows", "1"), "no such file"),
        (("--plan", "--source", "in.txt", "--rows", "x"), "--rows takes numbers"),
        (("--source", "in.txt", "--rows", "1"), "nothing is erased without a plan"),
        (("--plan", "--source", "in.txt", "--rows", "1", "--format", "xml"), "--format is one of"),
    ],
)
def test_what_is_not_said_is_refused(arguments: tuple[str, ...], says: str) -> None:
    result = lineage("erase", *arguments)
    assert result.exit_code == 2, result.output
    assert says in " ".join((result.stdout + result.stderr).split())


def audit_records(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for file in sorted(folder.glob("audit-*.jsonl"))
        for line in file.read_text().splitlines()
    ]


def test_commands_are_recorded_before_they_begin_and_before_they_answer(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEAGE_API_AUDIT", str(here / "audit"))
    of_one = ("--source", "in.txt", "--rows", "1")
    planned = lineage("erase", "--plan", *of_one, "-o", "plan.json")
    assert planned.exit_code == 0, planned.output
    digest = json.loads((here / "plan.json").read_text())["digest"]
    for command in (
        ("access", "--source", "in.txt", "--where", "value = 'a b'"),
        ("erase", "--apply", "plan.json", "--digest", digest, *of_one),
        ("erase", "--verify", "plan.json", *of_one),
        ("access", "--source", "in.txt", "--rows", "0"),
    ):
        lineage(*command)
    records = audit_records(here / "audit")
    assert [(each["command"], each["event"], each.get("status")) for each in records] == [
        (command, event, status)
        for command, outcome in (
            ("erase --plan", "answered"),
            ("access", "answered"),
            ("erase --apply", "answered"),
            ("erase --verify", "answered"),
            ("access", "failed"),
        )
        for event, status in (("request", None), ("response", outcome))
    ]
    assert records[0]["id"] == records[1]["id"] != records[2]["id"]
    assert records[1]["digest"] == records[5]["digest"] == digest
    assert records[5]["restarted"] == []
    assert records[2]["question"]["where"] == "value = 'a b'"
    assert {each["caller"]["identity"] for each in records} == {f"uid:{os.getuid()}"}
    assert stat.S_IMODE(next((here / "audit").iterdir()).stat().st_mode) == 0o600


def test_a_command_that_can_not_be_recorded_does_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_one = ("--source", "in.txt", "--rows", "1")
    assert lineage("erase", "--plan", *of_one, "-o", "plan.json").exit_code == 0
    digest = json.loads((here / "plan.json").read_text())["digest"]
    store = (here / ".lineage" / "lineage.db").read_bytes()

    def never(*_: object) -> None:
        raise AuditError("No space left on device")

    monkeypatch.setenv("LINEAGE_API_AUDIT", str(here / "audit"))
    monkeypatch.setattr("lineage_query_api.audit_log._Folder._append", never)
    for command in (
        ("erase", "--plan", *of_one),
        ("erase", "--apply", "plan.json", "--digest", digest, *of_one),
        ("access", *of_one),
    ):
        result = lineage(*command)
        assert result.exit_code == 2, result.output
        assert "so nothing is done: No space left on device" in result.stderr
        assert not result.stdout
    assert (here / ".lineage" / "lineage.db").read_bytes() == store


@pytest.mark.usefixtures("here")
def test_an_audit_that_is_no_destination_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINEAGE_API_AUDIT", "ftp://example.org")
    result = lineage("access", "--source", "in.txt", "--rows", "1")
    assert result.exit_code == 2, result.output
    assert "LINEAGE_API_AUDIT is ftp" in result.stderr
