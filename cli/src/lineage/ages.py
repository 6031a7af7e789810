"""Ages that commands are given, and how old applications are."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Final

from lineage_core.errors import LineageError
from lineage_store.port import ApplicationRecord

_AGE: Final = re.compile(r"([0-9]{1,6})([hdw])")
_SECONDS: Final = {"h": 3_600, "d": 86_400, "w": 604_800}


class AgeError(LineageError):
    """A text is no age."""


def seconds_of(age: str) -> int:
    """Of an age such as ``36h``, ``30d`` or ``4w``.

    Raises:
        AgeError: it is none.
    """
    match = _AGE.fullmatch(age)
    if match is None:
        raise AgeError(f"{age!r} is no age; give hours, days or weeks, such as 36h, 30d or 4w")
    return int(match[1]) * _SECONDS[match[2]]


def older_than(records: Iterable[ApplicationRecord], age: str) -> list[ApplicationRecord]:
    """Applications that ended so long ago, or began where they never ended; the oldest first. Some may run.

    How old one is of which neither is known, as its messages are on their way or were lost, is not known: it is not among them.

    Raises:
        AgeError: the text is no age.
    """
    latest = time.time() - seconds_of(age)
    old = [record for record in records if has_age(record) and _last_known(record) < latest]
    return sorted(old, key=lambda record: (_last_known(record), record.app))


def has_age(record: ApplicationRecord) -> bool:
    """Whether it is known when an application ended, or at least began: without a message that says so its times are 0."""
    return _last_known(record) > 0


def _last_known(record: ApplicationRecord) -> float:
    return record.started_at if record.ended_at is None else record.ended_at
