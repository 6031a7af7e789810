"""JWTs of an issuer: what is let in, and what is not."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.api_server import word_count_served

pytestmark = pytest.mark.integration
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    """An issuer that says where its key is, and the key."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
            body: dict[str, Any] = {"keys": [keys | {"kid": "one", "use": "sig", "alg": "RS256"}]}
            if self.path.endswith("/openid-configuration"):
                body = {"jwks_uri": f"http://{self.headers['Host']}/keys"}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def client(issuer: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder: Path = tmp_path_factory.mktemp("oidc")
    given = {"oidc_issuer": issuer, "oidc_audience": "lineage", "oidc_role_claim": "realm.roles"}
    with word_count_served(folder, **given) as client:
        yield client


def claims(issuer: str, *roles: str, **more: object) -> dict[str, object]:
    return {
        "iss": issuer,
        "aud": "lineage",
        "sub": "someone",
        "exp": time.time() + 600,
        "realm": {"roles": list(roles)},
        **more,
    }


def asked(client: httpx.Client, token: str, path: str = "/v1/me") -> httpx.Response:
    return client.get(path, headers={"Authorization": f"Bearer {token}"})


def signed(told: dict[str, object], key: Any = KEY, algorithm: str = "RS256") -> str:
    return jwt.encode(told, key, algorithm=algorithm, headers={"kid": "one"})


@pytest.mark.parametrize(
    ("roles", "role", "rows"),
    [
        (("lineage-reader",), "reader", False),
        (("lineage-rows", "other"), "reader", True),
        (("lineage-admin", "lineage-reader"), "admin", True),
    ],
)
def test_roles_come_from_the_claim(
    client: httpx.Client, issuer: str, roles: tuple[str, ...], role: str, rows: bool
) -> None:
    me = asked(client, signed(claims(issuer, *roles))).json()
    assert (me["name"], me["role"], me["rows"], me["auth"]) == ("someone", role, rows, "oidc")


@pytest.mark.parametrize(
    "change",
    [
        {"iss": "http://127.0.0.1:1"},
        {"aud": "another"},
        {"exp": 1_000_000},
        {"exp": None},
        {"sub": None},
        {"nbf": 9_999_999_999},
    ],
)
def test_a_token_that_is_not_for_here_is_refused(
    client: httpx.Client, issuer: str, change: dict[str, object]
) -> None:
    told = claims(issuer, "lineage-admin", **change)
    token = signed({name: value for name, value in told.items() if value is not None})
    assert asked(client, token).status_code == 401


def test_a_token_that_another_signed_is_refused(client: httpx.Client, issuer: str) -> None:
    told = claims(issuer, "lineage-admin")
    assert asked(client, signed(told, OTHER)).status_code == 401
    # No signature, and one by a secret that everybody knows.
    assert (
        asked(client, jwt.encode(told, "", algorithm="none", headers={"kid": "one"})).status_code
        == 401
    )
    assert asked(client, signed(told, "x" * 64, "HS256")).status_code == 401
    assert asked(client, "a.b.c").status_code == 401


@pytest.mark.parametrize("roles", [(), ("other",)])
def test_without_a_role_nothing_is_shown(
    client: httpx.Client, issuer: str, roles: tuple[str, ...]
) -> None:
    refused = asked(client, signed(claims(issuer, *roles)), "/v1/applications")
    assert refused.status_code == 403
    assert "realm.roles" in refused.json()["hint"]


def test_an_issuer_that_is_away_is_said_to_be(tmp_path: Path, issuer: str) -> None:
    given = {"oidc_issuer": "http://127.0.0.1:9", "oidc_audience": "lineage"}
    with word_count_served(tmp_path, **given) as client:
        assert asked(client, signed(claims(issuer, "lineage-admin"))).status_code == 503
