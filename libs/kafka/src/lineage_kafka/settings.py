"""How to reach Kafka: settings that emitter, linker, writer and the command line share.

A mixin of fields for a service's own settings, so that field ``x`` is ``LINEAGE_X`` everywhere. A
secret is given by value or, better, by the path of a file that holds it.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field, SecretStr, ValidationError

from lineage_core.environment.secrets import SecretFileError, read_secret
from lineage_core.environment.setting_problems import setting_problems
from lineage_core.errors import LineageError
from lineage_kafka.topics import Topics

SECRETS = {
    "kafka_sasl_password": "sasl.password",
    "kafka_ssl_key_password": "ssl.key.password",
}
"""Fields that hold secrets (with ``_file``: paths of files that do), and their names in librdkafka."""

_PLAIN = {
    "kafka": "bootstrap.servers",
    "kafka_security_protocol": "security.protocol",
    "kafka_sasl_mechanism": "sasl.mechanism",
    "kafka_sasl_username": "sasl.username",
    "kafka_ssl_ca_file": "ssl.ca.location",
    "kafka_ssl_certificate_file": "ssl.certificate.location",
    "kafka_ssl_key_file": "ssl.key.location",
}


METADATA_MS = 5_000
"""Age at which consumers fetch metadata again.

A broker that has just started does not list all topics: the leader of a group then assigns no
partitions, and does not check again before this age.
"""


class KafkaSettingsError(LineageError):
    """A setting for Kafka that can't be used."""


class KafkaSettings(BaseModel):
    """Settings of a client of Kafka."""

    kafka: str = Field("", description="Kafka's bootstrap servers: HOST:PORT, several by commas")
    topic_prefix: str = Field(
        "", pattern=r"^[A-Za-z0-9._-]{0,100}$", description="put before the names of all topics"
    )
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
    )
    kafka_sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "", description="PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
    )
    kafka_sasl_username: str = Field("", description="who to log in as")
    kafka_sasl_password: SecretStr = Field(
        SecretStr(""), description="the password; better in a file"
    )
    kafka_sasl_password_file: str = Field("", description="file that holds the password")
    kafka_ssl_ca_file: str = Field(
        "", description="PEM file of authorities to trust; default: the system's"
    )
    kafka_ssl_certificate_file: str = Field("", description="PEM file of the client's certificate")
    kafka_ssl_key_file: str = Field("", description="PEM file of the client's private key")
    kafka_ssl_key_password: SecretStr = Field(
        SecretStr(""), description="password of the private key; better in a file"
    )
    kafka_ssl_key_password_file: str = Field(
        "", description="file that holds the private key's password"
    )

    @property
    def topics(self) -> Topics:
        """Names of the topics."""
        return Topics(self.topic_prefix)

    def kafka_secret(self, field: str) -> str:
        """A secret by value or from its file; empty when it is not set.

        Raises:
            KafkaSettingsError: its file can't be read.
        """
        path = getattr(self, f"{field}_file")
        if not path:
            value: SecretStr = getattr(self, field)
            return value.get_secret_value()
        try:
            return read_secret(path)
        except SecretFileError as error:
            raise KafkaSettingsError(str(error)) from error

    def librdkafka_config(self) -> dict[str, str]:
        """Properties of confluent-kafka clients.

        Raises:
            KafkaSettingsError: a secret's file can't be read.
        """
        config = self.public_config()
        for field, name in SECRETS.items():
            secret = self.kafka_secret(field)
            if secret:
                config[name] = secret
        return config

    def public_config(self) -> dict[str, str]:
        """The same without the secrets."""
        return {name: value for field, name in _PLAIN.items() if (value := getattr(self, field))}

    def aiokafka_config(self) -> dict[str, Any]:
        """Keyword arguments of aiokafka clients.

        Raises:
            KafkaSettingsError: a file can't be read.
        """
        config: dict[str, Any] = {
            "bootstrap_servers": self.kafka.split(","),
            "security_protocol": self.kafka_security_protocol,
        }
        if self.kafka_security_protocol.startswith("SASL"):
            config["sasl_mechanism"] = self.kafka_sasl_mechanism or "PLAIN"
            config["sasl_plain_username"] = self.kafka_sasl_username
            config["sasl_plain_password"] = self.kafka_secret("kafka_sasl_password")
        if self.kafka_security_protocol.endswith("SSL"):
            config["ssl_context"] = self.ssl_context()
        return config

    def ssl_context(self) -> ssl.SSLContext:
        """TLS with a check of the broker's certificate and name.

        Raises:
            KafkaSettingsError: a file can't be read.
        """
        try:
            context = ssl.create_default_context(cafile=self.kafka_ssl_ca_file or None)
            if self.kafka_ssl_certificate_file:
                context.load_cert_chain(
                    self.kafka_ssl_certificate_file,
                    self.kafka_ssl_key_file or None,
                    self.kafka_secret("kafka_ssl_key_password") or None,
                )
        except OSError as problem:
            raise KafkaSettingsError(f"a file of kafka_ssl_* can't be used: {problem}") from problem
        return context


Settings = TypeVar("Settings", bound=KafkaSettings)


def settings_from_environment(
    kind: Callable[[], Settings],
    error: Callable[[str], Exception],
    advice: str = "give the address as HOST:PORT",
) -> Settings:
    """Settings of a service from the environment, in which Kafka must be named.

    Args:
        kind: class of the settings.
        error: makes the error of a text.
        advice: what to do where no Kafka is named.

    Raises:
        Exception: what ``error`` makes; no value is shown, for it may be a secret.
    """
    try:
        settings = kind()
    except ValidationError as problem:
        raise error(setting_problems(problem)) from None
    if not settings.kafka:
        raise error(f"LINEAGE_KAFKA is not set: {advice}")
    return settings
