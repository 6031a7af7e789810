"""Which snapshot of a table of Iceberg has the files that a micro-batch read."""

from __future__ import annotations

import pytest

from lineage_emitter.dataframes.stream_iceberg import appended

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
