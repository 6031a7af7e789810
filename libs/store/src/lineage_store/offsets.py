"""Kafka's offsets in a store: they move in the transaction that stores the records, and only from where a writer knows them to be."""

from __future__ import annotations

from dataclasses import dataclass


def offset_key(group: str, topic: str, partition: int) -> str:
    """The name of an offset in a store."""
    return f"{group}|{topic}|{partition}"


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """A move of the offset ``key`` to ``next``, from ``first``; None: from nowhere, as it was never stored."""

    key: str
    first: int | None
    next: int
