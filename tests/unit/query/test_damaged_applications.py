"""Questions about a lake of which files of one application are lost: what is not known any more is said, never left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.saved.linking import Recordings
from lineage_arrays.saved.locating import locate
from lineage_arrays.saved.reading import ArrayRecording, latest_measured
from lineage_core.tracing.budget import TooMuchError
from lineage_query.application_search import ApplicationSearch, search_applications
from lineage_query.erasure.finding import SubjectError, SubjectQuery
from lineage_query.erasure.keeping import kept_of
from lineage_query.erasure.named_sources import names_of_table, with_table
from lineage_query.finding import NotFoundError, find_application, find_uses
from lineage_query.iceberg_uses import IcebergUses
from lineage_query.jobs import StoredRuns
from lineage_query.rows.iceberg_log import Snapshot
from lineage_query.rows.reader import RowReader
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.columns import application_key
from lineage_store.lake.file_names import folder_of
from lineage_store.lake.store import LakeStore
from lineage_store.moving import move_application
from lineage_store.paths import FileState, RowsError, Spellings
from lineage_store.recorded_files import RecordedFiles
from lineage_store.sqlite.store import SqliteStore
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.unit

APPS = ("app-1", "app-2", "app-3")
HARMED = "app-2"
LATER = 4_000_000_000.0
"""After any time at which a test writes."""


@dataclass
class Lake:
    """A lake; all applications read ``source`` and wrote ``sink``, one after the other."""

    folder: Path
    source: Path
    sink: Path

    def __post_init__(self) -> None:
        self.store = self._open()

    def _open(self) -> LakeStore:
        return LakeStore(LakeAddress(str(self.folder)), create=False)

    def lose(self, app: str = HARMED) -> None:
        """Lose the only file of an application."""
        (path,) = (self.folder / f"app={application_key(app)}").iterdir()
        path.unlink()
        self.store.close()
        self.store = self._open()


def build_lake(folder: Path, starts: dict[str, float]) -> Lake:
    url = f"sqlite:///{folder}/lineage.db"
    runs = [
        store_run(url, folder, app, started_at=started_at, summed=True)
        for app, started_at in starts.items()
    ]
    with (
        SqliteStore(folder / "lineage.db") as sqlite,
        LakeStore(LakeAddress(str(folder / "lake"))) as store,
    ):
        for app in starts:
            move_application(sqlite, store, app)
    return Lake(folder / "lake", runs[-1].source, runs[-1].sink)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = build_lake(tmp_path, {app: 1000.0 * at for at, app in enumerate(APPS, 1)})
    yield lake
    lake.store.close()


class _Unseen(RowReader):
    """Of a process that does not see where the files are."""

    def state(self, path: str) -> FileState | None:
        raise RowsError(f"{path} is on a storage that this process does not see")


def _writers(lake: Lake, reader: RowReader) -> list[str]:
    return [use.app for use in find_uses(lake.store, reader, str(lake.sink), wrote=True)]


def test_an_earlier_writer_answers_for_no_later_one_that_is_lost(lake: Lake) -> None:
    reader = _Unseen()
    assert _writers(lake, reader) == ["app-3"]
    lake.lose("app-3")
    with pytest.raises(TooMuchError, match="whether app-3 read or wrote"):
        _writers(lake, reader)
    # Whoever names the application knows which one is meant.
    named = find_uses(lake.store, reader, str(lake.sink), wrote=True, app="app-2")
    assert [use.app for use in named] == ["app-2"]


def test_nor_where_only_the_content_is_the_same(lake: Lake) -> None:
    def readers() -> list[tuple[str, str]]:
        uses = find_uses(lake.store, RowReader(), str(lake.source), wrote=False)
        return [(use.app, use.file_status) for use in uses]

    lake.lose()
    # The very file that was read is there.
    assert readers() == [("app-3", "same")]
    # It was written since, with the content that it had.
    os.utime(lake.source, (5e8, 5e8))
    with pytest.raises(TooMuchError, match="whether app-2 read or wrote"):
        readers()
    lake.store.delete(HARMED)
    assert readers() == [("app-3", "touched")]


def test_a_lost_application_may_have_begun_before_a_file_that_nobody_knows(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.lose()
    other = lake.sink.with_name("other")
    other.write_text("a\n")
    # Before the lake was written, and after the applications began.
    os.utime(other, (5e8, 5e8))
    # What it recorded of files can be read: what is lost is something else.
    monkeypatch.setattr(lake.store, "recorded_files", lambda _: RecordedFiles())
    with pytest.raises(NotFoundError, match=r"lineage of .*app-2 \(its lineage is damaged\)"):
        find_uses(lake.store, RowReader(), str(other), wrote=True)


@pytest.mark.parametrize(
    ("search", "items", "withheld"),
    [
        (ApplicationSearch(), ["app-2", "app-3", "app-1"], 0),
        (ApplicationSearch(text="job"), ["app-3", "app-1"], 1),
        (ApplicationSearch(text="APP-2"), ["app-2"], 0),
        (ApplicationSearch(until=5000.0), ["app-3", "app-1"], 1),
        (ApplicationSearch(text="app-2", until=5000.0), [], 1),
        (ApplicationSearch(until=LATER), ["app-2", "app-3", "app-1"], 0),
        (ApplicationSearch(since=2000.0), ["app-3"], 1),
        # All of it was written before.
        (ApplicationSearch(since=LATER), [], 0),
        (ApplicationSearch(text="job", dataset="in.txt"), ["app-3", "app-1"], 1),
        (ApplicationSearch(until=5000.0, dataset="in.txt"), ["app-3", "app-1"], 1),
    ],
)
def test_a_search_says_of_whom_it_does_not_know(
    lake: Lake, search: ApplicationSearch, items: list[str], withheld: int
) -> None:
    lake.lose()
    found = search_applications(StoredRuns(lake.store), search)
    assert [record.app for record in found.items] == items
    assert found.withheld == withheld
    assert found.searched == found.searched_of


def test_the_latest_is_none_that_may_be_old(lake: Lake) -> None:
    assert find_application(lake.store, "latest") == "app-3"
    lake.lose()
    with pytest.raises(NotFoundError, match=r"not known, as app-2 is damaged.*lineage rm app-2"):
        find_application(lake.store, "latest")
    assert find_application(lake.store, HARMED) == HARMED
    lake.store.delete(HARMED)
    assert find_application(lake.store, None) == "app-3"


def test_what_begins_after_a_lost_one_was_written_is_the_latest(tmp_path: Path) -> None:
    lake = build_lake(tmp_path, {"app-1": 1000.0, "app-2": LATER})
    lake.lose("app-1")
    assert find_application(lake.store, "latest") == "app-2"


def test_a_table_by_name_is_no_other_where_one_is_lost(lake: Lake) -> None:
    query = SubjectQuery("customers", rows=(1,))
    with pytest.raises(SubjectError, match="no table"):
        with_table(query, lake.store)
    lake.lose()
    with pytest.raises(SubjectError, match=r"not known \(app-2 is damaged.*name the folder"):
        with_table(query, lake.store)
    assert names_of_table(lake.store, "/data/customers") == []


def test_what_is_kept_of_a_lost_application_is_not_known(lake: Lake) -> None:
    assert kept_of(lake.store, APPS, (), None) == ()
    lake.lose()
    (kept,) = kept_of(lake.store, APPS, (), None)
    assert (kept.kind, kept.app, kept.items) == ("recipes", HARMED, 0)
    assert "not looked at: app-2 is damaged" in kept.holds


def test_who_wrote_a_snapshot_is_not_known_where_it_may_be_a_lost_application(lake: Lake) -> None:
    snapshot = Snapshot(7, None, True, HARMED)
    assert not IcebergUses(lake.store, Spellings()).is_recorded(snapshot)
    lake.lose()
    uses = IcebergUses(lake.store, Spellings())
    assert uses.captured(snapshot) == [HARMED]
    with pytest.raises(RowsError, match="who wrote snapshot 7 is not known: app-2 is damaged"):
        uses.is_recorded(snapshot)
    # Another Spark application committed this one.
    assert not uses.is_recorded(Snapshot(8, None, True, "app-1"))


def test_a_lost_id_may_be_that_of_the_writer_of_any_snapshot(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = folder_of(application_key(HARMED))
    monkeypatch.setattr(lake.store, "application_ids", lambda: ["app-3", lost, "app-1"])
    uses = IcebergUses(lake.store, Spellings())
    assert uses.captured(Snapshot(7, None, True, HARMED)) == [lost]
    assert uses.captured(Snapshot(7, None, True, "")) == []


def test_an_array_by_name_may_be_of_a_lost_application(lake: Lake) -> None:
    def read(app: str) -> ArrayRecording:
        raise AssertionError(app)

    def find() -> None:
        locate(lake.store, Recordings(read), "total", None, sources=False)

    with pytest.raises(ArrayLineageError, match="no recording made an array 'total'"):
        find()
    with pytest.raises(ArrayLineageError, match="of the latest 3 applications none"):
        latest_measured(lake.store)
    lake.lose()
    with pytest.raises(ArrayLineageError, match="whether app-2 has an array 'total' is not known"):
        find()
    with pytest.raises(ArrayLineageError, match=r"latest 2 applications that can be read \(1 more"):
        latest_measured(lake.store)
