"""The record-level view in a real Neo4j: the published queries, as they are, give just the trace."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import neo4j as driver_of
import pytest
from click.testing import Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark import SparkContext
from typer.testing import CliRunner

from lineage.main import app
from lineage_core.codec.edge_message import Links
from lineage_core.contract.block import BlockId
from lineage_core.contract.message import Begin, Link, Message, Register
from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageContext
from lineage_query.engine import QueryEngine
from lineage_query.names import Names
from lineage_query.record_flows import (
    TooManyFlowsError,
    flows_of_application,
    flows_of_trace,
)
from lineage_query.rows.locations import Locations
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.copying import copy_application
from lineage_store.errors import StoreError, StoreUnavailableError
from lineage_store.neo4j import record_view
from lineage_store.neo4j.opening_view import view_of
from lineage_store.neo4j.record_view import Progress
from lineage_store.neo4j.store import Neo4jStore
from lineage_store.record_flow import RecordFlows
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import open_store
from tests.property.test_tracing_property import graphs
from tests.support.api_server import serving
from tests.support.job_runs import STORE
from tests.support.memory_graph import MemoryGraph, associations
from tests.support.servers import Neo4jUnderTest
from tests.support.spool_builder import APP, block
from tests.support.stored_lineage import store_run
from tests.support.stores import empty_neo4j

pytestmark = pytest.mark.integration

Flow = tuple[str, str]
"""hashIn and hashOut."""

# As published, but for where the name of the item stands.
BACK = (
    "MATCH (end:LineageFlow) WHERE end.applicationId = $a AND end.hashOut = $item "
    "MATCH path = (end)<-[*0..]-(flow) RETURN path"
)
FORWARD = (
    "MATCH (begin:LineageFlow) WHERE begin.applicationId = $a AND begin.hashIn = $item "
    "MATCH path = (begin)-[*0..]->(flow) RETURN path"
)


@pytest.fixture
def store(neo4j: Neo4jUnderTest) -> Iterator[Neo4jStore]:
    with empty_neo4j(neo4j) as opened:
        yield opened


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Neo4jStore) -> Path:
    """A word count in the store; its files are in the working directory."""
    monkeypatch.chdir(tmp_path)
    store_run(f"sqlite:///{tmp_path}/lineage.db", tmp_path, APP)
    with SqliteStore(tmp_path / "lineage.db") as sqlite:
        copy_application(sqlite, store, APP)
    return tmp_path


def rows(neo4j: Neo4jUnderTest, query: str, **values: Any) -> list[driver_of.Record]:
    with neo4j.driver() as driver:
        return driver.execute_query(query, values, database_="neo4j").records


def queried(neo4j: Neo4jUnderTest, query: str, item: str, app_id: str = APP) -> set[Flow]:
    """Flows on the paths that a published query gives."""
    return {
        (node["hashIn"], node["hashOut"])
        for (path,) in rows(neo4j, query, a=app_id, item=item)
        for node in path.nodes
    }


def everything(neo4j: Neo4jUnderTest) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """All that there is of views."""
    flows = rows(neo4j, "MATCH (f:LineageFlow) RETURN properties(f) AS f")
    links = rows(neo4j, "MATCH (a:LineageFlow)-[:flow]->(b) RETURN a.flowId, b.flowId")
    nodes = rows(neo4j, "MATCH (n:LineageNodeEntity) RETURN properties(n) AS n")
    sends = rows(neo4j, "MATCH (a:LineageNodeEntity)-[:sendsTo]->(b) RETURN a.nodeId, b.nodeId")
    return (
        sorted((dict(one["f"]) for one in flows), key=lambda one: one["flowId"]),
        sorted(tuple(one) for one in links),
        sorted((dict(one["n"]) for one in nodes), key=lambda one: one["nodeId"]),
        sorted(tuple(one) for one in sends),
    )


def all_flows(store: Neo4jStore, app_id: str = APP) -> RecordFlows:
    graph = store.graph(app_id)
    return flows_of_application(app_id, graph, Locations(graph, RowReader()))


def traced_flows(store: Neo4jStore, place: str, direction: Direction) -> RecordFlows:
    return flows_of_trace(
        QueryEngine(store, RowReader()).trace_records(TraceQuery(direction, (place,), app=APP))
    )


def brute_force(store: Neo4jStore, item: str, *, back: bool, app_id: str = APP) -> set[Flow]:
    """Flows of a trace, pair by pair, from what the store's blocks say."""
    graph = store.graph(app_id)
    names = Names(graph.nodes())
    near: dict[str, set[str]] = defaultdict(set)
    for stored in graph.load(ref.block_id for ref in graph.blocks()).values():
        for in_space, used, out_space, made in associations(stored):
            ends = f"{names.space(in_space)}#{used}", f"{names.space(out_space)}#{made}"
            here, there = ends[::-1] if back else ends
            near[here].add(there)
    found: set[Flow] = set()
    met, todo = {item}, [item]
    while todo:
        one = todo.pop()
        found |= {(other, one) if back else (one, other) for other in near[one]}
        todo += near[one] - met
        met |= near[one]
    return found


def test_the_published_queries_give_just_the_flows_of_a_trace(
    neo4j: Neo4jUnderTest, store: Neo4jStore, here: Path
) -> None:
    told: list[Progress] = []
    flows = all_flows(store)
    view_of(store, APP).create(flows, told.append)
    assert told[-1] == Progress(len(flows.flows) + flows.links, len(flows.flows) + flows.links)
    back = queried(neo4j, BACK, "write#0#1")
    assert back == brute_force(store, "write#0#1", back=True)
    assert {flow for flow in back if flow[0].startswith("read")} == {
        (f"read#{row}", "2@0#98000294") for row in ("0#0", "0#1", "1#2")
    }
    assert {flow for flow in back if flow[1] == "write#0#1"} == {("2@0#98000294", "write#0#1")}
    for item in ("read#0#0", "read#1#2", "read#1#3"):
        assert queried(neo4j, FORWARD, item) == brute_force(store, item, back=False) != set()
    for row in range(4):
        item = f"write#0#{row}"
        assert queried(neo4j, BACK, item) == brute_force(store, item, back=True) != set()


def test_a_view_has_the_published_shape(
    neo4j: Neo4jUnderTest, store: Neo4jStore, here: Path
) -> None:
    view_of(store, APP).create(all_flows(store))
    flows, links, nodes, sends = everything(neo4j)
    last = next(flow for flow in flows if flow["hashOut"] == "write#0#2")
    told = {key: last[key] for key in ("nodeId", "applicationId", "val", "name", "description")}
    assert told == {
        "nodeId": "3",
        "applicationId": APP,
        "val": "two\nlines",
        "name": "saveAsTextFile",
        "description": "",
    }
    first = next(flow for flow in flows if flow["hashIn"] == "read#1#0")
    assert (first["nodeId"], first["name"], first["val"]) == ("2", "reduceByKey", "c a")
    assert {node["nodeId"]: node["name"] for node in nodes} == {
        "0": "textFile",
        "1": "flatMap",
        "2": "reduceByKey",
        "3": "saveAsTextFile",
    }
    assert sends == [("0", "1"), ("1", "2"), ("2", "3")]
    by_id = {flow["flowId"]: flow for flow in flows}
    assert len(by_id) == len(flows)
    assert set(links) == {
        (one["flowId"], two["flowId"])
        for one in flows
        for two in flows
        if one["hashOut"] == two["hashIn"]
    }
    assert all(by_id[a]["hashOut"] == by_id[b]["hashIn"] for a, b in links)


@pytest.mark.long
def test_what_was_interrupted_anywhere_is_made_again_and_is_the_same(
    neo4j: Neo4jUnderTest, store: Neo4jStore, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = view_of(store, APP)
    flows = all_flows(store)
    view.create(flows)
    expected = everything(neo4j)
    view.create(flows)
    assert everything(neo4j) == expected
    monkeypatch.setattr(record_view, "ROWS_AT_ONCE", 2)
    view.create(flows)
    assert everything(neo4j) == expected
    view.remove()
    steps: list[Progress] = []
    view.create(flows, steps.append)
    assert everything(neo4j) == expected
    assert len(steps) > 5
    for stop in range(len(steps)):
        assert view.remove() > 0
        left = stop

        def fail(_: Progress) -> None:
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1

        with pytest.raises(KeyboardInterrupt):
            view.create(flows, fail)
        view.create(flows)
        assert everything(neo4j) == expected, stop


@pytest.mark.long
def test_views_of_traces_add_up(neo4j: Neo4jUnderTest, store: Neo4jStore, here: Path) -> None:
    view = view_of(store, APP)
    view.create(traced_flows(store, "write#0#1", Direction.BACKWARD))
    assert queried(neo4j, BACK, "write#0#1") == brute_force(store, "write#0#1", back=True)
    assert queried(neo4j, BACK, "write#0#0") == set()
    flows, _, nodes, _ = everything(neo4j)
    assert {(f["hashIn"], f["hashOut"]) for f in flows} == queried(neo4j, BACK, "write#0#1")
    assert len(nodes) == 4
    # read#0#0 went into two rows; what both traces know hangs together.
    view.create(traced_flows(store, "in.txt:1", Direction.FORWARD))
    assert queried(neo4j, FORWARD, "read#0#0") == brute_force(store, "read#0#0", back=False)
    assert queried(neo4j, BACK, "write#0#1") == brute_force(store, "write#0#1", back=True)
    for place in ("write#0#0", "write#0#2", "write#0#3"):
        view.create(traced_flows(store, place, Direction.BACKWARD))
    added = everything(neo4j)
    view.remove()
    view.create(all_flows(store))
    assert everything(neo4j) == added


def test_removing_leaves_nothing_of_one_application_and_all_of_another(
    neo4j: Neo4jUnderTest, store: Neo4jStore, here: Path
) -> None:
    store_run(f"sqlite:///{here}/lineage.db", here, "app-2", started_at=2000.0)
    with SqliteStore(here / "lineage.db") as sqlite:
        copy_application(sqlite, store, "app-2")
    view_of(store, "app-2").create(all_flows(store, "app-2"))
    kept = everything(neo4j)
    before = set(brute_force(store, "write#0#1", back=True))
    view = view_of(store, APP)
    view.create(all_flows(store))
    assert view.remove() == len(all_flows(store).flows)
    assert view.remove() == 0
    assert everything(neo4j) == kept
    assert brute_force(store, "write#0#1", back=True) == before
    view.create(all_flows(store))
    store.delete(APP)
    assert everything(neo4j) == kept
    store.delete("app-2")
    assert everything(neo4j) == ([], [], [], [])


@pytest.mark.long
@settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(graph=graphs(), data=st.data())
def test_any_lineage_reads_as_its_traces(
    neo4j: Neo4jUnderTest, store: Neo4jStore, graph: MemoryGraph, data: st.DataObject
) -> None:
    store.delete(APP)
    messages: list[Message] = [
        Begin(app=APP, name="job", started_at=1.0),
        *(
            Register(app=APP, node=node.node, kind=node.kind, op=node.op, name=node.name)
            for node in graph.node_list
        ),
        *(Link(app=APP, src=link.src, dest=link.dest) for link in graph.link_list),
    ]
    blocks = {block.block_id: block for block in graph.block_list}
    store.write(APP, messages, blocks.values())
    make_visible(store, APP, list(blocks))
    flows = all_flows(store)
    pairs = {pair for one in graph.block_list for pair in associations(one)}
    assert {(flow.hash_in, flow.hash_out) for flow in flows.flows} == {
        (f"{a}#{i}", f"{b}#{o}") for a, i, b, o in pairs
    }
    view_of(store, APP).create(flows)
    items = sorted({flow.hash_out for flow in flows.flows} | {f.hash_in for f in flows.flows})
    for item in data.draw(st.lists(st.sampled_from(items), max_size=3)) if items else ():
        for query, back in ((BACK, True), (FORWARD, False)):
            expected = brute_force(store, item, back=back)
            assert queried(neo4j, query, item) == expected


def make_visible(store: Neo4jStore, app_id: str, blocks: list[BlockId]) -> None:
    """As if their tasks were committed."""
    store.in_transaction(lambda writer: writer.links(Links(app_id, visible=blocks)))


@pytest.mark.long
@pytest.mark.parametrize("detailed", [False, True])
def test_a_word_count_on_spark(
    neo4j: Neo4jUnderTest,
    store: Neo4jStore,
    spark_context: SparkContext,
    tmp_path: Path,
    detailed: bool,
) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out"
    source.write_text("a b c\nb c\nc a\n\nlast c\n")
    sqlite_url = f"sqlite:///{tmp_path / STORE}"
    with LineageContext(spark_context, store=sqlite_url, link=True, detailed=detailed) as lc:
        words: Any = lc.textFile(str(source), 2).flatMap(str.split).map(lambda word: (word, 1))
        words.reduceByKey(lambda a, b: a + b, 2).saveAsTextFile(str(out))
    with open_store(sqlite_url) as embedded:
        copy_application(embedded, store, lc.app)
    view_of(store, lc.app).create(all_flows(store, lc.app))
    query_engine = QueryEngine(store, RowReader())
    traced = {True: 0, False: 0}
    for back, files in ((True, sorted(out.glob("part-*"))), (False, [source])):
        direction = Direction.BACKWARD if back else Direction.FORWARD
        for file in files:
            for line in range(1, len(file.read_text().splitlines()) + 1):
                question = TraceQuery(direction, (f"{file}:{line}",), app=lc.app)
                answer = query_engine.ask(question)
                (item,) = (one.address for group in answer.start for one in group.items)
                found = {one.address for group in answer.groups for one in group.items}
                flows = queried(neo4j, BACK if back else FORWARD, item, lc.app)
                assert flows == brute_force(store, item, back=back, app_id=lc.app)
                ends = {one if back else two for one, two in flows}
                kind = "read" if back else "write"
                assert {end for end in ends if end.startswith(kind)} == found
                part = flows_of_trace(query_engine.trace_records(question))
                assert {(flow.hash_in, flow.hash_out) for flow in part.flows} == flows
                traced[back] += len(found)
    assert traced == {True: 9, False: 9}
    vals = {one["hashOut"]: one.get("val") for one in everything(neo4j)[0]}
    assert {val for name, val in vals.items() if name.startswith("write")} == {
        "('a', 2)",
        "('b', 2)",
        "('c', 4)",
        "('last', 1)",
    }


def test_too_many_flows_are_refused_with_a_way_out(store: Neo4jStore, here: Path) -> None:
    graph = store.graph(APP)
    locations = Locations(graph, RowReader())
    with pytest.raises(TooManyFlowsError, match=r"more than 9 flows.*about 12: .*--from PLACE"):
        flows_of_application(APP, graph, locations, limit=9)
    assert len(flows_of_application(APP, graph, locations, limit=12).flows) == 12
    wide = [([at], 7) for at in range(40)]
    store.write(
        "wide",
        [Begin(app="wide", name="job", started_at=1.0)],
        [
            block(BlockId("1", 0, 0, 0), "0#0", [("1@0", wide)], app="wide"),
            block(
                BlockId("2", 0, 1, 0), "1@0", [("2#0", [([7], at) for at in range(40)])], app="wide"
            ),
        ],
    )
    make_visible(store, "wide", [BlockId("1", 0, 0, 0), BlockId("2", 0, 1, 0)])
    graph = store.graph("wide")
    with pytest.raises(TooManyFlowsError, match="more than 800 links between 80 flows"):
        flows_of_application("wide", graph, Locations(graph, RowReader()), limit=80)


def test_other_stores_are_refused(here: Path) -> None:
    with (
        SqliteStore(here / "lineage.db") as sqlite,
        pytest.raises(StoreError, match="stored in Neo4j"),
    ):
        view_of(sqlite, APP)


def lineage(neo4j: Neo4jUnderTest, *arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env=neo4j.settings | {"LINEAGE_STORE": neo4j.uri})


@pytest.mark.long
def test_commands_over_a_server_make_the_same_view(
    neo4j: Neo4jUnderTest, store: Neo4jStore, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in neo4j.settings.items():
        monkeypatch.setenv(name, value)
    commands = [
        ("create", APP, "--from", "out/part-00000:2", "--json"),
        ("create", "latest", "--from", "in.txt:1", "--direction", "forward"),
        ("create", APP, "--no-texts"),
        ("create", APP, "--limit", "3"),
        ("create", APP, "--from", "nowhere.txt:1", "--json"),
        ("create", "nothing"),
        ("remove", APP),
    ]
    with serving(neo4j.uri, api_roots=str(here)) as address:
        for command in commands:
            told = []
            for where in (neo4j.uri, address):
                done = CliRunner().invoke(app, ("--store", where, "records", *command))
                told.append((done.exit_code, done.stdout, done.stderr, everything(neo4j)))
                if command[0] == "create":
                    view_of(store, APP).remove()
            assert told[0] == told[1], command
        lineage(neo4j, "records", "create", APP)
        kept = everything(neo4j)
        removed = CliRunner().invoke(app, ("--store", address, "records", "remove", APP, "--json"))
        assert json.loads(removed.stdout) == {"app": APP, "removed": len(kept[0])}
        assert everything(neo4j) == ([], [], [], [])
        monkeypatch.setattr(record_view, "ROWS_AT_ONCE", 2)
        made = httpx.post(f"{address}/v1/applications/{APP}/record-view", json={}, timeout=60)
        *steps, last = [json.loads(line) for line in made.text.splitlines()]
        assert [one["done"] for one in steps] == sorted({one["done"] for one in steps})
        assert (
            steps[-1]["done"] == steps[-1]["total"] == last["made"]["flows"] + last["made"]["links"]
        )
        assert len(steps) > 5
        assert everything(neo4j) == kept


def test_a_view_that_can_not_be_finished_says_so_in_its_last_line(
    neo4j: Neo4jUnderTest, store: Neo4jStore, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in neo4j.settings.items():
        monkeypatch.setenv(name, value)

    def failing(*_: object, **__: object) -> None:
        raise StoreUnavailableError("the store went away")

    with serving(neo4j.uri, api_roots=str(here)) as address:
        monkeypatch.setattr(record_view.RecordView, "_write", failing)
        told = CliRunner().invoke(app, ("--store", address, "records", "create", APP, "--json"))
    assert told.exit_code == 2
    assert told.stderr == "lineage: the store went away\n"


def test_commands(neo4j: Neo4jUnderTest, store: Neo4jStore, here: Path) -> None:
    made = lineage(neo4j, "records", "create", APP, "--from", "out/part-00000:2", "--json")
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout) == {
        "app": APP,
        "nodes": 4,
        "flows": 4,
        "links": 3,
        "example": "write#0#1",
        "warnings": [f"{here}/in.txt holds carriage returns that end rows but no lines"],
    }
    made = lineage(neo4j, "records", "create", "latest", "--limit", "3")
    assert (made.exit_code, made.stdout) == (2, "")
    assert "more than 3 flows" in made.stderr
    made = lineage(neo4j, "records", "create", APP)
    assert f"{APP}: " in made.stdout
    assert "MATCH (end:LineageFlow)" in made.stdout
    removed = lineage(neo4j, "records", "remove", APP, "--json")
    assert json.loads(removed.stdout)["removed"] == len(all_flows(store).flows)
    assert everything(neo4j) == ([], [], [], [])
    lineage(neo4j, "records", "create", APP, "--no-texts")
    assert all("val" not in flow for flow in everything(neo4j)[0])
    assert lineage(neo4j, "rm", APP).exit_code == 0
    assert everything(neo4j) == ([], [], [], [])
    refused = lineage(neo4j, "records", "create", APP, "--direction", "up", "--json")
    assert refused.exit_code == 2
