"""Places in files as people type and read them: ``path:line``, ``path#record``, ``path``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lineage_core.contract.graph import Unit
from lineage_core.errors import LineageError
from lineage_store.errors import NoSuchRowError

_LINE = re.compile(r"(?P<path>.+):(?P<number>\d{1,18})", re.DOTALL)
_SPLIT = re.compile(r"(?P<path>.+)@(?P<start>\d{1,18})\+(?P<length>\d{1,18})", re.DOTALL)
_RECORD = re.compile(r"(?P<path>.+)#(?P<number>\d{1,18})", re.DOTALL)


class LocationError(LineageError):
    """A location or address that does not name a row; the message gives the expected form."""


class FolderError(LocationError):
    """A location that names a folder."""


class PastTheEndError(LocationError, NoSuchRowError):
    """A location that names no row, for the file has none there."""


@dataclass(frozen=True, slots=True)
class Location:
    """A line of a file as typed, from 1; or a record, from 0; or a whole file (None).

    ``split``: with a whole file, the first byte and the number of bytes of one of its splits; with the unit ``byte`` those of
    a part of it that a program named. ``held_in``: a file of the same checksum, in which the rows may be read where the file itself is
    not what it was any more.
    """

    path: str
    number: int | None
    unit: Unit = "line"
    split: tuple[int, int] | None = None
    held_in: str | None = None

    def __str__(self) -> str:
        if self.split is not None:
            return split_name(self.path, *self.split)
        return shown(self.path, self.number, self.unit)


def split_name(path: str, start: int, length: int) -> str:
    """The name of a split: some bytes of a file."""
    return f"{path}@{start}+{length}"


def part_of_file(path: str, first: int, last: int) -> Location:
    """The bytes of a file from a first to a last one."""
    return Location(path, None, "byte", (first, last - first + 1))


def shown(path: str, number: int | None, unit: Unit) -> str:
    """As people read it."""
    match unit:
        case "line":
            return f"{path}:{number}"
        case "record":
            return f"{path}#{number}"
        case "byte":
            return split_name(path, number or 0, 1)
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


def parse_place(text: str) -> Location:
    """Read a place of a query: as :func:`parse_location`, or a split as ``PATH@START+LENGTH``.

    Raises:
        LocationError: there is no path, or the line is 0.
    """
    split = _SPLIT.fullmatch(text)
    if split is None:
        return parse_location(text)
    return Location(split["path"], None, "file", (int(split["start"]), int(split["length"])))


@dataclass(frozen=True, slots=True)
class ValuedPlace:
    """Rows of a DataFrame's output or source by their values: ``of`` is its path, table or node.

    ``values``: column and text of its value; None is NULL.
    """

    of: str
    values: tuple[tuple[str, str | None], ...]

    def __str__(self) -> str:
        terms = [
            f"{_written(column, _BARE_COLUMN)}={'' if value is None else _written(value, _BARE_VALUE)}"
            for column, value in self.values
        ]
        return f"{self.of}#{','.join(terms)}"


_RECORD_OF_TOPIC = re.compile(
    r"(?P<topic>.+)\[(?P<partition>\d{1,9})\]@(?P<offset>\d{1,18})", re.DOTALL
)
TOPICS = "kafka://"
"""What the names of topics begin with, before their servers."""
_BARE_COLUMN = re.compile(r'[^"#=,]+')
_BARE_VALUE = re.compile(r'[^"#,]+')
_QUOTED = r'"(?:[^"]|"")*"'
_TERM = re.compile(rf'({_QUOTED}|[^"#=,]+)=({_QUOTED}|[^",]*)(?:,(?!$)|$)')


def names_record(place: ValuedPlace) -> bool:
    """Whether a place is a record of a topic, by partition and offset."""
    return {name for name, _ in place.values} == {"partition", "offset"}


def record_of_topic(text: str) -> ValuedPlace | None:
    """Read ``kafka://HOST:PORT/TOPIC[PARTITION]@OFFSET``: a record by the full name of its topic; None where the text has another form."""
    place = parse_valued(text) if text.startswith(TOPICS) else None
    return place if place is not None and names_record(place) else None


def partition_and_offset(record: ValuedPlace) -> tuple[int, int]:
    """Those of a record of a topic."""
    values = dict(record.values)
    return int(values["partition"] or 0), int(values["offset"] or 0)


def parse_valued(text: str) -> ValuedPlace | None:
    """Read ``OUTPUT#column=value,column=value`` or ``TOPIC[PARTITION]@OFFSET``; None where the text has another form.

    An empty value is NULL. Values with ``"`` or ``,`` are written in double quotes, which are doubled within;
    so is the empty text.
    """
    if "\0" in text:
        return None
    record = _RECORD_OF_TOPIC.fullmatch(text)
    if record is not None:
        numbers = (("partition", record["partition"]), ("offset", record["offset"]))
        return ValuedPlace(record["topic"], numbers)
    for mark in reversed([at for at, sign in enumerate(text) if sign == "#"]):
        terms = list(_terms(text[mark + 1 :]))
        if mark and terms:
            return ValuedPlace(text[:mark], tuple(terms))
    return None


def _terms(text: str) -> list[tuple[str, str | None]]:
    """Columns and values; none where the text is anything else."""
    terms: list[tuple[str, str | None]] = []
    at = 0
    while at < len(text):
        term = _TERM.match(text, at)
        if term is None:
            return []
        column, value = term.groups()
        terms.append((_read(column), _read(value) if value else None))
        at = term.end()
    return terms


def _read(text: str) -> str:
    return text[1:-1].replace('""', '"') if text.startswith('"') else text


def _written(text: str, bare: re.Pattern[str]) -> str:
    return text if bare.fullmatch(text) else '"' + text.replace('"', '""') + '"'
