"""Every export of a trace over random graphs says just what single associations lead to."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial

import networkx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prov.model import ProvDerivation, ProvDocument, ProvGeneration, ProvUsage

from lineage_core.tracing.tracer import Direction, Tracer, trace
from lineage_query import answers
from lineage_query.exports import ExportOptions, ExportTooLargeError, export
from lineage_query.names import Names
from lineage_query.record_flows import TooManyFlowsError, flows_of_trace
from lineage_query.record_trace import RecordTrace
from lineage_query.rows.locations import Locations
from lineage_query.rows.reader import RowReader
from tests.property.test_tracing_property import (
    Items,
    as_region,
    found_in,
    graphs,
    items,
    reach,
    starts,
)
from tests.support.memory_graph import MemoryGraph, associations

pytestmark = pytest.mark.property

Edge = tuple[str, str]
"""Addresses: what was used, what was made."""
ALL = ExportOptions(in_between=True, items_max=10**6)


def traced_over(
    graph: MemoryGraph, direction: Direction, data: st.DataObject
) -> tuple[RecordTrace, Items, set[tuple[str, str, str]]]:
    """A trace, its start, and all edges that it went along, each with its node."""
    start_regions = {space: as_region(runs) for space, runs in starts(graph, data).items()}
    result = trace(graph, direction, start_regions)
    traced = RecordTrace(
        app="an app|of %",
        direction=direction,
        requested_places=("=here",),
        graph=graph,
        names=Names(graph.nodes()),
        locations=Locations(graph, RowReader()),
        start_regions=start_regions,
        result=result,
        complete=True,
        superset={},
        changed=False,
        warnings=("a warning",),
        along_exact=partial(Tracer(graph).trace, direction, start_regions, exact_only=True),
    )
    met = items(traced.taking_part())
    edges = {
        (f"{a}#{i}", f"{b}#{o}", block.block_id.node)
        for block in graph.block_list
        for a, i, b, o in associations(block)
        if (a, i) in met and (b, o) in met
    }
    return traced, items(start_regions), edges


def written(traced: RecordTrace, name: str, options: ExportOptions = ALL) -> bytes:
    stream = io.BytesIO()
    warnings = export(traced, name, stream, options)
    assert "a warning" in warnings
    assert not stream.closed
    return stream.getvalue()


def addresses(found: Items) -> set[str]:
    return {f"{space}#{position}" for space, position in found}


@settings(max_examples=40)
@given(graphs(), st.sampled_from(Direction), st.data())
def test_tables_hold_each_item_once(
    graph: MemoryGraph, direction: Direction, data: st.DataObject
) -> None:
    traced, start_regions, _ = traced_over(graph, direction, data)
    met = items(traced.taking_part())
    rows = list(csv.DictReader(io.StringIO(written(traced, "csv").decode(), newline="")))
    assert Counter(row["address"] for row in rows) == Counter(addresses(met))
    found = found_in(traced.result)
    roles = {"found": found, "start": start_regions - found, "way": met - found - start_regions}
    for role, expected in roles.items():
        assert {row["address"] for row in rows if row["role"] == role} == addresses(expected)
    short = csv.DictReader(
        io.StringIO(written(traced, "csv", ExportOptions()).decode(), newline="")
    )
    assert [row for row in rows if row["role"] == "found"] == list(short)
    columns = [
        {key: text or None for key, text in row.items()} | {"exact": row["exact"] == "true"}
        for row in rows
    ]
    arrow = pa.ipc.open_stream(written(traced, "arrow")).read_all()
    assert arrow.to_pylist() == columns
    parquet = pq.read_table(io.BytesIO(written(traced, "parquet")))
    assert parquet.to_pylist() == columns
    assert parquet.schema.metadata[b"lineage.from"] == b"=here"


@settings(max_examples=40)
@given(graphs(), st.sampled_from(Direction), st.data())
def test_an_item_is_exact_where_exact_steps_lead_to_it(
    graph: MemoryGraph, direction: Direction, data: st.DataObject
) -> None:
    doubtful = data.draw(st.sets(st.sampled_from(range(len(graph.block_list)))))
    blocks = [
        replace(block, exact=False, reason="may buffer") if at in doubtful else block
        for at, block in enumerate(graph.block_list)
    ]
    loose = data.draw(st.sets(st.sampled_from([one.node for one in graph.nodes()]), max_size=1))
    nodes = [replace(one, exact=one.node not in loose) for one in graph.nodes()]
    traced, start_regions, _ = traced_over(
        MemoryGraph(nodes, graph.link_list, blocks), direction, data
    )
    sure = [one for one in blocks if one.exact and one.block_id.node not in loose]
    met, _ = reach(MemoryGraph(nodes, graph.link_list, sure), start_regions, direction, None)
    rows = list(csv.DictReader(io.StringIO(written(traced, "csv").decode(), newline="")))
    exact = {row["address"] for row in rows if row["exact"] == "true"}
    assert exact == addresses(met & items(traced.taking_part()))
    assert len(exact) == len(rows) or not traced.result.exact


@given(graphs(), st.data())
def test_tables_are_the_same_whatever_is_in_memory_at_once(
    graph: MemoryGraph, data: st.DataObject
) -> None:
    traced, _, _ = traced_over(graph, Direction.BACKWARD, data)
    expected = written(traced, "csv")
    composer = traced.composer()
    for _, of_node in traced.roles("found", "start", "way"):
        parts = list(composer.batches(of_node, texts=False, at_once=2))
        whole = list(composer.batches(of_node, texts=False))
        assert max((len(items) for _, _, items in parts), default=0) <= 2
        assert [one for *_, items in parts for one in items] == [
            one for *_, items in whole for one in items
        ]
    assert written(traced, "csv") == expected
    assert answers.ITEMS_AT_ONCE > 2


@given(graphs(), st.sampled_from(Direction), st.data())
def test_prov_says_what_stored_flows_say(
    graph: MemoryGraph, direction: Direction, data: st.DataObject
) -> None:
    traced, start_regions, edges = traced_over(graph, direction, data)
    document = ProvDocument.deserialize(content=written(traced, "prov").decode(), format="json")
    steps = set()
    ends = set()
    for record in document.get_records(ProvDerivation):
        made, used, activity = (one and one.localpart for one in record.args[:3])
        if activity is None:
            ends.add((used, made))
        else:
            steps.add((used, made, activity))
    assert steps == edges
    near: dict[str, set[str]] = defaultdict(set)
    for used, made, _ in edges:
        here, there = (made, used) if direction is Direction.BACKWARD else (used, made)
        near[here].add(there)
    found = addresses(found_in(traced.result))
    expected = set()
    for start in addresses(start_regions):
        met: set[str] = set()
        todo = [start]
        while todo:
            new = near[todo.pop()] - met
            met |= new
            todo += new
        for end in met & found:
            expected.add((end, start) if direction is Direction.BACKWARD else (start, end))
    assert ends == expected - {edge[:2] for edge in edges}
    used_by = {
        (record.args[0].localpart, record.args[1].localpart)
        for record in document.get_records(ProvUsage)
    }
    assert used_by == {(node, used) for used, _, node in edges}
    made_by = {
        (record.args[1].localpart, record.args[0].localpart)
        for record in document.get_records(ProvGeneration)
    }
    assert made_by == {(node, made) for _, made, node in edges}


@given(graphs(), st.sampled_from(Direction), st.data())
def test_graphml_and_record_flows_say_what_stored_flows_say(
    graph: MemoryGraph, direction: Direction, data: st.DataObject
) -> None:
    traced, _, edges = traced_over(graph, direction, data)
    drawn = networkx.read_graphml(io.BytesIO(written(traced, "graphml")), force_multigraph=True)
    found = {
        (used.removeprefix("item:"), made.removeprefix("item:"), told["at"])
        for used, made, told in drawn.edges(data=True)
        if told["kind"] == "derivation"
    }
    assert found == edges
    labels = {told["label"] for _, told in drawn.nodes(data=True) if told["kind"] == "item"}
    assert labels == addresses(items(traced.taking_part()))
    counts = {one: told["items"] for one, told in drawn.nodes(data=True) if told["kind"] == "node"}
    for node, of_node in traced.result.passed.items():
        assert counts[f"node:{node}"] >= of_node.count
    pairs = {edge[:2] for edge in edges}
    flows = flows_of_trace(traced)
    assert {(flow.hash_in, flow.hash_out) for flow in flows.flows} == pairs
    assert len({flow.flow_id for flow in flows.flows}) == len(flows.flows) == len(pairs)
    assert flows.links == sum(one[1] == two[0] for one in pairs for two in pairs)


@given(graphs(), st.sampled_from(Direction), st.data())
def test_what_is_too_large_is_refused_and_nothing_is_written(
    graph: MemoryGraph, direction: Direction, data: st.DataObject
) -> None:
    traced, _, edges = traced_over(graph, direction, data)
    count = len(items(traced.taking_part()))
    if count > 1:
        stream = io.BytesIO()
        with pytest.raises(ExportTooLargeError, match=rf"{count:,} items take part, .* --to NODE"):
            export(traced, "prov", stream, ExportOptions(items_max=count - 1))
        assert stream.getvalue() == b""
        drawn = networkx.read_graphml(
            io.BytesIO(written(traced, "graphml", ExportOptions(items_max=count - 1)))
        )
        assert {told["kind"] for _, told in drawn.nodes(data=True)} == {"node"}
        assert drawn.graph["itemsLeftOut"] >= count
    pairs = len({edge[:2] for edge in edges})
    if pairs > 1:
        with pytest.raises(TooManyFlowsError, match=f"more than {pairs - 1:,} flows"):
            flows_of_trace(traced, limit=pairs - 1)
