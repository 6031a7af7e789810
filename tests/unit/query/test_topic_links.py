"""Traces that go on through topics of Kafka, held against topics of which it is known who wrote each record.

What a trace of one write says of a record is computed as `written_records` does: by the values of the records among the write's offsets.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from lineage_core.contract.message import (
    Begin,
    End,
    Link,
    Message,
    Recipe,
    RecordFiles,
    RecordSplit,
    RecordSplits,
    Register,
    SinkFile,
)
from lineage_core.contract.offsets import offsets_text
from lineage_core.recipe.document import Output, Source
from lineage_core.recipe.document import Recipe as Document
from lineage_core.recipe.names import KAFKA
from lineage_core.tracing.trace_result import Direction
from lineage_query.all_jobs import FileLinks
from lineage_query.answers import Answer, Group, Item
from lineage_query.engine import QueryEngine
from lineage_query.job_links import FileNode
from lineage_query.levels import LevelCounter
from lineage_query.next_job_search import AMONG_OFFSETS, with_next_jobs
from lineage_query.recipe_rows import RecipePlace
from lineage_query.record_trace import RecordTrace
from lineage_query.rows.places import partition_and_offset, record_of_topic
from lineage_query.rows.reader import RowReader
from lineage_query.topic_links import TopicLinks
from lineage_query.trace_query import TraceQuery
from lineage_query.unfiled_uses import UnfiledUses
from lineage_store.dataset_paths import ANY_TOPIC, UnfiledDataset
from lineage_store.errors import DamagedError, NoSuchRowError
from lineage_store.paths import Spellings
from lineage_store.sqlite.graph import SqliteGraph
from lineage_store.sqlite.store import SqliteStore
from tests.support.table_uses import PLAN

pytestmark = pytest.mark.unit

ROUNDS = 25
"""Topics that are drawn."""
SERVERS, OTHER_SERVERS, NAME = "kafka://k:9092", "kafka://k:9092,l:9092", "orders"
PARTITIONS = 2


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "store.db") as store:
        yield store


def place(partition: int, offset: int, servers: str = SERVERS, name: str = NAME) -> str:
    return f"{servers}/{name}[{partition}]@{offset}"


def version_of(before: list[int], after: list[int]) -> str:
    return offsets_text(dict(enumerate(zip(before, after, strict=True))))


def use_topic(
    store: SqliteStore,
    app: str,
    at: float,
    version: str | None,
    *,
    wrote: bool,
    topic_id: str = "one",
    servers: str = SERVERS,
    topic: str = NAME,
    node: str = "0",
    has_ended: bool = True,
) -> None:
    """An application that read or wrote a topic. ``version``: the offsets; None: these are not known."""
    path, name = UnfiledDataset(servers, (topic,)).path, f"{servers}/{topic}"
    options = {"servers": servers.removeprefix("kafka://"), "topic": topic, "id": topic_id}
    options = {name: value for name, value in options.items() if value}
    source = Source(KAFKA, (), "", options=options, table=name, version=version)
    output = Output("table", table=name, format=KAFKA, options=options, version=version)
    recipe = (
        Document("4.1", {}, (), PLAN, output) if wrote else Document("4.1", {}, (source,), PLAN)
    )
    messages: list[Message] = [
        Begin(app=app, name=app, started_at=at),
        Register(
            app=app,
            node=node,
            kind="frame",
            op="write",
            name="write",
            path=(wrote and name) or None,
        ),
        Recipe(app=app, node=node, recipe=recipe.to_json()),
    ]
    if wrote:
        file = SinkFile(partition=0, path=path, size=0, mtime=at)
        messages.append(
            RecordFiles(app=app, node=node, path=path, files=(file,), version=version or "")
        )
    else:
        split = RecordSplit(partition=0, path=path, start=0, length=0, file_size=0, mtime=at)
        messages += [
            Register(
                app=app, node=f"{node}.0", kind="frame-source", op=KAFKA, name=KAFKA, path=name
            ),
            Link(app=app, src=f"{node}.0", dest=node),
            RecordSplits(
                app=app, node=f"{node}.0", whole=False, splits=(split,), version=version or ""
            ),
        ]
    if has_ended:
        messages.append(End(app=app, ended_at=at, status="ok"))
    store.write(app, messages)


@dataclass
class Write:
    """What an application wrote: the value of each row. ``before``, ``after``: the ends of the topic, as it saw them."""

    rows: list[str]
    before: list[int]
    after: list[int] = field(default_factory=list)


@dataclass
class Topic:
    """A topic: by partition, value and source of each record; no source: another program wrote it."""

    id: str
    records: list[list[tuple[str, tuple[str, int] | None]]] = field(
        default_factory=lambda: [[] for _ in range(PARTITIONS)]
    )
    writes: dict[str, Write] = field(default_factory=dict)
    reads: dict[str, tuple[list[int], list[int]]] = field(default_factory=dict)

    def ends(self) -> list[int]:
        return [len(records) for records in self.records]

    def among(self, write: Write) -> Iterator[tuple[int, int, str, tuple[str, int] | None]]:
        for partition, (first, end) in enumerate(zip(write.before, write.after, strict=True)):
            for offset in range(first, end):
                yield partition, offset, *self.records[partition][offset]


class World:
    """Applications that write and read a topic, two at a time, and programs that nobody captured; the topic may be made anew."""

    def __init__(self, number: int, store: SqliteStore, *, values: str) -> None:
        draw = random.Random(number)
        self.topic, self.name = Topic("one"), f"{NAME}-{number}"
        self._store, self._draw, self._values = store, draw, list(values)
        self.unknown = 0
        self.servers: dict[str, str] = {}
        for at in range(1, draw.randint(3, 7)):
            if draw.random() < 0.15:
                self.topic = Topic(f"{self.topic.id} again")
            elif draw.random() < 0.3:
                self._read(f"{self.name}-reader-{at}", at)
            else:
                writers = range(draw.randint(1, 2))
                self._write([f"{self.name}-writer-{at}-{writer}" for writer in writers], at)
        self._read(f"{self.name}-reader", 9)

    def place(self, app: str, partition: int, offset: int) -> str:
        """A record as an application names it."""
        return place(partition, offset, self.servers[app], self.name)

    def _value(self) -> str:
        self._values = self._values or list("abc")
        return self._values.pop(self._draw.randrange(len(self._values)))

    def _write(self, apps: list[str], at: int) -> None:
        topic, draw = self.topic, self._draw
        waiting: list[tuple[str, tuple[str, int] | None]] = []
        writes = {}
        for app in apps:
            rows = [self._value() for _ in range(draw.randint(0, 3))]
            writes[app] = Write(rows, topic.ends())
            waiting += [(value, (app, row)) for row, value in enumerate(rows)]
            # A task that ran twice.
            waiting += draw.sample(waiting, draw.randint(0, len(waiting))) * (draw.random() < 0.2)
            if draw.random() < 0.4:
                waiting.append((self._value(), None))
            for _ in range(draw.randint(0, len(waiting))):
                record = waiting.pop(draw.randrange(len(waiting)))
                topic.records[draw.randrange(PARTITIONS)].append(record)
        for record in waiting:
            topic.records[draw.randrange(PARTITIONS)].append(record)
        for app, write in writes.items():
            write.after = topic.ends()
            topic.writes[app] = write
            self._record(app, at, version_of(write.before, write.after), wrote=True)

    def _read(self, app: str, at: int) -> None:
        ends = self.topic.ends()
        first = [self._draw.randint(0, end) for end in ends]
        self.topic.reads[app] = first, ends
        self._record(app, at, version_of(first, ends), wrote=False)

    def _record(self, app: str, at: int, version: str, *, wrote: bool) -> None:
        # That nothing was read is not recorded.
        is_unknown = self._draw.random() < 0.15 or not (version or wrote)
        self.unknown += is_unknown
        self.servers[app] = self._draw.choice((SERVERS, SERVERS, OTHER_SERVERS))
        use_topic(
            *(self._store, app, float(at), None if is_unknown else version),
            wrote=wrote,
            topic_id=self.topic.id,
            servers=self.servers[app],
            topic=self.name,
        )

    # -- the backend of the query engine ---------------------------------------------------------

    def trace_rows(self, query: TraceQuery, recipe_place: RecipePlace) -> Answer:
        """What a trace of one application says of a record, from what Kafka and the application's own rows say."""
        assert recipe_place.valued is not None
        partition, offset = partition_and_offset(recipe_place.valued)
        app = recipe_place.app
        if query.direction is Direction.FORWARD:
            assert recipe_place.nodes == ("0.0",)
            first, ends = self.topic.reads[app]
            assert first[partition] <= offset < ends[partition]
            return answer_of(app, query, "0", [f"/{app}.out:{partition * 1000 + offset + 1}"])
        assert recipe_place.nodes == ("0",)
        write = self.topic.writes[app]
        value, _ = self.topic.records[partition][offset]
        matched = [row for row, one in enumerate(write.rows) if one == value]
        if not matched:
            raise NoSuchRowError("no row of the output has these values")
        like = Counter(one for _, _, one, _ in self.topic.among(write))[value]
        reasons = ["others"] * (like > len(matched)) + ["equal rows"] * (len(matched) > 1)
        rows = [f"/{app}.csv:{row + 1}" for row in matched]
        return answer_of(app, query, "0.0", rows, reasons)

    def continue_trace(self, query: TraceQuery, records: RecordTrace) -> Answer | None:
        """Nothing here is a record of an RDD."""
        raise AssertionError(query, records)


def answer_of(
    app: str, query: TraceQuery, node: str, places: list[str], reasons: list[str] | None = None
) -> Answer:
    items = tuple(Item(one, one, None) for one in places)
    group = Group(node, node, "read", f"{SERVERS}/{NAME}", len(items), items)
    return Answer(
        app=app,
        direction=query.direction,
        requested_places=query.places,
        start=(),
        exact=not reasons,
        reasons=tuple(reasons or ()),
        groups=(group,),
        warnings=(),
        changed=False,
        complete=True,
    )


def followed(
    store: SqliteStore, world: World, app: str, node: str, records: list[str], direction: Direction
) -> tuple[Answer, set[str]]:
    query = TraceQuery(direction, ("/asked:1",), all_jobs=True)
    engine = QueryEngine(store, RowReader(), backend=world)
    answer = engine.follow(answer_of(app, query, node, records), query)
    return answer, {str(item.location) for group in answer.groups for item in group.items}


@pytest.mark.parametrize("values", ["abc", "abcdefghijklmnopqrstuvwxyz"])
def test_back_from_what_was_read_to_the_rows_that_were_written(
    store: SqliteStore, values: str
) -> None:
    seen = Counter[tuple[bool, bool]]()
    for number in range(ROUNDS):
        world = World(number, store, values=values)
        for app, (first, ends) in world.topic.reads.items():
            for partition, (begin, end) in enumerate(zip(first, ends, strict=True)):
                for offset in range(begin, end):
                    record = world.place(app, partition, offset)
                    answer, found = followed(store, world, app, "0.0", [record], Direction.BACKWARD)
                    _, source = world.topic.records[partition][offset]
                    truth = record if source is None else f"/{source[0]}.csv:{source[1] + 1}"
                    shown = (record, truth, found, answer.not_queried)
                    assert found, shown
                    if answer.complete:
                        assert truth in found, shown
                    if answer.exact:
                        # The record itself may stand for what is not known.
                        assert found == {truth} or not answer.complete, shown
                        assert found <= {truth, record}, shown
                    if not world.unknown:
                        assert answer.complete, shown
                    seen[answer.exact, answer.complete] += 1
    assert seen[True, True] > ROUNDS // 2
    assert seen[True, False]
    assert seen[False, True]


def test_forward_from_what_was_written_to_the_rows_that_were_read(store: SqliteStore) -> None:
    complete = 0
    for number in range(ROUNDS):
        world = World(number, store, values="abc")
        topic = world.topic
        for app, write in topic.writes.items():
            records = {
                world.place(app, partition, offset): (partition, offset)
                for partition, offset, _, source in topic.among(write)
                if source is not None and source[0] == app
            }
            answer, found = followed(store, world, app, "0", [*records], Direction.FORWARD)
            truth = set[str]()
            for record, (partition, offset) in records.items():
                readers = {
                    f"/{reader}.out:{partition * 1000 + offset + 1}"
                    for reader, (first, ends) in topic.reads.items()
                    if first[partition] <= offset < ends[partition]
                }
                truth |= readers or {record}
            shown = (app, found ^ truth, answer.not_queried)
            if answer.complete:
                assert found == truth, shown
            assert found - truth <= records.keys(), shown
            if not world.unknown:
                assert answer.complete, shown
            complete += answer.complete
    assert complete > ROUNDS // 4


def test_a_topic_that_was_made_anew_is_another_one(store: SqliteStore) -> None:
    use_topic(store, "old", 1.0, "0:0-9", wrote=True)
    use_topic(store, "new", 2.0, "0:0-9", wrote=True, topic_id="two")
    use_topic(store, "elsewhere", 2.0, "0:0-9", wrote=True, topic_id="two", servers=OTHER_SERVERS)
    use_topic(store, "another", 2.0, "0:0-9", wrote=True, topic_id="three", servers=OTHER_SERVERS)
    use_topic(store, "reader", 3.0, "0:2-5", wrote=False, topic_id="two")
    links = FileLinks(store, Direction.BACKWARD, RowReader())
    node = FileNode("reader", "0.0")
    found = links.of(node, place(0, 2), is_end=True)
    assert {one.app for one in found.nodes} == {"new", "elsewhere"}
    assert (found.refused, found.unsure) == ((), ())
    # Nothing is said of offsets that it did not read, unless it is known to have read them.
    assert links.of(node, place(0, 5), is_end=False).nodes == ()
    (gap,) = links.of(node, place(0, 5), is_end=True).refused
    assert gap.app == "reader"


def test_who_may_have_written_at_offsets_that_are_not_known_is_named(store: SqliteStore) -> None:
    use_topic(store, "unknown", 1.0, None, wrote=True)
    use_topic(store, "nothing", 1.0, "", wrote=True)
    use_topic(store, "late", 9.0, None, wrote=True)
    use_topic(store, "by rows", 2.0, None, wrote=True, topic=ANY_TOPIC)
    use_topic(store, "late by rows", 9.0, None, wrote=True, topic=ANY_TOPIC)
    use_topic(store, "elsewhere", 2.0, None, wrote=True, topic=ANY_TOPIC, servers=OTHER_SERVERS)
    use_topic(store, "reader", 3.0, "0:2-5", wrote=False)
    links = FileLinks(store, Direction.BACKWARD, RowReader())
    found = links.of(FileNode("reader", "0.0"), place(0, 2), is_end=True)
    assert found.nodes == ()
    reasons = {gap.app: gap.reason for gap in found.unsure}
    # One Kafka may be listed in several ways.
    assert reasons.keys() == {"unknown", "by rows", "elsewhere"}
    assert f"whether {place(0, 2)} is among them is not known" in reasons["unknown"]
    for app in ("by rows", "elsewhere"):
        assert f"topics that its rows name: whether {place(0, 2)} is one" in reasons[app]


def test_a_topic_is_that_of_the_node_that_read_it(store: SqliteStore) -> None:
    use_topic(store, "old", 1.0, "0:0-9", wrote=True)
    use_topic(store, "new", 2.0, "0:0-9", wrote=True, topic_id="two")
    use_topic(store, "reader", 3.0, "0:0-9", wrote=False)
    use_topic(store, "reader", 3.0, "0:0-8", wrote=False, topic_id="two", node="1")
    links = FileLinks(store, Direction.BACKWARD, RowReader())
    for node, writer in (("0.0", "old"), ("1.0", "new")):
        found = links.of(FileNode("reader", node), place(0, 2), is_end=True)
        assert [one.app for one in found.nodes] == [writer]


def test_writes_to_other_servers_are_named_where_no_id_tells_the_topic(store: SqliteStore) -> None:
    for app, version in (("known", "0:0-3"), ("unknown", None), ("other offsets", "0:3-9")):
        use_topic(store, app, 1.0, version, wrote=True, topic_id="", servers=OTHER_SERVERS)
    use_topic(store, "another", 1.0, "0:0-3", wrote=True, topic_id="two", servers=OTHER_SERVERS)
    use_topic(store, "reader", 3.0, "0:0-9", wrote=False)
    links = FileLinks(store, Direction.BACKWARD, RowReader())
    found = links.of(FileNode("reader", "0.0"), place(0, 2), is_end=True)
    assert found.nodes == ()
    assert {gap.app for gap in found.unsure} == {"known", "unknown"}
    (known,) = (gap for gap in found.unsure if gap.app == "known")
    assert f"whether that is the topic of {place(0, 2)} is not known" in known.reason


def test_writers_whose_lineage_is_not_complete_are_named(store: SqliteStore) -> None:
    # A batch that was cut short, or is under way, has written records that no node has.
    use_topic(store, "ended", 1.0, "0:0-2", wrote=True)
    use_topic(store, "running", 1.0, "0:0-2", wrote=True, has_ended=False)
    use_topic(store, "began later", 9.0, "0:5-9", wrote=True, has_ended=False)
    use_topic(store, "of another", 1.0, "0:0-2", wrote=True, topic_id="two", has_ended=False)
    use_topic(store, "reader", 3.0, "0:0-5", wrote=False)
    links = FileLinks(store, Direction.BACKWARD, RowReader())
    found = links.of(FileNode("reader", "0.0"), place(0, 3), is_end=True)
    (gap,) = found.unsure
    assert (found.nodes, gap.app) == ((), "running")
    assert f"its lineage is not complete: whether it wrote {place(0, 3)}, too" in gap.reason


def test_each_reader_of_a_record_has_its_own_writers(store: SqliteStore) -> None:
    use_topic(store, "writer", 1.0, "0:0-9", wrote=True)
    use_topic(store, "reader", 3.0, "0:0-9", wrote=False)
    use_topic(store, "reader of another", 3.0, "0:0-9", wrote=False, topic_id="two")

    class Unsure:
        def trace_rows(self, query: TraceQuery, recipe_place: RecipePlace) -> Answer:
            return answer_of(recipe_place.app, query, "0.0", ["/writer.csv:1"], ["equal rows"])

        def continue_trace(self, query: TraceQuery, records: RecordTrace) -> Answer | None:
            raise AssertionError(query, records)

    query = TraceQuery(Direction.BACKWARD, ("/asked:1",), all_jobs=True)
    first = answer_of("reader", query, "0.0", [place(0, 2)])
    (group,) = first.groups
    readers = ("reader", "reader of another")
    first = replace(first, groups=tuple(replace(group, app=app) for app in readers))
    answer = QueryEngine(store, RowReader(), backend=Unsure()).follow(first, query)
    ends = {(group.app, item.location) for group in answer.groups for item in group.items}
    # Whether the writer wrote it is not certain, so it is listed itself, too, for each of both.
    assert ends == {("writer", "/writer.csv:1"), *((app, place(0, 2)) for app in readers)}


def test_many_records_are_one_look_up_in_the_store(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_topic(store, "writer", 1.0, "0:0-99", wrote=True)
    use_topic(store, "reader", 3.0, "0:0-99", wrote=False)
    calls = Counter[str]()
    for name in ("recorded_files", "application_ids", "graph", "messages"):
        stock = getattr(SqliteStore, name)

        def counted(*args: object, name: str = name, stock: Any = stock) -> Any:
            calls[name] += 1
            return stock(*args)

        monkeypatch.setattr(SqliteStore, name, counted)
    links = FileLinks(store, Direction.BACKWARD, RowReader())
    for offset in range(90):
        found = links.of(FileNode("reader", "0.0"), place(0, offset), is_end=True)
        assert [one.app for one in found.nodes] == ["writer"]
    assert max(calls.values()) < 10


@pytest.mark.parametrize("problem", [KeyError("writer"), DamagedError("a file is gone", "writer")])
def test_an_application_that_can_not_be_read_ends_no_query(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    use_topic(store, "writer", 1.0, "0:0-9", wrote=True)
    use_topic(store, "reader", 3.0, "0:0-9", wrote=False)
    uses = UnfiledUses(store, Spellings())
    assert uses.of_app("writer")
    stock = SqliteStore.graph

    def graph(self: SqliteStore, app: str) -> SqliteGraph:
        if app == "writer":
            # It is deleted, or harmed, while the query runs.
            raise problem
        return stock(self, app)

    monkeypatch.setattr(SqliteStore, "graph", graph)
    record = record_of_topic(place(0, 2))
    assert record is not None
    links = TopicLinks(store, Direction.BACKWARD, uses)
    found = links.find(FileNode("reader", "0.0"), record, is_end=True)
    assert [one.app for one in found.nodes] == ["writer"]


@pytest.mark.parametrize("direction", list(Direction))
def test_the_next_jobs_of_a_record_are_named(store: SqliteStore, direction: Direction) -> None:
    use_topic(store, "writer", 1.0, "0:0-3", wrote=True)
    use_topic(store, "reader", 2.0, "0:0-9", wrote=False)
    is_backward = direction is Direction.BACKWARD
    app, node, other = ("reader", "0.0", "writer") if is_backward else ("writer", "0", "reader")
    query = TraceQuery(direction, ("/asked:1",))
    answer = answer_of(app, query, node, [place(0, 1), place(0, 2)])
    ((job,),) = (group.next_jobs for group in with_next_jobs(answer, query, store).groups)
    assert (job.app, job.files, job.place) == (other, 2, place(0, 1))
    assert (job.same_version, job.reason) == ((False, AMONG_OFFSETS) if is_backward else (True, ""))
    verb = "back" if is_backward else "forward"
    assert f"lineage {verb} '{place(0, 1)}' --app {other}" in job.line(direction)


def test_records_are_counted_by_partitions_and_topics(store: SqliteStore) -> None:
    use_topic(store, "reader", 2.0, "0:0-9 1:0-9", wrote=False)
    records = [place(0, 1), place(0, 2), place(1, 2), place(1, 2)]
    query = TraceQuery(Direction.BACKWARD, ("/asked:1",), all_jobs=True)
    answer = answer_of("reader", query, "0.0", records)
    topic = f"{SERVERS}/{NAME}"
    for level, expected in {
        "dataset": {topic: 3},
        "file": {f"{topic}[0]": 2, f"{topic}[1]": 1},
        "application": {"reader": 3},
    }.items():
        tracer = QueryEngine(store, RowReader())
        counted = LevelCounter(level, store, tracer.locations).count_answer(answer)
        shown = counted.shown(answer, level)
        assert {one.name: one.rows for one in shown.containers} == expected
