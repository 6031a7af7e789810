"""Places in files as people type and read them: ``path:line``, ``path#record``, ``path``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lineage_core.errors import LineageError
from lineage_core.graph import Unit

_LINE = re.compile(r"(?P<path>.+):(?P<number>\d{1,18})", re.DOTALL)
_RECORD = re.compile(r"(?P<path>.+)#(?P<number>\d{1,18})", re.DOTALL)


class LocationError(LineageError):
    """A location or address that names no row; the message says what does."""


@dataclass(frozen=True, slots=True)
class Location:
    """A line of a file as typed, from 1; or a record, from 0; or a file as a whole (None)."""

    path: str
    number: int | None
    unit: Unit = "line"

    def __str__(self) -> str:
        return shown(self.path, self.number, self.unit)


def shown(path: str, number: int | None, unit: Unit) -> str:
    """As people read it."""
    match unit:
        case "line":
            return f"{path}:{number}"
        case "record":
            return f"{path}#{number}"
        case _:
            return path


def parse_location(text: str) -> Location:
    """Read a place; what has no number names a file.

    Raises:
        LocationError: there is no path, or the line is 0.
    """
    line = _LINE.fullmatch(text)
    if line is not None:
        if int(line["number"]) == 0:
            raise LocationError(f"{text}: lines are counted from 1")
        return Location(line["path"], int(line["number"]))
    record = _RECORD.fullmatch(text)
    if record is not None:
        return Location(record["path"], int(record["number"]), "record")
    if not text or "\0" in text:
        raise LocationError(f"{text!r} names no row: give PATH:LINE as grep -n prints it")
    return Location(text, None, "file")
