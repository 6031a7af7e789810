"""What a lake merges and deletes changes no answer, and takes no file that somebody may still commit."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lineage_core.contract.block import BlockId
from lineage_core.contract.message import Begin, Heartbeat
from lineage_core.contract.sealing import Seal
from lineage_store.dump import dump_application
from lineage_store.errors import StoreUnavailableError
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.compacting import compact
from lineage_store.lake.store import LakeStore
from lineage_store.lake.table import COMMIT_H, UNFINISHED_H, LateError
from lineage_store.lake.transaction import LakeTransaction
from lineage_store.lake.writing import LakeWriter
from tests.support.lake_writer import write_application

pytestmark = pytest.mark.integration


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def lake(folder: Path) -> Iterator[LakeStore]:
    with LakeStore(LakeAddress(str(folder)), retry_s=5) as opened:
        yield opened


def written_ago(folder: Path, hours: float, app: str = "*") -> None:
    """Make files of applications as old."""
    old = time.time() - hours * 3600
    for path in folder.glob(f"app={app}/*"):
        os.utime(path, (old, old))


def slow_writer(lake: LakeStore, app: str = "slow") -> LakeWriter:
    """A writer with files that are not committed."""
    writer = lake.writer(app)
    writer.message(Begin(app=app, name="slow", started_at=1.0))
    assert len(writer.finish()) == 1
    return writer


# -- files that no version has -----------------------------------------------------------------


def test_files_of_a_slow_writer_stay_however_short_replaced_ones_are_kept(
    lake: LakeStore, folder: Path
) -> None:
    write_application(lake, "one", 0)
    writer = slow_writer(lake)
    written_ago(folder, COMMIT_H - 1)
    assert lake.table.vacuum(0) == []
    writer.commit()
    assert {record.app for record in lake.applications()} == {"one", "slow"}


def test_files_that_were_replaced_are_deleted_by_when_that_was(
    lake: LakeStore, folder: Path
) -> None:
    for part in range(2):
        write_application(lake, "one", part)
    written_ago(folder, 2 * UNFINISHED_H)
    wanted = list(dump_application(lake, "one"))
    done = compact(lake, kept_h=1)
    # Just now, though they are old: somebody may read them.
    assert (done.merged, done.deleted) == (2, 0)
    assert len(list(folder.glob("app=*/*"))) == 3
    assert len(lake.table.vacuum(0)) == 2
    assert list(dump_application(lake, "one")) == wanted


@pytest.mark.parametrize("scheme", ["", "file://"], ids=["folder", "url"])
def test_files_of_others_stay(folder: Path, scheme: str) -> None:
    lake = LakeStore(LakeAddress(f"{scheme}{folder}"))
    write_application(lake, "one", 0)
    slow_writer(lake)
    application = min(folder.glob("app=*"))
    others = [folder / "notes.txt", folder / "data/part-0.parquet", application / "notes.txt"]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
        os.utime(path, (1.0, 1.0))
    written_ago(folder, UNFINISHED_H + 1, "*")
    assert compact(lake, kept_h=0).deleted == 1
    assert [path.read_text() for path in others] == ["mine"] * 3


@pytest.mark.parametrize("scheme", ["", "file://"], ids=["folder", "url"])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_writer_that_takes_too_long_begins_again(
    folder: Path, is_deleted: bool, scheme: str
) -> None:
    """The second as on object storage: all files are reached through the table format."""
    lake = LakeStore(LakeAddress(f"{scheme}{folder}"))
    write_application(lake, "one", 0)
    writer = slow_writer(lake)
    version = lake.table.newest_version()
    if is_deleted:
        written_ago(folder, UNFINISHED_H + 1)
        assert len(lake.table.vacuum(UNFINISHED_H)) == 1
        version = lake.table.newest_version()
    else:
        written_ago(folder, COMMIT_H + 1)
    with pytest.raises(LateError, match="write it again"):
        writer.commit()
    assert lake.table.newest_version() == version
    assert [record.app for record in lake.applications()] == ["one"]
    again = slow_writer(lake)
    again.commit()
    assert {record.app for record in lake.applications()} == {"one", "slow"}


def test_an_offset_stays_where_its_records_were_not_stored(lake: LakeStore, folder: Path) -> None:
    """Kafka's writer stood still between the writing of its files and the commit."""

    def work(loading: LakeTransaction, is_late: bool) -> None:
        assert loading.offsets("writers", "edge", 0, 3, 5, new=True)
        loading.message(Begin(app="slow", name="slow", started_at=1.0))
        if is_late:
            for writer in loading._writers.values():
                writer.finish()
            written_ago(folder, UNFINISHED_H + 1)
            with LakeStore(lake.address) as other:
                assert len(other.table.vacuum(1)) == 1

    # Not now: the writer gives the same records once more.
    with pytest.raises(StoreUnavailableError, match="write it again"):
        lake.in_transaction(lambda loading: work(loading, True))
    assert lake.offset("writers", "edge", 0) is None
    assert lake.application_ids() == []
    lake.in_transaction(lambda loading: work(loading, False))
    assert (lake.offset("writers", "edge", 0), lake.application_ids()) == (5, ["slow"])


def test_an_erasure_leaves_files_that_somebody_may_commit(lake: LakeStore, folder: Path) -> None:
    for part in range(2):
        write_application(lake, "one", part)
    writer = slow_writer(lake, "one")
    # Interrupted: the files that were replaced are there still.
    compact(lake)
    removed = {
        file.path for file in lake.table.removed_files(writer.finish()[0].key, unfinished=True)
    }
    assert len(removed) == 2
    lake.erase("one", lambda _: None, [Heartbeat(app="one", beat=1, at=1.0)])
    assert not any((folder / path).exists() for path in removed)
    writer.commit()
    # Both have a message that says when it began.
    assert len(lake.messages("one", "begin")) == 2
    assert lake.applications()[0].app == "one"


# -- rows of writers that began on one version -------------------------------------------------

COUNTS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), max_size=3)
SEALS = st.lists(st.tuples(st.integers(0, 1), st.integers(1, 2), st.integers(0, 2)), max_size=3)


@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@example(parts=[([(0, 0)], [(0, 1, 0)], False), ([(0, 3)], [(0, 2, 2)], True)])
@example(parts=[([(0, 3)], [(0, 2, 2)], True), ([(0, 0)], [(0, 1, 0)], False)])
@given(parts=st.lists(st.tuples(COUNTS, SEALS, st.booleans()), min_size=2, max_size=3))
def test_merging_changes_no_answer_about_writers_of_one_version(
    tmp_path: Path, parts: list[tuple[list[tuple[int, int]], list[tuple[int, int, int]], bool]]
) -> None:
    """Their rows have equal numbers, and say different things."""
    address = LakeAddress(str(tmp_path / "drawn"))
    with LakeStore(address, clock=lambda: 50.0) as lake:
        lake.delete("a")
        writers = [lake.writer("a", float(10 - at)) for at in range(len(parts))]
        least: dict[BlockId, int] = {}
        largest: dict[str, int] = {}
        for writer, (counts, seals, has_begun) in zip(writers, parts, strict=True):
            if has_begun:
                writer.message(Begin(app="a", name="j", started_at=1.0))
            for at, positions in counts:
                block_id = BlockId("4", at, 0, 0)
                writer.unmatched(block_id, positions)
                least[block_id] = min(positions, least.get(block_id, positions))
            for at, producers, consumers in seals:
                seal = Seal(f"4@{at}", producers, consumers, 7 * producers + consumers)
                writer.seal(seal)
                largest[seal.space] = max(seal.size, largest.get(seal.space, 0))
        for writer in writers:
            writer.commit()

        def answers() -> tuple[object, ...]:
            return (
                dict(lake.unmatched("a")),
                list(lake.graph("a").seals()),
                lake.counts("a").silent_s,
                lake.applications(),
                lake.revision("a"),
            )

        before = answers()
        assert before[0] == {block_id: least[block_id] for block_id in least if least[block_id]}
        assert {seal.space: seal.size for seal in lake.graph("a").seals()} == largest
        assert compact(lake).written == 1
        assert answers() == before
