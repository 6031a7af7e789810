"""Which files of a Delta table a micro-batch read, against a stream of its files, one after the other."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.recipe.document import File
from lineage_emitter.dataframes.delta import UnknownVersionError
from lineage_emitter.dataframes.stream_delta import (
    Commit,
    Place,
    UnknownFilesError,
    files_between,
    in_stream_order,
)

TABLE = "7f0c"


def place(version: int, index: int, *, in_snapshot: bool = False, table: str = TABLE) -> Place:
    return Place(table, version, index, in_snapshot)


def action(kind: str, path: str, *, changes: bool = True, size: int = 1) -> dict[str, Any]:
    return {kind: {"path": path, "dataChange": changes, "size": size, "modificationTime": 5}}


def commit(*actions: dict[str, Any], skips_changes: bool = False) -> Commit:
    return Commit.of(actions, lambda name: f"file:/t/{name}", skips_changes=skips_changes)


def paths(files: tuple[File, ...]) -> list[str]:
    return [file.path.rpartition("/")[2] for file in files]


def test_offsets_are_read_as_delta_lake_writes_them() -> None:
    offset = {"sourceVersion": 1, "reservoirId": TABLE, "reservoirVersion": 4, "index": -1}
    assert Place.of(json.dumps({**offset, "isStartingVersion": False})) == place(4, -1)
    marked = {**offset, "index": -19, "isStartingVersion": True}
    assert Place.of(json.dumps(marked)) == place(4, -1, in_snapshot=True)


def test_a_commit_gives_files_with_new_rows_alone() -> None:
    found = commit(
        {"commitInfo": {}},
        action("add", "b"),
        action("add", "packed", changes=False),
        action("remove", "old", changes=False),
        action("add", "a"),
    )
    assert paths(found.added) == ["b", "a"]
    assert found.touched == {f"file:/t/{name}" for name in ("a", "b", "packed", "old")}


def test_a_commit_that_removes_rows_gives_none_where_the_stream_skips_such() -> None:
    actions = action("remove", "old"), action("add", "new")
    assert paths(commit(*actions).added) == ["new"]
    assert commit(*actions, skips_changes=True).added == ()
    packed = action("remove", "old", changes=False), action("add", "new")
    assert paths(commit(*packed, skips_changes=True).added) == ["new"]


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (place(3, -1), place(2, 4)),
        (place(3, 2), place(3, 1)),
        (place(3, -1), place(3, 1, table="other")),
        (place(3, 0, in_snapshot=True), place(4, 1, in_snapshot=True)),
    ],
)
def test_places_that_no_stream_has_are_refused(start: Place, end: Place) -> None:
    with pytest.raises(UnknownFilesError):
        list(files_between(start, end, lambda _: (), lambda _: commit()))


@given(st.randoms(use_true_random=False), st.booleans())
def test_batches_have_each_file_once_in_a_version_that_has_it_so(
    draw: random.Random, skips_changes: bool
) -> None:
    """A stream cut anywhere gives its files in order, each in a version in which it is as its commit wrote it."""
    # What each version has: paths with the size that they were given.
    versions: list[dict[str, int]] = [{}]
    commits = [commit()]
    for number in range(1, draw.randint(2, 8)):
        now, actions = dict(versions[-1]), []
        for name in draw.sample(sorted(now), draw.randint(0, len(now))):
            changes = draw.random() < 0.5
            del now[name]
            actions.append(action("remove", name, changes=changes))
            if draw.random() < 0.5:
                # The same file with other deletions.
                now[name] = 100 * number
                actions.append(action("add", name, changes=changes, size=now[name]))
        for at in range(draw.randint(0, 3)):
            name = f"{number}.{at}"
            now[name] = 100 * number
            actions.append(action("add", name, changes=draw.random() < 0.8, size=now[name]))
        draw.shuffle(actions)
        versions.append(now)
        commits.append(commit(*actions, skips_changes=skips_changes))

    def snapshot(version: int) -> list[File]:
        return [
            File(f"file:/t/{name}", size, 5) for name, size in sorted(versions[version].items())
        ]

    begin = draw.randint(0, len(versions) - 1)
    in_snapshot = draw.random() < 0.5
    # All that the stream gives, with the place behind each file.
    given_files = [
        (file, place(begin, at, in_snapshot=True))
        for at, file in enumerate(snapshot(begin) if in_snapshot else ())
    ]
    for version in range(begin + in_snapshot, len(versions)):
        given_files += [
            (file, place(version, at)) for at, file in enumerate(commits[version].added)
        ]
    start = place(begin, -1, in_snapshot=in_snapshot)
    rest = list(given_files)
    while rest:
        taken = rest[: draw.randint(1, len(rest))]
        rest = rest[len(taken) :]
        end = taken[-1][1]
        if not rest and draw.random() < 0.5:
            # Behind the last file of a version, where no commit is yet.
            end = place(len(versions), -1)
        found = list(files_between(start, end, snapshot, commits.__getitem__))
        assert [file for _, files in found for file in files] == [file for file, _ in taken]
        for version, files in found:
            has = {f"file:/t/{name}": size for name, size in versions[version].items()}
            assert all(has[file.path] == file.size for file in files)
        start = end


def test_files_of_a_version_come_by_time_then_by_name() -> None:
    first, last = File("file:/t/b", 1, 4), File("file:/t/p=1/c", 1, 5)
    files = [last, File("file:/t/a", 1, 5), first]
    assert in_stream_order(files, "file:/t") == [first, files[1], last]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        # The log has %3C for the sign, by which the file stands before that of 2024.
        ("file:/t/p=<unknown>/a", UnknownVersionError),
        ("file:/t/p=1%252/a", UnknownVersionError),
        ("file:/t/p=\u00e9/a", UnknownFilesError),
        ("file:/elsewhere/a", UnknownFilesError),
    ],
)
def test_files_of_a_version_have_no_order_where_the_log_may_name_them_otherwise(
    path: str, problem: type[Exception]
) -> None:
    with pytest.raises(problem):
        in_stream_order([File("file:/t/p=2024/b", 1, 5), File(path, 1, 5)], "file:/t")
