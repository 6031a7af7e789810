"""What Kafka's clients say, and what to do about it."""

from __future__ import annotations

import pytest
from aiokafka.errors import AuthenticationFailedError, GroupAuthorizationFailedError

from lineage_emitter.errors import SettingsError
from lineage_emitter.settings import read_settings
from lineage_kafka.errors import kafka_problem


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (AuthenticationFailedError("invalid"), "LINEAGE_KAFKA_SASL_PASSWORD_FILE"),
        ("SASL authentication error: Authentication failed", "LINEAGE_KAFKA_SASL_PASSWORD_FILE"),
        (OSError("[SSL: CERTIFICATE_VERIFY_FAILED] of 127.0.0.1"), "LINEAGE_KAFKA_SSL_CA_FILE"),
        ("broker certificate could not be verified, timed out", "LINEAGE_KAFKA_SSL_CA_FILE"),
        (GroupAuthorizationFailedError("lineage-linker"), "docs/guide/security.md"),
        ("Connection at 127.0.0.1:9092 closed", "LINEAGE_KAFKA_SECURITY_PROTOCOL"),
        ("Local: Timed out; 1/1 brokers are down", "see whether Kafka runs"),
    ],
)
def test_a_cause_comes_with_what_to_do(error: Exception | str, advice: str) -> None:
    said = kafka_problem(error)
    assert advice in said
    assert said.count("(") <= 2


def test_other_errors_are_told_as_they_are() -> None:
    assert kafka_problem(ValueError("no such\nthing")) == "ValueError: no such thing"


def test_a_setting_that_can_not_be_used_is_not_shown() -> None:
    with pytest.raises(SettingsError) as raised:
        read_settings(kafka_sasl_password=b"\xff a secret", dispatcher="secret, too")
    error: BaseException | None = raised.value
    while error is not None:
        assert "secret" not in str(error)
        error = error.__cause__
