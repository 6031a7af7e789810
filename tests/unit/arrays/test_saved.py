"""Recordings as bytes: they answer as they did in the program, and what is damaged is refused."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lineage_arrays import Recording, RecordingError
from lineage_arrays.cells import Cells
from lineage_arrays.mappings import Gather
from lineage_arrays.operators import Encoding, Mode, OperatorGraph, Strategy
from lineage_arrays.querying import backward, forward
from lineage_arrays.saved import mapping_packing
from lineage_arrays.saved.columns import ColumnReader, ColumnWriter
from lineage_arrays.saved.document import pack_workflow, unpack_workflow
from lineage_arrays.saved.mapping_reading import MappingReader
from lineage_core.codec.zstd import compress
from tests.support.cell_operators import BrightSpots, Mended, Opaque, RowTotals
from tests.support.stored_arrays import assert_same_answers, reloaded
from tests.unit.arrays.test_numpy_functions import CHOOSING, PLAIN, Case
from tests.unit.arrays.test_operators import IMAGE, SPOTS

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("case", [*PLAIN, *CHOOSING])
def test_every_function_answers_as_in_the_program(case: Case) -> None:
    recording = Recording()
    arrays = [recording.source(f"a{n}", array) for n, array in enumerate(case.arrays())]
    with np.errstate(all="ignore"):
        result = case.call(*arrays)
    again = reloaded(recording.flow)
    assert_same_answers(recording.flow, again, [result.node])
    for node, twin in zip(recording.flow.nodes, again.nodes, strict=True):
        assert (node.operator, node.shape, node.name, node.call_site) == (
            twin.operator,
            twin.shape,
            twin.name,
            twin.call_site,
        )


@pytest.mark.parametrize("strategies", SPOTS)
def test_what_operators_wrote_answers_without_them(strategies: tuple[Strategy, ...]) -> None:
    """Their payloads are stored as region pairs; where they write none a black box runs once more."""
    operator = BrightSpots()
    graph = OperatorGraph()
    image = graph.source("image")
    spots = graph.add(operator, image, name="spots")
    flow = graph.run({"image": IMAGE}, {spots: strategies}).flow
    again = reloaded(flow, [operator])
    assert_same_answers(flow, again, [flow.outputs[-1].node])
    assert_same_answers(flow, reloaded(flow), [flow.outputs[-1].node])


def test_functions_of_large_arrays_are_needed_by_name_and_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mapping_packing, "PAIRS_MAX", 4)
    graph = OperatorGraph()
    table, unit = graph.source("table"), graph.source("unit")
    totals = graph.add(RowTotals(), table, unit, name="totals")
    version = graph.run(
        {"table": np.arange(12.0).reshape(3, 4), "unit": 2.0}, {totals: [Strategy(Mode.MAP)]}
    )
    flow = version.flow
    node = flow.outputs[-1].node
    without = reloaded(flow)
    with pytest.raises(RecordingError, match="row-totals"):
        backward(without, without.nodes[node.number], Cells.at((3,), [1]))
    with pytest.raises(RecordingError, match="row-totals"):
        forward(without, without.nodes[0], Cells.at((3, 4), [1]), without.nodes[node.number])
    assert_same_answers(flow, reloaded(flow, [RowTotals()]), [node])

    class Later(RowTotals):
        version = "2"

    of_another = reloaded(flow, [Later()])
    with pytest.raises(RecordingError, match="version '1'"):
        backward(of_another, of_another.nodes[node.number], Cells.at((3,), [1]))


def test_functions_that_contradict_each_other_are_not_stored_as_pairs() -> None:
    class Contradictory(RowTotals):
        def map_f(self, cell: Any, operand: int, shapes: Any) -> Any:
            return (0,)

    graph = OperatorGraph()
    table, unit = graph.source("table"), graph.source("unit")
    totals = graph.add(Contradictory(), table, unit, name="totals")
    sources: dict[str, Any] = {"table": np.arange(12.0).reshape(3, 4), "unit": 2.0}
    flow = graph.run(sources, {totals: [Strategy(Mode.MAP)]}).flow
    node = flow.outputs[-1].node
    assert_same_answers(flow, reloaded(flow, [Contradictory()]), [node])
    without = reloaded(flow)
    with pytest.raises(RecordingError, match="row-totals"):
        backward(without, without.nodes[node.number], Cells.at((3,), [1]))


def test_payloads_beyond_the_bound_need_their_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping_packing, "CALLS_MAX", 0)
    graph = OperatorGraph()
    values = graph.source("values")
    mended = graph.add(Mended(), values, name="mended")
    how = {mended: [Strategy(Mode.COMP, Encoding.MANY)]}
    flow = graph.run({"values": [0.0, 1.0, 5.0, 0.5]}, how).flow
    node = flow.outputs[-1].node
    assert_same_answers(flow, reloaded(flow, [Mended()]), [node])
    without = reloaded(flow)
    with pytest.raises(RecordingError, match="mended"):
        backward(without, without.nodes[node.number], Cells.at((4,), [2]))


def test_an_operator_that_says_nothing_stays_a_superset() -> None:
    graph = OperatorGraph()
    opaque = graph.add(Opaque(), graph.source("image"), name="opaque")
    flow = graph.run({"image": IMAGE}).flow
    again = reloaded(flow)
    trace = backward(again, again.nodes[flow.outputs[-1].node.number], Cells.at(IMAGE.shape, [0]))
    assert not trace.exact
    assert trace.cells["image"].is_whole
    assert opaque.name in trace.superset_reasons[0]


def test_gaps_are_told_after_reload() -> None:
    recording = Recording()
    image = recording.source("image", IMAGE)
    scaled: Any = image / float(image.max())
    recording.output("scaled", scaled)
    again = reloaded(recording.flow)
    trace = backward(again, again.outputs[0].node, Cells.at(IMAGE.shape, [0]))
    assert trace == recording.back(scaled, np.s_[0, 0])
    assert not trace.complete


def test_moved_cells_take_few_bytes() -> None:
    """A million cells: what moves together is stored once, and a mask takes a bit a cell."""
    recording = Recording()
    image = recording.source("image", np.random.default_rng(1).random((1000, 1000)))
    np.roll(image, 3, axis=1)
    np.pad(image, 2)
    assert len(compress(pack_workflow(recording.flow))) < 20_000
    image[image > 0.5] = 0
    assert len(compress(pack_workflow(recording.flow))) < 150_000


@pytest.fixture
def content() -> bytes:
    recording = Recording()
    image = recording.source("image", IMAGE)
    chosen: Any = np.sort(image[image > 0.3])
    recording.output("sorted", chosen)
    return pack_workflow(recording.flow)


def test_damage_is_refused(content: bytes) -> None:
    assert unpack_workflow(content).outputs[0].name == "sorted"
    for length in (0, 10, 47, len(content) // 2, len(content) - 1):
        with pytest.raises(RecordingError):
            unpack_workflow(content[:length])
    for at in range(0, len(content), 7):
        flipped = bytearray(content)
        flipped[at] ^= 4
        with pytest.raises(RecordingError):
            unpack_workflow(bytes(flipped))


def edited(content: bytes, edit: Callable[[dict[str, Any]], object], version: int = 1) -> bytes:
    """A document with another head, and the checksum that belongs to it."""
    _, _, length = struct.unpack_from("<4sIQ", content)
    head = json.loads(content[16 : 16 + length])
    edit(head)
    packed = json.dumps(head).encode()
    body = struct.pack("<4sIQ", b"LMAR", version, len(packed)) + packed + content[16 + length : -32]
    return body + hashlib.sha256(body).digest()


EDITS: tuple[Callable[[dict[str, Any]], object], ...] = (
    lambda head: head.pop("nodes"),
    lambda head: head["nodes"][1]["in"][0].__setitem__(0, 1),
    lambda head: head["nodes"][1]["in"][0].__setitem__(0, -1),
    lambda head: head["nodes"][1]["in"][0][2].__setitem__(0, "os.system"),
    lambda head: head["nodes"][1]["in"][0].__setitem__(2, ["same", [5, 6], [31]]),
    lambda head: head["nodes"][1]["in"][0].__setitem__(2, ["all", [5], [5, 6]]),
    lambda head: head["nodes"][1]["in"][0].__setitem__(2, ["boxes", [5, 6], [5, 6], [[0, 0, 7, 1, 1]] * 2]),
    lambda head: head["nodes"][1]["in"][0].__setitem__(2, ["boxes", [5, 6], [5, 6], [[0, 0, 0, 1, 1]]]),
    lambda head: head["nodes"][1].__setitem__("shape", [2**40, 2**40]),
    lambda head: head["nodes"][1].__setitem__("shape", [5, -6]),
    lambda head: head["nodes"][1].__setitem__("leaks", 1),
    lambda head: head["outputs"][0].__setitem__(1, 99),
    lambda head: head["read"].append([0, ["a.npy", 1, float("nan"), "", ""]]),
    lambda head: head["columns"].append(1),
    lambda head: head["nodes"][1]["in"][0].__setitem__(2, ["inverse"] * 2),
)  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_what_no_recording_holds_is_refused(
    content: bytes, edit: Callable[[dict[str, Any]], object]
) -> None:
    assert unpack_workflow(edited(content, lambda head: None)).nodes
    with pytest.raises(RecordingError):
        unpack_workflow(edited(content, edit))


def test_a_later_format_is_refused(content: bytes) -> None:
    with pytest.raises(RecordingError, match="update"):
        unpack_workflow(edited(content, lambda head: None, version=2))


def test_an_index_beyond_its_array_is_refused_when_it_is_read() -> None:
    columns = ColumnWriter()
    packed = mapping_packing.packed_mapping(Gather((3,), (2,), lambda: np.array([1, 4])), columns)
    reader = MappingReader(
        ColumnReader(memoryview(b"".join(columns.parts)), [len(part) for part in columns.parts]), {}
    )
    mapping = reader.read(packed, (3,), (2,))
    with pytest.raises(RecordingError, match="lacks"):
        mapping.backward(Cells.whole((2,)))
