"""Events as CSV, semicolons between the fields: ``flowId;hashIn;hashOut;val``."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import NamedTuple

from xxhash import xxh3_64_hexdigest

FIELDS = 4
VALUE_CHARACTERS = 200
"""As many as Lineage Master keeps."""


class EventError(ValueError):
    """An event can't be read."""


class Event(NamedTuple):
    """One flow of one record; ``val`` is empty where values are not asked for."""

    flow_id: str
    hash_in: str
    hash_out: str
    val: str


def encode(flow_id: str, hash_in: str, hash_out: str, val: str = "") -> bytes:
    """One line, without its end. Only a value may hold what needs quotes."""
    val = val[:VALUE_CHARACTERS]
    if any(mark in val for mark in ';"\r\n'):
        val = '"' + val.replace('"', '""') + '"'
    return f"{flow_id};{hash_in};{hash_out};{val}".encode(errors="surrogateescape")


def decode(lines: Iterable[bytes]) -> list[Event]:
    """Events of messages, in their order.

    Raises:
        EventError: a line has not the four fields.
    """
    events = []
    texts = (line.decode(errors="replace") for line in lines)
    for fields in csv.reader(texts, delimiter=";", strict=True):
        if len(fields) != FIELDS:
            raise EventError(f"an event has {FIELDS} fields, not {len(fields)}: {fields!r:.200}")
        events.append(Event(*fields))
    return events


def hash_of(name: str) -> str:
    """The hash of a record that has this name: 16 digits."""
    return xxh3_64_hexdigest(name.encode())
