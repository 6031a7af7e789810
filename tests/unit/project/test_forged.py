"""What mutations of data were found to do (`tests.fuzz`), and a short draw of them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lineage_core.codec.zstd import compress
from lineage_core.contract.dead_letter import parse_topic_partition_offset
from lineage_core.contract.sealing import Seal
from lineage_core.errors import ContractError, RecipeError
from lineage_core.recipe.document import Recipe
from lineage_core.recipe.plan import (
    Attribute,
    Call,
    Column,
    Expand,
    Expression,
    Filter,
    Literal,
    Node,
    Project,
    Scan,
    Subquery,
    Union,
    Values,
)
from lineage_dataframes.rewrite.expressions import SqlWriter
from lineage_dataframes.rewrite.shapes import TOO_DEEP
from lineage_dataframes.trace.answerable import refusals
from lineage_linker.keys import parse_block, parse_task
from lineage_linker.sides import read_mark, unpack_waiting
from lineage_query.rows.checksum_cache import saved_columns
from lineage_query.rows.reader import RowReader
from lineage_store.run_notes import read_notes
from tests.fuzz import decoders, requests
from tests.fuzz.fuzzing import Target, fuzz
from tests.fuzz.recipes import RECIPES, SCAN, TABLE

pytestmark = pytest.mark.unit
TARGETS = (*decoders.TARGETS, *requests.TARGETS)
DRAWN_S = 10.0
"""For all targets."""


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_mutations_leave_by_typed_errors_in_bounded_time_and_memory(target: Target) -> None:
    tally = fuzz(target, seed=1, seconds=DRAWN_S / len(TARGETS), count=100)
    assert not tally.findings
    assert tally.mutations


@pytest.mark.parametrize(
    "text", ["", "1 2", "1 2 3 4", "1 2 xyz", "-1 0 0000000000000000", "1_0 0 00ff00ff00ff00ff"]
)
def test_what_is_no_seal_is_refused(text: str) -> None:
    with pytest.raises(ContractError):
        Seal.from_text("4@3", text)


@pytest.mark.parametrize(
    "name", [b"", b"4", b"4#0#1", b"4#x.1#2", b"\xff#0.", b"4#0.1#" + b"9" * 5_000]
)
def test_what_names_no_block_in_redis_is_refused(name: bytes) -> None:
    with pytest.raises(ContractError):
        parse_block(name)
    with pytest.raises(ContractError):
        parse_task(name.decode("latin-1"))


@pytest.mark.parametrize(
    "text", ["t/0/" + "9" * 5_000, "t/0/٣", "t/0/-1", "/0/1"], ids=lambda text: text[:8]
)
def test_a_place_in_kafka_with_numbers_that_are_none_is_refused(text: str) -> None:
    with pytest.raises(ContractError):
        parse_topic_partition_offset(text)


WAITING = {"in": "4@3", "out": ["2#0"], "inputs": False, "sizes": [1]}


@pytest.mark.parametrize(
    "head",
    [[], {}, WAITING | {"sizes": [-1]}, WAITING | {"sizes": 1}, WAITING | {"inputs": True}, WAITING | {"out": [1]}],
    ids=str,
)  # fmt: skip
def test_a_join_entry_of_another_form_is_refused(head: object) -> None:
    packed = compress(json.dumps(head).encode())
    with pytest.raises(ContractError):
        unpack_waiting(len(packed).to_bytes(4, "little") + packed + b"m")
    with pytest.raises(ContractError):
        unpack_waiting(b"\0")


def test_columns_that_expand_beyond_their_runs_are_not_unpacked() -> None:
    mark = read_mark(bytes([0]) + bytes(16) + (3).to_bytes(4, "little"))
    with pytest.raises(ContractError, match="bytes of content, at most"):
        mark.with_columns(b"\1" + compress(bytes(1 << 20)))
    with pytest.raises(ContractError):
        mark.with_columns(b"")


def test_notes_of_a_run_that_are_damaged_are_left_out(tmp_path: Path) -> None:
    notes = tmp_path / "notes.jsonl"
    notes.write_bytes(b'{"app": "a", "folder": "/f"}\n{"app": "\xff\n' + b"[" * 100_000 + b"\n")
    assert read_notes(notes).apps == {"a": Path("/f")}


LINES = b"".join(b"line %d of the file\r\n" % number for number in range(60_000))


@pytest.fixture
def kept(tmp_path: Path) -> tuple[str, Path]:
    """A file of lines, and its index that an earlier process kept."""
    path = tmp_path / "lines.txt"
    path.write_bytes(LINES)
    RowReader(tmp_path / "index").index(str(path))
    (index,) = (tmp_path / "index").iterdir()
    return str(path), index


Columns = dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]


def _none_less(columns: Columns) -> None:
    columns["line_ends"] = columns["line_ends"][:-1]


def _doubled(columns: Columns) -> None:
    columns["line_ends"] = np.asarray(columns["line_ends"]) * 2**40


def _no_numbers(columns: Columns) -> None:
    columns["facts"] = columns["line_ends"].astype(np.str_)


def _no_text(columns: Columns) -> None:
    columns["of"] = np.full(4 * 5, 0x7FFFFFFF, np.uint32).view("U4")


def _of_nothing(columns: Columns) -> None:
    columns["of"] = np.array(5)


def _moved(columns: Columns) -> None:
    """The last stride has an end less, and the one before it an end more."""
    columns["line_ends"] = np.append(
        np.append(columns["line_ends"][:-2], columns["line_ends"][-2] + 1), columns["line_ends"][-1]
    )


def _all_at_once(columns: Columns) -> None:
    """The strides before the last have all the ends."""
    ends = columns["line_ends"].copy()
    ends[-2] = ends[-1]
    columns["line_ends"] = ends


def _other_ends(columns: Columns) -> None:
    """A byte order mark at the start, and a last row without its end."""
    columns["facts"] = np.array([columns["facts"][0], 1, 0, 0], np.int64)


@pytest.mark.parametrize(
    "change",
    [_other_ends, _none_less, _doubled, _no_numbers, _no_text, _of_nothing, _moved, _all_at_once],
)
def test_an_index_that_does_not_fit_its_file_is_made_anew(
    kept: tuple[str, Path], change: Callable[[Columns], None]
) -> None:
    path, index = kept
    columns: Columns = dict(np.load(index))
    change(columns)
    np.savez_compressed(index, **columns)  # type: ignore[arg-type]
    last = np.array([59_999], np.uint64)
    reader = RowReader(index.parent)
    assert reader.rows(path, np.array([0, 59_999], np.uint64)) == [
        "line 0 of the file",
        "line 59999 of the file",
    ]
    assert reader.rows(path, last + np.uint64(1)) == [None]
    assert reader.lines(path, last + np.uint64(1), last + np.uint64(1)) == [
        "line 59999 of the file\r"
    ]
    assert reader.rows_in_split(path, 0, len(LINES)) == 60_000


def test_kept_arrays_that_expand_are_not_unpacked(tmp_path: Path) -> None:
    file = tmp_path / "bomb.npz"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("of.npy", bytes(64 << 20))
    assert saved_columns(file, 1 << 20) == {}
    claims = b"{'descr': '<i8', 'fortran_order': False, 'shape': (999999999999,), }\n"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("of.npy", b"\x93NUMPY\1\0" + len(claims).to_bytes(2, "little") + claims)
    assert saved_columns(file, 1 << 20) == {}


def test_a_schema_of_any_depth_is_refused_or_read() -> None:
    nested = '{"fields": [{"name": "a", "type": ' + "[" * 100_000
    with pytest.raises(RecipeError):
        replace(RECIPES[0].sources[0], schema=nested).columns()


def _with(*above: Node) -> Recipe:
    return replace(RECIPES[0], plan=(SCAN, *above), functions=(), signature="")


@pytest.mark.parametrize(
    "plan",
    [
        (Scan(TABLE, 0, ("id",)),),
        (SCAN, Project(TABLE, 0, (Column(1),))),
        (SCAN, Union(TABLE[:1], (0, 0))),
        (SCAN, Union(TABLE, ())),
        (SCAN, Expand(TABLE, 0, ())),
        (Scan((), 0, ()), Filter((), 0, Subquery(0))),
    ],
)
def test_a_plan_with_more_columns_than_values_is_no_recipe(plan: tuple[Node, ...]) -> None:
    recipe = replace(RECIPES[1], plan=plan)
    with pytest.raises(RecipeError):
        Recipe.from_json(recipe.to_json())


@pytest.mark.parametrize(
    "call",
    [
        Call("not", ()), Call("like", (Column(2),)), Call("case", ()), Call("sum", ()), Call("and", ()),
        Call("field", (Call("named_struct", (Column(1),)), Literal("7", "int"))),
        Call("field", (Column(1), Column(1))),
    ],
    ids=lambda call: call.fn,
)  # fmt: skip
def test_a_call_without_its_arguments_is_refused(call: Call) -> None:
    recipe = _with(Project((Attribute(9, "x", "string"),), 0, (call,)))
    assert any("calls" in reason or "field" in reason for _, reason in refusals(recipe))


def test_a_struct_in_structs_is_written_once() -> None:
    nested: Expression = Column(1)
    for _ in range(60):
        struct = Call("named_struct", (Literal("a", "string"), nested))
        nested = Call("field", (struct, Literal("0", "int")), "a")
    assert SqlWriter(str).of(nested) == "c1"
    assert not refusals(_with(Project((Attribute(9, "x", "bigint"),), 0, (nested,))))


def test_a_plan_of_any_depth_is_answered() -> None:
    deep = [Filter(TABLE, place, Call("is null", (Column(1),))) for place in range(5_000)]
    assert [reason for _, reason in refusals(_with(*deep))] == [TOO_DEEP]


def test_nodes_that_double_what_is_below_them_are_refused_before_they_are_written() -> None:
    doubling = [Union(TABLE, (place, place)) for place in range(40)]
    ((_, reason),) = refusals(_with(*doubling))
    assert "more than 10000" in reason


def test_many_nodes_that_are_wide_are_refused_before_they_are_written() -> None:
    wide = Values(tuple(Attribute(one, "", "int") for one in range(5_000)), ())
    of_it = [Filter((), 0, Literal("true", "boolean"))] * 1_500
    plan: tuple[Node, ...] = (wide, *of_it, Union((), tuple(range(1, len(of_it) + 1))))
    ((_, reason),) = refusals(replace(RECIPES[0], sources=(), plan=plan))
    assert "many of its nodes are wide" in reason
