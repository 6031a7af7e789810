"""Deleting is a right of its own: no role has it, and who lacks it learns nothing of what is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from fastapi.testclient import TestClient
from structlog.testing import capture_logs
from typer.testing import CliRunner

from lineage.main import app as commands
from lineage_query_api.app import create_app
from lineage_query_api.auth import Oidc, Role, TokenGate, new_token
from lineage_query_api.errors import SettingsError
from lineage_query_api.settings import read_settings
from lineage_store.url import open_store
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
HOST = "http://127.0.0.1:8484"
APPLICATION = "/v1/applications/app-1"
CALLERS: dict[str, tuple[Role, bool]] = {
    "reader": ("reader", False),
    "admin": ("admin", False),
    "reader who deletes": ("reader", True),
    "admin who deletes": ("admin", True),
}
BEFORE = f'[[token]]\nname = "ann"\nrole = "admin"\nrows = true\nsha256 = "{"0" * 64}"\n'


@pytest.fixture
def tokens() -> dict[str, tuple[str, str]]:
    return {
        name: new_token(name, role, rows=True, delete=delete)
        for name, (role, delete) in CALLERS.items()
    }


@pytest.fixture
def client(tmp_path: Path, tokens: dict[str, tuple[str, str]]) -> Iterator[TestClient]:
    url = f"sqlite:///{tmp_path}/lineage.db"
    store_run(url, tmp_path)
    (tmp_path / "tokens.toml").write_text("".join(lines for _, lines in tokens.values()))
    settings = read_settings(store=url, api_tokens=tmp_path / "tokens.toml")
    with (
        open_store(url) as store,
        TestClient(create_app(store, settings), base_url=HOST) as client,
    ):
        yield client


def by(tokens: dict[str, tuple[str, str]], name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {tokens[name][0]}"}


@pytest.mark.parametrize("name", CALLERS)
def test_only_who_has_the_right_deletes(
    client: TestClient, tokens: dict[str, tuple[str, str]], name: str
) -> None:
    role, delete = CALLERS[name]
    headers = by(tokens, name)
    me = client.get("/v1/me", headers=headers).json()
    assert (me["role"], me["delete"]) == (role, delete)
    assert client.delete(APPLICATION, headers=headers).status_code == (204 if delete else 403)
    assert client.get(APPLICATION, headers=headers).status_code == (404 if delete else 200)


@pytest.mark.parametrize("name", ["reader", "admin"])
def test_a_refusal_tells_nothing_of_what_exists(
    client: TestClient, tokens: dict[str, tuple[str, str]], name: str
) -> None:
    answers = []
    for app in ("app-1", "app-2", "app", "latest", "x" * 600, "%00"):
        refused = client.delete(f"/v1/applications/{app}", headers=by(tokens, name))
        told = refused.json()
        told.pop("request_id")
        answers.append((refused.status_code, told))
    assert answers[0][0] == 403
    assert answers == [answers[0]] * len(answers)


def test_files_of_before_give_no_right_and_say_whose(tmp_path: Path) -> None:
    """What does not say ``delete`` was written when each admin could; that is named, not guessed."""
    file = tmp_path / "tokens.toml"
    token, lines = new_token("bob", "admin", rows=True)
    file.write_text(BEFORE + lines.replace("delete = false\n", ""))
    with capture_logs() as logs:
        gate = TokenGate(file)
        assert not gate.authenticate(f"Bearer {token}").delete
    (warning,) = logs
    assert (warning["event"], warning["names"]) == ("admins_may_not_delete", ["ann", "bob"])
    assert "delete = true" in warning["hint"]
    file.write_text(lines.replace("delete = false", "delete = true"))
    with capture_logs() as logs:
        assert gate.authenticate(f"Bearer {token}").delete
    assert logs == []


@pytest.mark.parametrize("wrong", ['"yes"', "2", "[true]", "{}"])
def test_a_right_that_is_no_boolean_is_refused_at_start(tmp_path: Path, wrong: str) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(f"{BEFORE}delete = {wrong}\n")
    with pytest.raises(SettingsError, match=r"token\.0\.delete"):
        TokenGate(file)


@pytest.mark.parametrize(
    ("roles", "role", "rows", "delete"),
    [
        (["lineage-admin"], "admin", True, False),
        (["lineage-admin", "lineage-delete"], "admin", True, True),
        (["lineage-delete"], "reader", False, True),
        (["lineage-rows", "lineage-delete"], "reader", True, True),
        (["lineage-reader", "lineage-deletes"], "reader", False, False),
    ],
)
def test_an_issuer_gives_the_right_by_a_role_of_its_own(
    roles: list[str], role: str, rows: bool, delete: bool
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    claims = {"iss": "https://i", "aud": "a", "sub": "s", "exp": 1 << 33, "roles": roles}
    keys = SimpleNamespace(get_signing_key_from_jwt=lambda _: SimpleNamespace(key=key.public_key()))
    found = Oidc("https://i", "a", "roles", keys).principal(jwt.encode(claims, key, "ES256"))
    assert (found.role, found.rows, found.delete) == (role, rows, delete)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--role", "admin"], "delete = false"),
        (["--role", "admin", "--no-delete"], "delete = false"),
        (["--delete"], "delete = true"),
    ],
)
def test_the_command_gives_it_where_it_is_told_to(words: list[str], line: str) -> None:
    made = CliRunner().invoke(commands, ["token", "ann", *words])
    assert line in made.stdout.splitlines()
