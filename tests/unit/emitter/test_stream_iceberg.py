"""Which snapshot of a table of Iceberg has the files that a micro-batch read."""

from __future__ import annotations

from typing import Any

import pytest

from lineage_emitter.dataframes.stream_iceberg import (
    UnknownFilesError,
    _check_fields,
    appended,
    field_ids,
)

pytestmark = pytest.mark.unit


def line(name: str) -> str:
    return f"10 5 - 3 - file:/t/{name}"


def paths(text: str) -> list[tuple[int, list[str]]]:
    return [
        (snapshot, [file.path.rpartition("/")[2] for file in files.files])
        for snapshot, files in appended(text)
    ]


def test_files_of_appends_in_a_row_are_of_the_last_one() -> None:
    text = "\n".join(["snapshot 11 append", line("a"), "snapshot 12 append", line("b"), line("c")])
    assert paths(text) == [(12, ["a", "b", "c"])]


@pytest.mark.parametrize("operation", ["replace", "delete", "overwrite"])
def test_behind_other_snapshots_files_are_of_snapshots_of_their_own(operation: str) -> None:
    text = "\n".join(
        [
            "snapshot 11 append",
            line("a"),
            f"snapshot 12 {operation}",
            "snapshot 13 append",
            line("b"),
        ]
    )
    assert paths(text) == [(11, ["a"]), (13, ["b"])]


def test_snapshots_of_which_nothing_was_read_give_nothing() -> None:
    assert paths("snapshot -5 append") == []
    assert paths("snapshot 11 delete\nsnapshot 12 append") == []


def test_an_append_without_files_of_the_batch_has_those_before_it_all_the_same() -> None:
    text = "\n".join(["snapshot 11 append", line("a"), "snapshot 12 append"])
    assert paths(text) == [(12, ["a"])]


class _Table:
    """A table of one snapshot, 11, of a schema: names of fields by their ids."""

    def __init__(self, columns: dict[int, str], *, is_current: bool = False) -> None:
        self.columns = columns
        self.is_current = is_current

    def name(self) -> str:
        return "t"

    def snapshot(self, number: int) -> Any:
        assert number == 11
        return self

    def schemaId(self) -> int | None:
        return None if self.is_current else 0

    def schemas(self) -> dict[int, Any]:
        return {} if self.is_current else {0: self}

    def schema(self) -> Any:
        assert self.is_current
        return self

    def findColumnName(self, number: int) -> str | None:
        return self.columns.get(number)


def struct(*fields: tuple[int, str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"id": i, "name": n, "type": t} for i, n, t in fields]}


NESTED = struct(
    (1, "a", "int"),
    (2, "s", struct((3, "x", "int"))),
    (4, "l", {"type": "list", "element-id": 5, "element": struct((6, "x", "int"))}),
    (7, "m", {"type": "map", "key-id": 8, "key": "int", "value-id": 9, "value": "int"}),
)
IDS = {
    "a": 1, "s": 2, "s.x": 3, "l": 4, "l.element": 5, "l.element.x": 6, "m": 7, "m.key": 8, "m.value": 9,
}  # fmt: skip


def test_fields_are_known_by_their_ids() -> None:
    assert dict(field_ids(NESTED)) == IDS


@pytest.mark.parametrize("is_current", [False, True])
def test_a_column_that_was_dropped_and_added_anew_is_another(is_current: bool) -> None:
    columns = {number: name for name, number in IDS.items()}
    _check_fields(_Table(columns, is_current=is_current), 11, IDS)
    for number, name in columns.items():
        before = {other: its for other, its in columns.items() if other != number}
        with pytest.raises(UnknownFilesError, match="dropped and added anew"):
            _check_fields(_Table({**before, 99: name}, is_current=is_current), 11, IDS)
