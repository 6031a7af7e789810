"""Times as answers in JSON have them: RFC 3339, in UTC, with milliseconds, such as ``2026-11-26T04:10:00.250Z``.

All have one length, so their order is that of their texts. Programs hold seconds; messages, stores and dumps do as well.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from lineage_core.contract.iso_times import iso_time
from lineage_core.contract.message import CALENDAR_TIME_MAX, CALENDAR_TIME_MIN


def time_text(seconds: float) -> str:
    """A time in unix seconds as text; one outside the calendar becomes the first or the last."""
    # No number is the first, too.
    in_calendar = (
        min(seconds, CALENDAR_TIME_MAX) if seconds > CALENDAR_TIME_MIN else CALENDAR_TIME_MIN
    )
    text = datetime.fromtimestamp(in_calendar, timezone.utc).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z"


def parse_time(text: str) -> float:
    """Unix seconds of a time as text.

    Raises:
        ValueError: it is no time, or says no zone.
    """
    time = iso_time(text)
    if time.tzinfo is None:
        raise ValueError(f"{text!r} says no zone")
    return time.timestamp()


def _seconds(value: object) -> object:
    return parse_time(value) if isinstance(value, str) else value


JsonTime: TypeAlias = Annotated[
    float,
    BeforeValidator(_seconds),
    PlainSerializer(time_text, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""Unix seconds, in JSON as text."""
