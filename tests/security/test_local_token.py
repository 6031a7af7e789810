"""`lineage ui` and the stack's API let in the user who runs them, and nobody else on the machine."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.request import url2pathname

import pytest
from fastapi.testclient import TestClient

from lineage.credentials import token_for
from lineage_query_api.app import create_app, local_token
from lineage_query_api.errors import SettingsError
from lineage_query_api.settings import read_settings
from lineage_service.local_servers import LocalServer, announced, leading_page, running_at
from lineage_store.url import open_store
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
HOST = "http://127.0.0.1:8484"
TOKEN = "a-token-of-this-test"
APPLICATION = "/v1/applications/app-1"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """A browser, or a program, at a server as `lineage ui` runs it."""
    url = f"sqlite:///{tmp_path}/lineage.db"
    store_run(url, tmp_path)
    with open_store(url) as store:
        app = create_app(store, read_settings(store=url, api_token=TOKEN))
        with TestClient(app, base_url=HOST, follow_redirects=False) as client:
            yield client


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "lineage" / "servers"


def test_who_has_no_token_neither_reads_nor_deletes(client: TestClient) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Cookie": f"lineage_8484={TOKEN}; token={TOKEN}"},
    ):
        assert client.get("/v1/applications", headers=headers).status_code == 401
        assert client.delete(APPLICATION, headers=headers).status_code == 401
    with_token = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/v1/me", headers=with_token).json()["role"] == "admin"
    assert client.get(APPLICATION, headers=with_token).status_code == 200


def test_a_browser_has_no_cookie_that_it_would_send_to_servers_of_others(
    client: TestClient,
) -> None:
    """Cookies know no ports (RFC 6265, 8.5)."""
    for address in (f"/?token={TOKEN}", f"/apps/a%20b?x=1&token={TOKEN}", "/?token=wrong"):
        answer = client.get(address)
        assert answer.status_code in (200, 404)  # 404: the page is not built
        assert "set-cookie" not in answer.headers
        assert answer.headers["referrer-policy"] == "same-origin"
    assert not client.cookies
    assert client.get(f"{APPLICATION}?token={TOKEN}").status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_pages_of_the_browser_are_refused(
    client: TestClient, headers: dict[str, str]
) -> None:
    client.headers["Authorization"] = f"Bearer {TOKEN}"
    assert client.delete(APPLICATION, headers=headers).status_code == 403
    own = {"Origin": HOST, "Sec-Fetch-Site": "same-origin"}
    assert client.get(APPLICATION, headers=own).status_code == 200


def test_a_name_that_was_bound_to_loopback_is_refused(client: TestClient) -> None:
    client.headers["Authorization"] = f"Bearer {TOKEN}"
    assert client.get(APPLICATION, headers={"Host": "evil.example:8484"}).status_code == 400


def test_each_start_has_a_token_of_its_own(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lineage.db"
    store_run(url, tmp_path)
    with open_store(url) as store:
        tokens = {local_token(create_app(store, read_settings(store=url))) for _ in range(2)}
    assert len(tokens) == 2
    assert min(map(len, tokens)) >= 43


def test_a_file_may_hold_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    monkeypatch.setenv("LINEAGE_API_TOKEN_FILE", str(file))
    monkeypatch.setenv("LINEAGE_API_TOKEN", "another-token-than-it")
    with pytest.raises(SettingsError, match="LINEAGE_API_TOKEN_FILE: can't read"):
        read_settings()
    for text in ("\n", "short\n", "not one of an address\n"):
        file.write_text(text)
        with pytest.raises(SettingsError, match="LINEAGE_API_TOKEN") as refused:
            read_settings()
        assert text.strip() not in str(refused.value) or not text.strip()
    file.write_text(f"{TOKEN}\n")
    assert read_settings().api_token == TOKEN
    assert read_settings(api_token="from-the-command-line").api_token == "from-the-command-line"


def test_commands_find_the_token_of_a_server_that_runs(state: Path) -> None:
    server = LocalServer(HOST, TOKEN, "sqlite:////there/lineage.db")
    before = os.umask(0)
    try:
        with announced(server) as file:
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert stat.S_IMODE(state.stat().st_mode) == 0o700
            assert running_at(f"{HOST}/") == running_at("http://localhost:8484") == server
            assert token_for(HOST) == TOKEN
            for other in ("http://127.0.0.1:8485", "https://127.0.0.1:8484", "http://a.b:8484"):
                assert running_at(other) is None
            # What is put on the command line of a browser holds no token; the file it names does.
            page = leading_page(server)
            assert TOKEN not in page
            shown = Path(url2pathname(page.removeprefix("file:")))
            assert f"{HOST}/?token={TOKEN}" in shown.read_text()
            assert stat.S_IMODE(shown.stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert list(state.iterdir()) == []


def test_no_token_goes_to_who_took_the_port_of_a_server_that_ended(state: Path) -> None:
    server = LocalServer(HOST, TOKEN)
    with announced(server) as file:
        kept = file.read_bytes()
    # As a crash leaves it: nobody holds the lock.
    file.write_bytes(kept)
    file.chmod(0o600)
    assert running_at(HOST) is None
    assert token_for(HOST) == ""


def test_a_token_that_others_can_read_is_not_taken(state: Path) -> None:
    with announced(LocalServer(HOST, TOKEN)) as file:
        file.chmod(0o644)
        assert running_at(HOST) is None
