"""Applications that record very many parts or versions of a file, and what queries about that file cost then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lineage_core.contract.message import (
    Begin,
    Commit,
    Read,
    Register,
    SinkFile,
    SinkFiles,
    Split,
    Splits,
)
from lineage_core.contract.region import Region
from lineage_core.tracing.budget import Budget, TimeUpError, use_budget
from lineage_core.tracing.trace_result import Direction
from lineage_query.all_jobs import FileLinks
from lineage_query.finding import find_uses
from lineage_query.job_links import FileNode
from lineage_query.rows.locations import Locations
from lineage_query.rows.places import parse_location
from lineage_query.rows.reader import RowReader
from lineage_store.paths import Spellings, files_below
from lineage_store.recorded_files import FileQuery
from lineage_store.sqlite.recorded_files import SqliteFileRows
from lineage_store.sqlite.store import SqliteStore

pytestmark = pytest.mark.security
APP = "forged"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "store.db") as store:
        store.write(APP, [Begin(app=APP, name="job", started_at=1.0)])
        node = Register(app=APP, node="0", kind="source", op="textFile")
        store.write(APP, [node])
        yield store


def _lines(store: SqliteStore, path: Path, number: int, *, later_s: float = 0.0) -> None:
    """A file of lines, each of which is a split."""
    path.write_text("a\n" * number)
    mtime = path.stat().st_mtime + later_s
    splits = tuple(
        Split(
            partition=at, path=str(path), start=2 * at, length=2, file_size=2 * number, mtime=mtime
        )
        for at in range(number)
    )
    store.write(APP, [Splits(app=APP, node="0", splits=splits)])


def test_rows_of_a_file_of_very_many_parts_are_found(store: SqliteStore, tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    _lines(store, path, 2_500)
    locations = Locations(store.graph(APP), RowReader())
    # As Hadoop has it, a line that begins where a split ends is of that split.
    items = locations.items_at("0", parse_location(f"{path}:2500"))
    assert list(items) == ["0#2498"]


def test_names_with_nul_are_names_like_others(store: SqliteStore) -> None:
    """SQLite ends texts at NUL where it reads JSON or counts characters."""
    named = f"{APP}\0more"
    split = Split(partition=0, path=f"/in/\0{'x' * 90}", start=0, length=1, file_size=1, mtime=1.0)
    store.write(named, [Begin(app=named, name="job", started_at=1.0)])
    store.write(named, [Splits(app=named, node="0", splits=(split,))])
    assert set(store.revisions([APP, named])) == {APP, named}
    rows = SqliteFileRows(store._query, FileQuery(split.path, Spellings()))
    assert [row.app for row in rows.read([named], 9)] == [named]
    assert list(rows.read([APP], 9)) == []
    ((_, characters),) = rows.count().values()
    assert characters > 90


def test_more_rows_than_a_file_can_have_are_a_gap_and_no_error(
    store: SqliteStore, tmp_path: Path
) -> None:
    _lines(store, tmp_path / "in.txt", 4)
    for at in range(4):
        read = Read(space=f"0#{at}", rows=2**63 - 1, exhausted=True)
        store.write(APP, [Commit(app=APP, node="1", partition=at, attempt=at, reads=(read,))])
    locations = Locations(store.graph(APP), RowReader())
    (rows,) = locations.rows_of("0#3", Region.from_positions([0]), texts=False)
    assert rows.numbers is None
    assert "more rows than a file can have" in rows.note


def test_parts_of_a_file_are_compared_within_the_time_of_the_query(
    store: SqliteStore, tmp_path: Path
) -> None:
    """Just the time of the file differs, so that the rows of all parts decide whether it has changed."""
    path = tmp_path / "in.txt"
    _lines(store, path, 20_000, later_s=5.0)
    with use_budget(Budget(seconds=20.0)) as _:
        (use,) = find_uses(store, RowReader(), str(path), wrote=False)
    assert use.changed


def test_a_large_folder_is_listed_within_the_time_of_the_query(tmp_path: Path) -> None:
    for number in range(500):
        (tmp_path / f"{number}.txt").touch()
    with use_budget(Budget(seconds=0.0)), pytest.raises(TimeUpError):
        files_below(str(tmp_path))
    assert len(files_below(str(tmp_path))) == 500


def _written(store: SqliteStore, node: str, path: str, number: int) -> None:
    files = tuple(
        SinkFile(partition=0, path=path, size=1, mtime=at / 1e6, checksum="sha256:aa")
        for at in range(number)
    )
    store.write(APP, [SinkFiles(app=APP, node=node, path="/", files=files)])


def _read(store: SqliteStore, node: str, path: str, number: int) -> None:
    splits = tuple(
        Split(
            partition=0,
            path=path,
            start=0,
            length=1,
            file_size=1,
            mtime=at / 1e6,
            checksum="sha256:aa",
        )
        for at in range(number)
    )
    store.write(APP, [Splits(app=APP, node=node, splits=splits)])


def test_links_by_very_many_versions_end_with_the_time_of_the_query(store: SqliteStore) -> None:
    _written(store, "1", "/data/out", 1)
    _written(store, "2", "/data/copy", 30_000)
    _read(store, "3", "/data/copy", 30_000)
    budget = Budget(seconds=10.0)
    with use_budget(budget):
        links = FileLinks(store, Direction.FORWARD, RowReader())
        try:
            links.of(FileNode(APP, "1"), "/data/out", is_end=True)
        except TimeUpError:
            pytest.fail(
                "versions are compared in a time that grows with the square of their number"
            )


def test_versions_of_one_path_are_compared_within_the_time_of_the_query(
    store: SqliteStore,
) -> None:
    _written(store, "1", "/data/out", 20_000)
    _read(store, "3", "/data/out", 20_000)
    with use_budget(Budget(seconds=10.0)):
        links = FileLinks(store, Direction.FORWARD, RowReader())
        found = links.of(FileNode(APP, "1"), "/data/out", is_end=True)
    assert found.nodes == ()
