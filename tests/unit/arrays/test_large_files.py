"""Cells of large files, read in parts: the very values that NumPy reads, and none of another file."""

from __future__ import annotations

import io
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from lineage_arrays import ArrayLineageError
from lineage_arrays.planes import Plane
from lineage_arrays.saved import file_questions, large_files
from lineage_arrays.saved.large_files import picked_cells, positions_of_plane
from lineage_store.checksums import sha256_of

pytestmark = pytest.mark.unit

DTYPES = ["<f8", ">i4", "|b1", "<U3", "S5", "<c16", "<M8[s]", [("a", "<i2"), ("b", "<f4")]]


def file_of(array: np.ndarray[Any, Any], version: tuple[int, int] | None = None) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    return file.getvalue()


@settings(max_examples=60)
@given(
    shape=arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=7),
    dtype=st.sampled_from(DTYPES),
    is_fortran=st.booleans(),
    at_once=st.integers(200, 400),
    seed=st.integers(0, 1000),
)
def test_cells_are_those_of_the_file(
    shape: tuple[int, ...], dtype: Any, is_fortran: bool, at_once: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    size = int(np.prod(shape))
    octets = random.integers(65, 66 if dtype == "|b1" else 90, size * np.dtype(dtype).itemsize)
    if dtype == "<U3":
        array = np.array([chr(65 + at % 26) * (at % 4) for at in range(size)], dtype)
    else:
        array = np.frombuffer(octets.astype(np.uint8).tobytes(), dtype)
    array = array.reshape(shape)
    content = file_of(
        np.asfortranarray(array) if is_fortran and shape else array, (2, 0) if seed % 2 else None
    )
    positions = random.integers(0, size, 5) if size else np.empty(0, np.int64)
    # Items lie across the ends of parts.
    with mock.patch.object(large_files, "READ_BYTES", at_once):
        found = picked_cells(io.BytesIO(content), "a.npy", sha256_of([content]), shape, positions)
    assert found.dtype == array.dtype
    assert found.tobytes() == array.reshape(-1)[positions].tobytes()


@given(shape=arrays.array_shapes(min_dims=0, max_dims=4, max_side=5), data=st.data())
def test_positions_of_planes_are_those_of_their_cells(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    plane = Plane.of(shape, ...)
    numbers = np.arange(int(np.prod(shape))).reshape(shape)
    positions = positions_of_plane(shape, plane.index, 1000)
    assert positions.tolist() == plane.values(numbers).reshape(-1).tolist()
    if plane.table != (1, 1):
        with pytest.raises(ArrayLineageError, match="ask for a part of it"):
            positions_of_plane(shape, plane.index, len(positions) - 1)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda content: content[:-1] + b"x", "has changed"),
        (lambda content: content[:-8], "has changed"),
        (lambda content: b"PK" + content, "no .npy file"),
        (lambda content: b"", "has changed"),
        (lambda content: content.replace(b"(3, 4)", b"(4, 3)"), "no such array"),
    ],
)
def test_another_file_shows_nothing(edit: Any, said: str) -> None:
    content = file_of(np.arange(12.0).reshape(3, 4))
    with pytest.raises(ArrayLineageError, match=said):
        picked_cells(
            io.BytesIO(edit(content)), "a.npy", sha256_of([content]), (3, 4), np.array([1])
        )


@pytest.mark.parametrize(("edit", "said"), [(lambda c: c[:-8], "whole"), (lambda c: c + b"12345678", "whole")])  # fmt: skip
def test_files_of_another_length_than_their_array_are_refused(edit: Any, said: str) -> None:
    content = edit(file_of(np.arange(12.0).reshape(3, 4)))
    with pytest.raises(ArrayLineageError, match=said):
        picked_cells(io.BytesIO(content), "a.npy", sha256_of([content]), (3, 4), np.array([1]))


def test_cells_that_take_too_much_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    content = file_of(np.arange(12.0).reshape(3, 4))
    monkeypatch.setattr(large_files, "PICKED_BYTES_MAX", 15)
    with pytest.raises(ArrayLineageError, match="ask for fewer"):
        picked_cells(io.BytesIO(content), "a.npy", sha256_of([content]), (3, 4), np.array([1, 2]))


def test_questions_answer_of_large_files_as_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(2).normal(size=(3, 9, 8))
    content = file_of(array)
    source = ("cube.npy", "", sha256_of([content]), [3, 9, 8])

    def answers() -> list[Any]:
        return [
            file_questions.list_values(io.BytesIO(content), source, "0-2 17 200-215", 10),
            file_questions.draw_picture(io.BytesIO(content), source, "", 4, None),
            file_questions.draw_picture(io.BytesIO(content), source, "1,2:7,3", 64, (-1.0, 1.0)),
            file_questions.list_values(io.BytesIO(content), source, "216", 10),
            file_questions.draw_picture(io.BytesIO(content), source, "1,2", 4, None),
        ]

    whole = answers()
    assert ["refused" in one for one in whole] == [False, False, False, True, True]
    monkeypatch.setattr(file_questions, "WHOLE_BYTES_MAX", 100)
    held = mock.Mock(side_effect=AssertionError("the file is held"))
    monkeypatch.setattr(file_questions, "_array_of", held)
    assert answers() == whole
