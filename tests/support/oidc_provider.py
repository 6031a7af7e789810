"""An OpenID provider on loopback: discovery, keys, sign-in by code with PKCE, renewal, revocation, sign-out."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

AUDIENCE = "lineage"
CLIENT = "lineage-page"
LIFETIME_S = 600
ASKED = (
    "client_id", "redirect_uri", "response_type", "scope", "state", "nonce",
    "code_challenge", "code_challenge_method",
)  # fmt: skip


@dataclass(frozen=True)
class User:
    """Who signs in, and what is wrong with what they get."""

    role: str
    is_brief: bool = False
    """The first access token is over when it is given."""
    is_renewed: bool = True
    nonce: str = ""
    """Instead of the one that was asked for."""


USERS = {
    "ann": User("lineage-admin"),
    "brief": User("lineage-rows", is_brief=True),
    "gone": User("lineage-rows", is_brief=True, is_renewed=False),
    "another-nonce": User("lineage-admin", nonce="another"),
}


@dataclass
class Provider:
    """Its state. ``return_address``: the one that the page's client registered."""

    issuer: str
    return_address: str = ""
    key: rsa.RSAPrivateKey = field(
        default_factory=lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    refresh_tokens: dict[str, str] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)
    """All that was given, or shown to it, and belongs into no log."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def configuration(self) -> dict[str, Any]:
        """What discovery tells (OpenID Connect Discovery 1.0, section 3)."""
        return {
            "issuer": self.issuer,
            "jwks_uri": f"{self.issuer}/keys",
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "revocation_endpoint": f"{self.issuer}/revoke",
            "end_session_endpoint": f"{self.issuer}/end-session",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }

    def keys(self) -> dict[str, Any]:
        """Its public key (RFC 7517)."""
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [public | {"kid": "one", "use": "sig", "alg": "RS256"}]}

    def signed(self, claims: dict[str, object]) -> str:
        """A JWT of it."""
        return jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": "one"})

    def is_for_the_page(self, asked: dict[str, str]) -> bool:
        """Whether the page's client asks, for its own address, as it should."""
        return (
            set(asked) == set(ASKED)
            and (asked["client_id"], asked["redirect_uri"]) == (CLIENT, self.return_address)
            and (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
            and "openid" in asked["scope"].split(" ")
            and min(len(asked[name]) for name in ("state", "nonce", "code_challenge")) >= 43
        )

    def approve(self, asked: dict[str, str], user: str) -> str:
        """Where the browser goes with a code, or with a refusal."""
        answer = {"state": asked["state"], "iss": self.issuer}
        if user == "nobody":
            answer["error"] = "access_denied"
        else:
            answer["code"] = self._secret()
            self.codes[answer["code"]] = asked | {"user": user}
        return f"{asked['redirect_uri']}?{urlencode(answer)}"

    def exchange(self, form: dict[str, str]) -> dict[str, object] | None:
        """Tokens for a code or a refresh token, once; None: it is not valid."""
        if form.get("client_id") != CLIENT:
            return None
        if form.get("grant_type") == "authorization_code":
            verifier = form.get("code_verifier", "")
            self.secrets.add(verifier)
            asked = self.codes.pop(form.get("code", ""), {})
            digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
            if (
                asked.get("code_challenge") != digest.decode().rstrip("=")
                or form.get("redirect_uri") != asked["redirect_uri"]
            ):
                return None
            return self._tokens(asked["user"], asked["nonce"])
        user = self.refresh_tokens.pop(form.get("refresh_token", ""), "")
        return self._tokens(user, None) if user and USERS[user].is_renewed else None

    def _tokens(self, name: str, nonce: str | None) -> dict[str, object]:
        user, now = USERS[name], time.time()
        ends = now - 60 if user.is_brief and nonce is not None else now + LIFETIME_S
        about = {"iss": self.issuer, "sub": name, "iat": now}
        access = about | {"aud": AUDIENCE, "exp": ends, "roles": [user.role], "jti": self._secret()}
        told: dict[str, object] = {
            "access_token": self.signed(access),
            "token_type": "Bearer",
            "refresh_token": self._secret(),
        }
        if nonce is not None:
            given = {"aud": CLIENT, "exp": now + LIFETIME_S, "nonce": user.nonce or nonce}
            told["id_token"] = self.signed(about | given)
        self.refresh_tokens[str(told["refresh_token"])] = name
        self.secrets |= {str(told[one]) for one in told if one != "token_type"}
        return told

    def _secret(self) -> str:
        made = secrets.token_urlsafe(32)
        self.secrets.add(made)
        return made


@contextmanager
def oidc_provider() -> Iterator[Provider]:
    """A provider that runs."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        provider = Provider(f"http://127.0.0.1:{server.server_address[1]}")
        server.RequestHandlerClass = _answers(provider)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()


def _answers(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            at = urlsplit(self.path)
            asked = dict(parse_qsl(at.query))
            user = asked.pop("user", "")
            with provider.lock:
                if at.path == "/.well-known/openid-configuration":
                    self._json(200, provider.configuration)
                elif at.path == "/keys":
                    self._json(200, provider.keys())
                elif at.path == "/end-session":
                    back = asked.get("post_logout_redirect_uri")
                    right = asked.get("client_id") == CLIENT and back == provider.return_address
                    self._redirect(provider.return_address) if right else self._json(400, {})
                elif at.path != "/authorize" or not provider.is_for_the_page(asked):
                    self._json(400, {"error": "invalid_request"})
                elif user:
                    self._redirect(provider.approve(asked, user))
                else:
                    self._page(asked)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = dict(parse_qsl(body))
            with provider.lock:
                if self.path == "/revoke":
                    provider.refresh_tokens.pop(form.get("token", ""), None)
                    self._json(200, {})
                    return
                told = provider.exchange(form)
            self._json(*((400, {"error": "invalid_grant"}) if told is None else (200, told)))

        def _page(self, asked: dict[str, str]) -> None:
            fields = "".join(
                f'<input type="hidden" name="{name}" value="{escape(value)}">'
                for name, value in asked.items()
            )
            buttons = "".join(
                f'<button name="user" value="{name}">{name}</button>' for name in (*USERS, "nobody")
            )
            self._send(200, "text/html", f"<form>{fields}{buttons}</form>".encode())

        def _json(self, status: int, told: object) -> None:
            self._send(status, "application/json", json.dumps(told).encode())

        def _redirect(self, address: str) -> None:
            self._send(303, "text/plain", b"", Location=address)

        def _send(self, status: int, kind: str, body: bytes, **headers: str) -> None:
            page = urlsplit(provider.return_address)
            self.send_response(status)
            for name, value in {
                "Content-Type": kind,
                "Content-Length": str(len(body)),
                "Cache-Control": "no-store",
                "Access-Control-Allow-Origin": f"{page.scheme}://{page.netloc}",
                **headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            # A browser that goes elsewhere hangs up.
            with suppress(ConnectionError):
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Answers
