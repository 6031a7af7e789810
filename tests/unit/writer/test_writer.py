"""The writer's decisions: what is stored, in which transactions, and what becomes of the rest."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Sequence

import pytest
from neo4j.exceptions import Neo4jError

from lineage_core.codec.edge_message import Links, PackedEdge, StoredBlock, pack_links, pack_stored
from lineage_core.contract.block import BlockId
from lineage_core.contract.message import (
    Begin,
    DeadLetter,
    End,
    Heartbeat,
    Job,
    Message,
    Register,
    Totals,
    dump_message,
)
from lineage_core.contract.verdict import judge
from lineage_core.linking.linker import TaskId
from lineage_store.errors import StoreError, StoreUnavailableError
from lineage_writer import partition as partition_module
from lineage_writer.errors import SourceLostError
from lineage_writer.health import Health
from lineage_writer.metrics import Metrics
from lineage_writer.partition import PartitionWriter, Tools
from lineage_writer.records import Content, StoreBatch, cut, read_batch, read_record
from lineage_writer.refusals import StoreRefusal, read_refusal
from lineage_writer.settings import WriterSettings
from lineage_writer.threads import ThreadedStore
from tests.support.writer_fakes import EDGES, FakeLetters, FakeRecord, FakeSource, FakeStore

pytestmark = pytest.mark.unit

GROUP = "lineage-writer"
KEY = (GROUP, *EDGES)
PROBLEM = StoreUnavailableError("away")


def beat(at: float) -> bytes:
    return dump_message(Heartbeat(app="app-1", at=at)).encode()


BEATS = [beat(at) for at in range(10)]


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries without waiting; nothing from outside."""
    monkeypatch.setattr("lineage_writer.waiting.FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr("lineage_writer.waiting.LONGEST_PAUSE_S", 0.001)


class Rig:
    """A partition's writer over fakes."""

    def __init__(
        self, source: FakeSource, store: FakeStore | None = None, **settings: object
    ) -> None:
        self.source = source
        self.store = store or FakeStore()
        self.letters = FakeLetters()
        self.metrics = Metrics()
        self.health = Health(self.metrics)
        self.settings = WriterSettings.model_validate({"writer_batch_wait_s": 0.0, **settings})

    def run(
        self, until: Callable[[], bool] | None = None, limit_s: float = 20.0
    ) -> PartitionWriter:
        """Run until the log's end is stored (or ``until`` holds)."""
        return asyncio.run(self._run(until or self.caught_up, limit_s))

    def caught_up(self) -> bool:
        return self.store.offsets.get(KEY) == self.source.end

    async def _run(self, until: Callable[[], bool], limit_s: float) -> PartitionWriter:
        threaded = ThreadedStore(self.store, GROUP, 2)
        slots = asyncio.Semaphore(1)
        tools = Tools(
            self.source, threaded, self.letters, self.settings, self.metrics, self.health, slots
        )
        writer = PartitionWriter(EDGES, tools)
        task = asyncio.create_task(writer.run())
        deadline = asyncio.get_running_loop().time() + limit_s
        while not until() and not task.done():
            assert asyncio.get_running_loop().time() < deadline, "nothing moves"
            await asyncio.sleep(0.002)
        writer.stop()
        await asyncio.wait_for(task, 5)
        assert not slots.locked()
        assert await threaded.close(5)
        return writer

    def value(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"lineage_writer_{name}", labels) or 0.0

    @property
    def times(self) -> list[float]:
        return [one.at for one in self.store.contents if isinstance(one, Heartbeat)]


# -- in order, once --------------------------------------------------------------------------


def test_all_is_stored_in_order_with_its_offset() -> None:
    rig = Rig(FakeSource(BEATS))
    writer = rig.run()
    assert rig.times == list(range(10))
    assert rig.store.offsets == {KEY: 10}
    assert writer.position == 10
    assert rig.health.problems == {}
    assert rig.value("messages_total") == 10
    assert rig.value("bytes_total") == sum(map(len, BEATS))
    assert rig.value("latency_seconds_count") == 10


def test_the_store_says_where_to_go_on() -> None:
    store = FakeStore()
    store.offsets[KEY] = 7
    rig = Rig(FakeSource(BEATS), store)
    rig.run()
    assert rig.source.seeks == [7]
    assert rig.times == [7, 8, 9]


def test_without_a_stored_offset_the_log_is_read_from_its_beginning() -> None:
    rig = Rig(FakeSource(BEATS, start=30))
    rig.run()
    assert rig.source.seeks == [30]
    assert rig.times == list(range(10))


@pytest.mark.parametrize("copy", [None, 4])
@pytest.mark.parametrize("news", [True, False])
def test_a_store_that_was_emptied_or_restored_is_filled_again(copy: int | None, news: bool) -> None:
    """While the writer runs: with the next records, and where none come, too."""
    rig = Rig(FakeSource(BEATS[:6]))

    async def run() -> None:
        threaded = ThreadedStore(rig.store, GROUP, 2)
        tools = Tools(
            *(rig.source, threaded, rig.letters, rig.settings, rig.metrics, rig.health),
            asyncio.Semaphore(1),
        )
        writer = PartitionWriter(EDGES, tools)
        task = asyncio.create_task(writer.run())
        await until(lambda: rig.caught_up() and writer.position == rig.source.end)
        await writer.check_stored_position()
        assert rig.times == list(range(6))
        del rig.store.contents[copy or 0 :]
        rig.store.offsets = {} if copy is None else {KEY: copy}
        if news:
            rig.source.log += FakeSource(BEATS).log[6:]
        else:
            await writer.check_stored_position()
        await until(lambda: len(rig.times) == len(rig.source.log) and rig.caught_up())
        writer.stop()
        await asyncio.wait_for(task, 5)
        assert await threaded.close(5)

    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.002)

    asyncio.run(run())
    assert rig.times == list(range(len(rig.source.log)))
    assert rig.store.prepared == (copy is None)


def test_records_that_kafka_removed_are_passed() -> None:
    store = FakeStore()
    store.offsets[KEY] = 7
    rig = Rig(FakeSource(BEATS, start=30), store)
    rig.run()
    assert rig.times == list(range(10))


def test_applications_say_that_records_were_removed_before_they_were_stored() -> None:
    """Of those that are complete none can be missing."""
    store = FakeStore()
    store.offsets[KEY] = 7
    whole: list[Message] = [
        Begin(app="whole", name="job", started_at=1.0),
        Register(app="whole", node="1", kind="sink", op="count"),
        Job(app="whole", job=0, action="count", sink="1"),
        End(app="whole", ended_at=2.0, status="ok", totals=Totals(nodes=1)),
    ]
    store.contents = [*whole, Begin(app="running", name="job", started_at=1.0)]
    rig = Rig(FakeSource(BEATS, start=30), store)
    rig.run()
    lost = [one for one in store.contents if isinstance(one, DeadLetter)]
    assert [(one.app, one.place) for one in lost] == [("running", "lineage-edge/0/7")]
    verdict = judge(store.messages("running"), store.counts("running"), now=2.0)
    assert "before offset 30 before they were stored" in " ".join(verdict.reasons)
    assert rig.value("lost_messages_total") == 23


def test_a_topic_that_was_made_anew_is_read_from_its_beginning() -> None:
    store = FakeStore()
    store.offsets[KEY] = 5_000
    rig = Rig(FakeSource(BEATS), store)
    rig.run()
    assert rig.times == list(range(10))
    assert store.offsets == {KEY: 10}


def test_a_topic_that_is_made_anew_meanwhile() -> None:
    rig = Rig(FakeSource(BEATS))
    rig.run()
    rig.source.log = [FakeRecord(offset, value) for offset, value in enumerate(BEATS[:4])]
    writer = rig.run()
    assert rig.times == [*range(10), *range(4)]
    assert writer.position == 4


def test_batches_are_bounded() -> None:
    rig = Rig(FakeSource(BEATS), writer_batch_rows=3)
    rig.run()
    assert rig.store.transactions == [3, 3, 3, 1]


# -- two writers, lost answers ---------------------------------------------------------------


def test_a_batch_that_another_writer_stored_is_dropped() -> None:
    rig = Rig(FakeSource(BEATS), writer_batch_rows=2)
    other: list[Content] = [Heartbeat(app="app-1", at=at) for at in (2, 3, 4)]

    def overtake() -> None:
        if rig.store.offsets[KEY] == 2:
            rig.store.offsets[KEY] = 5
            rig.store.contents += other

    rig.store.after_commit = overtake
    rig.run()
    assert rig.times == list(range(10))
    assert rig.value("retries_total", cause="fenced") == 1
    assert rig.source.seeks == [0, 5]


def test_a_lost_answer_stores_nothing_twice() -> None:
    rig = Rig(FakeSource(BEATS), writer_batch_rows=4)
    answers = iter([StoreUnavailableError("connection lost"), None])

    def lose() -> None:
        problem = next(answers, None)
        if problem:
            raise problem

    rig.store.after_commit = lose
    rig.run()
    assert rig.times == list(range(10))


# -- the store is away -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "problem",
    [
        PROBLEM,
        StoreError("the credentials are refused"),
        OSError("no route to host"),
    ],
)
def test_a_store_that_is_away_is_waited_for(problem: Exception) -> None:
    rig = Rig(FakeSource(BEATS))
    rig.store.read_errors = iter([PROBLEM] * 3)
    left = [8]
    seen: list[bool] = []

    def refuse(_: Sequence[Content]) -> None:
        seen.append(rig.health.ready)
        if left[0]:
            left[0] -= 1
            raise problem

    rig.store.refuse = refuse
    rig.run()
    assert rig.times == list(range(10))
    assert rig.letters.sent == []
    assert seen == [True] * 4 + [False] * 5
    assert rig.health.ready
    assert rig.value("retries_total", cause="unavailable") == 11


def test_stopping_does_not_wait_for_the_store() -> None:
    rig = Rig(FakeSource(BEATS))

    def refuse(_: Sequence[Content]) -> None:
        raise PROBLEM

    rig.store.refuse = refuse
    rig.run(until=lambda: rig.value("retries_total", cause="unavailable") > 3)
    assert rig.store.offsets == {}


def test_kafka_s_client_is_made_anew_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    from aiokafka.errors import KafkaConnectionError

    monkeypatch.setattr(partition_module, "SOURCE_TRIES", 3)
    rig = Rig(FakeSource(BEATS))
    rig.source.errors = iter([KafkaConnectionError()] * 3)
    with pytest.raises(SourceLostError):
        rig.run()


# -- poison ----------------------------------------------------------------------------------


POISON = [b"", None, b"LMF1", b"\x00\xff", b"{", b'{"v": 1, "type": "begin"}', b"[" * 100_000]


@pytest.mark.parametrize("poison", POISON)
def test_what_can_t_be_read_is_a_dead_letter(poison: bytes | None) -> None:
    rig = Rig(FakeSource([*BEATS[:3], poison, *BEATS[3:]]))
    rig.run()
    assert rig.times == list(range(10))
    ((record, dead),) = rig.letters.sent
    assert (record.offset, record.value) == (3, poison)
    assert (str(dead.place), dead.app, dead.service) == ("lineage-edge/0/3", "app-1", "writer")
    assert dead.reason
    assert [one for one in rig.store.contents if isinstance(one, DeadLetter)] == [dead.message()]
    assert rig.value("dead_letters_total") == 1


def test_longer_records_than_allowed_are_not_decoded() -> None:
    rig = Rig(FakeSource([*BEATS, b"{" + b" " * 100]), writer_record_bytes=100)
    rig.run()
    ((_, dead),) = rig.letters.sent
    assert dead.reason == "record: 101 bytes, at most 100 are read"


def test_a_dead_letter_without_an_application_moves_only_the_offset() -> None:
    rig = Rig(FakeSource(BEATS))
    rig.source.log[4] = FakeRecord(4, b"?", b"\xff")
    rig.run()
    assert len(rig.store.contents) == 9
    assert rig.store.offsets == {KEY: 10}


def test_a_dead_letter_is_durable_before_its_place_is_passed() -> None:
    rig = Rig(FakeSource([b"?"]))
    rig.letters.failures = 4

    def refuse(_: Sequence[Content]) -> None:
        assert rig.letters.sent

    rig.store.refuse = refuse
    rig.run()
    assert len(rig.letters.sent) == 1


def neo4j_error(code: str) -> StoreError:
    error = Neo4jError._hydrate_neo4j(code=code, message="no")
    problem = (StoreUnavailableError if error.is_retryable() else StoreError)(f"refused: {error}")
    problem.__cause__ = error
    return problem


REFUSED = neo4j_error("Neo.ClientError.Statement.ArgumentError")


def refusing(*times: float, error: Exception = REFUSED) -> Callable[[Sequence[Content]], None]:
    def refuse(contents: Sequence[Content]) -> None:
        if any(isinstance(one, Heartbeat) and one.at in times for one in contents):
            raise error

    return refuse


@pytest.mark.parametrize("error", [REFUSED, OverflowError("too large")])
def test_records_that_the_store_refuses_are_found_and_set_aside(error: Exception) -> None:
    rig = Rig(FakeSource(BEATS))
    rig.store.refuse = refusing(3, 8, error=error)
    rig.run()
    assert rig.times == [0, 1, 2, 4, 5, 6, 7, 9]
    assert [record.offset for record, _ in rig.letters.sent] == [3, 8]
    assert all(dead.reason.startswith("refused by the store") for _, dead in rig.letters.sent)
    assert sum(isinstance(one, DeadLetter) for one in rig.store.contents) == 2


def test_a_refusal_of_everything_is_nobody_s_fault() -> None:
    rig = Rig(FakeSource(BEATS))
    left = [40]

    def refuse(_: Sequence[Content]) -> None:
        if left[0]:
            left[0] -= 1
            raise REFUSED

    rig.store.refuse = refuse
    rig.run()
    assert rig.times == list(range(10))
    assert rig.letters.sent == []


def test_a_dead_letter_that_the_store_refuses_too() -> None:
    rig = Rig(FakeSource(BEATS))

    def refuse(contents: Sequence[Content]) -> None:
        refusing(3)(contents)
        if any(isinstance(one, DeadLetter) for one in contents):
            raise REFUSED

    rig.store.refuse = refuse
    rig.run()
    assert len(rig.letters.sent) == 1
    assert rig.times == [0, 1, 2, *range(4, 10)]


def test_too_large_a_transaction_is_halved() -> None:
    rig = Rig(FakeSource(BEATS))
    problem = neo4j_error("Neo.TransientError.General.MemoryPoolOutOfMemoryError")

    def refuse(contents: Sequence[Content]) -> None:
        if len(contents) > 3:
            raise problem

    rig.store.refuse = refuse
    rig.run()
    assert rig.times == list(range(10))
    assert rig.store.transactions == [2, 3, 2, 3]
    assert rig.letters.sent == []


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        ("Neo.ClientError.Statement.TypeError", StoreRefusal.SUSPECT),
        ("Neo.ClientError.Schema.ConstraintValidationFailed", StoreRefusal.SUSPECT),
        ("Neo.DatabaseError.Statement.ExecutionFailed", StoreRefusal.SUSPECT),
        ("Neo.DatabaseError.Transaction.TransactionCommitFailed", StoreRefusal.WAIT),
        ("Neo.ClientError.Security.Unauthorized", StoreRefusal.WAIT),
        ("Neo.ClientError.General.ForbiddenOnReadOnlyDatabase", StoreRefusal.WAIT),
        ("Neo.ClientError.Database.DatabaseNotFound", StoreRefusal.WAIT),
        ("Neo.TransientError.Transaction.DeadlockDetected", StoreRefusal.WAIT),
        ("Neo.TransientError.General.DatabaseUnavailable", StoreRefusal.WAIT),
        ("Neo.TransientError.General.OutOfMemoryError", StoreRefusal.SPLIT),
    ],
)
def test_what_errors_of_neo4j_ask_for(code: str, refusal: StoreRefusal) -> None:
    assert read_refusal(neo4j_error(code)) is refusal


# -- any interleaving ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_two_writers_at_any_moments(seed: int) -> None:
    """Both believe the partition theirs; answers get lost; one of them is told to stop."""
    rng = random.Random(seed)
    values = [beat(at) for at in range(60)]
    store = FakeStore()
    source = FakeSource(values)

    def lose() -> None:
        if rng.random() < 0.2:
            raise StoreUnavailableError("connection lost")

    store.after_commit = lose
    first, second = (
        Rig(FakeSource(values), store, writer_batch_rows=rng.randint(1, 7)) for _ in range(2)
    )

    def ended() -> bool:
        return store.offsets.get(KEY) == source.end

    async def both() -> None:
        await asyncio.gather(first._run(ended, 20), second._run(ended, 20))

    asyncio.run(both())
    assert [one.at for one in store.contents if isinstance(one, Heartbeat)] == list(range(60))


# -- records ---------------------------------------------------------------------------------

ID = BlockId("4", 0, 1, 0)
BLOCK = StoredBlock(
    "app-1",
    TaskId("4", 0, 1),
    ID,
    "0#0",
    0,
    5,
    6,
    6,
    True,
    "",
    (("4@0", 1, 9), ("4@1", 2, 3)),
    b"x",
)
LINKS = Links("app-1", [ID], [(ID, 3)], [PackedEdge(ID, ID, 7, b"e")])


def test_frames_are_read() -> None:
    entry = read_record(EDGES, FakeRecord(0, pack_stored(BLOCK)), 1 << 20, 0.0)
    assert isinstance(entry.content, StoredBlock)
    assert (entry.content.block_id, entry.content.data, entry.rows) == (ID, b"x", 4)
    rows = [
        read_record(EDGES, FakeRecord(0, value), 1 << 20, 0.0).rows for value in pack_links(LINKS)
    ]
    assert rows == [4]


def test_metrics_count_blocks_flows_and_edges() -> None:
    rig = Rig(FakeSource([pack_stored(BLOCK), *pack_links(LINKS)]))
    rig.run()
    assert rig.value("blocks_total") == 1
    assert rig.value("flows_total") == 6
    assert rig.value("edges_total") == 7
    # Blocks became visible in one of the records of links.
    assert rig.value("queryable_seconds_count") == 1
    assert rig.value("latency_seconds_count") == rig.value("messages_total")


def test_cuts_follow_on_each_other() -> None:
    begin = dump_message(Begin(app="a", name="n", started_at=0.0)).encode()
    records = [FakeRecord(offset, begin) for offset in (3, 4, 9, 12, 13)]
    batch = read_batch(EDGES, 1, records, 1 << 20, 0.0)
    for rows in range(1, 7):
        parts = list(cut(batch, rows))
        assert [entry for part in parts for entry in part.entries] == batch.entries
        assert all(len(part.entries) <= rows for part in parts)
        assert_follow(parts)
    assert_follow(batch.halves())


def assert_follow(parts: Sequence[StoreBatch]) -> None:
    assert (parts[0].first, parts[-1].next) == (1, 14)
    for before, after in itertools.pairwise(parts):
        assert before.next == after.first == after.entries[0].record.offset
