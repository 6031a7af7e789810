"""Commands against a server answer as over the store itself; logging in; the page's server."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO

import httpx
import pytest
from click.testing import Result
from typer.testing import CliRunner

from lineage.main import app
from lineage_query.exports import FORMATS
from lineage_query_api.auth import new_token
from tests.integration.test_same_answers import COMMANDS, PLACES
from tests.support.api_server import serving
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.integration


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    url = f"sqlite:///{tmp_path}/lineage.db"
    store_run(url, tmp_path)
    store_run(url, tmp_path, "app-2", started_at=2000.0, committed=False)
    return url


@pytest.fixture
def server(url: str, tmp_path: Path) -> Iterator[str]:
    with serving(url, api_roots=str(tmp_path)) as address:
        yield address


def lineage(store: str, *arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(app, arguments, env={"LINEAGE_STORE": store}, input=typed)


def test_applications_are_found_the_same(url: str, server: str) -> None:
    counts = []
    for options in (
        ("--search", "APP-1"),
        ("--dataset", "in.txt"),
        ("--dataset", "nowhere"),
        ("--call-site", "job.py"),
        ("--column", "city"),
        ("--since", "1970-01-01T00:00Z", "--until", "2100-01-01"),
        ("--until", "1960-01-01"),
    ):
        expected = lineage(url, "apps", *options, "--json")
        found = lineage(server, "apps", *options, "--json")
        assert (found.stdout, found.stderr) == (expected.stdout, expected.stderr), options
        counts.append(len(json.loads(found.stdout)))
    assert {0, 1, 2} <= set(counts)


@pytest.mark.long
def test_plans_are_the_same(url: str, server: str, tmp_path: Path) -> None:
    """But for what the store keeps beside itself, where a server does not look."""
    (tmp_path / "keys.csv").write_text("value\na\nzz\n")
    source = ("--source", str(tmp_path / "in.txt"))
    for words in (
        ("--rows", "1,2"),
        ("--where", "value = 'a'", "--identity", "value"),
        ("--where", "value > ''", "--expect", "5"),
        ("--subjects", "keys.csv"),
    ):
        for command in (("erase", "--plan"), ("access",)):
            expected = lineage(url, *command, *source, *words, "--json")
            found = lineage(server, *command, *source, *words, "--json")
            assert found.exit_code == expected.exit_code, found.output
            plans = json.loads(expected.stdout), json.loads(found.stdout)
            for plan in plans:
                plan.pop("kept")
                plan.pop("not_removed")
            assert plans[0] == plans[1], words
            assert plans[0]["rows"]
            shown = [lineage(store, *command, *source, *words).stdout for store in (url, server)]
            rows = [
                text.partition("lineage itself keeps")[0].partition("exact:")[0].rstrip()
                for text in shown
            ]
            assert rows[0] == rows[1] != ""
            assert "this plan did not look there" in shown[1]
    # By the whole path, as the server has another folder.
    near = lineage(server, "erase", "--plan", "--source", "in.txt", "--rows", "1", "--json")
    assert json.loads(near.stdout)["source"] == str(tmp_path / "in.txt")
    refused = lineage(server, "erase", "--plan", *source, "--where", "value > ''")
    assert refused.exit_code == 2
    assert "perhaps of several subjects" in refused.stderr


@pytest.mark.parametrize("in_both", [False, pytest.param(True, marks=pytest.mark.long)])
def test_commands_print_the_same(url: str, server: str, in_both: bool) -> None:
    """Commands in one form, text and JSON in turn, or in both."""
    asked = [("back", place) for place in PLACES] + [("forward", place) for place in PLACES]
    told = 0
    commands = [*COMMANDS, *asked, ("back", "write#0#0", "--app", "app-1", "--limit", "1")]
    if in_both:
        commands = [command for command in commands for _ in range(2)]
    for command, form in zip(commands, itertools.cycle([("--json",), ()])):
        expected = lineage(url, *command, *form)
        found = lineage(server, *command, *form)
        assert found.stdout == expected.stdout, command
        assert found.stderr == expected.stderr, command
        assert found.exit_code == expected.exit_code, command
        told += found.exit_code == 0
    assert told > (40 if in_both else 20)
    assert lineage(server, "dump", "app-2").stdout == lineage(url, "dump", "app-2").stdout
    assert lineage(server, "verify", "app-1", "--wait").exit_code == 0
    assert lineage(server, "rm", "app-2").stdout == "removed app-2\n"
    assert [one["app"] for one in json.loads(lineage(url, "apps", "--json").stdout)] == ["app-1"]


def test_times_are_texts_that_commands_and_the_api_share(url: str, tmp_path: Path) -> None:
    # More digits than the texts have.
    (tmp_path / "third").mkdir()
    store_run(url, tmp_path / "third", "app-3", started_at=100.0009876, name="third")
    with serving(url, api_roots=str(tmp_path)) as server:
        for command in (
            ("apps",),
            ("jobs",),
            ("jobs", "third"),
            ("datasets",),
            ("datasets", "in.txt"),
        ):
            found = lineage(server, *command, "--json")
            assert found.exit_code == 0, found.output
            assert found.stdout == lineage(url, *command, "--json").stdout, command
        (run,) = json.loads(lineage(url, "jobs", "third", "--json").stdout)
        times = run["started_at"], run["ended_at"], run["duration_s"]
        assert times == ("1970-01-01T00:01:40.000Z", "1970-01-01T00:03:20.000Z", 100.0)
        (sent,) = httpx.get(f"{server}/v1/runs", params={"job": "third"}).json()["items"]
        assert sent == {key: value for key, value in run.items() if key != "duration_s"}
        records = httpx.get(f"{server}/v1/records").json()["applications"]
        assert records == json.loads(lineage(url, "apps", "--json").stdout)
        progress = httpx.get(f"{server}/v1/applications/app-3/progress").json()
        assert datetime.fromisoformat(progress["updated_at"]).utcoffset() == timedelta(0)


@pytest.mark.long
def test_traces_are_compared_the_same(url: str, server: str) -> None:
    first, second = "out/part-00000:1", "out/part-00000:2"
    told = 0
    for command in (
        ("diff", first, second),
        ("diff", first, second, "--app", "app-1", "--limit", "0"),
        ("diff", "in.txt:1", "in.txt:2", "--direction", "forward", "--app", "app-1"),
        ("diff", first, first),
        ("diff", first, "nowhere.txt:1"),
        ("suspects", "--bad", first, "--bad", second, "--bad", first),
        ("suspects", "app-1", "--bad", first, "--good", second, "--limit", "1"),
        ("suspects", "--bad", first, "--bad", f"./{first}", "--bad", second, "--no-tasks"),
        ("suspects", "app-1"),
        ("suspects", "--bad", first, "--good", first),
        ("suspects", "--good", first),
        ("suspects", "--bad", "write#0#9999"),
    ):
        for form in ((), ("--json",)):
            expected, found = lineage(url, *command, *form), lineage(server, *command, *form)
            assert (found.stdout, found.stderr) == (expected.stdout, expected.stderr), command
            assert found.exit_code == expected.exit_code, command
            told += found.exit_code == 0
    assert told == 16
    twice = lineage(
        url, "suspects", "app-1", "--bad", first, "--bad", f"./{first}", "--bad", second
    ).stdout
    assert "/2  " in twice
    assert "/3  " not in twice


FIRST = ("--app", "app-1")
EXPORTS = [
    *(("out/part-00000:2", *FIRST, "--format", name) for name in FORMATS),
    *(
        ("in.txt:1", "in.txt:2", *FIRST, "--direction", "forward", "--way", "--format", name)
        for name in FORMATS
    ),
    ("out/part-00000:1", *FIRST, "--no-texts", "--step"),
    ("out/part-00000:1", *FIRST, "--to", "2", "--format", "graphml", "--limit", "1"),
    ("in.txt:1", "--direction", "forward"),
    ("out/part-00000:2", *FIRST, "--format", "prov", "--limit", "1"),
    ("nowhere.txt:1",),
    ("write#0#0", "--to", "nothing"),
]


def test_exports_write_the_same(url: str, server: str, tmp_path: Path) -> None:
    refused = []
    for wanted in EXPORTS:
        files = []
        for store in (url, server):
            (tmp_path / "rows").unlink(missing_ok=True)
            told = lineage(store, "export", *wanted, "--json", "-o", "rows")
            there = told.exit_code == 0
            assert (tmp_path / "rows").exists() == there
            file = (tmp_path / "rows").read_bytes() if there else b""
            files.append((told.exit_code, told.stdout, told.stderr, file))
        assert files[0] == files[1], wanted
        refused += [] if files[0][3] else [wanted]
    assert refused == EXPORTS[-3:]
    printed = [lineage(store, "export", *EXPORTS[0]).stdout_bytes for store in (url, server)]
    assert printed[0] == printed[1]
    assert printed[0].startswith(b"role,node,")
    too_many = lineage(server, "export", "write#0#0", "--format", "prov", "--limit", "20000")
    assert (too_many.exit_code, "10,000" in too_many.stderr) == (2, True)


def test_a_file_that_breaks_off_is_not_kept(
    url: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(file: IO[bytes]) -> Iterator[bytes]:
        with file:
            file.seek(0)
            yield file.read()[:10]

    monkeypatch.setattr("lineage_query_api.routes.answers.parts_of", half)
    broken = lineage(server, "export", "out/part-00000:2", "-o", "rows.csv")
    assert (broken.exit_code, "broke off after 10 of" in broken.stderr) == (2, True)
    assert not (tmp_path / "rows.csv").exists()


def test_openlineage_is_told_the_same(url: str, server: str, tmp_path: Path) -> None:
    named = ("--link", "https://lineage.example.org/", "--namespace", "a b")
    for app_id in ("app-1", "app-2", "nothing"):
        for options in ((), named):
            told = [
                lineage(one, "openlineage", app_id, *options, "--file", "-")
                for one in (url, server)
            ]
            assert told[0].stdout == told[1].stdout
            assert told[0].stderr == told[1].stderr
            assert told[0].exit_code == told[1].exit_code == (2 if app_id == "nothing" else 0)
    for one in (url, server):
        assert lineage(one, "openlineage", "app-1", "--file", "events").exit_code == 0
    first, second, *again = (tmp_path / "events").read_text().splitlines()
    assert again == [first, second]
    assert lineage(server, "openlineage", "app-1", "--file", "-").stdout == f"{first}\n{second}\n"


def test_views_that_the_store_can_not_keep_are_refused_alike(url: str, server: str) -> None:
    for command in ("create", "remove"):
        for form in ((), ("--json",)):
            told = [lineage(one, "records", command, "app-1", *form) for one in (url, server)]
            assert told[0].stdout == told[1].stdout
            assert told[0].stderr == told[1].stderr
            assert "stored in Neo4j" in told[1].stderr
            assert told[0].exit_code == told[1].exit_code == 2


def test_places_are_found_from_another_folder(
    url: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = json.loads(
        lineage(server, "back", "../out/part-00000:2", "--app", "app-1", "--json").stdout
    )
    assert found["from"] == ["../out/part-00000:2"]
    assert found["sources"][0]["count"] == 3
    for name in ("csv", "arrow", "mermaid", "prov"):
        wanted = ("export", "../out/part-00000:2", "--app", "app-1", "--format", name)
        assert lineage(server, *wanted).stdout_bytes == lineage(url, *wanted).stdout_bytes


def test_a_server_that_is_none_or_away_is_told_apart(url: str, tmp_path: Path) -> None:
    away = lineage("http://127.0.0.1:9", "apps")
    assert away.exit_code == 2
    assert "http://127.0.0.1:9 does not answer" in away.stderr
    with serving(url, api_roots=str(tmp_path)) as address:
        other = lineage(f"{address}/healthz", "apps")
    assert other.exit_code == 2
    assert other.stderr.startswith("lineage: ")


def test_logging_in_keeps_a_token_for_its_owner_alone(url: str, tmp_path: Path) -> None:
    made = lineage(url, "token", "reader of this test", "--rows")
    (tmp_path / "tokens.toml").write_text(made.stdout)
    secret = made.stderr.strip()
    assert secret not in made.stdout
    with serving(url, api_roots=str(tmp_path), api_tokens=tmp_path / "tokens.toml") as address:
        refused = lineage(address, "apps")
        assert (refused.exit_code, "lineage login" in refused.stderr) == (2, True)
        wrong, _ = new_token("other", "admin", rows=True)
        assert lineage(address, "login", typed=f"{wrong}\n").exit_code == 2
        file = tmp_path / "config" / "lineage" / "credentials.json"
        assert not file.exists()
        done = lineage(address, "login", typed=f"{secret}\n")
        assert "as reader of this test (reader, may read rows)" in done.stdout
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert lineage(address, "apps").exit_code == 0
        denied = lineage(address, "rm", "app-1")
        assert "may not delete" in denied.stderr
        assert lineage(address, "logout").exit_code == 0
        assert lineage(address, "apps").exit_code == 2
    assert lineage(url, "login").exit_code == 2


def test_the_page_is_served_over_an_embedded_store(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    command = [str(Path(sys.executable).with_name("lineage")), "ui", "--no-browser", "--port", "0"]
    environment = os.environ | {"LINEAGE_STORE": url, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        try:
            said = re.search(r"(http://127\.0\.0\.1:\d+)/\?token=(\S+)", served.stdout.readline())
            assert said is not None
            address, token = said.groups()
            items = f"{address}/v1/applications/latest/nodes/read/items"
            assert httpx.get(items).status_code == 401
            assert httpx.delete(f"{address}/v1/applications/app-1").status_code == 401
            found = httpx.get(items, headers={"Authorization": f"Bearer {token}"}).json()
            # No root is set: who opens it here may read what they may read anyway.
            assert found["items"][0]["text"] == "a b"
            # Commands of the same user are let in, and a second `lineage ui` leads there.
            assert "app-1" in lineage(address, "apps").stdout
            again = lineage(url, "ui", "--no-browser", "--port", address.rpartition(":")[2])
            assert f"{address}/?token={token}" in again.stdout
            monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of another user"))
            assert "only the user who runs this server" in lineage(address, "apps").stderr
        finally:
            served.send_signal(signal.SIGTERM)
    assert served.returncode in (0, -signal.SIGTERM)


def test_the_page_is_served_over_a_store_that_is_not_there_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    command = [str(Path(sys.executable).with_name("lineage")), "ui", "--no-browser", "--port", "0"]
    environment = os.environ | {
        "LINEAGE_STORE": "sqlite:///new/lineage.db",
        "PYTHONUNBUFFERED": "1",
    }
    with subprocess.Popen(
        command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as served:
        assert served.stdout is not None
        try:
            said = re.search(r"(http://127\.0\.0\.1:\d+)/\?token=(\S+)", served.stdout.readline())
            assert said is not None
            address, token = said.groups()
            store = f"sqlite:///{tmp_path}/new/lineage.db"
            assert f"lineage --store {store} run JOB" in served.stdout.readline()
            headers = {"Authorization": f"Bearer {token}"}
            assert httpx.get(f"{address}/v1/me", headers=headers).json()["store"] == store
            listed = f"{address}/v1/applications"
            assert httpx.get(listed, headers=headers).json()["items"] == []
            # What runs into it from then on is there.
            store_run(store, tmp_path, "later")
            found = httpx.get(listed, headers=headers).json()["items"]
            assert [one["app"] for one in found] == ["later"]
        finally:
            served.send_signal(signal.SIGTERM)
    assert served.returncode in (0, -signal.SIGTERM)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"LINEAGE_API_HOST": "0.0.0.0"}, "LINEAGE_API_TOKENS"),
        ({"LINEAGE_STORE": "sqlite:////nowhere/lineage.db"}, "there is no lineage store"),
        ({"LINEAGE_API_TOKENS": "/nowhere/tokens"}, "LINEAGE_API_TOKENS"),
    ],
)
def test_the_service_says_why_it_does_not_start(
    url: str, variables: dict[str, str], said: str
) -> None:
    environment = os.environ | {"LINEAGE_STORE": url} | variables
    done = subprocess.run(
        [sys.executable, "-m", "lineage_query_api"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.long
def test_runs_are_compared_the_same(url: str, server: str, tmp_path: Path) -> None:
    store_run(url, tmp_path, "app-3", started_at=3000.0)
    (tmp_path / "other").mkdir()
    store_run(url, tmp_path / "other", "app-4", started_at=4000.0, name="other")
    place, told = "write#0#0", 0
    for command in (
        (place, "--runs", "app-1", "app-3"),
        (place, "write#0#1", "--runs", "app-1", "app-3", "--limit", "1"),
        (place, "--runs", "app-1", "app-4"),
        ("read#0#0", "--runs", "app-1", "app-3", "--direction", "forward"),
        (place, "--runs", "app-1", "app-1"),
        (place, "--runs", "app-1", "nowhere"),
    ):
        for form in ((), ("--json",)):
            expected = lineage(url, "diff", *command, *form)
            found = lineage(server, "diff", *command, *form)
            assert (found.stdout, found.stderr) == (expected.stdout, expected.stderr), command
            assert found.exit_code == expected.exit_code, command
            told += found.exit_code == 0
    assert told == 8
    assert lineage(url, "diff", place).exit_code == 2
    refused = lineage(url, "diff", place, "--runs", "app-1", "app-3", "--app", "app-1")
    assert "leave out --app" in refused.stderr
    (group,) = json.loads(lineage(url, "diff", place, "--runs", "app-1", "app-3", "--json").stdout)[
        "groups"
    ]
    assert (group["same_places"], group["same_texts"]) == (3, 0)
    by_text = json.loads(lineage(url, "diff", place, "--runs", "app-1", "app-4", "--json").stdout)
    assert [one["same_texts"] for one in by_text["groups"]] == [3]
    assert any("different jobs" in warning for warning in by_text["warnings"])
