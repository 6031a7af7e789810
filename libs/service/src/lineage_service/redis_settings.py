"""How to reach Redis: settings that the linker and the query API share, as a mixin of fields; its problems in words.

A secret is given by value or, better, by the path of a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field, SecretStr, field_validator

from lineage_core.environment.secrets import SecretFileError, read_secret
from lineage_core.errors import LineageError

_PROBLEM_CHARS_MAX = 200
_NO_EVICTION = "noeviction"
_EVICTS = (
    "it drops keys when it is full (maxmemory-policy {policy}), and lineage with them: set maxmemory-policy "
    "to noeviction, in its configuration and by redis-cli config set"
)
_ADVICE = (
    (
        re.compile(r"(?i)certificate.verify.failed"),
        "its certificate is not trusted: LINEAGE_REDIS_CA_FILE must name the authority that issued "
        "it, and LINEAGE_REDIS a host that it is made out to",
    ),
    (
        re.compile(r"(?i)WRONGPASS|NOAUTH|AuthenticationError|username-password"),
        "it refuses the login: check LINEAGE_REDIS_USERNAME and LINEAGE_REDIS_PASSWORD_FILE",
    ),
    (
        re.compile(r"(?i)NOPERM|NoPermissionError"),
        "its ACL user lacks a right: docs/guide/security.md has the line to give it",
    ),
    (
        re.compile(r"(?i)closed by server|reset by peer|wrong.version.number"),
        "where it speaks TLS, and only there, LINEAGE_REDIS begins with rediss://",
    ),
)


class RedisSettingsError(LineageError):
    """A setting for Redis that can't be used."""


class RedisSettings(BaseModel):
    """Settings of a client of Redis."""

    redis: str = Field(
        "",
        pattern=r"^(rediss?://.*)?$",
        description="URL of Redis, redis:// or, with TLS, rediss://",
    )
    redis_username: str = Field("", description="ACL user to log in as")
    redis_password: SecretStr = Field(SecretStr(""), description="the password; better in a file")
    redis_password_file: str = Field("", description="file that holds the password")
    redis_ca_file: str = Field(
        "", description="PEM file of authorities to trust; default: the system's"
    )
    redis_certificate_file: str = Field("", description="PEM file of the client's certificate")
    redis_key_file: str = Field("", description="PEM file of the client's private key")

    @field_validator("redis")
    @classmethod
    def _without_password(cls, url: str) -> str:
        if "@" in url.partition("://")[2].partition("/")[0]:
            message = "names a user or password: use redis_username and redis_password_file"
            raise ValueError(message)
        return url

    def redis_arguments(self) -> dict[str, Any]:
        """Login and TLS, as arguments of a client or a pool that is made of the URL.

        Raises:
            RedisSettingsError: a secret's file can't be read.
        """
        arguments: dict[str, Any] = {}
        if self.redis.startswith("rediss://"):
            arguments["ssl_cert_reqs"] = "required"
            arguments["ssl_check_hostname"] = True
            for name, path in (
                ("ssl_ca_certs", self.redis_ca_file),
                ("ssl_certfile", self.redis_certificate_file),
                ("ssl_keyfile", self.redis_key_file),
            ):
                if path:
                    arguments[name] = path
        password = self.redis_password.get_secret_value()
        if self.redis_password_file:
            try:
                password = read_secret(self.redis_password_file)
            except SecretFileError as error:
                raise RedisSettingsError(f"redis_password_file: {error}") from error
        if password:
            arguments["password"] = password
        if self.redis_username:
            arguments["username"] = self.redis_username
        return arguments


def redis_problem(text: str) -> str:
    """The message of a Redis error, with advice where its text matches a known problem.

    Args:
        text: the error's type and message.

    Returns:
        The text, shortened (it may hold values of the command that failed), and the advice.
    """
    advice = [f" ({advice})" for sign, advice in _ADVICE if sign.search(text)]
    if len(text) > _PROBLEM_CHARS_MAX:
        text = f"{text[:60]} ... {text[-100:]}"
    return "".join([text, *advice[:1]])


def eviction_problem(memory: Mapping[str, Any]) -> str:
    """What is wrong where Redis drops keys when it is full; empty where it does not.

    Args:
        memory: the section ``memory`` of its INFO.
    """
    policy = memory.get("maxmemory_policy", _NO_EVICTION)
    return "" if policy == _NO_EVICTION else _EVICTS.format(policy=policy)
