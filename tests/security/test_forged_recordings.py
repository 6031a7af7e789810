"""Attacks: recordings of arrays that name huge arrays, what is not there, or cycles; files that unpack to more than memory holds."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import struct
import time
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_core.codec.number_columns import pack_numbers
from lineage_core.codec.zstd import compress
from lineage_core.tracing.budget import Budget, BudgetError, use_budget
from lineage_query.rows.confined import ConfinedFormats
from lineage_store.checksums import sha256_of

pytestmark = pytest.mark.security

ANSWER_BYTES = 4 << 20
"""More than any of these answers needs."""
SECONDS = 20.0


@pytest.fixture(scope="module")
def recordings() -> Iterator[ConfinedFormats]:
    formats = ConfinedFormats("lineage_arrays.saved.questions", opens_files=False)
    yield formats
    formats.close()


@pytest.fixture(scope="module")
def files() -> Iterator[ConfinedFormats]:
    formats = ConfinedFormats("lineage_arrays.saved.file_questions", opens_files=False)
    yield formats
    formats.close()


def parts_of(head: object, columns: tuple[bytes, ...] = ()) -> list[tuple[int, int, str]]:
    """A recording with a valid checksum around whatever its head says."""
    packed = json.dumps(head).encode()
    content = struct.pack("<4sIQ", b"LMAR", 1, len(packed)) + packed + b"".join(columns)
    return parts_of_content(content + hashlib.sha256(content).digest())


def parts_of_content(content: bytes) -> list[tuple[int, int, str]]:
    return [(0, 1, base64.b64encode(compress(content, 1)).decode())]


def question(**more: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "backward": True, "array": None, "index": "", "cells": "out", "to": None, "choices": False,
        "limit": 100, "after": {}, "side": 64, "planes": {}, "only": [],
    }  # fmt: skip
    return asked | more


def answered(formats: ConfinedFormats, operation: str, *arguments: Any, file: bytes = b"") -> Any:
    """What a question gets: an answer of a bounded size, or a refusal, or an error; always in time."""
    began = time.monotonic()
    try:
        with use_budget(Budget(seconds=SECONDS)):
            found = formats.read(operation, io.BytesIO(file), *arguments)
    except OSError as error:
        found = {"refused": str(error)}
    except BudgetError as error:
        found = {"refused": str(error)}
    assert time.monotonic() - began < SECONDS + 15
    assert len(repr(found)) < ANSWER_BYTES
    return found


def flow(shape: list[Any], mapping: object, *, source: list[Any] | None = None) -> dict[str, Any]:
    """Two arrays, the second made from the first."""
    return {
        "nodes": [
            {"op": "source", "shape": shape if source is None else source, "name": "in"},
            {"op": "made", "shape": shape, "in": [[0, "", mapping]]},
        ],
        "leaks": [],
        "read": [],
        "outputs": [["out", 1, None]],
        "columns": [],
    }


HUGE = [1 << 31, 1 << 30]


@pytest.mark.parametrize(
    "head",
    [
        flow(HUGE, ["boxes", HUGE, HUGE, [[-(1 << 61), 1 << 61, 0, 1 << 61, 1 << 61]] * 2]),
        flow([1 << 61], ["inverse", ["boxes", [1 << 61], [1 << 61], [[0, 0, 0, 3, 3]]]]),
        flow(HUGE, ["gather", HUGE, HUGE, [0, 1 << 61], None]),
        flow(HUGE, ["pairs", HUGE, HUGE, "one", "backward", [[0, 1], [0, 1]], [[0, 1], [0, 1]]]),
    ],
)
def test_huge_arrays_are_refused_as_a_whole(recordings: ConfinedFormats, head: Any) -> None:
    found = answered(recordings, "trace", "app", parts_of(head), question())
    assert found["refused"]
    # Whatever happened to that process, the next question is answered.
    sound = parts_of(flow([2, 3], ["same", [2, 3], [2, 3]]))
    assert answered(recordings, "trace", "app", sound, question())["arrays"][0]["count"] == 6


def test_a_huge_array_is_no_matter_where_few_cells_are_asked(recordings: ConfinedFormats) -> None:
    parts = parts_of(flow(HUGE, ["same", HUGE, HUGE]))
    found = answered(recordings, "trace", "app", parts, question(cells="out[2147483647,5]"))
    assert found["arrays"][0]["ranges"] == str(2147483647 * (1 << 30) + 5)
    whole = answered(recordings, "trace", "app", parts, question())
    assert whole["arrays"][0]["count"] == 1 << 61


def test_a_huge_array_is_no_matter_where_a_few_boxes_are_all_cells(
    recordings: ConfinedFormats,
) -> None:
    parts = parts_of(flow(HUGE, ["boxes", HUGE, HUGE, [[0, 5, 0, 1, 1], [0, 0, 1, 1, 1]]]))
    whole = answered(recordings, "trace", "app", parts, question())
    assert whole["arrays"][0]["count"] == 1 << 61
    few = answered(recordings, "trace", "app", parts, question(cells="out[2147483645,7]"))
    assert few["arrays"][0]["count"] == 3


def cyclic() -> dict[str, Any]:
    head = flow([2], ["same", [2], [2]])
    head["nodes"][0]["in"] = [[1, "", ["same", [2], [2]]]]
    return head


def doubled(name: str) -> dict[str, Any]:
    head = flow([2], ["same", [2], [2]])
    head["nodes"].insert(0, {"op": "source", "shape": [9], "name": name})
    head["nodes"][2]["in"] = [[1, "", ["same", [2], [2]]], [0, "", ["all", [9], [2]]]]
    head["outputs"] = [["out", 2, None]]
    return head


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (cyclic(), "is made from"),
        (doubled("in"), "different shapes"),
        (flow([-3], ["same", [-3], [-3]]), "shape of no array"),
        (flow([1 << 40, 1 << 40], ["same", [1], [1]]), "shape of no array"),
        (flow([2], ["run", "import os"]), "does not know"),
        (flow([2], ["functions", "os.system", "1", 0, [[2]], [2]]), "functions, which are not stored"),
        (flow([2], ["boxes", [2], [2], [[0, 0, 7, 1, 1]]]), "spans"),
    ],
)  # fmt: skip
def test_what_can_not_be_is_refused_by_name(
    recordings: ConfinedFormats, head: Any, said: str
) -> None:
    assert said in answered(recordings, "trace", "app", parts_of(head), question())["refused"]


def test_bombs_are_refused(recordings: ConfinedFormats, files: ConfinedFormats) -> None:
    unpacked = bytes(520 << 20)
    assert answered(recordings, "arrays", "app", parts_of_content(unpacked), 0, 9)["refused"]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            head, {"descr": "<f8", "fortran_order": False, "shape": (1 << 26,)}
        )
        with archive.open("a.npy", "w") as member:
            member.write(head.getvalue())
            for _ in range(32):
                member.write(bytes(16 << 20))
    content = packed.getvalue()
    source = ("a.npz", "a", sha256_of([content]), [1 << 26])
    found = answered(files, "picture", source, "", 64, None, file=content)
    assert "memory" in found["refused"] or "can't be read" in found["refused"]


def test_answers_of_very_many_arrays_and_reasons_are_cut(recordings: ConfinedFormats) -> None:
    count = 500
    nodes: list[dict[str, Any]] = [
        {"op": "s", "shape": [2], "name": f"{at}" + "n" * 5_000} for at in range(count)
    ]
    why = "w" * 5_000
    edges = [[at, f"{at}{why}", ["same", [2], [2]]] for at in range(count)]
    nodes.append({"op": "made", "shape": [2], "in": edges})
    head = {
        "nodes": nodes,
        "leaks": [],
        "read": [],
        "outputs": [["out", count, None]],
        "columns": [],
    }
    found = answered(recordings, "trace", "app", parts_of(head), question())
    assert (found["arrays_total"], found["exact"]) == (count, False)
    assert len(found["arrays"]) == 200
    assert sum(one["picture"] is not None for one in found["arrays"]) == 20


NUMBERS = st.one_of(
    st.integers(-3, 5), st.sampled_from([1 << 20, 1 << 31, 1 << 61, -(1 << 61), 1 << 63, 1 << 70])
)
SHAPES = st.lists(NUMBERS, max_size=4)
PLAIN = st.recursive(
    st.one_of(NUMBERS, st.none(), st.booleans(), st.text(max_size=4), SHAPES),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=8,
)


@st.composite
def mappings(draw: st.DrawFn, source: list[Any], target: list[Any]) -> list[Any]:
    """Mappings of the kinds that there are, of plausible and of impossible fields."""
    kind = draw(
        st.sampled_from(
            ["all", "same", "boxes", "gather", "inverse", "choice", "options", "pairs", "ranges", "any"]
        )
    )  # fmt: skip
    column = st.tuples(st.integers(0, 3), NUMBERS).map(list)
    if kind in {"all", "same"}:
        return [kind, source, target]
    if kind == "boxes":
        span = st.tuples(NUMBERS, NUMBERS, st.none() | st.integers(0, 2), NUMBERS, NUMBERS)
        spans = draw(st.lists(span.map(list), min_size=len(source), max_size=len(source)))
        return [kind, source, target, spans]
    if kind == "gather":
        return [kind, source, target, draw(column), draw(st.none() | st.integers(0, 3))]
    if kind == "inverse":
        return [kind, draw(mappings(target, source))]
    if kind in {"choice", "options"}:
        return [kind, draw(mappings(source, target)), draw(mappings(source, target))]
    if kind == "pairs":
        sides = [[draw(column), draw(column)] for _ in range(2)]
        ends = (
            draw(st.sampled_from(["one", "many", "x"])),
            draw(st.sampled_from(["backward", "forward"])),
        )
        return [kind, source, target, *ends, *sides]
    if kind == "ranges":
        relative = draw(st.lists(st.integers(-1, 2), min_size=len(source), max_size=len(source)))
        sides = [
            draw(st.lists(column, min_size=n, max_size=n))
            for n in (len(target),) * 2 + (len(source),) * 2
        ]
        return [kind, source, target, relative, draw(NUMBERS), *sides]
    return [draw(st.text(max_size=9)), *draw(st.lists(PLAIN, max_size=4))]


COLUMNS = tuple(
    pack_numbers(np.array(numbers, np.int64).view(np.uint64))
    for numbers in ([0], [1, 2, 3], [-1, 5, 1 << 62], [0] * 6)
)


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_no_recording_breaks_what_answers(recordings: ConfinedFormats, data: st.DataObject) -> None:
    _fuzz(recordings, data)


@pytest.mark.long
@given(st.data())
@settings(max_examples=3_000, deadline=None)
def test_no_recording_breaks_what_answers_at_length(
    recordings: ConfinedFormats, data: st.DataObject
) -> None:
    _fuzz(recordings, data)


def _fuzz(recordings: ConfinedFormats, data: st.DataObject) -> None:
    plausible = st.lists(st.sampled_from([0, 1, 2, 3, 6]), max_size=3)
    shapes = data.draw(st.lists(st.one_of(plausible, SHAPES), min_size=2, max_size=4))
    nodes: list[dict[str, Any]] = []
    for number, shape in enumerate(shapes):
        before = [
            [at, data.draw(st.sampled_from(["", "why"])), data.draw(mappings(shapes[at], shape))]
            for at in data.draw(st.lists(st.integers(0, max(number - 1, 0)), max_size=2))
            if number
        ]
        nodes.append(
            {"op": "o", "shape": shape, "in": before, "name": "" if before else f"in{number}"}
        )
    head = {
        "nodes": nodes, "leaks": data.draw(st.just([]) | st.just(["x"])), "read": [],
        "outputs": [["out", len(nodes) - 1, None]], "columns": [len(one) for one in COLUMNS],
    }  # fmt: skip
    parts = parts_of(head, COLUMNS)
    for asked in (
        question(index="", cells="out"),
        question(
            cells="out" + data.draw(st.sampled_from(["[0]", "[0,0]", "[]", "[...]", "[-1:,0]"]))
        ),
        question(backward=False, cells=None, array="source-0", choices=True),
    ):
        found = answered(recordings, "trace", "app", parts, asked)
        if "refused" in found:
            continue
        for one in found["arrays"]:
            # No cell lies beyond its array.
            size = int(np.prod([int(length) for length in one["array"]["shape"]], dtype=object))
            assert 0 <= one["count"] <= size
            assert all(int(end) < size for end in one["ranges"].replace("-", " ").split())
