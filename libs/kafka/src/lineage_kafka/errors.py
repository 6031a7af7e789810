"""The causes of errors of Kafka and their remedies, with one wording for all clients.

Clients name the same cause in different words, and aiokafka hides it ("Unable to bootstrap").
"""

from __future__ import annotations

RIGHTS = "docs/guide/security.md lists the rights that each part needs"
_ADVICE = (
    (
        ("certificate verify failed", "certificate_verify_failed", "certificate could not be"),
        "Kafka's certificate is not trusted: LINEAGE_KAFKA_SSL_CA_FILE must name the authority that "
        "issued it, and LINEAGE_KAFKA a host that it is made out to",
    ),
    (
        ("authenticationfailed", "authentication failed", "sasl authentication error"),
        "Kafka refuses the login: check LINEAGE_KAFKA_SASL_USERNAME, LINEAGE_KAFKA_SASL_PASSWORD_FILE "
        "and LINEAGE_KAFKA_SASL_MECHANISM",
    ),
    (
        ("authorizationfailed", "authorization failed", "not authorized"),
        f"the Kafka user lacks a right: {RIGHTS}",
    ),
    (
        ("wrong version number", "ssl handshake", "disconnected", " closed"),
        "LINEAGE_KAFKA_SECURITY_PROTOCOL must be that of Kafka's listener",
    ),
    (
        ("timed out", "brokers are down", "connect call failed", "connection refused"),
        "see whether Kafka runs at the address in LINEAGE_KAFKA, and whether "
        "LINEAGE_KAFKA_SECURITY_PROTOCOL is that of its listener",
    ),
)


def kafka_problem(error: BaseException | str) -> str:
    """The text of an error of a client of Kafka, with the remedy if the cause is known."""
    text = " ".join(str(error).split())
    if not isinstance(error, str) and type(error).__name__ not in text:
        text = f"{type(error).__name__}: {text}"
    for signs, advice in _ADVICE:
        if any(sign in text.lower() for sign in signs):
            return f"{text} ({advice})"
    return text
