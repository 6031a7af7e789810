"""What every store does: the same tests over SQLite, Neo4j, a lake, and a database with a lake behind it."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from lineage_arrays import Recording
from lineage_arrays.saved import parse_address, storing, trace_back, trace_forward
from lineage_core.codec.columns import pack_block
from lineage_core.codec.csv_codec import encode_csv
from lineage_core.contract.address import POSITION_MAX
from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.graph import (
    BlockRef,
    ContainerRecord,
    EdgeBatch,
    LinkRecord,
    RowChecksums,
)
from lineage_core.contract.message import (
    Begin,
    Commit,
    DeadLetter,
    End,
    Erased,
    Heartbeat,
    Link,
    Message,
    Read,
    Recipe,
    RecordFiles,
    RecordSplit,
    RecordSplits,
    Register,
    SinkFile,
    SinkFiles,
    Split,
    Splits,
    Totals,
)
from lineage_core.contract.region import Region
from lineage_core.contract.sealing import seal_of
from lineage_core.contract.verdict import ABANDONED_AFTER_S
from lineage_core.linking.linker import TaskId
from lineage_core.recipe.document import ERASED
from lineage_core.tracing.budget import (
    SMALL_MESSAGES,
    Budget,
    MessageRoom,
    TooMuchError,
    use_budget,
)
from lineage_core.tracing.tracer import Direction, Tracer, trace
from lineage_store.dump import dump_application
from lineage_store.inexact_reasons import REASON_CHARS_MAX, REASONS_MAX
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.store import LakeStore
from lineage_store.paths import Spellings
from lineage_store.port import ErasableStore, GraphStore
from lineage_store.recomputing import RECOMPUTED, UNCOMMITTED
from lineage_store.recorded_files import FileQuery, FileVersion, RecordedFile
from lineage_store.records import ABANDONED, COMMITS_MISSING, RECORDS_LOST
from lineage_store.sqlite.store import SqliteStore
from lineage_store.tiers.address import TierAddresses
from lineage_store.tiers.store import TieredStore
from tests.oracle.budget import examples
from tests.support import flow_blocks
from tests.support.spool_builder import APP, block, verdict_of
from tests.support.stores import empty_neo4j

pytestmark = pytest.mark.integration

NOW = 1_000.0


@dataclass
class Clock:
    """The stores'."""

    now: float = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(
    params=[
        *("sqlite", "neo4j", "lake", "tiers"),
        *(pytest.param(scheme, marks=pytest.mark.long) for scheme in ("s3", "gs", "az", "hdfs")),
    ]
)
def store(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    clock: Clock,
    lake_on: Callable[[str], LakeAddress],
) -> Iterator[GraphStore]:
    if request.param == "sqlite":
        with SqliteStore(tmp_path / "lineage.db", clock=clock) as sqlite:
            yield sqlite
    elif request.param == "lake":
        with LakeStore(LakeAddress(str(tmp_path / "lake")), clock=clock) as lake:
            yield lake
    elif request.param == "tiers":
        hot = SqliteStore(tmp_path / "lineage.db", clock=clock)
        cold = LakeStore(LakeAddress(str(tmp_path / "lake")), clock=clock)
        with TieredStore(hot, lambda: cold, TierAddresses("hot", "lake:cold")) as tiers:
            yield tiers
    elif request.param != "neo4j":
        with LakeStore(lake_on(request.param), clock=clock) as remote:
            yield remote
    else:
        with empty_neo4j(request.getfixturevalue("neo4j"), clock=clock) as neo4j:
            yield neo4j


def begin(app: str, started_at: float = 1.0) -> Begin:
    return Begin(app=app, name=f"name of {app}", started_at=started_at)


def commit(node: str, attempt: int, **fields: Any) -> Commit:
    return Commit(app=APP, node=node, partition=0, attempt=attempt, blocks=1, **fields)


def wide_block(app: str, seq: int) -> FlowBlock:
    """About 300 KB however well it is packed."""
    random = np.random.default_rng(seq)
    ins = np.unique(random.integers(0, 2**63, 40_000, np.uint64))
    rows = [([position], at) for at, position in enumerate(ins.tolist())]
    return block(BlockId("9", 0, 1, seq), "1#0", [("9#0", rows)], app=app)


@settings(
    max_examples=examples(15),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(made=flow_blocks.blocks())
def test_any_block_comes_back_as_it_was(store: GraphStore, made: FlowBlock) -> None:
    app = made.app or "no name"
    store.delete(app)
    store.write(app, blocks=[made, made])
    graph = store.graph(app)
    loaded = graph.load([made.block_id])[made.block_id]
    assert encode_csv(loaded) == encode_csv(made)
    assert (loaded.app, loaded.exact, loaded.reason) == (app, made.exact, made.reason)
    for section in made.out:
        if section.row_stop > section.row_first:
            refs = graph.blocks_into(section.space, 0, POSITION_MAX)
            assert [ref.block_id for ref in refs] == [made.block_id]
    refs = graph.blocks_from(made.in_space, 0, POSITION_MAX)
    assert [ref.block_id for ref in refs] == [made.block_id] * (len(made.in_first) > 0)
    assert [ref.block_id for ref in graph.blocks()] == [made.block_id]


@pytest.mark.parametrize("ahead_s", [-1e8, -61.0, 0.0, 61.0, 1e8])
def test_a_drivers_clock_decides_nothing(store: GraphStore, clock: Clock, ahead_s: float) -> None:
    """Who is heard lives, and who is not heard is dead, whatever time it believes it is."""

    def status() -> tuple[str, str, bool]:
        verdict = verdict_of(store)
        return store.applications()[0].status, verdict.status, verdict.final

    def heard(beat: int, at: float) -> None:
        store.write(APP, [Heartbeat(app=APP, at=1e9 + ahead_s + at, beat=beat)])

    alive, dead = ("running", "running", False), ("abandoned", "abandoned", True)
    first = begin(APP, 1e9 + ahead_s)
    store.write(APP, [first])
    for beat, at in enumerate((50.0, 100.0, 90.0, -7200.0), start=1):  # set back, twice
        clock.now += 50
        heard(beat, at)
        assert status() == alive
    clock.now += 59
    assert status() == alive
    clock.now += 2
    assert status() == dead
    # What comes again says nothing of now.
    store.write(APP, [first])
    heard(4, -7200.0)
    heard(2, 100.0)
    assert status() == dead
    heard(5, -7100.0)
    assert status() == alive


def test_edges_narrow_a_trace_where_the_seal_of_their_space_holds(store: GraphStore) -> None:
    """Six map tasks wrote one key; the linker lost its state before the last three came."""
    maps = [
        block(BlockId("2", part, part, 0), f"1#{part}", [("2@0", [([part], 7)])])
        for part in range(6)
    ]
    reads = block(BlockId("3", 0, 9, 0), "2@0", [("3#0", [([7], 0)])])
    rows = np.zeros(1, np.uint32)
    edges = [EdgeBatch(made.block_id, reads.block_id, 1, rows, rows) for made in maps]
    ids = [made.block_id for made in maps]
    before = seal_of("2@0", ids[:3], [reads.block_id])
    store.write(APP, [begin(APP)], blocks=[*maps[:3], reads], edges=edges[:3], seals=[before])
    graph = store.graph(APP)
    assert (list(graph.sealed(["2@0", "2@1"])), graph.seals()) == (["2@0"], [before])
    store.write(APP, blocks=maps[3:])

    def traced() -> int:
        start = {"3#0": Region(np.array([0], np.uint64))}
        return trace(graph, Direction.BACKWARD, start).passed["1"].count

    assert list(graph.sealed(["2@0"])) == []
    assert traced() == 6
    after = seal_of("2@0", ids, [reads.block_id])
    store.write(APP, edges=edges, seals=[after])
    assert (list(graph.sealed(["2@0"])), graph.seals()) == (["2@0"], [after])
    assert traced() == 6
    store.delete(APP)
    store.write(APP, blocks=[*maps, reads])
    assert store.graph(APP).seals() == []


def test_blocks_are_found_by_the_positions_they_may_hold(store: GraphStore) -> None:
    top = POSITION_MAX
    low = block(BlockId("4", 0, 1, 0), "1#0", [("4@0", [([0, 9], 5), ([4], 2)])])
    high = block(BlockId("4", 0, 1, 1), "1#0", [("4@0", [([top], top - 3), ([50], 2**63)])])
    none = block(BlockId("4", 0, 1, 2), "1#0", [("4@0", [([], 5)])])
    store.write(APP, blocks=[none, high, low])
    graph = store.graph(APP)

    def sequences(refs: list[BlockRef]) -> list[int]:
        return [ref.block_id.seq for ref in refs]

    def into(first: int, last: int) -> list[int]:
        return sequences(list(graph.blocks_into("4@0", first, last)))

    def taken(first: int, last: int) -> list[int]:
        return sequences(list(graph.blocks_from("1#0", first, last)))

    assert (into(0, 1), into(2, 2), into(5, 5)) == ([], [0], [0, 2])
    assert (into(6, 2**63 - 1), into(top, top), into(0, top)) == ([], [], [0, 1, 2])
    assert into(2**63 - 1, 2**63) == [1]
    assert (taken(9, 9), taken(10, 49), taken(51, 51)) == ([0], [], [1])
    assert (taken(top, top), taken(0, top)) == ([1], [0, 1])
    (ref,) = graph.blocks_from("1#0", 0, 0)
    assert (ref.in_min, ref.in_max, ref.rows, ref.associations) == (0, 9, 2, 3)
    empty = graph.blocks_into("4@0", 5, 5)[1]
    assert (empty.in_min, empty.in_max) == (1, 0)
    assert graph.blocks_into("4@1", 0, top) == graph.blocks_from("4@0", 0, top) == []
    assert graph.load([BlockId("4", 0, 1, 9)]) == {}
    many = [("4@0", 0, 1), ("4@1", 0, top), ("4@0", 5, 5), ("4@0", 5, 5)]
    assert [sequences(list(one)) for one in graph.blocks_into_each(many)] == [
        [],
        [],
        [0, 2],
        [0, 2],
    ]
    assert [sequences(list(one)) for one in graph.blocks_from_each([("1#0", 9, 9)])] == [[0]]
    assert graph.blocks_into_each([]) == graph.blocks_from_each([]) == []


def test_an_edge_of_a_block_that_is_not_there_stores_nothing(store: GraphStore) -> None:
    made = block(BlockId("4", 0, 1, 0), "1#0", [("4@0", [([0], 5)])])
    edge = EdgeBatch(BlockId("1", 0, 0, 0), made.block_id, 1)
    with pytest.raises(KeyError, match=r"1#0\.0#0"):
        store.write(APP, [begin(APP)], [made], [edge])
    assert store.applications() == []


def test_edges_are_found_from_both_ends(store: GraphStore) -> None:
    one, two = (BlockId("4", 0, 1, seq) for seq in range(2))
    end = BlockId("6", 0, 2, 0)
    blocks = [
        block(one, "1#0", [("4@0", [([0], 5), ([1], 6)])]),
        block(two, "1#0", [("4@0", [([7], 5)])]),
        block(end, "4@0", [("6#0", [([5], 0), ([6], 1)])]),
    ]
    rows = np.array([0, 1], np.uint32)
    edges = [EdgeBatch(one, end, 2, rows, rows), EdgeBatch(two, end, 1)]
    store.write(APP, [], blocks, edges)
    store.write(APP, [], [], edges)
    graph = store.graph(APP)

    def known(found: Sequence[EdgeBatch]) -> list[Any]:
        return sorted(
            (
                edge.producer,
                edge.consumer,
                edge.pairs,
                None if edge.rows_producer is None else edge.rows_producer.tolist(),
                None if edge.rows_consumer is None else edge.rows_consumer.tolist(),
            )
            for edge in found
        )

    both = [(one, end, 2, [0, 1], [0, 1]), (two, end, 1, None, None)]
    assert known(graph.edges_into([end])) == both
    assert known(graph.edges_from([one, two, one])) == both
    assert known(graph.edges_from([two])) == both[1:]
    assert graph.edges_into([one, two]) == graph.edges_from([]) == []


def test_applications_are_listed_with_their_status(store: GraphStore, clock: Clock) -> None:
    store.write("ended", [begin("ended", 1.0), End(app="ended", ended_at=5.0, status="failed")])
    store.write("dead", [begin("dead", 2.0), Heartbeat(app="dead", at=3.0)])
    clock.now += 2
    store.write("alive", [begin("alive", 3.0), Heartbeat(app="alive", at=4.0)])
    clock.now += 59
    store.write("alive", blocks=[block(BlockId("4", 0, 1, 0), "1#0", [("4@0", [([1, 3], 5)])])])
    records = {record.app: record for record in store.applications()}
    assert list(records) == store.application_ids() == ["alive", "dead", "ended"]
    assert [record.status for record in records.values()] == ["running", "abandoned", "failed"]
    assert (records["alive"].flows, records["alive"].associations) == (1, 2)
    assert (records["ended"].flows, records["ended"].associations) == (0, 0)
    assert (records["ended"].ended_at, records["ended"].name) == (5.0, "name of ended")
    for ask in (store.graph, store.counts, store.messages):
        with pytest.raises(KeyError, match="no application other"):
            ask("other")


def test_names_are_all_that_messages_gave(store: GraphStore) -> None:
    assert store.names() == {}
    store.write("one", [begin("one", 1.0), begin("one", 1.0)])
    store.write("two", [begin("two", 2.0), Begin(app="two", name="another", started_at=3.0)])
    store.write("late", [Heartbeat(app="late", at=4.0)])
    assert store.names() == {
        "one": frozenset({"name of one"}),
        "two": frozenset({"name of two", "another"}),
    }


def test_applications_are_found_by_the_files_they_recorded(
    store: GraphStore, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    read, written = tmp_path / "data" / "in.txt", tmp_path / "data" / "out.txt"

    def split(path: object) -> Split:
        return Split(partition=0, path=str(path), start=0, length=2, file_size=2, mtime=1.0)

    def file(path: object) -> SinkFile:
        return SinkFile(partition=0, path=str(path), size=2, mtime=1.0)

    def recorders(path: object) -> list[str]:
        files = store.recorded_files(FileQuery(str(path), Spellings())).items
        return list(dict.fromkeys(file.app for file in files))

    noted: dict[str, Message] = {
        "reads": Splits(app="reads", node="0", splits=(split(f"file:{read}"),)),
        "reads|by link": Splits(
            app="reads|by link", node="0", splits=(split(tmp_path / "link/in.txt"),)
        ),
        "writes": SinkFiles(app="writes", node="1", path=str(tmp_path), files=(file(written),)),
        "remote": RecordFiles(
            app="remote", node="1", path="s3://b/out", files=(file("s3://b/out/0"),)
        ),
    }
    for at, (app, message) in enumerate(noted.items()):
        store.write(app, [Begin(app=app, name="job", started_at=float(at)), message])
    assert recorders(read) == ["reads|by link", "reads"]
    assert recorders(f"{tmp_path}/data/../link/in.txt") == ["reads|by link", "reads"]
    assert recorders(written) == ["writes"]
    assert recorders("s3://b//out/0") == ["remote"]
    assert recorders(tmp_path / "other") == []
    # A file that was named by a link of another name is looked at wherever it is.
    (tmp_path / "latest").symlink_to("data/in.txt")
    record = RecordSplit(
        partition=0, path=str(tmp_path / "latest"), row=0, start=0, length=1, file_size=2, mtime=1
    )
    store.write("by name", [RecordSplits(app="by name", node="0", whole=False, splits=(record,))])
    assert recorders(read) == ["reads|by link", "reads", "by name"]
    # A folder that was moved is reached by the link left in its place, and so are its files.
    (tmp_path / "data").rename(tmp_path / "archive")
    (tmp_path / "data").symlink_to("archive")
    assert recorders(tmp_path / "archive" / "in.txt") == ["reads|by link", "reads", "by name"]
    store.delete("reads|by link")
    assert recorders(read) == ["reads", "by name"]


def test_versions_of_files_are_found_by_state_and_application(
    store: GraphStore, tmp_path: Path
) -> None:
    path = str(tmp_path / "part-00000")

    def write(
        app: str, at: float, *, size: int, checksum: str = "", folder: object = tmp_path
    ) -> None:
        file = SinkFile(
            partition=0, path=f"{folder}/part-00000", size=size, mtime=at, checksum=checksum
        )
        files = SinkFiles(app=app, node="1", path=str(folder), files=(file,))
        # The same message twice, and the same file in another message, are one version.
        other = SinkFiles(app=app, node="1", path=f"{folder}/.", files=(file,))
        store.write(app, [Begin(app=app, name="job", started_at=at), files, files, other])

    def found(**only: Any) -> list[tuple[str, int, float]]:
        files = store.recorded_files(FileQuery(path, Spellings(), **only))
        assert files.unread == ()
        return [(file.app, file.version.size, file.version.mtime) for file in files.items]

    write("first", 1.25, size=2, checksum="sha256:aa")
    write("second", 2.5, size=3)
    write("elsewhere", 2.5, size=3, folder=tmp_path / "other")
    write("first", 3.0, size=4)
    assert found() == [("first", 2, 1.25), ("first", 4, 3.0), ("second", 3, 2.5)]
    assert found(state=FileVersion(2, 1.2505)) == [("first", 2, 1.25)]
    assert found(state=FileVersion(2, 1.2525)) == found(state=FileVersion(3, 1.25)) == []
    assert found(app="second") == found(app="second", state=FileVersion(3, 2.5))
    assert found(app="second") == [("second", 3, 2.5)]
    assert found(app="first", state=FileVersion(3, 2.5)) == found(app="none") == []
    (file, _, _) = store.recorded_files(FileQuery(path, Spellings())).items
    assert file == RecordedFile("first", "1", path, True, FileVersion(2, 1.25, "sha256:aa"))
    store.delete("first")
    assert found() == [("second", 3, 2.5)]


def test_a_revision_is_of_one_run_and_its_messages(store: GraphStore) -> None:
    store.write("app", [begin("app", 1.0)])
    store.write("other", [begin("other", 1.0)])
    first = store.revision("app")
    store.write("other", [Heartbeat(app="other", at=4.0)])
    store.write("app", [begin("app", 1.0)])
    assert store.revision("app") == first
    store.write("app", [End(app="app", ended_at=5.0, status="ok")])
    second = store.revision("app")
    assert second not in {first, store.revision("other")}
    assert store.revisions(["app", "other", "app", "none"]) == {
        "app": second,
        "other": store.revision("other"),
    }
    assert store.revisions([]) == {}
    store.delete("app")
    with pytest.raises(KeyError):
        store.revision("app")
    store.write("app", [begin("app", 1.0), End(app="app", ended_at=5.0, status="ok")])
    assert store.revision("app") not in {first, second}


def test_the_same_message_twice_is_one(store: GraphStore) -> None:
    node = Register(app=APP, node="4", kind="shuffle", op="reduceByKey", call_site="job.py:3")
    store.write(APP, [begin(APP), node, node])
    store.write(APP, [node])
    assert store.messages(APP) == [begin(APP), node]
    assert store.messages(APP, "register") == [node]
    assert [record.call_site for record in store.graph(APP).nodes()] == ["job.py:3"]


def test_just_the_latest_heartbeat_is_kept(store: GraphStore) -> None:
    beats = [Heartbeat(app=APP, at=at) for at in (3.0, 9.0, 9.0, 5.0)]
    store.write(APP, [begin(APP), *beats[:2]])
    store.write(APP, beats[2:])
    store.write("other", [Heartbeat(app="other", at=1.0)])
    assert store.messages(APP) == [begin(APP), beats[1]]


def test_the_graph_is_read_from_messages(store: GraphStore) -> None:
    names: list[Any] = [("1", "source"), ("4", "shuffle"), ("6", "sink")]
    nodes = [Register(app=APP, node=node, kind=kind, op="op") for node, kind in names]
    links = [Link(app=APP, src=src, dest=dest) for src, dest in ("46", "14", "46")]
    where: dict[str, Any] = {"path": "file:/a", "file_size": 9, "mtime": 1.5}
    splits = [
        Split(partition=at, start=4 * at, length=4, checksum=f"sha256:{at}", **where)
        for at in (1, 0)
    ]
    files = [SinkFile(partition=at, path=f"out/{at}", size=3, mtime=2.5, rows=2) for at in (1, 0)]
    # The second split was read to its end by no task; what was read of it has checksums all the same.
    reads = [Read(space=f"1#{at}", rows=7, exhausted=not at, sums=f"{at}" * 16) for at in (0, 1)]
    commits = [
        Commit(app=APP, node="4", partition=0, attempt=1, reads=tuple(reads)),
        Commit(app=APP, node="6", partition=1, attempt=2, newlines=((3, 1), (0, 2))),
    ]
    files_of = SinkFiles(app=APP, node="6", path="out", files=tuple(files))
    splits_of = Splits(app=APP, node="1", splits=tuple(splits))
    pieces = [RecordSplit(partition=0, row=at, start=0, length=9, **where) for at in (1, 0)]
    others: list[Message] = [
        RecordSplits(app=APP, node="2", whole=True, splits=tuple(pieces)),
        RecordFiles(app=APP, node="7", path="out", files=tuple(files)),
    ]
    store.write(APP, [*nodes, *links, splits_of, files_of, *others, *commits])
    inside = {"containers": ("a", "a:b"), "container_types": ("job", "stage")}
    store.write(APP, [nodes[0].model_copy(update={"alias": "read"} | inside)])
    made = block(BlockId("4", 0, 1, 0), "1#0", [("4#0.1", [([1, 3], 5)]), ("4@0", [([2], 1)])])
    store.write(APP, [], [made])
    graph = store.graph(APP)
    assert [(node.node, node.alias) for node in graph.nodes()] == [
        ("1", "read"),
        ("4", None),
        ("6", None),
    ]
    assert [node.containers for node in graph.nodes()] == [
        (ContainerRecord("a", "job"), ContainerRecord("a:b", "stage")),
        (),
        (),
    ]
    assert [(n.blocks, n.flows, n.associations) for n in graph.nodes()] == [
        (0, 0, 0),
        (1, 2, 3),
        (0, 0, 0),
    ]
    assert list(graph.links()) == [LinkRecord("4", "6"), LinkRecord("1", "4")]
    assert [(s.partition, s.start, s.rows) for s in graph.splits("1")] == [(0, 0, 7), (1, 4, None)]
    assert [(s.checksum, s.summed) for s in graph.splits("1")] == [
        (f"sha256:{at}", (RowChecksums(7, f"{at}" * 16),)) for at in (0, 1)
    ]
    assert [(f.partition, f.newlines) for f in graph.sink_files("6")] == [
        (0, ()),
        (1, ((0, 2), (3, 1))),
    ]
    assert [(s.unit, s.row, s.rows) for s in graph.splits("2")] == [("file", 0, 1), ("file", 1, 1)]
    units = [{file.unit for file in graph.sink_files(sink)} for sink in ("6", "7")]
    assert units == [{"line"}, {"record"}]
    assert store.messages(APP, "link", "record_splits") == [*links[:2], others[0]]
    assert (graph.splits("4"), graph.sink_files("1")) == ([], [])
    assert (graph.spaces_of("4"), graph.spaces_of("1")) == (["4#0.1"], [])


def test_recipes_are_found_by_node(store: GraphStore) -> None:
    texts = {node: f'{{"version":1,"plan":["é {node}"]}}' for node in ("7", "7.0", "12")}
    recipes = [Recipe(app=APP, node=node, recipe=text) for node, text in texts.items()]
    frame = Register(app=APP, node="7", kind="frame", op="DataFrame.collect")
    store.write(APP, [begin(APP), frame, *recipes])
    store.write(APP, recipes)
    store.write("other", [Recipe(app="other", node="7", recipe='{"version":2}')])
    graph = store.graph(APP)
    assert store.messages(APP) == [begin(APP), frame, *recipes]
    assert store.messages(APP, "recipe") == recipes
    assert {node: graph.recipe(node) for node in texts} == texts
    assert graph.recipe("1") is None
    assert store.counts(APP).recipes == set(texts)
    assert [node.kind for node in graph.nodes()] == ["frame"]
    store.delete(APP)
    assert store.graph("other").recipe("7") == '{"version":2}'


def test_recordings_of_arrays_are_asked_about(
    store: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two programs, one of which reads what the other wrote; their messages of several parts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(storing, "ARRAYS_TEXT_MAX", 64)
    np.save("in.npy", np.arange(12.0).reshape(3, 4))
    for app, read, write in (("one", "in.npy", "middle.npy"), ("two", "middle.npy", "out.npy")):
        recording = Recording()
        np.save(write, np.roll(recording.load(read), 1, axis=0))
        messages = list(storing.messages_of(recording.flow, app, app))
        assert len([message for message in messages if message.type == "arrays"]) > 2
        store.write(app, messages)
        store.write(app, messages[::-1])
    trace = trace_back(store, parse_address("out.npy[0,3]"), all_jobs=True)
    [found] = trace.found
    assert (found.app, found.name, found.cells.positions().tolist()) == ("one", "in.npy", [7])
    assert (trace.exact, trace.complete) == (True, True)
    [went] = trace_forward(store, parse_address("in.npy[1,3]"), all_jobs=True).found
    assert (went.app, went.name, went.cells.positions().tolist()) == ("two", "out.npy", [3])


def test_messages_are_counted_before_they_are_read(store: GraphStore) -> None:
    recipe = Recipe(
        app=APP, node="frame", recipe=json.dumps({"version": 1, "text": "x" * 1_000_000})
    )
    newlines = tuple((row, 1) for row in range(120_000))
    commit = Commit(app=APP, node="out", partition=0, attempt=0, newlines=newlines)
    store.write(APP, [commit, recipe])
    graph = store.graph(APP)
    room = MessageRoom(4 * SMALL_MESSAGES)
    with use_budget(Budget(messages=room)):
        messages = store.messages(APP)
        # The recipe is compressed in the store.
        assert 2_000_000 < room.held < 2_400_000
        assert len(messages) == 2
    with use_budget(Budget(messages=MessageRoom(900_000))):
        for read in (
            lambda: store.messages(APP),
            lambda: store.messages(APP, "recipe"),
            lambda: graph.sink_files("out"),
        ):
            with pytest.raises(TooMuchError):
                read()


def test_spaces_come_by_partition_and_incarnation(store: GraphStore) -> None:
    spaces = ["4#10", "4#9.12", "4#9.3", "4@1", "4#*", "41#0", "4.x#0"]
    sections = [(space, [([at], at)]) for at, space in enumerate(spaces)]
    store.write(APP, blocks=[block(BlockId("4", 0, 1, 0), "1#0", sections)])
    assert store.graph(APP).spaces_of("4") == ["4#9.3", "4#9.12", "4#10"]


def test_reasons_are_counted_by_node_and_cut(store: GraphStore) -> None:
    reasons = {"4": [f"{at:03} " + "r" * 2_000 for at in range(25)], "5": ["few", "two"]}
    blocks = [
        dataclasses.replace(
            block(BlockId(node, 0, 1, at), "1#0", [(f"{node}@0", [([1], 5)])]),
            exact=False,
            reason=reason,
        )
        for node, of_node in reasons.items()
        for at, reason in enumerate(of_node)
    ]
    store.write(APP, blocks=blocks)
    inexact = store.counts(APP).inexact
    assert inexact["5"] == ("few", "two")
    assert inexact["4"] == (
        *(reason[:REASON_CHARS_MAX] for reason in reasons["4"][:REASONS_MAX]),
        "and 5 more reasons",
    )
    with use_budget(Budget(seconds=60, messages=MessageRoom(10_000))), pytest.raises(TooMuchError):
        store.counts(APP)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 3, 0, 1), (0, 2, 1, 3), (3, 1, 2, 0)])
def test_attempts_that_differ_make_their_keys_supersets(
    store: GraphStore, order: tuple[int, ...]
) -> None:
    by_key, by_row = [("4@0", [([1], 5)])], [("4#0.6", [([1], 5)])]
    first, second = BlockId("4", 0, 6, 0), BlockId("4", 0, 7, 0)
    rows = BlockId("5", 0, 6, 0)
    blocks = [block(first, "1#0", by_key), block(rows, "1#0", by_row), block(second, "1#0", by_key)]
    tasks = {one.block_id: TaskId("4", 0, one.block_id.attempt) for one in blocks}
    parts: list[tuple[list[Commit], list[FlowBlock]]] = [
        ([commit("4", 6, digest="a")], []),
        ([], blocks[:2]),
        ([commit("4", 7, digest="b")], []),
        ([], blocks[2:]),
    ]
    for at in order:
        messages, some = parts[at]
        store.write(APP, messages, some, tasks=tasks)
    graph = store.graph(APP)
    refs = {ref.block_id: ref for ref in graph.blocks()}
    assert {ref.reason for key, ref in refs.items() if key != rows} == {RECOMPUTED}
    assert [refs[key].exact for key in (first, second, rows)] == [False, False, True]
    assert not graph.load([first])[first].exact
    assert {ref.task for ref in refs.values()} == {"4"}
    assert store.counts(APP).inexact == {"4": (RECOMPUTED,)}


def test_attempts_that_agree_stay_exact(store: GraphStore) -> None:
    blocks = [
        block(BlockId("4", 0, attempt, 0), "1#0", [("4@0", [([1], 5)])]) for attempt in (6, 7)
    ]
    store.write(APP, [commit("4", 6, digest="a"), commit("4", 7, digest="a")], blocks)
    assert [ref.exact for ref in store.graph(APP).blocks()] == [True, True]


@pytest.mark.parametrize("first", [6, 7])
@pytest.mark.parametrize("digest", ["a", "b"])
def test_attempts_without_a_commit_may_differ(store: GraphStore, first: int, digest: str) -> None:
    """A commit may be lost behind what made its blocks visible: nothing tells what they put out."""
    named = [BlockId("4", 0, attempt, 0) for attempt in (6, 7)]
    blocks = [block(one, "1#0", [("4@0", [([1], 5)])]) for one in named]

    def reasons() -> list[tuple[bool, str]]:
        return [(ref.exact, ref.reason) for ref in store.graph(APP).blocks()]

    store.write(APP, [], blocks[:1])
    assert reasons() == [(True, "")]
    store.write(APP, [commit("4", first, digest="a")], blocks[1:])
    assert reasons() == 2 * [(False, UNCOMMITTED)]
    assert not store.graph(APP).load(named[:1])[named[0]].exact
    store.write(APP, [commit("4", 13 - first, digest=digest)])
    assert reasons() == 2 * [(True, "") if digest == "a" else (False, RECOMPUTED)]


@pytest.mark.parametrize(("tasks", "named"), [(1, False), (2, True), (2, False)])
def test_shuffles_are_supersets_while_commits_are_missing(
    store: GraphStore, tasks: int, named: bool
) -> None:
    """An attempt that nothing is known of may be the one that was read."""
    ended = End(app=APP, ended_at=2.0, status="ok", totals=Totals(tasks=tasks))
    register = Register(app=APP, node="4", kind="shuffle", op="partitionBy")
    made = block(BlockId("4", 0, 6, 0), "1#0", [("4@0", [([1], 5)])])
    reader = block(BlockId("5", 0, 8, 0), "4@0", [("5#0", [([5], 0)])])
    store.write(APP, [register, commit("4", 6, attempts_named=named)], [made, reader])

    def doubted(why: str) -> bool:
        output = {"5#0": Region.from_positions([0])}
        found = Tracer(store.graph(APP)).trace(Direction.BACKWARD, output)
        return any(why in reason for reason in found.reasons)

    assert not doubted(RECORDS_LOST)
    # The end may be lost as a commit may: nothing tells whether it still comes.
    letter = DeadLetter(app=APP, place="topic/0/7", reason="removed")
    store.write(APP, [letter])
    assert doubted(RECORDS_LOST) != named
    store.write(APP, [letter.model_copy(update={"resolved": True})])
    assert not doubted(RECORDS_LOST)
    store.write(APP, [letter])
    store.write(APP, [ended])
    exact = tasks == 1 or named
    assert [(one.exact, one.reason) for one in store.graph(APP).nodes()] == [
        (exact, "" if exact else COMMITS_MISSING)
    ]
    assert doubted(COMMITS_MISSING) != exact
    assert not doubted(RECORDS_LOST)


@pytest.mark.parametrize("named", [True, False])
def test_shuffles_of_an_abandoned_application_are_supersets(
    store: GraphStore, clock: Clock, named: bool
) -> None:
    """Its driver may be gone with executors whose attempts were read, and nothing was lost on the way."""
    register = Register(app=APP, node="4", kind="shuffle", op="partitionBy")
    store.write(APP, [register, commit("4", 6, attempts_named=named)])

    def reasons() -> list[tuple[bool, str]]:
        return [(one.exact, one.reason) for one in store.graph(APP).nodes()]

    clock.now += ABANDONED_AFTER_S
    assert reasons() == [(True, "")]
    clock.now += 1
    assert reasons() == [(True, "") if named else (False, ABANDONED)]
    store.write(APP, [End(app=APP, ended_at=2.0, status="ok", totals=Totals(tasks=1))])
    assert reasons() == [(True, "")]


def test_an_attempt_without_a_commit_is_named_as_the_others(store: GraphStore) -> None:
    blocks = [
        block(BlockId("4", 0, attempt, 0), f"3#0.{attempt}", [("4@0", [([1], 5)])])
        for attempt in (6, 7)
    ]
    store.write(APP, [], blocks)
    assert [ref.exact for ref in store.graph(APP).blocks()] == [False, False]
    store.write(APP, [commit("4", 7, digest="a", attempts_named=True)])
    assert [ref.exact for ref in store.graph(APP).blocks()] == [True, True]


@pytest.mark.parametrize("named", [True, False])
def test_attempts_whose_readers_name_them_need_not_agree(store: GraphStore, named: bool) -> None:
    """Rows of an attempt may be others, whatever the digests say; who names what was read is exact."""
    names = [BlockId("4", 0, attempt, 0) for attempt in (6, 7)]
    made = [block(one, f"3#0.{one.attempt}", [("4@0", [([1], 5)])]) for one in names]
    reader = block(BlockId("5", 0, 8, 0), "4@0", [("5#0", [([5], 0)])])
    reader = dataclasses.replace(reader, attempts_read=Region.from_positions([7]))
    commits = [commit("4", one.attempt, digest="a", attempts_named=named) for one in names]
    store.write(APP, [*commits, commit("5", 8)], [*made, reader])
    graph = store.graph(APP)
    assert [ref.exact for ref in graph.blocks()] == [named, named, True]
    assert store.counts(APP).inexact == ({} if named else {"4": (RECOMPUTED,)})
    assert graph.load([reader.block_id])[reader.block_id].attempts_read == reader.attempts_read
    found = Tracer(graph).trace(Direction.BACKWARD, {"5#0": Region.from_positions([0])})
    assert found.passed["3"].spaces.keys() == {"3#0.7"}


def test_what_is_not_matched_counts_unless_it_is_a_root(store: GraphStore) -> None:
    kinds: dict[str, Any] = {"1": "source", "4": "shuffle"}
    nodes = [Register(app=APP, node=node, kind=kind, op="op") for node, kind in kinds.items()]
    ids = [BlockId("4", at, 1, 0) for at in range(4)]
    blocks = [
        block(ids[0], "1#0", [("4@0", [([1], 5)])]),
        block(ids[1], "4@0", [("6#0", [([1, 5, 7], 5)])]),
        block(ids[2], "7#0", [("7#0", [([1], 5)])]),
        # A source whose records each run names anew.
        block(ids[3], "1#0.9", [("4@0", [([1], 6)])]),
    ]
    unmatched = {ids[0]: 1, ids[1]: 2, ids[2]: 1, ids[3]: 1}
    store.write(APP, [*nodes, commit("4", 1)], blocks, unmatched=unmatched)
    counts = store.counts(APP)
    assert (counts.received, counts.unlinked, counts.unmatched, counts.flows) == (4, 2, 3, 4)
    assert counts.claimed == {("4", 1), ("4", 2), ("4", 3)}
    assert counts.claimed_blocks == 3
    assert [ref.unmatched for ref in store.graph(APP).blocks()] == [1, 2, 1, 1]
    assert verdict_of(store).unmatched == 3


def test_counts_beyond_64_bits(store: GraphStore) -> None:
    everything = [("4#0", [(range(2), at) for at in range(2)])]
    blocks = []
    for seq in range(3):
        one = block(BlockId("4", 0, 1, seq), "1#0", everything)
        ends = np.array([2**63, 2**63], np.uint64)
        blocks.append(
            FlowBlock(
                one.block_id,
                one.relation,
                one.in_space,
                one.out,
                np.zeros(2, np.uint64),
                one.out_first,
                in_last=ends,
            )
        )
    store.write(APP, [begin(APP), Register(app=APP, node="4", kind="sink", op="x")], blocks)
    most = 3 * (2**63 - 1)
    assert [node.associations for node in store.graph(APP).nodes()] == [most]
    assert [record.associations for record in store.applications()] == [most]


@pytest.mark.parametrize("app", ["a|b", "a", "a%7Cb", "'; MATCH (n) DETACH DELETE n //", "é☃ x"])
def test_applications_may_be_called_anything(store: GraphStore, app: str) -> None:
    others = ["a|b|4#0.1#0", "b", "a%", "a|"]
    made = block(BlockId("4", 0, 1, 0), "1#0", [("4@0", [([1], 5)])], app=app)
    for name in (app, *others):
        node = Register(app=name, node="|b|4", kind="shuffle", op="'}) DETACH DELETE n //")
        store.write(name, [begin(name), node], [made])
    store.delete(app)
    assert {record.app for record in store.applications()} == set(others) - {app}
    for name in others:
        assert [record.flows for record in store.applications() if record.app == name] == [1]
        assert [node.node for node in store.graph(name).nodes()] == ["|b|4"]
        assert len(list(store.graph(name).blocks())) == 1


def test_readers_see_whole_blocks_while_others_write(store: GraphStore) -> None:
    store.write("big", [begin("big")])

    def write_ten(offset: int) -> None:
        for seq in range(offset, offset + 10):
            store.write("big", blocks=[wide_block("big", seq)])

    writers = [threading.Thread(target=write_ten, args=(10 * at,)) for at in range(2)]
    for writer in writers:
        writer.start()
    seen = 0
    while seen < 20:
        refs = store.graph("big").blocks_into("9#0", 0, POSITION_MAX)
        assert seen <= len(refs)
        seen = len(refs)
        assert len(store.graph("big").load([ref.block_id for ref in refs])) == seen
        if not any(writer.is_alive() for writer in writers):
            break
    for writer in writers:
        writer.join()
    assert len(store.graph("big").blocks_into("9#0", 0, POSITION_MAX)) == 20


SECRET = "ann of 7 elm street"


def _texts_app(store: GraphStore) -> None:
    """Two blocks with texts and edges between them, and two recipes."""
    first = block(BlockId("1", 0, 1, 0), "0#0", [("1#0", [([0], 0), ([1], 1)])])
    second = block(BlockId("2", 0, 1, 0), "1#0", [("2#0", [([0], 0), ([1], 1)])])
    named = [
        dataclasses.replace(one, values=[SECRET, f"{node} of bob"])
        for node, one in (("one", first), ("two", second))
    ]
    recipes = [
        Recipe(app=APP, node=node, recipe=f'{{"version":2,"holds":"{holds}"}}')
        for node, holds in (("f1", SECRET), ("f2", "nothing"))
    ]
    store.write(APP, [begin(APP), *recipes], named[:1])
    edge = EdgeBatch(first.block_id, second.block_id, 2)
    store.write(APP, [], named[1:], [edge])


def _without(made: FlowBlock) -> FlowBlock | None:
    values = ["[erased]" if text == SECRET else text for text in made.values or ()]
    return None if values == made.values else dataclasses.replace(made, values=values)


def test_texts_and_recipes_are_replaced_and_all_else_stays(
    store: ErasableStore, tmp_path: Path
) -> None:
    _texts_app(store)
    before = list(dump_application(store, APP))
    revision = store.revision(APP)
    by = Recipe(app=APP, node="f1", recipe=ERASED)
    messages: list[Message] = [by, Erased(app=APP, plan="sha256:1")]
    assert store.erase(APP, _without, messages) == 2
    assert store.revision(APP) != revision
    graph = store.graph(APP)
    assert (graph.recipe("f1"), json.loads(graph.recipe("f2") or "")["holds"]) == (
        ERASED,
        "nothing",
    )
    after = list(dump_application(store, APP))
    assert SECRET not in "\n".join(after)
    kinds = {line for line in before if not line.startswith(('{"message"', '{"block"'))}
    assert kinds <= set(after)
    assert [line.replace(SECRET, "[erased]") for line in before if line.startswith('{"block"')] == [
        line for line in after if line.startswith('{"block"')
    ]
    # Once more, as after an interruption: nothing changes.
    assert store.erase(APP, _without, messages) == 0
    assert list(dump_application(store, APP)) == after
    with pytest.raises(KeyError):
        store.erase("no such", _without, messages)


def test_no_file_of_the_store_keeps_what_was_replaced(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
) -> None:
    stores = (
        SqliteStore(tmp_path / "lineage.db", clock=clock),
        LakeStore(LakeAddress(str(tmp_path / "lake")), clock=clock),
    )
    for store in stores:
        with store:
            # Texts that are not compressed away.
            _texts_app(store)
            packed = _packed_texts(store)
            files = [path for path in tmp_path.rglob("*") if path.is_file()]
            assert any(data in path.read_bytes() for path in files for data in packed)
            store.erase(APP, _without, [Recipe(app=APP, node="f1", recipe=ERASED)])
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert not any(data in path.read_bytes() for path in files for data in packed)


def _packed_texts(store: GraphStore) -> list[bytes]:
    graph = store.graph(APP)
    loaded = graph.load([ref.block_id for ref in graph.blocks()])
    return [pack_block(made) for made in loaded.values()]
