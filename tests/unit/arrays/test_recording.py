"""Ordinary NumPy code over traced arrays computes what it computes without, and its lineage is there."""

from __future__ import annotations

import copy
import sys
from array import array as packed
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from astropy import units

from lineage_arrays import (
    ArrayLineageError,
    CellError,
    Cells,
    Recording,
    TracedArray,
    UntracedError,
)
from lineage_core.contract.region import Region
from tests.unit.arrays.test_numpy_functions import CHOOSING, PLAIN, Case

pytestmark = pytest.mark.unit

IMAGE = np.arange(12.0).reshape(3, 4)


@pytest.fixture
def recording() -> Recording:
    return Recording()


@pytest.fixture
def image(recording: Recording) -> TracedArray:
    return recording.source("image", IMAGE)


def made_of(recording: Recording, array: Any, where: Any = ...) -> Any:
    return made_from(recording, "image", array, where)


def made_from(recording: Recording, source: str, array: Any, where: Any) -> Any:
    trace = recording.back(array, where)
    assert trace.complete
    return trace.cells[source].coordinates().tolist()


def test_cells_are_named_as_numpy_names_them(recording: Recording, image: TracedArray) -> None:
    smooth = (image[:, 1:] + image[:, :-1]) / 2
    wanted = [[1, 2], [1, 3]]
    mask = np.zeros((3, 3), np.bool_)
    mask[1, 2] = True
    for where in (
        np.s_[1, 2],
        np.s_[1:2, 2:],
        mask,
        Region.from_positions([5]),
        Cells.at((3, 3), [5]),
    ):
        assert made_of(recording, smooth, where) == wanted
    assert recording.back(smooth).cells["image"].is_whole
    assert recording.back(smooth, np.s_[1:1]).cells["image"].count == 0
    for wrong in (np.s_[3, 0], Region.from_positions([9]), Cells.at((3, 4), [0])):
        with pytest.raises(CellError):
            recording.back(smooth, wrong)


def test_forward_ends_at_the_array_asked_for(recording: Recording, image: TracedArray) -> None:
    other = recording.source("other", np.ones(4))
    total = (image * other).sum(axis=1)
    trace = recording.forward("image", total, np.s_[2, 1])
    assert [cells.positions().tolist() for cells in trace.cells.values()] == [[2]]
    with pytest.raises(ArrayLineageError, match="was not made from other"):
        recording.forward("other", image + 1)
    with pytest.raises(ArrayLineageError, match="no source"):
        recording.forward("nobody", total)


def writes_a_slice(x: Any) -> Any:
    x[1, 1:3] = x[0, :2] * 10
    return x


def adds_to_a_slice(x: Any) -> Any:
    x[1:] += x[:1]
    return x


def adds_to_far_columns(x: Any) -> Any:
    part = x[:, ::3]  # with as many steps as columns it would reach into the next row
    part += x[:, 1:3]
    return x


def writes_through_a_view(x: Any) -> Any:
    column = x.T[2]
    column[:2] = x[0, 0] - 1
    return x


def is_seen_in_a_view(x: Any) -> Any:
    view = x.reshape(4, 3)[::2]
    x[0, 2] = x[2, 3] * 7
    return view


def writes_where_a_mask_says(x: Any) -> Any:
    x[x > 5] = x[0, 1]
    return x


def writes_at_indices(x: Any) -> Any:
    x[[0, 2], [1, 1]] = x[1, :2]
    return x


def negates_in_place(x: Any) -> Any:
    row = x[1]
    np.negative(row, out=row)
    return x


def sorts_in_place(x: Any) -> Any:
    row = x[2, ::-1]
    row.sort()
    return x


def fills(x: Any) -> Any:
    x[0].fill(3)
    return x


def copies_to(x: Any) -> Any:
    np.copyto(x[0], x[1])
    return x


def changes_a_copy(x: Any) -> Any:
    y = x.copy()
    y[0] = 0
    return x - y


WRITES = (
    writes_a_slice, adds_to_a_slice, adds_to_far_columns, writes_through_a_view, is_seen_in_a_view,
    writes_where_a_mask_says, writes_at_indices, negates_in_place, sorts_in_place, fills, copies_to, changes_a_copy,
)  # fmt: skip


@pytest.mark.parametrize("program", WRITES)
def test_writes_are_seen_as_without_lineage(program: Callable[[Any], Any]) -> None:
    """And a change of a cell changes none but the cells that it went into."""
    recording = Recording()
    image = recording.source("image", IMAGE)
    result = program(image)
    plain = program(IMAGE.copy())
    assert np.array_equal(result.current, plain)
    assert np.array_equal(recording.flow.nodes[0].shape, IMAGE.shape)
    for cell in range(IMAGE.size):
        changed = IMAGE.copy()
        # Small: it changes what is computed, not what masks and sorts choose.
        changed.reshape(-1)[cell] += 1e-3
        after = program(changed)
        (went,) = recording.forward("image", result, Cells.at(IMAGE.shape, [cell])).cells.values()
        assert (after != plain)[~went.mask()].sum() == 0
        if program not in (writes_where_a_mask_says, changes_a_copy):
            assert (after != plain)[went.mask()].all()


def test_what_the_program_does_to_its_own_arrays_changes_nothing(recording: Recording) -> None:
    mine, index, other = IMAGE.copy(), np.array([0, 2]), np.ones((3, 4))
    image = recording.source("image", mine)
    both: Any = np.concatenate((image, other))
    rows, same = image[index], TracedArray.__mul__(image, 1)
    flat: Any = np.atleast_2d(other, image)
    mine[:] = index[:] = other[:] = 1
    other[:] = 5
    assert np.array_equal(image.current, IMAGE)
    assert made_of(recording, rows, np.s_[1, 0]) == [[2, 0]]
    assert both.current[3, 0] == 1
    assert flat[0].current[0, 0] == 1
    assert np.array_equal(same.current, IMAGE)


def test_values_that_leave_are_told_of(recording: Recording, image: TracedArray) -> None:
    scaled = image * 2
    assert recording.back(scaled).complete
    top = float(image.max())
    again = image / top
    trace = recording.back(again)
    assert not trace.complete
    assert "float at test_recording.py:" in trace.incomplete_reasons[0]
    assert recording.back(scaled).complete, "it was made before"
    assert recording.back(image / image.max()).complete
    assert not recording.forward("image", again).complete


@pytest.mark.parametrize(
    "leave",
    [
        lambda x: bool(x[0, 0]), lambda x: int(x[0, 0]), lambda x: complex(x[0, 0]), lambda x: x.tolist(),
        lambda x: x.item(1), lambda x: x.tobytes(), lambda x: 3 in x, lambda x: f"{x[0, 0]:.1f}", str, np.asarray,
        lambda x: np.array_equal(x, x), lambda x: [10, 20][x.astype(int)[0, 1]], np.array2string,
    ],
)  # fmt: skip
def test_every_way_out_is_noted(
    recording: Recording, image: TracedArray, leave: Callable[[Any], Any]
) -> None:
    leave(image)
    assert len(recording.flow.leaks) == 1
    assert not recording.back(image + 1).complete


def test_a_write_that_others_should_see_is_refused(
    recording: Recording, image: TracedArray
) -> None:
    seen = np.asarray(image)
    with pytest.raises(ValueError, match="read-only"):
        seen[0] = 1
    with pytest.raises(UntracedError, match=r"x\.copy"):
        image[0] = 1
    mine = image.copy()
    mine[0] = 1
    assert seen[0, 0] == 0
    structured = recording.source("s", np.zeros(2, [("a", "f8"), ("b", "i4")]))
    field = structured["a"]
    with pytest.raises(UntracedError, match=r"x\.copy"):
        field[0] = 1


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.apply_along_axis(sum, 0, x),
        lambda x: np.sum(x, out=np.zeros(4), axis=0),
        lambda x: np.sum(x, where=np.eye(3, 4, dtype=bool)),
        lambda x: np.add(x, 1, out=np.zeros((3, 4))),
        lambda x: np.add(x, 1, where=np.eye(3, 4, dtype=bool)),
        lambda x: np.add.at(x, [0], 1),
        lambda x: np.add.reduceat(x, [0, 1]),
        lambda x: np.put(x, [0], 1),
        lambda x: np.fill_diagonal(x, 1),
        lambda x: np.pad(x, 1, mode="mean"),
        lambda x: np.repeat(x, x[0].astype(int), axis=1),
        lambda x: np.full_like(x, x[0, 0]),
        lambda x: np.full_like(a=x, fill_value=x[0, 0]),
        lambda x: np.broadcast_to(x[0], (3, 4)).__setitem__(0, 1),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 0).__setitem__(0, 1),
        lambda x: x.view(np.int64),
        lambda x: x.T.flat,
        lambda x: x.resize(2, 2),
        lambda x: np.max(x, initial=3),
        lambda x: np.max(x, 0, None, False, 3),
        lambda x: np.unique(x, return_counts=True),
        lambda x: np.sum(x, 0, None, np.zeros(4)),
        lambda x: np.cumsum(x, 1, None, np.zeros((3, 4))),
        lambda x: np.max(x, 0, np.zeros(4)),
        lambda x: np.concatenate((x, x), 0, np.zeros((6, 4))),
        lambda x: x[0, :2] + [x[0, 0], 1],
        lambda x: np.where(x > 1, [x[0, 0]] * 4, 0),
        lambda x: np.searchsorted([x[0, 0], 100], x),
        lambda x: np.vstack(([x[0, 0]] * 4, x)),
        lambda x: x[[x.astype(int)[0, 0]]],
        lambda x: x.__setitem__(0, [x[1, 0]] * 4),
        lambda x: np.ma.masked_greater(x, 3) + np.ma.masked_array([1]) + x.ctypes,
    ],
)  # fmt: skip
def test_what_is_not_followed_is_refused(image: TracedArray, call: Callable[[Any], Any]) -> None:
    before = image.current.copy()
    with pytest.raises(UntracedError) as refusal:
        call(image)
    assert refusal.value.way_out
    assert np.array_equal(image.current, before)


def test_numbers_are_not_written_to(recording: Recording, image: TracedArray) -> None:
    """As NumPy gives a number for a sum or a cell: x += 1 makes another one, and whoever has the old one keeps it."""
    plain = IMAGE.copy()
    for make in (
        lambda x: x.sum(), lambda x: x[1, 2], lambda x: x[0, 1] * 2, np.max, lambda x: np.dot(x[0], x[0]),
    ):  # fmt: skip
        number, wanted = make(image), make(plain)
        held, held_wanted = number, wanted
        number += 1
        wanted += 1
        assert (number.current, held.current) == (wanted, held_wanted)
        assert recording.back(number).cells["image"] == recording.back(held).cells["image"]
        with pytest.raises(TypeError):
            held[()] = 1
    looks: tuple[Callable[[Any], Any], ...] = (
        lambda x: x[...], lambda x: np.reshape(x, ()), np.squeeze, lambda x: np.ravel(np.transpose(x)), np.atleast_1d,
    )  # fmt: skip
    for look in looks:
        number, wanted = image.sum(), plain.sum()
        view, view_wanted = look(number), look(wanted)
        view += 1
        view_wanted += 1
        assert number.current == wanted
        assert np.array_equal(view.current, view_wanted)
    for array in (
        lambda x: x[1, 2, ...],
        lambda x: x.sum(keepdims=True).reshape(()),
        lambda x: np.copy(x[0, 0]),
    ):
        number, wanted = cast(TracedArray, array(image)), array(plain)
        held, held_wanted = number, wanted
        number += 1
        wanted += 1
        assert (number.current, held.current) == (wanted, held_wanted)
    assert np.array_equal(image.current, plain)


@pytest.mark.parametrize(
    "case", [case for case in (*PLAIN, *CHOOSING) if () in case.shapes or len(case.shapes) == 1]
)
def test_numbers_are_numbers_where_numpy_gives_some(recording: Recording, case: Case) -> None:
    arrays = case.arrays()
    result = case.call(*(recording.source(f"a{n}", one) for n, one in enumerate(arrays)))
    assert result.is_number == (not isinstance(case.call(*arrays), np.ndarray))


def test_arrays_without_cells_and_of_one_cell(recording: Recording) -> None:
    none = recording.source("none", np.empty((0, 3)))
    total = np.concatenate((none, none * 2)).sum(axis=0)
    assert recording.back(total).cells["none"].count == 0
    assert recording.forward("none", total).cells["sum"].count == 0
    number = recording.source("number", 5.0)
    grown = number + np.zeros((2, 2))
    assert recording.back(grown, np.s_[1, 1]).cells["number"].count == 1
    assert recording.forward("number", grown).cells["add"].is_whole
    assert recording.back(np.max(number, axis=0)).cells["number"].count == 1


def test_structured_cells_are_whole_records(recording: Recording) -> None:
    stars = recording.source(
        "stars", np.array([(1, 2.0), (3, 4.0)], [("id", "i8"), ("flux", "f8")])
    )
    brighter = stars["flux"][1:] * 2
    assert recording.back(brighter).cells["stars"].positions().tolist() == [1]


def test_sources_are_plain_and_named_once(recording: Recording, image: TracedArray) -> None:
    for wrong in (
        np.ma.masked_array([1.0], [True]),
        np.array([object()]),
        np.zeros(2).view(np.recarray),
    ):
        with pytest.raises(UntracedError):
            recording.source("wrong", wrong)
    for name, array in (("image", IMAGE), ("", IMAGE), ("again", image)):
        with pytest.raises(ArrayLineageError):
            recording.source(name, array)
    elsewhere = Recording().source("image", IMAGE)
    with pytest.raises(ArrayLineageError, match="several workflows"):
        image + elsewhere
    with pytest.raises(ArrayLineageError, match="several workflows"):
        image[0] = elsewhere[0]
    with pytest.raises(ArrayLineageError, match="several workflows"):
        image[elsewhere > 3]
    assert np.array_equal(image.current, IMAGE)
    with pytest.raises(ArrayLineageError, match="another recording"):
        recording.back(elsewhere)


def test_choices_name_the_chosen_or_all(recording: Recording, image: TracedArray) -> None:
    highest = image.max(axis=1)
    chosen = recording.back(highest, np.s_[1])
    assert chosen.cells["image"].coordinates().tolist() == [[1, 3]]
    assert [one.split(" at ")[0] for one in chosen.chosen_by] == ["max"]
    every = recording.back(highest, np.s_[1], choices=True)
    assert every.cells["image"].count == 4
    assert not every.chosen_by


def test_copies_go_on(recording: Recording, image: TracedArray) -> None:
    for twin in (copy.copy(image), copy.deepcopy(image), image.flatten(), image.astype("f4")):
        assert recording.back(twin).cells["image"].is_whole


def test_superset_says_which_operator_and_why(recording: Recording, image: TracedArray) -> None:
    trace = recording.back(np.gradient(image)[0] * 2, np.s_[0, 0])
    assert not trace.exact
    assert trace.superset_reasons[0].startswith("gradient at test_recording.py:")


def test_long_chains_are_walked_once(recording: Recording) -> None:
    value = recording.source("image", np.ones((3, 4)))
    for _ in range(3000):
        value = (value + value) / 2
    assert recording.back(value, np.s_[0, 0]).cells["image"].positions().tolist() == [0]


def test_parts_of_an_array_are_written_to_in_turn(recording: Recording) -> None:
    """Also where the parts share no cell, and are each other's neighbours in one array."""
    row = recording.source("row", np.arange(6.0)).copy()
    for part in np.split(row, 3):
        np.multiply(part, 10, out=part)
    first, last = row[:2], row[2:]
    first[0] = last[0] = -1
    assert row.current.tolist() == [-1, 10, -1, 30, 40, 50]
    assert [made_from(recording, "row", row, at) for at in (0, 1, 2)] == [[], [[1]], []]
    assert made_from(recording, "row", last, 1) == [[3]]


def test_threads_write_to_parts_of_one_array() -> None:
    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(10):
            recording = Recording()
            source = recording.source("source", np.arange(4.0))
            out = recording.source("out", np.zeros((16, 4)))

            def put(at: int, source: Any = source, out: Any = out) -> None:
                out[at] = source[...] + at

            with ThreadPoolExecutor(8) as pool:
                list(pool.map(put, range(16)))
            assert np.array_equal(out.current, np.arange(4.0) + np.arange(16.0)[:, None])
            assert made_from(recording, "source", out, np.s_[11, 3]) == [[3]]
    finally:
        sys.setswitchinterval(switching)


def test_a_view_made_while_another_thread_writes_is_refused(recording: Recording) -> None:
    row = recording.source("row", np.arange(6.0))
    before = row.current
    row[0] = 1
    with pytest.raises(UntracedError, match="another thread wrote"):
        TracedArray(recording.flow, before[2:], "getitem", [])


@pytest.mark.parametrize(
    "write",
    [
        lambda a, out: np.matmul(a, np.ones((3, 4)), out=out),
        lambda a, out: np.vecdot(a, np.ones(3), out=out[0, :, :2].T[:2]),
    ],
)
def test_a_product_into_an_array_of_another_shape_is_refused(
    recording: Recording, write: Callable[[Any, Any], Any]
) -> None:
    a = recording.source("a", np.ones((2, 3)))
    with pytest.raises(UntracedError, match="of another shape than the result"):
        write(a, recording.source("out", np.zeros((5, 2, 4))))


def test_cells_that_are_arrays_belong_to_their_record(recording: Recording) -> None:
    records = recording.source("records", np.zeros(4, [("p", float, (3,)), ("q", int)]))
    assert made_from(recording, "records", records["p"], np.s_[1, 2]) == [[1]]
    last = Cells.of((4,), 3)
    (went,) = recording.forward("records", records["p"], last).cells.values()
    assert went.coordinates().tolist() == [[3, 0], [3, 1], [3, 2]]
    row = recording.source("row", np.arange(3.0))
    assert made_from(recording, "row", row.astype((float, (3,))), np.s_[0, 2]) == [[0]]
    dtype: Any = np.dtype((float, (3,)))
    spread = np.astype(cast(Any, row), dtype)
    assert made_from(recording, "row", spread, np.s_[2, 0]) == [[2]]


def test_arrays_with_more_than_cells_are_refused_beside_traced_ones(recording: Recording) -> None:
    row = recording.source("row", np.arange(3.0))
    hidden = np.ma.array([1, 2, 3], mask=[False, True, False])
    for compute in (
        lambda: row + hidden,
        lambda: np.concatenate([row, hidden]),
        lambda: row * (2 * units.km),
        lambda: (2 * units.km) * row,
    ):
        with pytest.raises(UntracedError, match="beside traced arrays"):
            compute()
    assert (row + hidden.filled(0)).current.tolist() == [1, 1, 5]


def test_columns_of_pandas_take_the_values_out(recording: Recording) -> None:
    row = recording.source("row", np.arange(3.0))
    column = row + pd.Series([1.0, 2.0, 3.0])
    assert isinstance(column, pd.Series)
    assert not recording.back(row * column.to_numpy()).complete


@pytest.mark.parametrize(
    "compute",
    [
        lambda z, n: z.std(ddof=n),
        lambda z, n: z.sum(axis=n),
        lambda z, n: np.add.reduce(z, axis=0, initial=n),
    ],
)
def test_numbers_that_left_and_come_back_as_options_are_told_of(
    recording: Recording, compute: Callable[[Any, int], Any]
) -> None:
    z, y = recording.source("z", np.ones((3, 3))), recording.source("y", np.zeros(3, int))
    assert recording.back(compute(z, 0)).complete
    assert not recording.back(compute(z, int(y[1]))).complete


@pytest.mark.parametrize(
    "kind", [lambda cells: packed("l", cells), pd.Series, deque, list, np.array]
)
def test_indices_of_any_kind_are_as_they_were(kind: Callable[[Any], Any]) -> None:
    recording = Recording()
    x = recording.source("x", np.arange(6.0))
    index = kind([0, 1])
    read, written = x[index], recording.source("y", np.zeros(6))
    written[index] = x[:2]
    index[0] = 5
    assert recording.back(read, 0).cells["x"].positions().tolist() == [0]
    assert recording.back(written, 0).cells["x"].positions().tolist() == [0]
    assert not recording.back(written, 5).cells["x"]


def test_indices_in_slices_are_as_they_were(recording: Recording, image: TracedArray) -> None:
    first = np.array(1)
    rest = image[[0, 2], first:]
    first[()] = 3
    assert made_of(recording, rest, (0, 0)) == [[0, 1]]


def test_copies_of_numbers_are_numbers_and_of_arrays_lie_as_they_do(image: TracedArray) -> None:
    total = image.sum()
    for copied in (copy.copy(total), copy.deepcopy(total)):
        assert copied.is_number
    assert copy.copy(image.T).current.flags.f_contiguous
    assert copy.deepcopy(image.T).current.flags.f_contiguous


def test_a_write_leaves_the_size_as_known_as_it_was(
    recording: Recording, image: TracedArray
) -> None:
    view = image[0]
    image[image < 5] += 5
    image[:] = np.where(image > 5, image, 0)
    assert (image.shape, len(view)) == ((3, 4), 4)
    positive = image[image > 0]
    positive[positive > 7] = 1
    assert recording.flow.leaks == []
    len(positive)
    assert len(recording.flow.leaks) == 1


def test_writes_are_seen_through_windows_that_slide(
    recording: Recording, image: TracedArray
) -> None:
    windows: Any = np.lib.stride_tricks.sliding_window_view(image, 2, axis=1)
    image[0, 1] = 90 + image[2, 3]
    plain = IMAGE.copy()
    plain[0, 1] = 90 + plain[2, 3]
    np.testing.assert_array_equal(
        windows.current, np.lib.stride_tricks.sliding_window_view(plain, 2, axis=1)
    )
    assert made_of(recording, windows, (0, 0, 0)) == [[0, 0]]
    assert made_of(recording, windows, (0, 0, 1)) == [[2, 3]]
    assert made_of(recording, windows, (0, 1, 0)) == [[2, 3]]


@pytest.mark.parametrize("fields", ["f", ["f", "g"]])
def test_writes_to_fields_are_refused(recording: Recording, fields: Any) -> None:
    records = recording.source("records", np.zeros(3, [("f", float), ("g", float)]))
    with pytest.raises(UntracedError, match="a write to fields"):
        records[fields] = np.ones(3, [("f", float), ("g", float)])[fields]
    assert recording.back(records).complete
