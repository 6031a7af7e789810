"""Exports of traces: rows with texts and places, hostile texts, supersets, the command."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import stat
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from lineage.main import app
from lineage_core.contract.block import BlockId
from lineage_core.contract.graph import LinkRecord
from lineage_core.contract.message import Link, Register
from lineage_core.contract.region import Region
from lineage_core.environment import extras as extras_module
from lineage_core.tracing.trace_result import Direction
from lineage_core.tracing.tracer import Tracer, trace
from lineage_emitter import LineageApi
from lineage_query.engine import QueryEngine
from lineage_query.exports import (
    FORMATS,
    ExportError,
    ExportOptions,
    arrow_file,
    derived,
    export,
    exported,
    format_for,
    format_of,
)
from lineage_query.names import Names
from lineage_query.record_flows import HASH_LENGTH, VALUE_LENGTH, flows_of_trace
from lineage_query.record_trace import RecordTrace, nodes_between
from lineage_query.rows.locations import Locations
from lineage_query.rows.reader import RowReader
from lineage_query.trace import Trace
from lineage_query.trace_query import TraceQuery
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from tests.support.memory_graph import MemoryGraph, node
from tests.support.spool_builder import Spool, block
from tests.support.stored_lineage import store_run
from tests.unit.core.test_tracing import at, word_count

pytestmark = pytest.mark.unit

STORE = ".lineage/lineage.db"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory whose default store holds a word count."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("LINEAGE_"):
            monkeypatch.delenv(name)
    (tmp_path / ".lineage").mkdir()
    store_run(f"sqlite:///{STORE}", tmp_path)
    return tmp_path


opened: list[SqliteStore] = []
"""Stores of the test that runs: a graph is read on demand, as long as it is looked at."""


@pytest.fixture(autouse=True)
def stores_are_closed() -> Iterator[None]:
    yield
    while opened:
        opened.pop().close()


def traced(*places: str, forward: bool = False, **more: Any) -> RecordTrace:
    direction = Direction.FORWARD if forward else Direction.BACKWARD
    store = SqliteStore(Path(STORE))
    opened.append(store)
    return QueryEngine(store, RowReader()).trace_records(TraceQuery(direction, places, **more))


def written(found: RecordTrace, name: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    export(found, name, stream, ExportOptions(**options))
    return stream.getvalue()


def rows(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def lineage(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_csv_has_places_and_texts(here: Path) -> None:
    data = written(traced("out/part-00000:3"), "csv", in_between=True)
    assert data.decode().splitlines(keepends=True)[:2] == [
        "role,node,name,address,location,text,exact,binding,app\r\n",
        "found,read,textFile,read#0#1,in.txt:2,b,true,state,app-1\r\n",
    ]
    start = rows(data)[-1]
    assert (start["role"], start["address"], start["text"]) == ("start", "write#0#2", "two\nlines")
    (plain,) = rows(written(traced("out/part-00000:3"), "csv", texts=False))
    assert (plain["location"], plain["text"]) == ("in.txt:2", "")


def test_every_table_says_the_same(here: Path) -> None:
    found = traced("in.txt:1", "in.txt:2", forward=True)
    expected = [
        {key: text or None for key, text in row.items()} | {"exact": True}
        for row in rows(written(found, "csv", in_between=True))
    ]
    arrow = pa.ipc.open_stream(written(found, "arrow", in_between=True))
    assert arrow.schema.metadata[b"lineage.application"] == b"app-1"
    assert arrow.read_all().to_pylist() == expected
    parquet = pq.read_table(io.BytesIO(written(found, "parquet", in_between=True)))
    assert parquet.to_pylist() == expected
    assert parquet.schema.field("address").type == pa.string()
    assert len(expected) == 8


def test_cells_that_look_like_formulas_stay_as_they_are(here: Path) -> None:
    source = here / "in.txt"
    before = os.stat(source)
    texts = ["=1", "+", '-"', "@,x", "a"]
    lines = "\n".join(texts).encode()
    source.write_bytes(lines.ljust(before.st_size - 1) + b"\n")
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    found = rows(written(traced("in.txt:1", "in.txt:2", forward=True), "csv", in_between=True))
    starts = [row["text"] for row in found if row["role"] == "start"]
    assert starts == ["=1", "+"]


def test_a_superset_is_said_to_be_one_in_every_format() -> None:
    graph = word_count(exact=False, reason="may buffer")
    found = over(graph, Direction.BACKWARD, {"2#0": at(0)}, superset={"2": ("may buffer",)})
    by_role = {row["role"]: row["exact"] for row in rows(written(found, "csv", in_between=True))}
    assert by_role == {"found": "false", "start": "true", "way": "false"}
    arrow = pa.ipc.open_stream(written(found, "arrow")).read_all()
    assert arrow["exact"].to_pylist() == [False]
    before = over(graph, Direction.FORWARD, {"0#0": at(1)})
    by_node = {row["node"]: row["exact"] for row in rows(written(before, "csv", in_between=True))}
    assert by_node == {"0": "true", "1": "true", "2": "false"}
    assert arrow.schema.metadata[b"lineage.reasons"] == b"node 2 (map): may buffer"
    prov = json.loads(written(found, "prov"))
    derived = {
        (one["prov:usedEntity"], one["prov:generatedEntity"]): "lineage:exact" in one
        for one in prov["wasDerivedFrom"].values()
    }
    assert derived == {
        ("item:0#0#1", "item:1@0#77"): False,
        ("item:1@0#77", "item:2#0#0"): True,
        ("item:0#0#1", "item:2#0#0"): True,
    }
    assert prov["entity"]["lineage:trace"]["lineage:exact"] == "false"
    drawn = networkx.read_graphml(io.BytesIO(written(found, "graphml")), force_multigraph=True)
    exact = {told["at"]: told["exact"] for *_, told in drawn.edges(data=True) if "at" in told}
    assert exact == {"1": "true", "2": "false"}
    mermaid = written(found, "mermaid").decode()
    assert "%% not exact: node 2 (map): may buffer" in mermaid
    assert "superset" in mermaid


def over(
    graph: MemoryGraph,
    direction: Direction,
    start_regions: dict[str, Region],
    superset: dict[str, tuple[str, ...]] | None = None,
) -> RecordTrace:
    return RecordTrace(
        app="app",
        direction=direction,
        requested_places=("a place",),
        graph=graph,
        names=Names(graph.nodes()),
        locations=Locations(graph, RowReader()),
        start_regions=start_regions,
        result=trace(graph, direction, start_regions),
        along_exact=partial(Tracer(graph).trace, direction, start_regions, exact_only=True),
        complete=True,
        superset=superset or {},
        changed=False,
        warnings=(),
    )


def test_mermaid_shows_what_lies_on_the_way_with_counts(here: Path) -> None:
    text = written(traced("out/part-00000:2"), "mermaid").decode()
    assert text.splitlines() == [
        "%% what made out/part-00000:2 in app-1",
        "flowchart LR",
        '    n0[("read<br/>textFile<br/>in.txt<br/>3 items")]',
        '    n1["1<br/>flatMap"]',
        '    n2{{"2<br/>reduceByKey<br/>1 item"}}',
        '    n3[/"write<br/>saveAsTextFile<br/>out<br/>1 item"/]',
        "    n0 --> n1",
        "    n1 --> n2",
        "    n2 --> n3",
    ]


def test_only_nodes_between_passed_ones_are_on_the_way() -> None:
    nodes = [
        node("0", "source"),
        node("1"),
        node("2", "source"),
        node("3"),
        node("4", "shuffle"),
        node("5"),
        node("6", "sink"),
        node("7"),
    ]
    pairs = ("01", "14", "23", "34", "45", "56", "57")
    links = [LinkRecord(one[0], one[1]) for one in pairs]
    assert nodes_between(nodes, links, {"0", "4", "6"}) == {"0", "1", "4", "5", "6"}
    assert nodes_between(nodes, links, {"0", "6"}) == {"0", "6"}
    assert nodes_between(nodes, links, {"4"}) == {"4"}


@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    names=st.lists(
        st.text(
            st.one_of(
                st.characters(codec="utf-8", exclude_characters="\0"),
                st.sampled_from('\x01\x1f\r\n"=,<&>\ufffe#@:'),
            ),
            min_size=1,
            max_size=12,
        ),
        min_size=2,
        max_size=4,
        unique=True,
    )
)
def test_any_string_of_a_program_can_be_exported(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("told")
    url = f"sqlite:///{folder}/lineage.db"
    with LineageApi("told", store=url) as api:
        api.register("in", "in", kind="source")
        api.register("n", "\x00 <node>", "does\x01it", kind="sink")
        api.link("in", "n")
        with api.task("n"):
            for at_row, (one, two) in enumerate(itertools.pairwise(names)):
                api.capture(f"f{at_row}", "in:" + one, "out:" + two, two)
    with SqliteStore(folder / "lineage.db") as store:
        last = "out:" + names[-1]
        found = QueryEngine(store, RowReader()).trace_records(
            TraceQuery(Direction.BACKWARD, (last,))
        )
        shown = rows(written(found, "csv", in_between=True))
        both = {"in:" + names[-2], last}
        assert {row["text"] for row in shown} == both
        for name in FORMATS:
            assert written(found, name, in_between=True)
        networkx.read_graphml(io.BytesIO(written(found, "graphml")))
        json.loads(written(found, "prov"))
        (flow,) = flows_of_trace(found).flows
        assert {flow.hash_in, flow.hash_out} == both


def test_what_was_kept_of_records_is_their_value(here: Path) -> None:
    with LineageApi("told", store=f"sqlite:///{STORE}") as api:
        api.register("in", "in", kind="source")
        api.register("n", "double", "twice", kind="sink")
        api.link("in", "n")
        with api.task("n"):
            api.capture("f", "in#0#0-1", "n#0#0", "x" * 3_000)
            api.capture("g", "y" * 5_000, "z" * 5_000, "kept")
    found = traced("n#0#0", app=api.app)
    flows = flows_of_trace(found).flows
    assert [flow.hash_in for flow in flows] == ["in#0#0", "in#0#1"]
    assert {flow.val for flow in flows} == {"x" * (VALUE_LENGTH - 1) + "…"}
    assert {flow.val for flow in flows_of_trace(found, texts=False).flows} == {None}
    (long,) = flows_of_trace(traced("z" * 5_000, app=api.app)).flows
    assert max(len(long.hash_in), len(long.hash_out)) < HASH_LENGTH
    assert long.hash_in.startswith("*@0#")
    (kept,) = rows(written(found, "csv", in_between=True))[-1:]
    assert kept["role"] == "start"


def test_many_row_groups_hold_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_file, "GROUP_ROWS", 15_000)
    last = 40_000
    wide = block(BlockId("2", 0, 1, 0), "0#0", [("2#0", [(list(range(last)), 0)])])
    graph = MemoryGraph([node("0", "source"), node("2", "sink")], [], [wide])
    data = written(over(graph, Direction.BACKWARD, {"2#0": at(0)}), "parquet")
    file = pq.ParquetFile(io.BytesIO(data))
    assert [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)] == [
        20_000,
        20_000,
    ]
    assert file.read()["address"].to_pylist() == [f"0#0#{row}" for row in range(last)]


@pytest.mark.parametrize("name", ["csv", "arrow", "parquet"])
def test_memory_does_not_grow_with_the_items(name: str) -> None:
    def peak(items: int) -> int:
        """Bytes of Python and NumPy at most; what was written is not kept."""
        last = np.array([items - 1], np.uint64)
        wide = block(BlockId("2", 0, 1, 0), "0#0", [("2#0", [([0], 0)])])
        wide = replace(wide, in_last=last)
        graph = MemoryGraph([node("0", "source"), node("2", "sink")], [], [wide])
        found = over(graph, Direction.BACKWARD, {"2#0": at(0)})
        assert found.result.count == items
        with Path(os.devnull).open("wb") as nowhere:
            tracemalloc.start()
            try:
                export(found, name, nowhere)
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    peak(1_000)
    assert peak(60_000) < peak(20_000) + (1 << 20)


def test_too_many_ends_are_left_out_and_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    found = over(word_count(), Direction.BACKWARD, {"2#0": at(0, 1)})
    full = json.loads(written(found, "prov"))["wasDerivedFrom"]
    monkeypatch.setattr(derived, "STEPS_MAX", 0)
    stream = io.BytesIO()
    warnings = export(found, "prov", stream)
    assert any("end-to-end pairs" in warning for warning in warnings)
    short = json.loads(stream.getvalue())
    assert short["entity"]["lineage:trace"]["lineage:endToEnd"] == "left out: too many"
    assert len(full) == len(short["wasDerivedFrom"]) + 4


def test_formats_are_known_by_name_and_by_file() -> None:
    assert list(FORMATS) == ["csv", "arrow", "parquet", "prov", "graphml", "mermaid"]
    for one in FORMATS.values():
        assert format_for(f"a/B.{one.extension.upper()}") is one
    assert format_for("rows.arrow") is FORMATS["arrow"]
    assert format_for("rows") is None
    with pytest.raises(ExportError, match="one of csv, arrow"):
        format_of("xml")


def test_what_lies_beyond_dataframes_is_written_of_nodes_that_had_some_before(here: Path) -> None:
    """A trace that goes on comes to the same source again, with more of its rows."""
    records = traced("out/part-00000:2")
    answer = records.answer(None, texts=True)
    (group,) = answer.groups
    more = replace(group.items[0], address="read#0#9", location=f"{here}/in.txt:10", text="more")
    went_on = replace(
        answer, groups=(replace(group, count=group.count + 1, items=(*group.items, more)),)
    )
    assert records.outgrown_by(answer) == set()
    query = TraceQuery(Direction.BACKWARD, ("out/part-00000:2",))
    for recomputed in (answer, went_on):
        trace = Trace(query, records, recomputed)
        assert not trace.missing
        stream = io.BytesIO()
        told = exported(trace, "csv", stream, ExportOptions())
        locations = [row["location"] for row in rows(stream.getvalue())]
        assert len(locations) == told.found == sum(one.count for one in recomputed.groups)
        assert (more.location in locations) == (recomputed is went_on)
    # Where an answer lists the first of them alone, no record stands for the rest.
    cut = replace(went_on, groups=(replace(went_on.groups[0], items=group.items),))
    assert Trace(query, records, cut).missing


def test_what_is_not_installed_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(extras_module, "import_module", missing)
    for name in ("prov", "graphml"):
        with pytest.raises(
            ExportError, match=r"needs the package .*extra \[exports\] of lineage-master"
        ):
            written(traced("write#0#0"), name)
    assert written(traced("write#0#0"), "csv")


def test_the_command_writes_to_stdout(here: Path) -> None:
    result = lineage("export", "out/part-00000:2")
    assert result.exit_code == 0, result.output
    assert [row["location"] for row in rows(result.stdout_bytes)] == [
        "in.txt:1",
        "in.txt:2",
        "in.txt:4",
    ]
    assert "carriage returns" in result.stderr
    forward = lineage("export", "in.txt:1", "--direction", "forward", "--format", "csv")
    assert {row["role"] for row in rows(forward.stdout_bytes)} == {"found"}
    step = lineage("export", "write#0#1", "--step")
    assert [row["name"] for row in rows(step.stdout_bytes)] == ["reduceByKey"]


def test_the_command_writes_a_file_whole_or_not_at_all(here: Path) -> None:
    for one in FORMATS.values():
        target = here / f"found.{one.extension}"
        result = lineage("export", "out/part-00000:2", "-o", str(target), "--json")
        assert result.exit_code == 0, result.output
        told = json.loads(result.stdout)
        assert (told["format"], told["found"], told["exact"]) == (one.name, 3, True)
        assert target.stat().st_size > 0
    kept = here / "kept.json"
    kept.write_text("before")
    kept.chmod(0o640)
    refused = lineage("export", "out/part-00000:2", "-o", str(kept), "--limit", "2")
    assert refused.exit_code == 2
    assert "5 items take part, PROV-JSON takes 2" in refused.stderr
    assert kept.read_text() == "before"
    assert not list(here.glob(".kept*"))
    lineage("export", "out/part-00000:2", "-o", str(kept))
    assert json.loads(kept.read_text())["entity"]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    link = here / "link.csv"
    link.symlink_to("found.csv")
    lineage("export", "out/part-00000:2", "-o", str(link))
    assert link.is_symlink()


def test_a_device_is_written_to_and_not_replaced(here: Path) -> None:
    assert lineage("export", "out/part-00000:2", "-o", "/dev/null").exit_code == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--format", "xml"), "there is no format 'xml'"),
        (("--direction", "up"), "--direction is back or forward"),
        (("--json",), "-o FILE"),
        (("-o", "r.xlsx"), "files end in .xlsx (known are .csv, .arrows, .parquet, .prov.json, "),
        (("-o", "r.csv.gz"), "--format, one of csv, arrow, parquet, prov, graphml, mermaid"),
        (("-o", "no/such/folder/x.csv"), "No such file or directory"),
        (("--to", "1"), "keeps no items of its own"),
    ],
)
def test_the_command_refuses(here: Path, arguments: tuple[str, ...], message: str) -> None:
    result = lineage("export", "out/part-00000:2", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not list(here.glob("r.*"))


def test_a_format_that_is_named_may_have_any_file(here: Path) -> None:
    for arguments in (("-o", "r.xlsx", "--format", "csv"), ("-o", "found")):
        result = lineage("export", "out/part-00000:2", *arguments)
        assert result.exit_code == 0, result.output
        assert (here / arguments[1]).read_bytes().startswith(b"role,")


def test_a_trace_that_finds_nothing_is_an_empty_table(here: Path) -> None:
    spool = Spool(here / "spool", "app-9")
    spool.begin(3000.0)
    spool.send(Register(app="app-9", node="0", kind="source", op="textFile", alias="read"))
    spool.send(Register(app="app-9", node="1", kind="sink", op="save", alias="write"))
    spool.send(Link(app="app-9", src="0", dest="1"))
    none = block(BlockId("1", 0, 1, 0), "0#0", [("1#0", [([], 0)])], app="app-9")
    spool.task("1", 0, 1, [none], flows=1)
    spool.job("1", n1=1)
    spool.end(blocks=1, tasks=1)
    with SqliteStore(Path(STORE)) as store:
        ingest_all(store, here / "spool")
    found = traced("write#0#0", app="app-9")
    assert rows(written(found, "csv")) == []
    assert pa.ipc.open_stream(written(found, "arrow")).read_all().num_rows == 0
    assert pq.read_table(io.BytesIO(written(found, "parquet"))).num_rows == 0
    assert len(rows(written(found, "csv", in_between=True))) == 1
    assert json.loads(written(found, "prov"))["entity"]
    assert flows_of_trace(found).flows == []
