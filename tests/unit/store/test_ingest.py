"""From the spool into the store: whatever happens to the files, what is whole gets there."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.message import Heartbeat, SinkFile, SinkFiles, Split, Splits
from lineage_store.sqlite import ingest as ingest_module
from lineage_store.sqlite.ingest import IngestReport, ingest, ingest_all
from lineage_store.sqlite.store import SqliteStore
from tests.hunt.simulated import MapTask, Simulated
from tests.support.spool_builder import APP, Spool, block, contents, verdict_of, word_count

pytestmark = pytest.mark.unit


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "lineage.db") as opened:
        yield opened


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


def sink(partition: int, attempt: int, rows: int, in_space: str = "1#0") -> FlowBlock:
    flows = [([at], at) for at in range(rows)]
    return block(BlockId("9", partition, attempt, 0), in_space, [(f"9#{partition}", flows)])


def test_a_word_count_is_stored_linked_and_complete(store: SqliteStore, spool: Spool) -> None:
    word_count(spool)
    report = ingest(store, spool.folder)
    verdict = verdict_of(store)
    assert verdict.complete, verdict.reasons
    assert (report.tasks, report.blocks, report.flows) == (4, 6, 13)
    assert (report.associations, report.edges) == (19, 8)
    assert verdict.to_json()["blocks"] == {
        "expected": 6,
        "written": 6,
        "received": 6,
        "linked": 6,
        "stubs": 0,
    }
    assert verdict.to_json()["tasks"] == {"expected": 4, "committed": 4}
    reached = store.graph(APP).edges_into([BlockId("6", 1, 21, 0)])
    pairs = {
        (str(edge.producer), tuple(edge.rows_producer.tolist()), tuple(edge.rows_consumer.tolist()))
        for edge in reached
        if edge.rows_producer is not None and edge.rows_consumer is not None
    }
    assert pairs == {("4#0.10#1", (2, 1), (0, 1)), ("4#1.11#1", (2, 1), (0, 1))}


def test_nothing_is_left_of_a_spool_that_is_stored(store: SqliteStore, spool: Spool) -> None:
    word_count(spool)
    ingest(store, spool.folder)
    assert not spool.folder.exists()
    assert ingest(store, spool.folder).app == ""


def test_all_applications_of_a_spool(store: SqliteStore, tmp_path: Path) -> None:
    for app in ("one", "two"):
        word_count(Spool(tmp_path / "spool", app))
    reports = ingest_all(store, tmp_path / "spool")
    assert [report.app for report in reports] == ["one", "two"]
    assert all(verdict_of(store, app).complete for app in ("one", "two"))
    assert [record.app for record in store.applications()] == ["two", "one"]


def test_message_by_message_and_all_again_is_the_same(tmp_path: Path) -> None:
    whole = Spool(tmp_path / "whole")
    word_count(whole)
    lines = whole.driver.read_bytes().splitlines(keepends=True)
    files = {path.name: path.read_bytes() for path in whole.blocks.iterdir()}
    with SqliteStore(tmp_path / "whole.db") as store:
        ingest(store, whole.folder)
        expected = contents(store)
    pieces = Spool(tmp_path / "pieces")
    with SqliteStore(tmp_path / "pieces.db") as store:
        for line in lines[:-1]:
            for name, content in files.items():  # delivered again and again
                (pieces.blocks / name).write_bytes(content)
            with pieces.driver.open("ab") as stream:
                stream.write(line + line)
            ingest(store, pieces.folder)
        with pieces.driver.open("ab") as stream:
            stream.write(lines[-1])
        ingest(store, pieces.folder)
        assert contents(store) == expected
    assert not pieces.folder.exists()


def test_half_a_line_waits_for_its_other_half(store: SqliteStore, spool: Spool) -> None:
    word_count(spool)
    text = spool.driver.read_bytes()
    spool.driver.write_bytes(text[:-20])
    assert ingest(store, spool.folder).tasks == 4
    assert not verdict_of(store).complete
    spool.driver.write_bytes(text)
    assert ingest(store, spool.folder).messages == 1
    assert verdict_of(store).complete


def test_transactions_of_one_byte_store_the_same(
    store: SqliteStore, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_module, "BATCH_BYTES", 1)
    word_count(spool)
    seen: list[int] = []
    ingest(store, spool.folder, progress=lambda report: seen.append(report.blocks))
    assert seen == sorted(seen)
    assert len(seen) > 10
    assert verdict_of(store).complete


@pytest.mark.parametrize("keep", [0, 1, 100, -1])
def test_a_torn_file_leaves_its_whole_frames(store: SqliteStore, spool: Spool, keep: int) -> None:
    word_count(spool)
    path = spool.blocks / "4-0-10.lmf"
    whole = path.read_bytes()
    path.write_bytes(whole[:keep])
    report = ingest(store, spool.folder)
    assert path.name in report.problems
    verdict = verdict_of(store)
    assert not verdict.complete
    assert any(path.name in reason for reason in verdict.reasons)
    assert verdict.blocks_received == (5 if keep == -1 else 4)
    # Half a file is kept; when the rest turns up, all is well.
    path.write_bytes(whole)
    ingest(store, spool.folder)
    assert verdict_of(store).complete
    assert not spool.folder.exists()


def test_a_flipped_bit_costs_its_block_and_says_so(store: SqliteStore, spool: Spool) -> None:
    word_count(spool)
    path = spool.blocks / "4-1-11.lmf"
    content = bytearray(path.read_bytes())
    content[-12] ^= 4
    path.write_bytes(content)
    ingest(store, spool.folder)
    verdict = verdict_of(store)
    assert (verdict.blocks_received, verdict.blocks_expected) == (5, 6)
    assert any("checksum" in reason for reason in verdict.reasons)
    assert path.exists()


def test_a_missing_file_is_named(store: SqliteStore, spool: Spool) -> None:
    word_count(spool)
    (spool.blocks / "6-0-20.lmf").unlink()
    ingest(store, spool.folder)
    verdict = verdict_of(store)
    assert verdict.blocks_received == 5
    assert any("6-0-20.lmf: the file is missing" in reason for reason in verdict.reasons)


def test_a_block_of_nonsense_is_left_out(store: SqliteStore, spool: Spool) -> None:
    spool.begin()
    other = block(BlockId("9", 0, 5, 1), "1#0", [("9#0", [([1], 1)])], app="another")
    spool.task("9", 0, 5, [sink(0, 5, 3), other])
    ingest(store, spool.folder)
    assert verdict_of(store).blocks_received == 1
    assert "of application 'another'" in store.counts(APP).problems["9-0-5.lmf"]


def test_nonsense_among_the_messages_is_skipped(store: SqliteStore, spool: Spool) -> None:
    spool.begin()
    with spool.driver.open("ab") as stream:
        stream.write(b'{"v": 1, "type": "commit"}\n\xff\xfe\n[]\n')
        stream.write(b'{"v":1,"type":"heartbeat","app":"another","at":1.0}\n')
    spool.task("9", 0, 5, [sink(0, 5, 3)])
    report = ingest(store, spool.folder)
    assert report.blocks == 1
    assert len(report.problems) == 4
    assert sum("driver.jsonl, byte" in reason for reason in verdict_of(store).reasons) == 4


def test_a_commit_can_not_name_a_file_elsewhere(store: SqliteStore, spool: Spool) -> None:
    spool.begin()
    outside = spool.folder.parent / "secret.lmf"
    spool.file("9", 0, 5, [sink(0, 5, 3)]).rename(outside)
    commit = spool.commit("9", 0, 5, 1)
    spool.send(commit.model_copy(update={"file": "../../secret.lmf", "attempt": 6}))
    ingest(store, spool.folder)
    assert verdict_of(store).blocks_received == 0
    assert outside.exists()


def test_an_uncommitted_task_is_swept_when_the_application_ends(
    store: SqliteStore, spool: Spool
) -> None:
    spool.begin()
    spool.task("9", 0, 5, [sink(0, 5, 3)])
    spool.file("9", 0, 4, [sink(0, 4, 2)])
    ingest(store, spool.folder)
    assert [path.name for path in spool.blocks.iterdir()] == ["9-0-4.lmf"]
    spool.end()
    ingest(store, spool.folder)
    assert not spool.folder.exists()
    assert verdict_of(store).flows == 3


def test_a_task_whose_records_were_read_is_visible_without_a_commit(
    store: SqliteStore, spool: Spool
) -> None:
    """Node 2 feeds node 3 feeds the sink; both were killed when ``take`` had enough."""
    spool.begin()
    spool.node("9", "sink", "take")
    first = block(BlockId("2", 0, 5, 0), "1#0", [("2#0.5", [([at], at) for at in range(4)])])
    second = block(BlockId("3", 0, 6, 0), "2#0.5", [("3#0.6", [([at], at) for at in range(3)])])
    unread = block(BlockId("3", 0, 8, 0), "2#0.5", [("3#0.8", [([0], 0)])])
    torn = spool.file("2", 0, 5, [first, first])
    torn.write_bytes(torn.read_bytes()[:-5])
    spool.file("3", 0, 6, [second])
    spool.file("3", 0, 8, [unread])
    spool.task("9", 0, 7, [sink(0, 7, 2, "3#0.6")])
    spool.job("9", n2=1, n3=1, n9=1)
    ingest(store, spool.folder)
    spool.end(tasks=1)
    assert len(list(spool.blocks.iterdir())) == 3
    ingest(store, spool.folder)
    assert not spool.folder.exists()
    verdict = verdict_of(store)
    assert verdict.complete, verdict.reasons
    assert (verdict.tasks_committed, verdict.blocks_linked, verdict.flows) == (3, 3, 9)
    assert len(store.graph(APP).edges_into([BlockId("3", 0, 6, 0), BlockId("9", 0, 7, 0)])) == 2


def test_a_claimed_task_may_still_grow_and_be_committed(store: SqliteStore, spool: Spool) -> None:
    spool.begin()
    parts = [block(BlockId("2", 0, 5, seq), "1#0", [("2#0.5", [([seq], seq)])]) for seq in range(3)]
    path = spool.file("2", 0, 5, parts[:2])
    spool.task("9", 0, 7, [sink(0, 7, 3, "2#0.5")])
    ingest(store, spool.folder)
    assert store.counts(APP).unmatched == 1
    assert store.counts(APP).claimed == {("2", 0)}
    spool.file("2", 0, 5, parts)
    ingest(store, spool.folder)
    assert store.counts(APP).unmatched == 0
    assert path.exists()
    spool.commit("2", 0, 5, 3)
    ingest(store, spool.folder)
    assert not path.exists()
    counts = store.counts(APP)
    assert (counts.claimed, counts.received, counts.flows) == (frozenset(), 4, 6)


@pytest.mark.parametrize("sink_first", [True, False])
def test_rows_that_did_not_reach_the_user_are_cut(
    store: SqliteStore, spool: Spool, sink_first: bool
) -> None:
    spool.begin()
    made = block(BlockId("2", 0, 5, 0), "1#0", [("2#0.5", [([at], at) for at in range(8)])])
    blocks = [sink(0, 7, 5, "2#0.5")]
    later = [([at + 5], at + 5) for at in range(3)]
    blocks.append(block(BlockId("9", 0, 7, 1), "2#0.5", [("9#0", later)]))
    if not sink_first:
        spool.task("2", 0, 5, [made])
        ingest(store, spool.folder)
    spool.task("9", 0, 7, blocks, rows=8, keep=2)
    ingest(store, spool.folder)
    if sink_first:
        spool.task("2", 0, 5, [made])
        ingest(store, spool.folder)
    graph = store.graph(APP)
    (ref,) = graph.blocks_into("9#0", 0, 100)
    assert (ref.rows, ref.associations, ref.in_max) == (2, 2, 1)
    assert graph.load([ref.block_id])[ref.block_id].rows == 2
    (edge,) = graph.edges_into([ref.block_id])
    assert edge.pairs == 2
    assert graph.edges_from([edge.producer])[0].pairs == 2
    verdict = verdict_of(store)
    assert (verdict.flows, verdict.blocks_received, verdict.blocks_linked) == (10, 3, 3)


@pytest.mark.parametrize("keep", [None, 2, 0])
def test_a_claimed_file_whose_commit_comes_late_is_cut(
    store: SqliteStore, spool: Spool, keep: int | None
) -> None:
    """A ``take`` sorts in its own segment; somebody reads what it sorted before it is over."""
    spool.begin()
    rows = [([at], at) for at in range(4)]
    made = block(BlockId("2", 0, 5, 0), "1#0", [("2#0.5", rows)])
    taken = block(BlockId("9", 0, 5, 1), "2#0.5", [("9#0", rows)])
    path = spool.file("9", 0, 5, [made, taken])
    reader = block(BlockId("8", 0, 6, 0), "2#0.5", [("8#0", rows)])
    spool.task("8", 0, 6, [reader])
    ingest(store, spool.folder)
    graph = store.graph(APP)
    assert graph.blocks_into("9#0", 0, 100) == []
    assert [edge.consumer.node for edge in graph.edges_from([made.block_id])] == ["8"]
    spool.commit("9", 0, 5, 2, rows=4, keep=keep)
    ingest(store, spool.folder)
    assert not path.exists()
    kept = 4 if keep is None else keep
    graph = store.graph(APP)
    assert [ref.rows for ref in graph.blocks_into("9#0", 0, 100)] == [kept] * (kept > 0)
    pairs = {edge.consumer.node: edge.pairs for edge in graph.edges_from([made.block_id])}
    assert pairs == ({"8": 4, "9": kept} if kept else {"8": 4})
    counts = store.counts(APP)
    assert (counts.received, counts.claimed, counts.unmatched) == (3, frozenset(), 0)


def test_a_torn_file_of_a_sink_is_cut_when_its_rest_turns_up(
    store: SqliteStore, spool: Spool
) -> None:
    spool.begin()
    path = spool.task("9", 0, 5, [sink(0, 5, 4)], rows=4, keep=3)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    ingest(store, spool.folder)
    assert verdict_of(store).blocks_received == 0
    path.write_bytes(whole)
    ingest(store, spool.folder)
    assert (verdict_of(store).blocks_received, verdict_of(store).flows) == (1, 3)
    assert not path.exists()


def test_a_sink_is_cut_also_when_the_first_call_ended_in_its_file(
    store: SqliteStore, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_module, "BATCH_BYTES", 1)
    spool.begin()
    rows = [([at], at) for at in range(8)]
    pieces = [
        block(BlockId("9", 0, 5, seq), "1#0", [("9#0", rows[4 * seq : 4 * seq + 4])])
        for seq in range(2)
    ]
    spool.task("9", 0, 5, pieces, rows=8, keep=6)

    def stop(report: IngestReport) -> None:
        if report.blocks:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        ingest(store, spool.folder, progress=stop)
    assert verdict_of(store).flows == 4
    ingest(store, spool.folder)
    assert (verdict_of(store).blocks_received, verdict_of(store).flows) == (2, 6)
    assert not list(spool.blocks.iterdir())


def test_attempts_that_differ_make_their_keys_supersets(store: SqliteStore, spool: Spool) -> None:
    spool.begin()
    for attempt, digest in ((5, "a"), (6, "b"), (7, "a")):
        made = block(BlockId("4", 0, attempt, 0), "1#0", [("4@0", [([attempt], 1)])])
        kept = block(BlockId("4", 0, attempt, 1), "3#0.2", [("4@0", [([attempt], 1)])])
        rows = block(BlockId("4", 0, attempt, 2), "1#0", [(f"4#0.{attempt}", [([attempt], 1)])])
        spool.task("4", 0, attempt, [made, kept, rows], digest=digest)
        ingest(store, spool.folder)
        exact = [ref.exact for ref in store.graph(APP).blocks_from("1#0", 0, 100)]
        assert all(exact) == (attempt == 5)
    refs = store.graph(APP).blocks_into("4@0", 0, 100)
    assert {ref.block_id.seq: ref.exact for ref in refs} == {0: False, 1: False}
    assert {ref.reason for ref in refs if not ref.exact} == {"recomputed differently"}
    assert all(ref.exact for ref in store.graph(APP).blocks_into("4#0.6", 0, 100))
    loaded = store.graph(APP).load([BlockId("4", 0, 5, 0)])
    assert loaded[BlockId("4", 0, 5, 0)].reason == "recomputed differently"
    assert verdict_of(store).superset == {"4": ("recomputed differently",)}


def test_positions_that_nobody_put_out_are_counted(store: SqliteStore, spool: Spool) -> None:
    spool.begin()
    spool.task("9", 0, 7, [sink(0, 7, 5, "2#0.5")])
    ingest(store, spool.folder)
    assert (store.counts(APP).unlinked, store.counts(APP).unmatched) == (1, 5)
    made = block(BlockId("2", 0, 5, 0), "1#0", [("2#0.5", [([at], at) for at in (0, 3, 9)])])
    spool.task("2", 0, 5, [made])
    ingest(store, spool.folder)
    assert (store.counts(APP).unlinked, store.counts(APP).unmatched) == (1, 3)
    assert not verdict_of(store).complete


def test_a_program_without_incarnations_links_from_its_roots(
    store: SqliteStore, spool: Spool
) -> None:
    spool.begin()
    for node, source, attempt in (("b", "a", 1), ("c", "b", 2)):
        rows = [([at], at) for at in range(3)]
        made = block(BlockId(node, 0, attempt, 0), f"{source}#0", [(f"{node}#0", rows)])
        spool.task(node, 0, attempt, [made])
    ingest(store, spool.folder)
    counts = store.counts(APP)
    assert (counts.received, counts.unlinked) == (2, 0)
    assert store.graph(APP).edges_into([BlockId("c", 0, 2, 0)])[0].pairs == 3


def test_splits_and_sink_files_know_what_the_tasks_saw(store: SqliteStore, spool: Spool) -> None:
    spool.begin()
    spool.node("1", "source", "textFile")
    half = {"path": "in.txt", "file_size": 20, "mtime": 5.0, "length": 10}
    splits = tuple(Split(partition=at, start=at * 10, **half) for at in range(2))
    spool.send(Splits(app=APP, node="1", splits=splits))
    files = (SinkFile(partition=0, path="out/part-00000", size=9, mtime=6.0, rows=3),)
    spool.send(SinkFiles(app=APP, node="9", path="out", files=files))
    reads = (
        {"space": "1#0", "rows": 4, "exhausted": True},
        {"space": "1#1", "rows": 2, "exhausted": False},
    )
    spool.task("9", 0, 7, [sink(0, 7, 3)], reads=reads, newlines=((1, 2),))
    spool.send(Heartbeat(app=APP, at=110.0), Heartbeat(app=APP, at=120.0))
    ingest(store, spool.folder)
    graph = store.graph(APP)
    assert [split.rows for split in graph.splits("1")] == [4, None]
    (file,) = graph.sink_files("9")
    assert (file.rows, file.newlines) == (3, ((1, 2),))
    assert graph.spaces_of("9") == ["9#0"]
    assert graph.spaces_of("1") == []
    assert len(store.messages(APP, "heartbeat")) == 1


def test_two_processes_may_ingest_one_folder(tmp_path: Path) -> None:
    word_count(Spool(tmp_path / "alone"))
    with SqliteStore(tmp_path / "alone.db") as store:
        ingest(store, tmp_path / "alone" / APP)
        expected = contents(store)
    word_count(Spool(tmp_path / "both"))
    path = tmp_path / "both.db"
    spawn = multiprocessing.get_context("spawn")
    started = spawn.Barrier(2)
    arguments = (path, tmp_path / "both" / APP, started)
    processes = [spawn.Process(target=ingest_at_once, args=arguments) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    with SqliteStore(path) as store:
        assert contents(store) == expected
    assert not (tmp_path / "both" / APP).exists()


def ingest_at_once(path: Path, folder: Path, started: Barrier) -> None:
    with SqliteStore(path) as store:
        started.wait()
        ingest(store, folder)


def test_sides_of_blocks_from_earlier_calls_are_read_again(
    store: SqliteStore, spool: Spool
) -> None:
    """Each call links against what former calls stored, in either order."""
    spool.begin()
    keys = [3, 2**63, 77, 5]
    for attempt in range(3):
        rows = [([at + attempt], key) for at, key in enumerate(keys)]
        made = block(BlockId("4", 0, attempt, 0), "1#0", [("4@0", rows), ("4@1", rows[:2])])
        spool.task("4", 0, attempt, [made])
        ingest(store, spool.folder)
        reader = block(
            BlockId("6", attempt, 9, 0), "4@0", [(f"6#{attempt}", [([key], 0) for key in keys])]
        )
        spool.task("6", attempt, 9, [reader])
        ingest(store, spool.folder)
    graph = store.graph(APP)
    edges = graph.edges_from([BlockId("4", 0, attempt, 0) for attempt in range(3)])
    assert {(edge.producer.attempt, edge.consumer.partition): edge.pairs for edge in edges} == {
        (producer, consumer): 4 for producer in range(3) for consumer in range(3)
    }
    assert store.counts(APP).unmatched == 0


def test_copied_blocks_whose_edges_were_lost_are_in_no_seal(
    store: SqliteStore, tmp_path: Path
) -> None:
    """A copy of a store that lacks edges: what is ingested later knows nothing of that."""
    job = Simulated(tuple(MapTask(((0,),)) for _ in range(3)), ((0, 0, 0),))
    spool = Spool(tmp_path / "spool", job.app)
    spool.send(*job.head())
    *maps, (reading, _, read) = job.tasks()
    for _, _, blocks in maps[:2]:
        store.write(job.app, blocks=blocks)
    store.write(job.app, blocks=read, tasks={read[0].block_id: reading})
    task, commit, blocks = maps[2]
    spool.file(task.node, task.partition, task.attempt, blocks)
    spool.send(commit, *job.tail())
    ingest(store, spool.folder)
    graph = store.graph(job.app)
    assert len(graph.edges_into([read[0].block_id])) == 1
    assert (graph.sealed(["2@0"]), graph.seals()) == ([], [])


def test_a_space_stays_sealed_from_call_to_call(store: SqliteStore, tmp_path: Path) -> None:
    job = Simulated(tuple(MapTask(((0,),)) for _ in range(3)), ((0, 0, 0),))
    spool = Spool(tmp_path / "spool", job.app)
    spool.send(*job.head())
    *maps, last = job.tasks()
    sealed = []
    for task, commit, blocks in [maps[0], last, *maps[1:]]:
        spool.file(task.node, task.partition, task.attempt, blocks)
        spool.send(commit)
        ingest(store, spool.folder)
        sealed.append(list(store.graph(job.app).sealed(["2@0"])))
    assert sealed == [[], ["2@0"], ["2@0"], ["2@0"]]


def test_a_folder_that_can_not_be_read_is_no_problem_of_others(
    store: SqliteStore, spool: Spool, tmp_path: Path
) -> None:
    word_count(spool)
    odd = tmp_path / "spool" / "a-first"
    (odd / "driver.jsonl").mkdir(parents=True)
    first, second = ingest_all(store, tmp_path / "spool")
    assert (first.app, list(first.problems)) == ("", [str(odd)])
    assert (second.app, second.tasks) == (APP, 4)
