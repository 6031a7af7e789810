"""Who may watch running jobs through a server: a right of its own, beside all rows, and what is recorded of it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from lineage.main import app as commands
from lineage_query_api.app import create_app
from lineage_query_api.auth import Oidc, Role, new_token
from lineage_query_api.settings import read_settings
from lineage_store.url import open_store
from lineage_store.watch_folder import CONDITIONS, WatchableNode, WatchedJob
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
WATCH = "/v1/applications/app-1/watch"
ASKED = {"node": "4", "must": "record['secret'] == 'x'"}
ALL = '[[grant]]\ncallers = ["token:CALLER"]\napplications = ["*"]\nrows = true\n'
CALLERS: dict[str, tuple[Role, dict[str, bool], str]] = {
    "admin": ("admin", {"rows": True, "delete": True, "erase": True, "access": True}, ALL),
    "blind": ("reader", {"rows": False, "watch": True}, ALL),
    "of one job": ("reader", {"rows": True, "watch": True}, ALL.replace('["*"]', '["app-1"]')),
    "of datasets": ("reader", {"rows": True, "watch": True}, f'{ALL}datasets = ["/data/*"]\n'),
    "without rows": ("reader", {"rows": True, "watch": True}, ALL.replace("= true", "= false")),
    "watcher": ("reader", {"rows": True, "watch": True}, ALL),
}


def test_only_who_has_the_right_and_all_rows_watches_and_each_is_recorded(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lineage.db"
    store_run(url, tmp_path)
    made = {name: new_token(name, role, **rights) for name, (role, rights, _) in CALLERS.items()}
    (tmp_path / "tokens.toml").write_text("".join(lines for _, lines in made.values()))
    grants = "".join(grant.replace("CALLER", name) for name, (_, _, grant) in CALLERS.items())
    (tmp_path / "grants.toml").write_text(grants)
    settings = read_settings(
        store=url,
        api_tokens=tmp_path / "tokens.toml",
        api_grants=tmp_path / "grants.toml",
        api_audit=str(tmp_path / "audit"),
        api_stream_s=6,
    )
    job = WatchedJob(tmp_path / "spool" / "app-1", "app-1")
    job.add(WatchableNode("4", "map", "map", "job.py:3"))
    answers = {}
    with open_store(url) as store, TestClient(create_app(store, settings)) as browser:
        for name, (token, _) in made.items():
            headers = {"Authorization": f"Bearer {token}"}
            answers[name] = [
                browser.get(WATCH, headers=headers).status_code,
                browser.post(WATCH, headers=headers, json=ASKED).status_code,
            ]
            assert not list((job.folder / CONDITIONS).iterdir())
        answers["nobody"] = [browser.post(WATCH, json=ASKED).status_code] * 2
        me = browser.get("/v1/me", headers={"Authorization": f"Bearer {made['watcher'][0]}"})
    job.close()
    expected = {name: [403, 403] for name in made if name != "watcher"}
    assert answers == expected | {"watcher": [200, 200], "nobody": [401, 401]}
    assert me.json()["watch"]
    (file,) = (tmp_path / "audit").iterdir()
    found = [json.loads(line) for line in file.read_text().splitlines()]
    (begun,) = [
        record for record in found if record["event"] == "request" and record["method"] == "POST"
    ]
    assert begun["caller"]["identity"] == "token:watcher"
    assert begun["caller"]["watch"]
    assert begun["question"]["must"] == ASKED["must"]


@pytest.mark.parametrize(
    ("roles", "rights"),
    [
        (["lineage-admin", "lineage-access"], (True, False)),
        (["lineage-watch"], (False, True)),
        (["lineage-rows", "lineage-watch"], (True, True)),
    ],
)
def test_an_issuer_gives_the_right_by_a_role_of_its_own(
    roles: list[str], rights: tuple[bool, bool]
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    claims = {"iss": "https://i", "aud": "a", "sub": "s", "exp": 1 << 33, "roles": roles}
    keys = SimpleNamespace(get_signing_key_from_jwt=lambda _: SimpleNamespace(key=key.public_key()))
    found = Oidc("https://i", "a", "roles", keys).principal(jwt.encode(claims, key, "ES256"))
    assert (found.rows, found.watch) == rights


def test_the_command_gives_the_right_where_it_is_told_to() -> None:
    made = CliRunner().invoke(commands, ["token", "ann", "--rows", "--watch"])
    assert {"rows = true", "watch = true"} <= set(made.stdout.splitlines())
    assert "watch" not in CliRunner().invoke(commands, ["token", "ann", "--rows"]).stdout
