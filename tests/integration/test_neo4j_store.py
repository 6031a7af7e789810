"""The Neo4j store: loading in any order by many writers, offsets, schema, connections."""

from __future__ import annotations

import contextlib
import random
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from neo4j.exceptions import DriverError

from lineage_core.codec.edge_message import (
    Links,
    PackedEdge,
    stored_block,
)
from lineage_core.codec.packing import pack_for_store
from lineage_core.contract.address import POSITION_MAX
from lineage_core.contract.block import BlockId
from lineage_core.contract.message import Begin, Link, Register, Split, Splits
from lineage_core.linking.linker import TaskId
from lineage_store.dump import dump_application
from lineage_store.errors import StoreError, StoreUnavailableError
from lineage_store.neo4j import (
    counting,
    graph,
    presence,
    recorded_files,
    rows,
    schema,
    sealed_spaces,
    server_statistics,
    statements,
    writing,
)
from lineage_store.neo4j import store as store_module
from lineage_store.neo4j.connection import Address, Connection, read_address
from lineage_store.neo4j.store import Neo4jStore
from lineage_store.neo4j.writing import Neo4jWriter
from lineage_store.paths import Spellings
from lineage_store.recorded_files import FileQuery
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import open_store
from tests.oracle.budget import examples
from tests.property.test_linking_property import Case, cases
from tests.support.linked_events import crowd, events_of, give, of_the_app, write_case
from tests.support.servers import Neo4jUnderTest
from tests.support.spool_builder import APP, RECOMPUTED_EXACT, block, write_recomputed
from tests.support.stores import address_of, empty_neo4j

pytestmark = pytest.mark.integration


@pytest.fixture
def store(neo4j: Neo4jUnderTest) -> Iterator[Neo4jStore]:
    with empty_neo4j(neo4j) as opened:
        yield opened


@settings(
    max_examples=examples(6),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=cases().map(of_the_app), data=st.data())
def test_any_order_loads_the_same(
    store: Neo4jStore, tmp_path: Path, case: Case, data: st.DataObject
) -> None:
    events = events_of(case)
    order = data.draw(st.permutations(events))
    order += data.draw(st.lists(st.sampled_from(events), max_size=8))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=4)))
    store.delete(APP)
    for start, stop in zip([0, *cuts], [*cuts, len(order)], strict=True):
        give(store, list(order[start:stop]))
    path = tmp_path / "expected.db"
    path.unlink(missing_ok=True)
    with SqliteStore(path) as expected:
        write_case(expected, case)
        assert list(dump_application(store, APP)) == list(dump_application(expected, APP))
    counts = store.counts(APP)
    assert (counts.written, counts.stubs) == (len(case.blocks), 0)


def test_many_writers_at_once_load_the_same(store: Neo4jStore) -> None:
    events = crowd()
    give(store, events)
    expected = list(dump_application(store, APP))
    assert sum(line.startswith('{"edge"') for line in expected) == 400
    store.delete(APP)
    failures: list[BaseException] = []

    def write(seed: int) -> None:
        try:
            mine = random.Random(seed).sample(events, len(events))
            with Neo4jStore(store.address) as other:
                for at in range(0, len(mine), 60):
                    give(other, mine[at : at + 60])
        except BaseException as error:
            failures.append(error)

    run_together([lambda seed=seed: write(seed) for seed in range(4)])  # type: ignore[misc]
    assert failures == []
    assert list(dump_application(store, APP)) == expected


def run_together(jobs: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_what_is_not_visible_or_not_there_is_not_shown(store: Neo4jStore) -> None:
    first, second, third = (BlockId("4", 0, 1, seq) for seq in range(3))
    rows = [("4#0", [([1], 5)])]
    made = {
        one: stored_block(APP, TaskId("4", 0, 1), pack_for_store(block(one, "1#0", rows)))
        for one in (first, second)
    }
    give(store, [made[first], Links(APP, edges=[PackedEdge(first, third, 1, None)])])
    give(store, [Links(APP, [second, third], [(third, 4)])])
    opened = store.graph(APP)
    assert list(opened.blocks()) == opened.blocks_into("4#0", 0, POSITION_MAX) == []
    assert opened.blocks_from("1#0", 0, POSITION_MAX) == []
    assert opened.spaces_of("4") == []
    assert opened.load([first, second, third]) == {}
    assert opened.edges_from([first]) == []
    counts = store.counts(APP)
    assert (counts.received, counts.written, counts.stubs, counts.flows) == (0, 1, 2, 0)
    assert [record.flows for record in store.applications()] == [0]
    give(store, [made[second], Links(APP, [first])])
    assert [ref.block_id for ref in opened.blocks()] == [first, second]
    counts = store.counts(APP)
    assert (counts.received, counts.written, counts.stubs, counts.flows) == (2, 2, 1, 2)
    assert opened.edges_into([third]) != []
    assert opened.edges_from([first]) == []


def test_large_transactions_are_sent_in_parts(
    store: Neo4jStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(rows, "BYTES_AT_ONCE", 300)
    events = crowd()
    give(store, events)
    parts = list(dump_application(store, APP))
    monkeypatch.undo()
    store.delete(APP)
    give(store, events)
    assert list(dump_application(store, APP)) == parts


def test_deleting_in_many_transactions_leaves_nothing(
    store: Neo4jStore, monkeypatch: pytest.MonkeyPatch, neo4j: Neo4jUnderTest
) -> None:
    give(store, [*crowd(), Links(APP, [BlockId("9", 0, 0, 0)])])
    give(store, [Begin(app=f"{APP}0", name="other", started_at=1.0)])
    monkeypatch.setattr(store_module, "DELETED_AT_ONCE", 3)
    store.delete(APP)
    with neo4j.driver() as driver:
        left = driver.execute_query(
            "MATCH (n) WHERE NOT n:LineageSchema|LineageMigration|KafkaOffset RETURN n.app, labels(n)",
            database_="neo4j",
        ).records
    assert sorted(map(tuple, left), key=str) == [
        (f"{APP}0", ["Application"]),
        (f"{APP}0", ["Message"]),
    ]


# -- offsets -----------------------------------------------------------------------------------


def test_vitals_count_what_is_there(store: Neo4jStore) -> None:
    before = store.server_statistics()
    nodes = [Register(app=APP, node=node, kind="operator", op="map") for node in "01"]
    link = Link(app=APP, src="0", dest="1")
    give(store, [Begin(app=APP, name="job", started_at=1.0), *nodes, link])
    after = store.server_statistics()
    assert (set(before.nodes.values()), before.relationships) == ({0}, 0)
    assert (after.nodes["Application"], after.nodes["LineageNode"]) == (1, 2)
    assert after.relationships == 1
    assert after.transactions >= 0
    assert 0 < after.heap_bytes < after.heap_bytes_max


def test_vitals_cost_the_same_in_a_large_store(neo4j: Neo4jUnderTest) -> None:
    queries = [*server_statistics._NODES.values(), server_statistics._RELATIONSHIPS]
    with neo4j.driver() as driver, driver.session(default_access_mode="READ") as session:
        for query in queries:
            plan = session.run(f"EXPLAIN {query}").consume().plan
            assert any("FromCountStore" in one for one in operators(plan)), query


def test_an_offset_moves_from_where_it_stands(store: Neo4jStore, neo4j: Neo4jUnderTest) -> None:
    neo4j.clear()
    with Neo4jStore(store.address) as writer:
        assert writer.offset("writers", "edge", 3) is None

        def move(first: int, following: int, partition: int = 3, *, new: bool = False) -> bool:
            return writer.in_transaction(
                lambda loading: loading.offsets(
                    "writers", "edge", partition, first, following, new=new
                )
            )

        # One that is missing was lost, but where the writer knows it for new.
        assert not move(7, 9)
        assert move(7, 9, new=True)
        assert not move(7, 9)
        assert not move(10, 11)
        assert move(9, 9)
        assert move(9, 12)
        assert move(0, 1, partition=4, new=True)
        assert (writer.offset("writers", "edge", 3), writer.offset("writers", "edge", 4)) == (12, 1)
        assert writer.offset("others", "edge", 3) is None


def test_a_transaction_that_is_given_up_moves_no_offset(store: Neo4jStore) -> None:
    class FencedError(Exception):
        pass

    def work(loading: Neo4jWriter) -> None:
        assert loading.offsets("given-up", "edge", 0, 5, 6, new=True)
        loading.message(Begin(app=APP, name="job", started_at=1.0))
        loading.flush()
        raise FencedError

    with pytest.raises(FencedError):
        store.in_transaction(work)
    assert store.offset("given-up", "edge", 0) is None
    assert store.applications() == []


def test_one_of_two_writers_moves_an_offset(store: Neo4jStore) -> None:
    moved: list[int] = []
    ready = threading.Barrier(4)

    def write(number: int) -> None:
        with Neo4jStore(store.address) as other:
            ready.wait(30)
            for first in range(10):

                def work(loading: Neo4jWriter, first: int = first) -> bool:
                    done = loading.offsets("race", "edge", 0, first, first + 1, new=True)
                    if done:
                        app = f"{first}-{number}"
                        loading.message(Begin(app=app, name="job", started_at=1.0))
                    return done

                if other.in_transaction(work):
                    moved.append(first)

    run_together([lambda number=number: write(number) for number in range(4)])  # type: ignore[misc]
    assert sorted(moved) == list(range(10))
    assert len(store.applications()) == 10
    assert store.offset("race", "edge", 0) == 10


# -- schema ------------------------------------------------------------------------------------


def test_several_processes_may_make_the_schema(neo4j: Neo4jUnderTest) -> None:
    neo4j.clear()
    failures: list[BaseException] = []

    def make() -> None:
        try:
            Neo4jStore(address_of(neo4j)).close()
        except BaseException as error:
            failures.append(error)

    run_together([make] * 4)
    assert failures == []
    with neo4j.driver() as driver:
        rows = driver.execute_query("SHOW INDEXES YIELD name, state", database_="neo4j").records
        versions = driver.execute_query(
            "MATCH (s:LineageSchema) RETURN s.version", database_="neo4j"
        )
    names = {row["name"] for row in rows if row["state"] == "ONLINE"}
    assert {"lineage_block", "lineage_section", "lineage_block_in", "lineage_schema"} <= names
    assert [row[0] for row in versions.records] == [len(schema.STEPS)]


def test_a_schema_that_a_process_left_half_made_is_finished(neo4j: Neo4jUnderTest) -> None:
    neo4j.clear()
    with neo4j.driver() as driver:
        # Making a constraint makes an index of its name first.
        driver.execute_query(
            "CREATE INDEX lineage_space FOR (n:FlowSpace) ON (n.id)", database_="neo4j"
        )
    Neo4jStore(address_of(neo4j)).close()
    with neo4j.driver() as driver:
        constraints = driver.execute_query("SHOW CONSTRAINTS YIELD name", database_="neo4j").records
    assert "lineage_space" in {name for (name,) in constraints}
    neo4j.clear()


def test_one_process_at_a_time_changes_the_schema_and_its_end_lets_the_next_go_on(
    neo4j: Neo4jUnderTest,
) -> None:
    neo4j.clear()
    opened: list[Neo4jStore] = []
    with neo4j.driver() as other, neo4j.driver() as watcher:
        # Two nodes, as two processes may have made at the same moment.
        for _ in range(2):
            other.execute_query("CREATE (:LineageMigration {id: 'lock'})", database_="neo4j")
        session = other.session(database="neo4j")
        session.begin_transaction().run(schema._LOCK).consume()
        thread = threading.Thread(target=lambda: opened.append(Neo4jStore(address_of(neo4j))))
        thread.start()
        while not watcher.execute_query(
            "SHOW TRANSACTIONS YIELD status WHERE status STARTS WITH 'Blocked' RETURN status",
            database_="neo4j",
        ).records:
            assert thread.is_alive()
        # Closes the connection in the middle of the transaction, as the end of a process does.
        other.close()
        thread.join()
        with contextlib.suppress(DriverError):
            session.close()
        versions = watcher.execute_query(
            "MATCH (s:LineageSchema) RETURN s.version", database_="neo4j"
        ).records
    assert [version for (version,) in versions] == [len(schema.STEPS)]
    for store in opened:
        store.close()
    neo4j.clear()


def test_what_was_recomputed_before_attempts_were_named_becomes_a_superset(
    neo4j: Neo4jUnderTest,
) -> None:
    neo4j.clear()
    address = address_of(neo4j)
    with Neo4jStore(address) as store:
        write_recomputed(store)
        store._connection.run("MATCH (b:FlowBlock) SET b.exact = true, b.merges = null")
        store._connection.run("MATCH (s:LineageSchema) SET s.version = 3")
    with Neo4jStore(address) as store:
        assert {
            ref.block_id.node: ref.exact for ref in store.graph(APP).blocks()
        } == RECOMPUTED_EXACT
    neo4j.clear()


def applications_of(store: Neo4jStore, path: object) -> list[str]:
    """The applications that recorded a file."""
    return [file.app for file in store.recorded_files(FileQuery(str(path), Spellings())).items]


@pytest.mark.parametrize("marked", [False, True])
def test_files_of_older_stores_become_rows(
    neo4j: Neo4jUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marked: bool
) -> None:
    neo4j.clear()
    address = address_of(neo4j)
    monkeypatch.setattr(recorded_files, "MESSAGES_AT_ONCE", 2)
    paths = [tmp_path / f"in-{number}" for number in range(5)]
    with Neo4jStore(address) as store:
        for number, path in enumerate(paths):
            split = Split(partition=0, path=str(path), start=0, length=2, file_size=2, mtime=1.0)
            app = f"app-{number}"
            store.write(app, [Begin(app=app, name="job", started_at=float(number))])
            store.write(app, [Splits(app=app, node="0", splits=(split,))])
        store._connection.run("MATCH (f:FileVersion) DELETE f")
        assert applications_of(store, paths[3]) == []
        # As a program of version 6 leaves them, also while this one has the store open.
        store._connection.run(
            "MATCH (m:Message) WHERE m.type = 'splits' SET m.keyed = $keyed", keyed=marked or None
        )
        assert applications_of(store, paths[3]) == ["app-3"] * marked
        store._connection.run(
            "MATCH (s:LineageSchema) SET s.version = $version", version=5 + marked
        )
    with Neo4jStore(address) as store:
        assert applications_of(store, "/none") == []
        assert applications_of(store, paths[3]) == ["app-3"]
        assert store._connection.read("MATCH (m:Message) WHERE m.keyed = true RETURN m.id") == []
    neo4j.clear()


def test_a_message_of_more_files_than_one_transaction_stores(
    neo4j: Neo4jUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    neo4j.clear()
    monkeypatch.setattr(writing, "ROWS_AT_ONCE", 2)
    splits = tuple(
        Split(partition=at, path=f"/in/{at}", start=0, length=2, file_size=2, mtime=1.0)
        for at in range(5)
    )
    with Neo4jStore(address_of(neo4j)) as store:
        begin = Begin(app="app", name="job", started_at=1.0)
        store.write("app", [begin, Splits(app="app", node="0", splits=splits)])
        for split in splits:
            assert applications_of(store, split.path) == ["app"]
        store.delete("app")
        assert store._connection.read("MATCH (f:FileVersion) RETURN f.id") == []
    neo4j.clear()


def test_an_older_schema_is_brought_up_to_date_and_a_newer_one_refused(
    neo4j: Neo4jUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    neo4j.clear()
    address = address_of(neo4j)
    with Neo4jStore(address) as store:
        store.write(APP, [Begin(app=APP, name="job", started_at=1.0)])
    step = ("CREATE INDEX lineage_later IF NOT EXISTS FOR (n:Application) ON (n.colour)",)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", (*schema.STEPS, step))
        with Neo4jStore(address) as store:
            assert [record.app for record in store.applications()] == [APP]
            newer = len(schema.STEPS)
            assert schema.version_of(store._connection) == newer
    with pytest.raises(StoreError, match=rf"version {newer}.*update the program"):
        Neo4jStore(address)
    neo4j.clear()


def test_every_query_uses_an_index_also_in_an_empty_database(neo4j: Neo4jUnderTest) -> None:
    neo4j.clear()
    Neo4jStore(address_of(neo4j)).close()
    queries = {
        f"{module.__name__}.{name}[{at}]": text
        for module in (statements, graph, counting, presence, sealed_spaces, store_module)
        for name, value in vars(module).items()
        if isinstance(value, (str, tuple))
        for at, text in enumerate([value] if isinstance(value, str) else value)
        if isinstance(text, str) and text.lstrip().startswith(("MATCH", "MERGE", "UNWIND"))
    }
    assert len(queries) > 30
    assert "lineage_store.neo4j.presence._PRESENCE[0]" in queries
    parameters = set(re.findall(r"\$(\w+)", " ".join(queries.values())))
    scans = {}
    with neo4j.driver() as driver, driver.session(database="neo4j") as session:
        for name, text in queries.items():
            asked = f"EXPLAIN {text} {_ENDINGS.get(text.split()[-1], '')}"
            plan = session.run(asked, dict.fromkeys(parameters)).consume().plan
            scans[name] = [one for one in operators(plan) if "Scan" in one and "Index" not in one]
    scanned = {name: found for name, found in scans.items() if found}
    # Listing all applications is the one question that is about all of them.
    assert scanned == {"lineage_store.neo4j.store._APPLICATIONS[0]": ["NodeByLabelScan@neo4j"]}


_ENDINGS = {
    "one.at,": "b.id",
    "0,": "b.id",
    "NULL": "RETURN b.id",
    "$prefix": "RETURN b.id",
    "listed": "RETURN listed",
}
"""What makes a query of one that others go on with, by its last word."""


def operators(plan: Any) -> Iterator[str]:
    yield plan["operatorType"]
    for child in plan.get("children", ()):
        yield from operators(child)


# -- connections -------------------------------------------------------------------------------


def test_a_store_is_opened_by_its_url(
    neo4j: Neo4jUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in neo4j.settings.items():
        monkeypatch.setenv(name, value)
    for url in (neo4j.uri, f"{neo4j.uri}?database=neo4j", neo4j.uri.replace("neo4j", "bolt", 1)):
        with open_store(url) as opened:
            assert opened.applications() == []
    with pytest.raises(StoreError, match="no database 'other'"):
        open_store(f"{neo4j.uri}?database=other")


def test_errors_say_what_to_do_and_no_secrets(neo4j: Neo4jUnderTest) -> None:
    address = address_of(neo4j)
    with pytest.raises(
        StoreError, match=r"refuses user 'neo4j'.*LINEAGE_NEO4J_PASSWORD"
    ) as refused:
        Neo4jStore(replace(address, password="not-this-secret"))
    assert "not-this-secret" not in str(refused.value)
    assert "secret" not in repr(Address("neo4j://there", password="secret"))
    with pytest.raises(StoreUnavailableError, match=r"can't reach Neo4j at .*--store"):
        Neo4jStore(replace(address, uri="neo4j://127.0.0.1:1"))
    with pytest.raises(StoreError, match="can't reach"):
        Neo4jStore(replace(address, uri="bolt://no-such-host.invalid:7687"))


@pytest.mark.long
def test_a_server_that_went_away_is_waited_for(neo4j: Neo4jUnderTest, store: Neo4jStore) -> None:
    store.write(APP, [Begin(app=APP, name="job", started_at=1.0)])
    with Neo4jStore(store.address) as other:
        impatient = Connection(store.address, retry_s=0.0)
        with neo4j.down(), pytest.raises(StoreUnavailableError):
            impatient.read("RETURN 1")
        impatient.close()
        # Connections that died with the server are replaced.
        assert [record.app for record in other.applications()] == [APP]
        other.write(APP, [Register(app=APP, node="1", kind="source", op="textFile")])
    assert len(store.messages(APP)) == 2


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("neo4j://me:pass@there:1", "must not hold credentials"),
        ("neo4j://there:1/path", "can't be used"),
        ("neo4j://there:1?colour=blue", "can't be used"),
        ("neo4j://there:port", "Give neo4j://HOST:PORT"),
        ("neo4j://?database=a", "can't be used"),
    ],
)
def test_urls_that_can_not_be_used(url: str, reason: str) -> None:
    with pytest.raises(StoreError, match=reason) as refused:
        read_address(url, {})
    assert "me:pass" not in str(refused.value)


def test_credentials_come_from_the_environment(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("from a file\n")
    named = {"LINEAGE_NEO4J_USER": "me", "LINEAGE_NEO4J_PASSWORD": "word"}
    url = "neo4j+s://there:7687?database=lineage"
    assert read_address(url, named) == Address("neo4j+s://there:7687", "lineage", "me", "word")
    named["LINEAGE_NEO4J_PASSWORD_FILE"] = str(secret)
    assert read_address("bolt://there", named).password == "from a file"
    authorities = {"LINEAGE_NEO4J_CA_FILE": "/ca.pem"}
    assert read_address("bolt+s://there", authorities).ca_file == "/ca.pem"
    with pytest.raises(StoreError, match=r"LINEAGE_NEO4J_CA_FILE is of use with neo4j\+s://"):
        read_address("bolt://there", authorities)
    with pytest.raises(StoreError, match="LINEAGE_NEO4J_PASSWORD_FILE"):
        read_address("bolt://there", {"LINEAGE_NEO4J_PASSWORD_FILE": str(tmp_path / "none")})
