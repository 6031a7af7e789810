"""What an audit record may hold of a question: no secrets, and no more than a syslog server takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from itertools import takewhile
from typing import Any
from urllib.parse import quote, unquote_plus

from lineage_core.environment.redaction import REDACTED, without_secrets

BODY_BYTES_MAX = 2_048
"""Maximum size of a request body in a record; a whole record stays below 8 KiB, which any syslog server accepts."""
SCANNED_MAX = 16_384
"""Characters of a request body that are searched for secrets: the rest is not recorded."""
CHARACTERS_PER_TEXT = 16
"""What a text counts beside its own: many short ones take longer."""
SCANNED_PER_CHARACTER = 4
"""Characters of a path that are searched for secrets, for each that is recorded."""
OMITTED = "..."


def question_fields(body: bytes) -> dict[str, Any]:
    """The fields of a record for a question: JSON without secrets, cut if it is long, and a digest that identifies it.

    Args:
        body: JSON as it was sent; other bodies have their digest alone.
    """
    if not body:
        return {"question": None}
    digest = {"question_bytes": len(body), "question_sha256": sha256(body).hexdigest()}
    with suppress(ValueError, RecursionError):
        redactor = _Redactor()
        redacted = redactor.of(json.loads(body))
        text = json.dumps(redacted, allow_nan=False)
        is_complete = redactor.characters_remaining > 0 and len(text) <= BODY_BYTES_MAX
        return {**digest, "question": redacted if is_complete else cut(text, BODY_BYTES_MAX)}
    # Not recorded: the service refuses a body that is not JSON.
    return {**digest, "question": None}


class _Redactor:
    """Removes secrets from JSON, as far as a record may contain it: the rest is not processed.

    ``characters_remaining``: how many more it processes.
    """

    def __init__(self) -> None:
        self.characters_remaining = SCANNED_MAX

    def of(self, value: Any) -> Any:
        """The recorded form of a value."""
        if isinstance(value, str):
            return self._redact_text(value)
        self.characters_remaining -= 1
        if isinstance(value, list):
            return [self.of(element) for element in takewhile(self._is_within_limit, value)]
        if isinstance(value, dict):
            return {
                self._redact_text(name): self._redact_member(name, element)
                for name, element in takewhile(self._is_within_limit, value.items())
            }
        return value

    def _is_within_limit(self, _: object) -> bool:
        return self.characters_remaining > 0

    def _redact_member(self, name: str, value: Any) -> Any:
        if not isinstance(value, str):
            return self.of(value)
        redacted, text = self._redact_text(value), f"{name}={value}"
        return (
            REDACTED
            if self.characters_remaining > 0 and without_secrets(text) != text
            else redacted
        )

    def _redact_text(self, text: str) -> str:
        self.characters_remaining -= len(text) + CHARACTERS_PER_TEXT
        # Not its beginning: a secret that is cut can't be recognised.
        return without_secrets(text) if self.characters_remaining > 0 else OMITTED


def redacted_beginning(text: str, most: int, redact: Callable[[str], str]) -> str:
    """A text without secrets, or the recorded part of a longer one.

    ``redact``: removes the secrets.
    """
    near = text[: SCANNED_PER_CHARACTER * most]
    redacted = redact(near)
    # A secret that is cut can't be recognised: the cut must be far beyond the recorded part, else nothing is recorded.
    return OMITTED if len(near) < len(text) and len(redacted) < 2 * most else redacted


def redacted_query(query: str, most: int) -> str:
    """The first parameters of a query string, up to the recorded number."""
    parameters, characters = list[str](), 0
    for parameter in query.split("&"):
        parameters.append(redacted_beginning(parameter, most, _redacted_parameter))
        characters += len(parameters[-1]) + 1
        if characters > most:
            break
    return "&".join(parameters)


def _redacted_parameter(text: str) -> str:
    """A parameter of a query as it was sent, but for a secret in it, however that is spelled."""
    plain = unquote_plus(text)
    hidden = without_secrets(plain)
    return text if hidden == plain else quote(hidden, safe="=*")


def cut(text: str, most: int) -> str:
    """The beginning of a text, of at most so many bytes as JSON."""
    text = text[:most]
    while len(written := json.dumps(text)) > most + 2:
        text = text[: len(text) * most // len(written)]
    return text
