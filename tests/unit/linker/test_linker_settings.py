"""The linker's settings, metrics, logs and readiness: as documented, and without secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiokafka.errors import KafkaConnectionError, MessageSizeTooLargeError
from faust.auth import SASLCredentials, SSLCredentials
from faust.exceptions import FaustError
from pydantic import SecretStr
from redis.exceptions import ConnectionError, OutOfMemoryError, ResponseError

from lineage_kafka.settings import KafkaSettings
from lineage_linker.app import credentials, sending_error
from lineage_linker.errors import (
    BrokerUnavailableError,
    LinkerSettingsError,
    RecordRefusedError,
    StateUnavailableError,
)
from lineage_linker.metrics import Metrics
from lineage_linker.redis_access import unavailable_or_broken
from lineage_linker.settings import LinkerSettings, read_settings
from tests.support.reference_pages import documented_metrics, metric_names, section

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LinkerSettings.model_fields:
        monkeypatch.delenv(f"LINEAGE_{name.upper()}", raising=False)


def test_the_table_of_the_documentation_is_the_settings() -> None:
    rows = []
    for name, field in LinkerSettings.model_fields.items():
        if name not in KafkaSettings.model_fields:
            unset = field.default == "" or isinstance(field.default, SecretStr)
            default = "" if unset else f"`{field.default}`"
            rows.append(f"| `LINEAGE_{name.upper()}` | {default} | {field.description} |")
    assert section("settings.md", "Settings of the linker") == rows


def test_the_table_of_the_documentation_is_the_metrics() -> None:
    assert documented_metrics("Linker") == metric_names(Metrics().registry)


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINEAGE_KAFKA", "there:9092")
    monkeypatch.setenv("LINEAGE_REDIS", "redis://there:6379/3")
    monkeypatch.setenv("LINEAGE_LINKER_GROUP", "another")
    monkeypatch.setenv("LINEAGE_TOPIC_PREFIX", "x.")
    settings = read_settings()
    assert (settings.linker_group, settings.topics.flow) == ("another", "x.lineage-flow")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KAFKA", ""),
        ("REDIS", ""),
        ("REDIS", "http://there"),
        ("REDIS", "redis://me:hush@there:6379/0"),
        ("LINKER_HTTP_PORT", "hush"),
        ("LINKER_COMPLETE_S", "0"),
        ("TOPIC_PREFIX", "hush!"),
        ("LOG_LEVEL", "hush"),
    ],
)
def test_unusable_settings_are_named_but_not_shown(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("LINEAGE_KAFKA", "there:9092")
    monkeypatch.setenv("LINEAGE_REDIS", "redis://there:6379/0")
    monkeypatch.setenv(f"LINEAGE_{name}", value)
    with pytest.raises(LinkerSettingsError, match=f"LINEAGE_{name}") as caught:
        read_settings()
    assert "hush" not in str(caught.value)


def test_redis_with_tls_and_a_login(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush\n")
    settings = LinkerSettings(
        redis="rediss://there:6380/2",
        redis_username="linker",
        redis_password_file=str(secret),
        redis_ca_file="/ca.pem",
    )
    assert "hush" not in repr(settings)
    with settings.redis_client() as client:
        found = client.connection_pool.connection_kwargs
    assert (found["username"], found["password"]) == ("linker", "hush")
    assert (found["ssl_ca_certs"], found["ssl_cert_reqs"]) == ("/ca.pem", "required")
    assert found["ssl_check_hostname"]
    assert (found["host"], found["port"], found["db"]) == ("there", 6380, 2)
    with pytest.raises(LinkerSettingsError, match="redis_password_file"):
        LinkerSettings(redis="redis://there", redis_password_file="/no/file").redis_client()


def test_kafka_with_tls_and_a_login() -> None:
    assert credentials(LinkerSettings(kafka="k:1")) is None
    found = credentials(LinkerSettings(kafka="k:1", kafka_security_protocol="SSL"))
    assert isinstance(found, SSLCredentials)
    found = credentials(
        LinkerSettings(
            kafka="k:1",
            kafka_security_protocol="SASL_SSL",
            kafka_sasl_mechanism="SCRAM-SHA-512",
            kafka_sasl_username="me",
            kafka_sasl_password=SecretStr("hush"),
        )
    )
    assert isinstance(found, SASLCredentials)
    assert (found.username, found.password) == ("me", "hush")
    assert found.ssl_context is not None
    assert "hush" not in repr(found)


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ConnectionError("refused"), True),
        (OutOfMemoryError("command not allowed"), True),
        (ResponseError("OOM command not allowed when used memory > 'maxmemory'"), True),
        (ResponseError("MISCONF Redis is configured to save"), True),
        (ResponseError("NOPERM this user has no permissions"), True),
        (ResponseError("WRONGTYPE Operation against a key"), False),
        (KeyError("a bug"), False),
    ],
)
def test_what_passes_and_what_does_not(error: Exception, passes: bool) -> None:
    with (
        pytest.raises(StateUnavailableError if passes else type(error)),
        unavailable_or_broken(),
    ):
        raise error


def test_what_kafka_means() -> None:
    wrapped = FaustError("while sending")
    wrapped.__cause__ = MessageSizeTooLargeError("9 MB")
    assert isinstance(sending_error(wrapped), RecordRefusedError)
    assert isinstance(sending_error(KafkaConnectionError("x")), BrokerUnavailableError)
