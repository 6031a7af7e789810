"""Commands against a server answer as over the store itself; logging in; the page's server."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner, Result

from lineage.main import app
from lineage_query_api.auth import new_token
from tests.api_server import serving
from tests.integration.test_same_answers import COMMANDS, PLACES
from tests.stored_lineage import store_run

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


def test_commands_print_the_same(url: str, server: str) -> None:
    asked = [("back", place) for place in PLACES] + [("forward", place) for place in PLACES]
    told = 0
    for command in [*COMMANDS, *asked, ("back", "write#0#0", "--app", "app-1", "--limit", "1")]:
        for form in ((), ("--json",)):
            expected = lineage(url, *command, *form)
            found = lineage(server, *command, *form)
            assert found.stdout == expected.stdout, command
            assert found.stderr == expected.stderr, command
            assert found.exit_code == expected.exit_code, command
            told += found.exit_code == 0
    assert told > 40
    assert lineage(server, "dump", "app-2").stdout == lineage(url, "dump", "app-2").stdout
    assert lineage(server, "verify", "app-1", "--wait").exit_code == 0
    assert lineage(server, "rm", "app-2").stdout == "removed app-2\n"
    assert [one["app"] for one in json.loads(lineage(url, "apps", "--json").stdout)] == ["app-1"]


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
        assert "only an admin" in denied.stderr
        assert lineage(address, "logout").exit_code == 0
        assert lineage(address, "apps").exit_code == 2
    assert lineage(url, "login").exit_code == 2


def test_the_page_is_served_over_an_embedded_store(url: str, tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("lineage")), "ui", "--no-browser", "--port", "0"]
    environment = os.environ | {"LINEAGE_STORE": url, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+", served.stdout.readline())
            assert address is not None
            found = httpx.get(f"{address[0]}/v1/applications/latest/nodes/read/items").json()
            # No root is set: who opens it here may read what they may read anyway.
            assert found["items"][0]["text"] == "a b"
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
