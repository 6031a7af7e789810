"""Dead letters: records that a part of the pipeline could not use, stored with the reason.

One record on the dead-letter topic is the unusable record's own key and value; headers hold its
former place and the reason. A record with the header ``resolved`` (and no value) marks the one at
the same place as replayed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from lineage_core.contract.message import DeadLetter
from lineage_core.errors import ContractError, LineageError

REASON_MAX = 2_000
"""Characters of a reason that are kept."""
APP_MAX = 512
_PLACE = re.compile(r"(.+)/([0-9]{1,19})/([0-9]{1,19})", re.DOTALL)
Headers: TypeAlias = list[tuple[str, bytes]]


class TopicPartitionOffset(NamedTuple):
    """Where a record is, or was, in Kafka."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True, slots=True)
class DeadRecord:
    """Why a record at ``place`` is a dead letter; ``app`` is empty where it is not known.

    ``service`` could not use it, ``at`` unix seconds. ``size``: of the value in bytes; ``cut``: the
    value was too large to come along and has to be read at ``place``. ``resolved``: it was replayed.
    """

    place: TopicPartitionOffset
    reason: str
    service: str
    at: float
    app: str = ""
    size: int = 0
    cut: bool = False
    resolved: bool = False

    def headers(self) -> Headers:
        """The headers of the record on the dead-letter topic."""
        fields = {
            "topic": self.place.topic,
            "partition": str(self.place.partition),
            "offset": str(self.place.offset),
            "reason": self.reason[:REASON_MAX],
            "app": self.app,
            "service": self.service,
            "at": f"{self.at:.3f}",
            "size": str(self.size),
        }
        fields |= {"cut": "1"} if self.cut else {}
        fields |= {"resolved": "1"} if self.resolved else {}
        return [(name, text.encode("utf-8", "replace")) for name, text in fields.items()]

    def message(self) -> DeadLetter | None:
        """The message for the verdict on the application; None if the application is not known."""
        if not self.app:
            return None
        return DeadLetter(
            app=self.app,
            place=str(self.place),
            reason=self.reason[:REASON_MAX],
            resolved=self.resolved,
        )


def read_dead_record(
    headers: Iterable[tuple[str, bytes | str | None]] | None, value: bytes | None
) -> DeadRecord:
    """Read the headers of a record on the dead-letter topic.

    Raises:
        ContractError: they are not the headers of a dead letter.
    """
    fields: dict[str, str] = {}
    for name, text in headers or ():
        fields[name] = text if isinstance(text, str) else (text or b"").decode("utf-8", "replace")
    try:
        place = TopicPartitionOffset(
            fields["topic"], int(fields["partition"]), int(fields["offset"])
        )
        at = float(fields.get("at") or 0.0)
        size = int(fields.get("size") or len(value or b""))
    except KeyError as error:
        raise ContractError("missing in a dead letter", where=f"header {error}") from error
    except ValueError as error:
        raise ContractError(str(error), where="headers of a dead letter") from error
    return DeadRecord(
        place,
        fields.get("reason", ""),
        fields.get("service", ""),
        at,
        fields.get("app", ""),
        size,
        fields.get("cut") == "1",
        fields.get("resolved") == "1",
    )


def parse_topic_partition_offset(text: str) -> TopicPartitionOffset:
    """Read ``topic/partition/offset``.

    Raises:
        ContractError: it is not of this form.
    """
    match = _PLACE.fullmatch(text)
    if match is None:
        raise ContractError(f"{text!r:.80} is not TOPIC/PARTITION/OFFSET", where="place")
    topic, partition, offset = match.groups()
    return TopicPartitionOffset(topic, int(partition), int(offset))


def app_of_key(key: bytes | None) -> str:
    """The application that a record's key names; empty if the key names none."""
    try:
        text = (key or b"").decode("utf-8")
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() and len(text) <= APP_MAX else ""


def dead_letter_reason(error: BaseException) -> str:
    """An error as the reason of a dead letter: its text, and its kind where that adds something."""
    text = " ".join(str(error).split())
    reason = text if isinstance(error, LineageError) and text else f"{type(error).__name__}: {text}"
    return reason[:REASON_MAX]
