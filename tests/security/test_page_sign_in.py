"""Signing in on the page at an issuer: what is told of it to anybody, and attacks on it in a browser."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from lineage_query_api.app import create_app
from lineage_query_api.errors import SettingsError
from lineage_query_api.settings import read_settings
from lineage_store.sqlite.store import SqliteStore
from tests.support.api_server import running
from tests.support.oidc_provider import AUDIENCE, CLIENT, oidc_provider
from tests.support.page import npm
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
HOST = "http://127.0.0.1:8484"
ISSUER = "https://login.example.org:8443/realms/company"
GIVEN = {"oidc_issuer": ISSUER, "oidc_audience": AUDIENCE, "oidc_client_id": CLIENT}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "lineage.db") as store:
        yield store


def client(store: SqliteStore, **given: Any) -> TestClient:
    return TestClient(create_app(store, read_settings(**given)), base_url=HOST)


def policy(client: TestClient, path: str) -> dict[str, str]:
    """Directives of the policy of an answer."""
    told = client.get(path).headers["content-security-policy"]
    return dict(part.split(" ", 1) for part in told.split("; "))


def test_anybody_may_know_the_client_and_nothing_else(store: SqliteStore) -> None:
    server = client(store, **GIVEN, oidc_scopes="openid api://lineage/read", api_token="x" * 16)
    answer = server.get("/v1/sign-in")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json() == {
        "oidc": {"issuer": ISSUER, "client_id": CLIENT, "scopes": "openid api://lineage/read"}
    }
    assert server.get("/v1/me").status_code == 401


def test_the_page_connects_to_the_issuer_and_to_nobody_else(store: SqliteStore) -> None:
    server = client(store, **GIVEN)
    usual = client(store, oidc_issuer=ISSUER, oidc_audience=AUDIENCE)
    for path in ("/", "/sign-in", "/v1/me", "/v1/sign-in"):
        expected = policy(usual, path)
        assert expected["connect-src"] == "'self'"
        assert policy(server, path) == expected | {
            "connect-src": "'self' https://login.example.org:8443"
        }


@pytest.mark.parametrize("given", [{}, {"api_open": True}])
def test_a_server_of_one_user_has_nothing_of_it(store: SqliteStore, given: dict[str, Any]) -> None:
    server = client(store, **given)
    assert server.get("/v1/sign-in").json() == {"oidc": None}
    assert policy(server, "/")["connect-src"] == "'self'"


@pytest.mark.parametrize(
    "issuer",
    [
        "http://login.example.org",
        "http://localhost.example.org",
        "http://127.0.0.1.example.org/",
        "https://login.example.org; script-src *",
        "https://login.example.org https://evil.example",
        "https://*.example.org",
        "https://*",
        "https:",
        "https://",
        "data:",
        "javascript:alert(1)//",
        "https://ann:secret@login.example.org",
        "https://login.example.org\\@evil.example/",
        "https://login.example.org/?a=b",
        "https://login.example.org/#a",
        "https://login.example.org\n",
        "https://login.example.org\r\nX-A: b",
        "https://log\u0456n.example.org",
    ],
)
def test_an_issuer_that_would_open_the_policy_is_refused(issuer: str) -> None:
    # Without the page's client such an issuer goes nowhere near a browser.
    read_settings(**(GIVEN | {"oidc_issuer": issuer, "oidc_client_id": ""}))
    with pytest.raises(SettingsError, match="LINEAGE_OIDC_ISSUER") as refused:
        read_settings(**(GIVEN | {"oidc_issuer": issuer}))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"oidc_issuer": ""}, "LINEAGE_OIDC_ISSUER"),
        ({"oidc_client_id": "a\nb"}, "LINEAGE_OIDC_CLIENT_ID"),
        ({"oidc_scopes": "profile"}, "LINEAGE_OIDC_SCOPES"),
        ({"oidc_scopes": ""}, "LINEAGE_OIDC_SCOPES"),
        ({"oidc_scopes": 'openid "'}, "LINEAGE_OIDC_SCOPES"),
    ],
)
def test_a_client_that_can_not_work_is_refused(given: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        read_settings(**(GIVEN | given))


@pytest.mark.long
def test_attacks_in_a_browser_fail_and_a_shared_link_opens(
    store: SqliteStore, tmp_path: Path
) -> None:
    store_run(f"sqlite:///{tmp_path}/lineage.db", tmp_path)
    logs, audit = io.StringIO(), tmp_path / "audit"
    with oidc_provider() as provider:
        given: dict[str, Any] = {
            "oidc_issuer": provider.issuer,
            "oidc_audience": AUDIENCE,
            "oidc_client_id": CLIENT,
            "api_roots": str(tmp_path),
            "api_audit": str(audit),
            "api_rate": "1000/second",
        }
        app = create_app(store, read_settings(**given))
        with running(app, logs) as address:
            provider.return_address = f"{address}/sign-in"
            told = {"LINEAGE_URL": address, "LINEAGE_E2E_OIDC": json.dumps(provider.configuration)}
            npm("e2e:only", environment=told)
    records = "".join(file.read_text() for file in audit.iterdir())
    assert '"by": "oidc"' in records
    assert "request" in logs.getvalue()
    assert len(provider.secrets) > 20
    assert not [one for one in provider.secrets if one in records or one in logs.getvalue()]
