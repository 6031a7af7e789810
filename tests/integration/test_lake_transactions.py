"""What Kafka's writer stores in a lake: in any order, by several writers, with offsets that move in the commit of the records."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import deltalake
import pytest
from deltalake.transaction import CommitProperties, Transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lineage_core.codec.edge_message import Links, PackedEdge, stored_block
from lineage_core.codec.packing import pack_for_store
from lineage_core.contract.address import POSITION_MAX
from lineage_core.contract.block import BlockId
from lineage_core.contract.message import Begin
from lineage_core.contract.sealing import Seal, seal_of
from lineage_core.linking.linker import TaskId
from lineage_store.dump import dump_application
from lineage_store.errors import OffsetMovedError, StoreError, StoreUnavailableError
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.compacting import compact
from lineage_store.lake.store import LakeStore
from lineage_store.lake.table import CHECKPOINT_COMMITS, DESCRIPTION, LINEAGE, LakeTable
from lineage_store.lake.transaction import LakeTransaction
from lineage_store.sqlite.store import SqliteStore
from tests.property.test_linking_property import Case, cases
from tests.support.lake_writer import write_application
from tests.support.linked_events import crowd, events_of, give, of_the_app, write_case
from tests.support.spool_builder import APP, block

pytestmark = pytest.mark.integration


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def lake(folder: Path) -> Iterator[LakeStore]:
    with LakeStore(LakeAddress(str(folder)), retry_s=5) as opened:
        yield opened


def data_files(folder: Path) -> set[Path]:
    return set(folder.glob("app=*/*"))


@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=cases().map(of_the_app), data=st.data())
def test_any_order_of_any_parts_is_read_the_same(
    lake: LakeStore, tmp_path: Path, case: Case, data: st.DataObject
) -> None:
    events = events_of(case)
    order = data.draw(st.permutations(events))
    order += data.draw(st.lists(st.sampled_from(events), max_size=8))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=4)))
    merges = data.draw(st.booleans())
    lake.delete(APP)
    for start, stop in zip([0, *cuts], [*cuts, len(order)], strict=True):
        give(lake, list(order[start:stop]))
        if merges:
            compact(lake)
    path = tmp_path / "expected.db"
    path.unlink(missing_ok=True)
    with SqliteStore(path) as expected:
        write_case(expected, case)
        assert list(dump_application(lake, APP)) == list(dump_application(expected, APP))
    counts = lake.counts(APP)
    assert (counts.written or 0, counts.stubs) == (len(case.blocks), 0)


def test_many_writers_at_once_are_read_as_one(lake: LakeStore) -> None:
    events = crowd()
    give(lake, events)
    expected = list(dump_application(lake, APP))
    assert sum(line.startswith('{"edge"') for line in expected) == 400
    lake.delete(APP)

    def write(seed: int) -> None:
        mine = random.Random(seed).sample(events, len(events))
        with LakeStore(lake.address) as other:
            for at in range(0, len(mine), 60):
                give(other, mine[at : at + 60])

    run_together([lambda seed=seed: write(seed) for seed in range(4)])  # type: ignore[misc]
    assert list(dump_application(lake, APP)) == expected


def run_together(jobs: list[Callable[[], None]]) -> None:
    failures: list[BaseException] = []

    def run(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=[job]) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_what_is_not_visible_or_not_there_is_not_shown(lake: LakeStore) -> None:
    first, second, third = (BlockId("4", 0, 1, seq) for seq in range(3))
    rows = [("4#0", [([1], 5)])]
    made = {
        one: stored_block(APP, TaskId("4", 0, 1), pack_for_store(block(one, "1#0", rows)))
        for one in (first, second)
    }
    give(lake, [made[first], Links(APP, edges=[PackedEdge(first, third, 1, None)])])
    give(lake, [Links(APP, [second, third], [(third, 4)])])
    opened = lake.graph(APP)
    assert list(opened.blocks()) == opened.blocks_into("4#0", 0, POSITION_MAX) == []
    assert opened.blocks_from("1#0", 0, POSITION_MAX) == []
    assert opened.spaces_of("4") == []
    assert opened.load([first, second, third]) == {}
    assert opened.edges_from([first]) == opened.edges_into([third]) == []
    counts = lake.counts(APP)
    assert (counts.received, counts.written, counts.stubs, counts.flows) == (0, 1, 2, 0)
    # No task of theirs is visible, so none is without its commit.
    assert (counts.claimed, counts.claimed_blocks) == (frozenset(), 0)
    assert [record.flows for record in lake.applications()] == [0]
    give(lake, [made[second], Links(APP, [first])])
    assert [ref.block_id for ref in opened.blocks()] == [first, second]
    counts = lake.counts(APP)
    assert (counts.received, counts.written, counts.stubs, counts.flows) == (2, 2, 1, 2)
    assert (counts.claimed, counts.claimed_blocks) == (frozenset([("4", 0)]), 2)
    assert opened.edges_into([third]) != []
    assert opened.edges_from([first]) == []


def test_what_was_moved_here_stays_visible_when_its_records_come_again(lake: LakeStore) -> None:
    """A group of another name reads the log once more; its links may have been removed by Kafka."""
    made = block(BlockId("4", 0, 1, 0), "1#0", [("4#0", [([1], 5)])])
    again = stored_block(APP, TaskId("4", 0, 1), pack_for_store(made))
    for order in ((0, 1), (1, 0)):
        lake.delete(APP)
        for step in order:
            if step:
                give(lake, [again])
            else:
                lake.write(APP, [Begin(app=APP, name="job", started_at=1.0)], [made])
        assert [ref.block_id for ref in lake.graph(APP).blocks()] == [made.block_id]
        assert compact(lake).written == 1
        assert [ref.block_id for ref in lake.graph(APP).blocks()] == [made.block_id]


def test_seals_of_two_states_of_linking_are_looked_at(lake: LakeStore) -> None:
    events = crowd()
    ids = [BlockId("4", at, at, 0) for at in range(20)]
    readers = [BlockId("6", at, at, 0) for at in range(20)]
    whole, part = seal_of("4@0", ids, readers), seal_of("4@0", ids[:3], readers[:3])
    wrong = Seal("4@0", whole.producers + 5, whole.consumers, whole.digest)
    give(lake, [*events, Links(APP, seals=[part], epoch="a")])
    give(lake, [Links(APP, seals=[whole], epoch="a")])
    give(lake, [Links(APP, seals=[part], epoch="a")])
    assert lake.graph(APP).seals() == [whole]
    assert lake.counts(APP).unsealed == 0
    give(lake, [Links(APP, seals=[wrong], epoch="a")])
    assert lake.counts(APP).unsealed == 0
    give(lake, [Links(APP, epoch="b")])
    assert lake.counts(APP).unsealed == 1


# -- offsets -----------------------------------------------------------------------------------


def move(lake: LakeStore, first: int, following: int, at: int = 3, *, new: bool = False) -> bool:
    return lake.in_transaction(
        lambda loading: loading.offsets("writers", "edge", at, first, following, new=new)
    )


@pytest.mark.long
def test_an_offset_moves_from_where_it_stands(lake: LakeStore, folder: Path) -> None:
    assert lake.offset("writers", "edge", 3) is None
    # One that is missing was lost, but where the writer knows it for new.
    assert not move(lake, 7, 9)
    assert move(lake, 7, 9, new=True)
    assert not move(lake, 7, 9)
    assert not move(lake, 10, 11)
    assert move(lake, 9, 9)
    assert move(lake, 9, 12)
    assert move(lake, 0, 1, at=4, new=True)
    assert (lake.offset("writers", "edge", 3), lake.offset("writers", "edge", 4)) == (12, 1)
    assert lake.offset("others", "edge", 3) is None
    # Checkpoints hold offsets that did not move for long; the log before them is removed.
    for first in range(1, 2 * CHECKPOINT_COMMITS):
        assert move(lake, first, first + 1, at=4)
    compact(lake)
    last = lake.table.newest_version()
    for entry in (folder / "_delta_log").glob("*.json"):
        if int(entry.stem) < last:
            entry.unlink()
    with LakeStore(lake.address) as fresh:
        assert fresh.offset("writers", "edge", 3) == 12
        assert move(fresh, 12, 13)


def test_a_transaction_that_is_given_up_stores_nothing(lake: LakeStore, folder: Path) -> None:
    def work(loading: LakeTransaction) -> None:
        assert loading.offsets("given-up", "edge", 0, 5, 6, new=True)
        for event in crowd():
            if isinstance(event, Begin):
                loading.message(event)
        loading._writer(APP)._flush()
        assert data_files(folder)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lake.in_transaction(work)
    assert lake.offset("given-up", "edge", 0) is None
    assert lake.applications() == []
    assert {path for path in data_files(folder) if path.is_file()} == set()


def test_one_of_two_writers_moves_an_offset(lake: LakeStore) -> None:
    moved: list[int] = []
    ready = threading.Barrier(4)

    def write(number: int) -> None:
        with LakeStore(lake.address) as other:
            ready.wait(30)
            for first in range(10):

                def work(loading: LakeTransaction, first: int = first) -> bool:
                    done = loading.offsets("race", "edge", 0, first, first + 1, new=True)
                    if done:
                        app = f"{first}-{number}"
                        loading.message(Begin(app=app, name="job", started_at=1.0))
                    return done

                try:
                    if other.in_transaction(work):
                        moved.append(first)
                except OffsetMovedError:
                    pass

    run_together([lambda number=number: write(number) for number in range(4)])  # type: ignore[misc]
    assert sorted(moved) == list(range(10))
    assert len(lake.applications()) == 10
    assert lake.offset("race", "edge", 0) == 10


def test_a_writer_that_read_the_offset_before_another_moved_it_stores_nothing(
    lake: LakeStore, folder: Path
) -> None:
    def late(loading: LakeTransaction) -> None:
        assert loading.offsets("writers", "edge", 3, 0, 5, new=True)
        loading.message(Begin(app="late", name="job", started_at=1.0))
        with LakeStore(lake.address) as other:
            assert move(other, 0, 5, new=True)

    with pytest.raises(OffsetMovedError):
        lake.in_transaction(late)
    assert lake.application_ids() == []
    assert {path for path in data_files(folder) if path.is_file()} == set()


def test_the_table_itself_refuses_an_offset_that_was_moved_since(
    lake: LakeStore, folder: Path
) -> None:
    """Between the look at the offset and the commit another writer may have moved it."""
    stale = deltalake.DeltaTable(str(folder))
    assert move(lake, 0, 5, new=True)

    def commit(version: int, at: int) -> None:
        stale.create_write_transaction(
            [],
            "append",
            stale.schema(),
            partition_by=["app"],
            commit_properties=CommitProperties(
                app_transactions=[Transaction(f"writers|edge|{at}", version)]
            ),
        )

    with pytest.raises(deltalake.exceptions.DeltaError, match="Concurrent transaction"):
        commit(6, 3)
    commit(6, 4)
    assert (lake.offset("writers", "edge", 3), lake.offset("writers", "edge", 4)) == (5, 6)


@pytest.mark.parametrize("is_lost", [True, False])
def test_an_answer_that_is_lost_repeats_nothing(
    lake: LakeStore, folder: Path, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    """A commit fails before or after it is in the log."""
    commit = lake.table._try_commit
    calls = 0

    def failing(*arguments: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            if not is_lost:
                commit(*arguments)  # type: ignore[arg-type]
            raise OSError("connection reset")
        commit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(lake.table, "_try_commit", failing)

    def work(loading: LakeTransaction) -> None:
        assert loading.offsets("writers", "edge", 3, 0, 5, new=True)
        loading.message(Begin(app="one", name="job", started_at=1.0))

    before = lake.table.newest_version()
    lake.in_transaction(work)
    assert calls == (2 if is_lost else 1)
    assert lake.table.newest_version() == before + 1
    assert (lake.application_ids(), lake.offset("writers", "edge", 3)) == (["one"], 5)


def test_a_lake_that_refuses_leaves_nothing_behind(folder: Path) -> None:
    with LakeStore(LakeAddress(str(folder)), retry_s=0) as lake:
        move(lake, 0, 1, new=True)
        log = folder / "_delta_log"
        kept = folder.parent / "log"
        shutil.copytree(log, kept)

        def work(loading: LakeTransaction) -> None:
            assert loading.offsets("writers", "edge", 3, 1, 5)
            loading.message(Begin(app="one", name="job", started_at=1.0))
            # The log can't be written from here on.
            entry = log / f"{lake.table.newest_version() + 1:020}.json"
            entry.mkdir()

        with pytest.raises(StoreUnavailableError):
            lake.in_transaction(work)
        (log / f"{lake.table._table.version() + 1:020}.json").rmdir()
        assert lake.offset("writers", "edge", 3) == 1
        assert lake.application_ids() == []
        assert {path for path in data_files(folder) if path.is_file()} == set()


def test_programs_of_an_earlier_version_refuse_such_a_lake(lake: LakeStore, folder: Path) -> None:
    table = deltalake.DeltaTable(str(folder))
    table.alter.set_table_description(f"{DESCRIPTION}1")
    # What it has is read as it was.
    with LakeStore(lake.address) as old:
        write_application(old, "one", 0)
        assert old.application_ids() == ["one"]
        run_together([LakeStore(lake.address).prepare for _ in range(3)])
        old.prepare()
    with pytest.raises(StoreError, match="is of version 2"):
        LakeTable(lake.address, create=False, form=replace(LINEAGE, version=1))
