"""What callers send is never an error of the server, and what the server lacks never an error of theirs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
import structlog
import structlog.testing
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from fastapi.testclient import TestClient
from jwt.algorithms import RSAAlgorithm

from lineage_query_api.app import create_app
from lineage_query_api.auth import Oidc, TokenGate, new_token
from lineage_query_api.errors import ProblemError
from lineage_query_api.settings import read_settings
from lineage_store.sqlite.store import SqliteStore
from tests.support.drawn import drawn

pytestmark = pytest.mark.security
HOST = "http://127.0.0.1:8484"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "lineage.db") as store:
        yield store


def client(store: SqliteStore, address: str = "127.0.0.1", **given: Any) -> TestClient:
    app = create_app(store, read_settings(**given))
    return TestClient(app, base_url=HOST, client=(address, 4711), raise_server_exceptions=False)


def statuses(browser: TestClient, *forwarded: str) -> list[int]:
    return [
        browser.get("/v1/me", headers={"X-Forwarded-For": one}).status_code for one in forwarded
    ]


def test_a_caller_has_one_limit_whatever_address_they_claim(store: SqliteStore) -> None:
    given: dict[str, Any] = {"api_open": True, "api_rate": "2/minute", "api_proxies": "10.0.0.0/8"}
    claimed = ("192.0.2.1", "192.0.2.2", "192.0.2.3")
    assert statuses(client(store, **given), *claimed) == [200, 200, 429]
    proxy = client(store, "10.1.2.3", **given)
    # What a caller wrote before the proxy did does not count.
    same = ("198.51.100.1, 192.0.2.1", "198.51.100.2, 192.0.2.1", "192.0.2.1", "192.0.2.2")
    assert statuses(proxy, *same) == [200, 200, 429, 200]


@pytest.mark.parametrize("proxies", drawn(["10.0.0.0/8", "::ffff:10.0.0.0/104", "10.1.2.3,10.9.9.9", "::ffff:a01:203,::ffff:10.9.9.9"], 2))  # fmt: skip
@pytest.mark.parametrize("address", drawn(["::ffff:10.1.2.3", "10.1.2.3", "::FFFF:0A01:0203"], 3))
def test_a_proxy_is_trusted_in_both_forms_of_its_address(
    store: SqliteStore, proxies: str, address: str
) -> None:
    given: dict[str, Any] = {"api_open": True, "api_rate": "2/minute", "api_proxies": proxies}
    proxy = client(store, address, **given)
    # One caller, in whichever form two proxies in a row write addresses.
    same = ("::ffff:192.0.2.1", "192.0.2.1, ::ffff:10.9.9.9", "[::ffff:192.0.2.1]:80, 10.9.9.9")
    assert statuses(proxy, *same, "192.0.2.2") == [200, 200, 429, 200]
    for other in ("::ffff:11.1.2.3", "11.1.2.3", "::10.1.2.3", "::1:ffff:a01:203"):
        claimed = ("192.0.2.1", "192.0.2.2", "192.0.2.3")
        assert statuses(client(store, other, **given), *claimed) == [200, 200, 429]


def test_a_broken_file_of_tokens_is_no_fault_of_callers(store: SqliteStore, tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    token, lines = new_token("ann", "admin", rows=True)
    file.write_text(lines)
    server = client(store, api_tokens=file)
    headers = {"Authorization": f"Bearer {token}"}
    assert server.get("/v1/me", headers=headers).status_code == 200
    file.write_text("[[token")
    broken = server.get("/v1/me", headers=headers)
    assert broken.status_code == 500
    assert str(file) not in broken.text
    file.unlink()
    assert server.get("/v1/me", headers=headers).status_code == 500
    file.write_text(lines + "\n")
    assert server.get("/v1/me", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "roles", [7, True, None, {"lineage-admin": True}, [["lineage-admin"]], 1.5]
)
def test_roles_of_another_type_give_no_role(roles: object) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    claims = {"iss": "https://i", "aud": "a", "sub": "s", "exp": 1 << 33, "roles": roles}
    keys = SimpleNamespace(get_signing_key_from_jwt=lambda _: SimpleNamespace(key=key.public_key()))
    with pytest.raises(ProblemError) as refused:
        Oidc("https://i", "a", "roles", keys).principal(jwt.encode(claims, key, "ES256"))
    assert refused.value.status == 403


@pytest.mark.parametrize("path", ["/" + "a" * 300, "/v1/" + "a" * 300, "/" + "a" * 40_000])
def test_a_path_of_any_length_is_no_error_of_the_server(store: SqliteStore, path: str) -> None:
    assert client(store).get(path).status_code in (200, 401, 404, 414)


def _jwt(header: str) -> str:
    parts = (header, "{}", "signature")
    return ".".join(base64.urlsafe_b64encode(one.encode()).rstrip(b"=").decode() for one in parts)


@pytest.mark.parametrize(
    "header",
    [
        # Escapes of JSON that no UTF-8 can hold come back in what PyJWT says.
        r'{"alg": "RS256", "kid": "\ud800"}',
        r'{"alg": "RS256", "kid": "known", "crit": ["\ud800"]}',
        '{"alg": "RS256", "kid": "known"}',
        '{"alg": "ES256", "kid": "known"}',
        '{"alg": "EdDSA", "kid": "known"}',
        '{"alg": "HS256", "kid": "known"}',
        '{"alg": "none", "kid": "known"}',
        f'{{"alg": "RS256", "kid": "known", "a": {"[" * 5000}{"]" * 5000}}}',
    ],
)
def test_a_jwt_of_any_form_is_refused_as_a_token(
    store: SqliteStore, tmp_path: Path, header: str
) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text("")
    server = client(store, api_tokens=tokens, oidc_issuer="https://i", oidc_audience="a")
    public = rsa.generate_private_key(65537, 2048).public_key()
    jwk = {**json.loads(RSAAlgorithm.to_jwk(public)), "kid": "known", "use": "sig", "alg": "RS256"}
    keys = jwt.PyJWKClient("https://i/keys")
    keys.fetch_data = lambda: {"keys": [jwk]}  # type: ignore[method-assign]
    server.app.state.gate = TokenGate(tokens, Oidc("https://i", "a", "roles", keys))  # type: ignore[attr-defined]
    answer = server.get("/v1/me", headers={"Authorization": f"Bearer {_jwt(header)}"})
    assert (answer.status_code, answer.json()["status"]) == (401, 401)


def test_words_of_who_connects_are_kept_neither_in_metrics_nor_in_the_log(
    store: SqliteStore,
) -> None:
    server = client(store)
    with structlog.testing.capture_logs() as lines:
        for number in range(20):
            server.request(f"WORD{number}{'A' * 60_000}", "/")
        server.request("GET", "/" + "B" * 30_000)
    told = server.get("/metrics").text
    assert "AAAA" not in told
    assert 'lineage_api_requests_total{method="other"' in told
    assert len(told) < 20_000
    assert len(lines) == 21
    assert max(len(str(line)) for line in lines) < 5_000
