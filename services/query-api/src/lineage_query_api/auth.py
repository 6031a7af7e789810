"""Authentication and rights of callers: bearer tokens that are hashed at rest, and JWTs of an OIDC issuer."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import jwt
import structlog
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from lineage_query_api.errors import ProblemError, SettingsError
from lineage_query_api.reloaded_files import ReloadedFile, read_toml

TOKEN_PREFIX = "lm_"
ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
"""Asymmetric ones: with a symmetric one, the issuer's public key would be the secret."""
LEEWAY_S = 30
_ROLES = {
    "lineage-reader",
    "lineage-rows",
    "lineage-delete",
    "lineage-erase",
    "lineage-access",
    "lineage-watch",
    "lineage-admin",
}
"""Roles of an issuer, each of which lets its holder in."""

Role = Literal["reader", "admin"]
How = Literal["none", "token", "oidc"]


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller. ``rows``: may read the text of rows. ``delete``: may delete applications.

    ``erase``: may make plans of what is to be erased. ``access``: may have access requests answered, with the right to rows.
    ``watch``: may watch records of running jobs, with the right to rows.
    ``identities``: what grants name them by: ``token:NAME``, ``sub:SUBJECT``, ``role:ROLE``.
    """

    name: str
    role: Role
    rows: bool
    delete: bool
    auth: How
    identities: frozenset[str] = frozenset()
    erase: bool = False
    access: bool = False
    watch: bool = False

    @property
    def identity(self) -> str:
        """``token:NAME`` or ``sub:SUBJECT``, which callers can't choose themselves; empty for the server's own user."""
        return next(
            (identity for identity in self.identities if not identity.startswith("role:")), ""
        )


ANYBODY = Principal(
    "anybody on this machine",
    "admin",
    rows=True,
    delete=True,
    auth="none",
    erase=True,
    access=True,
    watch=True,
)
OWNER = replace(ANYBODY, name="the user who runs this server", auth="token")


class _Token(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=200)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    role: Role = "reader"
    rows: bool = False
    delete: StrictBool = False
    erase: StrictBool = False
    access: StrictBool = False
    watch: StrictBool = False
    expires: datetime | None = None

    @property
    def principal(self) -> Principal:
        """The holder of the token, with the rights."""
        rows = self.rows or self.role == "admin"
        identities = frozenset({f"token:{self.name}"})
        return Principal(
            self.name,
            self.role,
            rows,
            self.delete,
            "token",
            identities,
            erase=self.erase,
            access=self.access,
            watch=self.watch,
        )


class _Tokens(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    token: tuple[_Token, ...] = ()


class Keys(Protocol):
    """The source of an issuer's keys."""

    def get_signing_key_from_jwt(self, token: str) -> Any:
        """The key that signed a token."""


class Gate(Protocol):
    """Authenticates callers."""

    def authenticate(self, authorization: str | None) -> Principal:
        """The caller who sent an ``Authorization`` header.

        Raises:
            ProblemError: 401 if it identifies no caller.
        """


class OpenGate:
    """Accepts every caller: for a server that only users with all rights can reach."""

    def authenticate(self, authorization: str | None) -> Principal:
        return ANYBODY


class LocalGate:
    """Accepts the holder of the one token: the user of this machine who runs the server.

    ``token``: by default a new one, of 256 random bits.
    """

    def __init__(self, token: str = "") -> None:
        self.token = token or secrets.token_urlsafe(32)

    def authenticate(self, authorization: str | None) -> Principal:
        credentials = _bearer(authorization)
        if credentials and hmac.compare_digest(hash_of(credentials), hash_of(self.token)):
            return OWNER
        raise ProblemError(
            HTTPStatus.UNAUTHORIZED,
            "only the user who runs this server is let in",
            hint="open the address that `lineage ui` or `lineage stack up` printed, which holds the token; "
            "commands of that user find it by themselves",
            headers={"WWW-Authenticate": 'Bearer realm="lineage"'},
        )


class TokenGate:
    """Authenticates callers by bearer tokens, and by JWTs of an issuer."""

    def __init__(self, tokens: Path | None, oidc: Oidc | None = None) -> None:
        self._tokens = (
            None
            if tokens is None
            else ReloadedFile("LINEAGE_API_TOKENS", tokens, _read_checked_tokens)
        )
        self._oidc = oidc

    def authenticate(self, authorization: str | None) -> Principal:
        credentials = _bearer(authorization)
        if not credentials:
            raise _unauthorized("this server asks for a token", "")
        try:
            tokens = () if self._tokens is None else self._tokens.get()
        except SettingsError as error:
            # No token can be verified at the moment: that is not the caller's fault.
            structlog.get_logger().error("tokens_unreadable", reason=str(error))
            raise ProblemError(
                HTTPStatus.INTERNAL_SERVER_ERROR, "the server can't read its file of tokens"
            ) from error
        token = _find(credentials, tokens)
        if token is not None:
            return token.principal
        if self._oidc is not None and credentials.count(".") == 2:
            return self._oidc.principal(credentials)
        raise _unauthorized("this token is not known here, or has expired", "invalid_token")


class Oidc:
    """Reads JWTs of one issuer (RFC 7519; keys by RFC 7517)."""

    def __init__(
        self, issuer: str, audience: str, role_claim: str, keys: Keys | None = None
    ) -> None:
        self._issuer = issuer
        self._audience = audience
        self._role_claim = role_claim
        self._keys = keys

    def principal(self, token: str) -> Principal:
        """The subject of a JWT.

        Raises:
            ProblemError: 401 if it is not valid; 403 if it grants no role here; 503 if the
                issuer does not respond.
        """
        try:
            key = self._signing_keys().get_signing_key_from_jwt(token)
        except jwt.PyJWKClientConnectionError as error:
            raise ProblemError(
                HTTPStatus.SERVICE_UNAVAILABLE, "the issuer of tokens does not answer"
            ) from error
        except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
            # The issuer's response is not a set of keys.
            raise ProblemError(
                HTTPStatus.SERVICE_UNAVAILABLE, "the issuer of tokens does not give its keys"
            ) from error
        except jwt.PyJWTError as error:
            raise _not_valid(error) from error
        try:
            claims = jwt.decode(
                token,
                key.key,
                algorithms=list(ALGORITHMS),
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise _not_valid(error) from error
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            # It names an algorithm of another kind of key.
            raise _not_valid("its algorithm is not that of its key") from error
        return self._with_role(claims)

    def _with_role(self, claims: dict[str, Any]) -> Principal:
        claim: Any = claims
        for part in self._role_claim.split("."):
            claim = claim.get(part, ()) if isinstance(claim, dict) else ()
        listed = claim if isinstance(claim, list) else [claim]
        roles = {listed_role for listed_role in listed if isinstance(listed_role, str)}
        name = str(claims.get("preferred_username") or claims["sub"])
        # Not by the name that is shown: people may choose it themselves.
        identities = frozenset({f"sub:{claims['sub']}", *(f"role:{role}" for role in roles)})
        if roles & _ROLES:
            is_admin = "lineage-admin" in roles
            return Principal(
                name,
                "admin" if is_admin else "reader",
                rows=is_admin or "lineage-rows" in roles,
                delete="lineage-delete" in roles,
                auth="oidc",
                identities=identities,
                erase="lineage-erase" in roles,
                access="lineage-access" in roles,
                watch="lineage-watch" in roles,
            )
        raise ProblemError(
            HTTPStatus.FORBIDDEN,
            f"{name} has no role here",
            hint=f"the claim {self._role_claim} must list lineage-reader, lineage-rows, lineage-delete, "
            "lineage-erase, lineage-access, lineage-watch or lineage-admin",
        )

    def _signing_keys(self) -> Keys:
        if self._keys is None:
            self._keys = jwt.PyJWKClient(self._keys_address(), cache_keys=True, timeout=10)
        return self._keys

    def _keys_address(self) -> str:
        """Where the issuer keeps its keys (OpenID Connect Discovery 1.0, section 4)."""
        import json
        import urllib.request

        address = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                keys_url = json.load(answer)["jwks_uri"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ProblemError(
                HTTPStatus.SERVICE_UNAVAILABLE, "the issuer of tokens does not answer"
            ) from error
        if not str(keys_url).startswith(("https://", "http://")):
            raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, "the issuer names no keys")
        return str(keys_url)


def hash_of(token: str) -> str:
    """What a file of tokens keeps of one. Tokens are random, so no salt and no slow hash is needed."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def new_token(
    name: str,
    role: Role,
    *,
    rows: bool,
    delete: bool = False,
    erase: bool = False,
    access: bool = False,
    watch: bool = False,
) -> tuple[str, str]:
    """A new token (256 random bits), and the lines for the file of tokens."""
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    lines = f'[[token]]\nname = "{quoted}"\nrole = "{role}"\nrows = {str(rows).lower()}\n'
    lines += f"delete = {str(delete).lower()}\n"
    # Written only where they are given: an older server, which does not know them, refuses the file.
    lines += "erase = true\n" * erase + "access = true\n" * access + "watch = true\n" * watch
    return token, lines + f'sha256 = "{hash_of(token)}"\n'


def read_tokens(path: Path) -> tuple[_Token, ...]:
    """The tokens of a file.

    Raises:
        SettingsError: the file can't be read or used.
    """
    return read_toml("LINEAGE_API_TOKENS", path, _Tokens).token


def _find(credentials: str, tokens: tuple[_Token, ...]) -> _Token | None:
    digest = hash_of(credentials)
    now = datetime.now(timezone.utc)
    match = None
    for token in tokens:
        # Compare all, in constant time: the duration reveals nothing.
        if hmac.compare_digest(token.sha256, digest) and not _is_over(token, now):
            match = token
    return match


def _read_checked_tokens(path: Path) -> tuple[_Token, ...]:
    tokens = read_tokens(path)
    _warn_of_admins(tokens)
    return tokens


def _warn_of_admins(tokens: tuple[_Token, ...]) -> None:
    """Log the tokens whose role included deleting before that became a separate right."""
    names = [
        token.name
        for token in tokens
        if token.role == "admin" and "delete" not in token.model_fields_set
    ]
    if names:
        structlog.get_logger().warning(
            "admins_may_not_delete",
            names=names,
            hint="write delete = true to the tokens that may delete applications, delete = false to others",
        )


def _bearer(authorization: str | None) -> str:
    """The token of an ``Authorization`` header; empty where there is none."""
    scheme, _, credentials = (authorization or "").partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else ""


def _is_over(token: _Token, now: datetime) -> bool:
    if token.expires is None:
        return False
    ends = token.expires if token.expires.tzinfo else token.expires.replace(tzinfo=timezone.utc)
    return ends <= now


def _not_valid(why: object) -> ProblemError:
    return _unauthorized(f"this token is not valid: {why}", "invalid_token")


def _unauthorized(detail: str, error: str) -> ProblemError:
    challenge = f'Bearer realm="lineage", error="{error}"' if error else 'Bearer realm="lineage"'
    return ProblemError(
        HTTPStatus.UNAUTHORIZED,
        detail,
        hint="send Authorization: Bearer TOKEN; on the command line: lineage login URL",
        headers={"WWW-Authenticate": challenge},
    )
