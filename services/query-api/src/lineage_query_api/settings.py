"""Settings of the query API: ``LINEAGE_*`` in the environment. docs/reference/settings.md has the table."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Literal

from limits import parse
from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from lineage_core.environment.secrets import secret_from_environment
from lineage_core.environment.setting_problems import setting_problems
from lineage_query_api.errors import SettingsError
from lineage_service.redis_settings import RedisSettings
from lineage_store.url import DEFAULT_STORE

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
TOKEN = r"^([A-Za-z0-9_.~-]{16,500})?$"
"""A text that is used in a URL without escaping."""
MAPPED_BITS = 96
"""Before an IPv4 address in the IPv6 address that it is mapped to (RFC 4291, section 2.5.5.2)."""
SCOPES = r"^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*$"
"""RFC 6749, section 3.3."""
PAGE_ISSUER = re.compile(
    r"((?:https://|http://(?=(?:localhost|127\.0\.0\.1)(?:[:/]|$)))[A-Za-z0-9.-]+(?::[0-9]{1,5})?)"
    r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?",
)
"""An issuer to which browsers may be redirected, and its origin, which the page's policy contains unescaped."""


class QueryApiSettings(BaseSettings):
    """What an operator can set."""

    model_config = SettingsConfigDict(env_prefix="LINEAGE_", extra="ignore", frozen=True)

    store: str = Field(
        DEFAULT_STORE, min_length=1, description="where the lineage is: sqlite:///PATH, neo4j://..."
    )
    api_host: str = Field("127.0.0.1", description="address to listen on")
    api_port: int = Field(8484, ge=0, le=65535, description="its port; 0: any free one")
    api_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="names the server goes by (Host header), with commas; on loopback its own"
    )
    api_roots: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="folders or prefixes, with commas, below which rows of files are read"
    )
    api_tokens: Path | None = Field(
        None, description="file of bearer tokens, hashed (see lineage token)"
    )
    api_grants: Path | None = Field(
        None,
        description="file of grants: which applications and datasets callers may trace, of which they may read rows, and which columns of these are masked; none: all",
    )
    api_token: Annotated[str, Field(pattern=TOKEN)] = Field(
        "",
        description="without the two: the one token of who runs the server (16 signs or more); default: a new one at each start",
    )
    api_token_file: str = Field(
        "", description="file that holds this token; comes before the token itself"
    )
    api_open: bool = Field(
        False, description="instead: whoever reaches the server on loopback may do everything"
    )
    oidc_issuer: str = Field("", description="issuer of JWTs that are taken, too: https://...")
    oidc_audience: str = Field("", description="their audience")
    oidc_role_claim: str = Field(
        "roles", description="claim that lists lineage-reader, -rows, -delete, -admin"
    )
    oidc_client_id: Annotated[str, Field(max_length=512, pattern=r"^[\x20-\x7e]*$")] = Field(
        "",
        description="the page's public client at the issuer: people sign in there (code flow with PKCE); empty: the page asks for a token",
    )
    oidc_scopes: Annotated[str, Field(max_length=1024, pattern=SCOPES)] = Field(
        "openid profile",
        description="scopes that the page asks for, with spaces; openid must be among them",
    )
    api_rate: str = Field(
        "1200/minute",
        description="requests of one caller; to all servers together with LINEAGE_REDIS",
    )
    api_proxies: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="addresses or networks, with commas, of proxies whose X-Forwarded-For says who calls",
    )
    api_audit: str = Field(
        "",
        description="where each request, and each `lineage erase` and `lineage access`, is recorded before it is answered: a folder, stdout, kafka:TOPIC, syslog://HOST:514, syslog+tcp://HOST:514 or syslog:///dev/log; empty: nowhere",
    )
    api_audit_days: int = Field(
        400, ge=1, le=36_500, description="days that files of such a folder are kept"
    )
    api_query_s: float = Field(30.0, gt=0, le=600, description="seconds that one question may take")
    api_query_mb: int = Field(
        64, ge=1, description="megabytes of rows' texts that one answer may hold"
    )
    api_stream_s: float = Field(
        600.0,
        gt=0,
        le=86_400,
        description="seconds that an answer may take which is streamed or made as a file, and what an admin deletes or writes",
    )
    api_stream_mb: int = Field(
        4096, ge=1, description="megabytes of rows' texts that such an answer may hold"
    )
    api_query_blocks: int = Field(200_000, ge=1, description="blocks that one question may load")
    api_message_mb: int = Field(
        32,
        ge=1,
        le=65_536,
        description="megabytes of applications' messages that all questions hold at once; in memory they are some twenty times as much",
    )
    api_parallel: int = Field(
        4, ge=1, le=64, description="questions that are traced, searched or read from files at once"
    )
    spark_master: str = Field(
        "",
        description="Spark's master, such as local[1], or a server of Spark Connect (sc://host:port), by which rows of DataFrames are traced; empty: not here",
    )
    api_spark_parallel: int = Field(
        1, ge=1, le=64, description="questions about DataFrames that are traced at once"
    )
    api_request_s: float = Field(
        20.0, gt=0, le=600, description="seconds in which a request must have come to its end"
    )
    api_connections: int = Field(
        512,
        ge=16,
        le=100_000,
        description="connections at once; one more ends that whose client is waited for longest",
    )
    api_body_bytes: int = Field(1 << 20, ge=1024, description="longest body of a request")
    api_export_items: int = Field(1_000_000, ge=1, description="items that one export may hold")
    api_kept: int = Field(8, ge=1, le=1000, description="applications that are kept open")
    api_cache_mb: int = Field(256, ge=16, description="megabytes of unpacked blocks kept")
    api_metrics_applications: int = Field(
        0, ge=0, le=1000, description="latest applications whose completeness /metrics shows"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least important events that are logged"
    )

    @field_validator("api_hosts", "api_proxies", "api_roots", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("api_proxies")
    @classmethod
    def _are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for item in value:
            ip_network(item)
        return value

    @property
    def trusted_proxies(self) -> tuple[str, ...]:
        """Networks of the proxies; those of IPv4 also as addresses that IPv6 maps to them, as sockets of both families name them."""
        return tuple(form for item in self.api_proxies for form in _both_forms(item))

    @field_validator("api_rate")
    @classmethod
    def _is_rate(cls, value: str) -> str:
        parse(value)
        return value

    @property
    def is_local(self) -> bool:
        """Whether the server is that of one user, on their machine."""
        return self.api_tokens is None and not self.oidc_issuer

    @property
    def is_open(self) -> bool:
        """Whether callers need no authentication."""
        return self.is_local and self.api_open

    @property
    def page_issuer(self) -> str:
        """Origin of the issuer that people sign in at by the page; empty: at none."""
        origin = PAGE_ISSUER.fullmatch(self.oidc_issuer) if self.oidc_client_id else None
        return origin[1] if origin else ""

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.api_host in LOOPBACK


def _both_forms(network: str) -> tuple[str, ...]:
    parsed = ip_network(network)
    if isinstance(parsed, IPv6Network):
        mapped = parsed.network_address.ipv4_mapped
        if mapped is None or parsed.prefixlen < MAPPED_BITS:
            return (str(parsed),)
        parsed = IPv4Network((mapped, parsed.prefixlen - MAPPED_BITS))
    bits = parsed.prefixlen + MAPPED_BITS
    return str(parsed), f"::ffff:{parsed.network_address}/{bits}"


class _Redis(BaseSettings, RedisSettings):
    model_config = SettingsConfigDict(env_prefix="LINEAGE_", extra="ignore", frozen=True)


def read_redis_settings() -> RedisSettings:
    """Where servers count the requests of callers together, from the environment.

    Raises:
        SettingsError: one can't be used; no value is shown, for it may be a secret.
    """
    try:
        return _Redis()
    except ValidationError as error:
        raise SettingsError(setting_problems(error)) from None


def read_settings(**overrides: object) -> QueryApiSettings:
    """Settings from the environment; ``overrides`` take precedence.

    Raises:
        SettingsError: one can't be used, or together they would let anybody read.
    """
    try:
        settings = QueryApiSettings(**overrides)  # type: ignore[arg-type]
        if settings.api_token_file and "api_token" not in overrides:
            named = {"LINEAGE_API_TOKEN_FILE": settings.api_token_file}
            token = secret_from_environment(named, "LINEAGE_API_TOKEN", SettingsError)
            if not token:
                raise SettingsError(f"LINEAGE_API_TOKEN_FILE: {settings.api_token_file} is empty")
            settings = QueryApiSettings(**overrides, api_token=token)  # type: ignore[arg-type]
    except ValidationError as error:
        raise SettingsError(setting_problems(error)) from None
    if settings.is_local and not settings.on_loopback:
        raise SettingsError(
            f"LINEAGE_API_HOST is {settings.api_host}, which others can reach: set LINEAGE_API_TOKENS "
            "(make one with `lineage token`) or LINEAGE_OIDC_ISSUER, or listen on 127.0.0.1"
        )
    if settings.api_grants is not None and settings.is_local:
        raise SettingsError(
            "LINEAGE_API_GRANTS is set, but this server knows no callers apart: set LINEAGE_API_TOKENS or "
            "LINEAGE_OIDC_ISSUER, too"
        )
    if settings.api_grants is not None and settings.api_metrics_applications:
        raise SettingsError(
            "LINEAGE_API_GRANTS is set: LINEAGE_API_METRICS_APPLICATIONS must be 0, for /metrics tells names of "
            "applications to whoever reaches it"
        )
    if settings.oidc_issuer and not settings.oidc_audience:
        raise SettingsError("LINEAGE_OIDC_ISSUER is set: LINEAGE_OIDC_AUDIENCE must be, too")
    if settings.oidc_client_id:
        _check_page_client(settings)
    return settings


def _check_page_client(settings: QueryApiSettings) -> None:
    if not settings.oidc_issuer:
        raise SettingsError("LINEAGE_OIDC_CLIENT_ID is set: LINEAGE_OIDC_ISSUER must be, too")
    if not settings.page_issuer:
        raise SettingsError(
            "LINEAGE_OIDC_CLIENT_ID is set: LINEAGE_OIDC_ISSUER must be an address of https (on loopback of http, too) "
            "without a user, a query or a fragment"
        )
    if "openid" not in settings.oidc_scopes.split(" "):
        raise SettingsError("LINEAGE_OIDC_SCOPES must have openid among them")
