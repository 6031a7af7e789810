"""What a trace of a subject's rows reached: rows of outputs, and what is known of each."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

from lineage_core.errors import LineageError
from lineage_query.rows.file_status import FileStatus
from lineage_query.rows.places import (
    LocationError,
    names_record,
    parse_location,
    parse_valued,
)
from lineage_store.paths import canonical

Kind: TypeAlias = Literal["carries", "mixed", "unknown"]
KIND_TEXTS: Mapping[Kind, str] = {
    "carries": "carrying the subject's",
    "mixed": "values that other rows went into, too",
    "unknown": "not told apart",
}
KEPT_TEXT = "kept by lineage itself"
CELLS = "cells"
"""What answers call items of arrays that are no rows."""
Place: TypeAlias = "tuple[str, int | None, str]"
"""A row of a file by canonical path, number and unit."""


def place_of(location: str) -> Place | None:
    """The row that a location names, however its path is spelled; None where it names none."""
    try:
        location_of_row = parse_location(location)
    except LocationError:
        return None
    return canonical(location_of_row.path), location_of_row.number, location_of_row.unit


def topic_record(place: str) -> tuple[str, int] | None:
    """The partition of a topic (``kafka://SERVERS/TOPIC[PARTITION]``) and the offset of a record that a place names; None: it names none."""
    valued = parse_valued(place)
    if valued is None or not names_record(valued):
        return None
    partition, mark, offset = place.rpartition("@")
    return (partition, int(offset)) if mark else None


def check_is_row(place: str) -> None:
    """See that a place is that of a row of a file.

    Raises:
        LineageError: it names a row by its values, or a record of a topic.
    """
    if parse_valued(place) is None:
        return
    with suppress(LocationError):
        if parse_location(place).number is not None:
            return
    raise LineageError("it is no row of a file: whether it is still there is not known")


def path_of_place(place: str) -> str:
    """The canonical path of the file of a place."""
    try:
        return canonical(parse_location(place).path)
    except LocationError:
        return canonical(place.partition("#")[0])


@dataclass(frozen=True, slots=True)
class ReachedRow:
    """A row of an output that a subject's rows went into.

    ``place``: where it is, as traces take it; None: in no file, in one that is gone, or at a place that is not known. ``path``: of the output.
    ``status``: its file compared with what the job wrote (without a place: all files of the output); of a row whose text was compared,
    ``touched`` where it is that of then. ``kept``: lineage itself keeps it: a row that a program handed to DataFrames, or a record that was set aside. ``exact``: the subject's rows went into
    it; False: they may have. ``kind``: whether it carries them, by ``basis``. ``others``: how many other rows of the same source went
    into it, None where that is not known; ``at_least``: or more. ``columns``: of the subject's rows, whose values are in it.
    """

    app: str
    node: str
    label: str
    what: str
    place: str | None
    path: str | None
    status: FileStatus
    exact: bool
    kept: bool = False
    text: str | None = None
    kind: Kind = "unknown"
    basis: str = ""
    others: int | None = None
    at_least: bool = False
    columns: tuple[str, ...] = ()

    @property
    def is_cell(self) -> bool:
        """Whether it is a cell of an array: its name is ``label``, and ``path`` its file, if it has one."""
        return self.place is None and self.what == CELLS

    @property
    def is_unplaced(self) -> bool:
        """Whether it is a row of an output at a place that is not known: its values name it."""
        return self.place is None and self.path is not None and not self.is_cell

    @property
    def is_there(self) -> bool:
        """Whether it is still where the job wrote it, though its place there may not be known."""
        is_in_output = self.place is not None or self.is_unplaced
        return is_in_output and self.status in {"same", "touched"}

    @property
    def shown_place(self) -> str:
        """Where it is, for people."""
        if self.place is not None:
            return self.place
        return f"{self.path}, at a place that is not known" if self.is_unplaced else self.label

    def without_text(self) -> ReachedRow:
        """The same without what the row holds."""
        return replace(self, text=None)

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on."""
        return asdict(self) | {"columns": list(self.columns), "there": self.is_there}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> ReachedRow:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        fields = {name: value for name, value in document.items() if name != "there"}
        return cls(**fields | {"columns": tuple(document["columns"])})
