"""Calls of SciPy through ``lineage_arrays.scipy``: what is refused, what leaves, what is kept, and the page about them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.ndimage

from lineage_arrays import ArrayLineageError, Recording, TracedArray, UntracedError
from lineage_arrays.scipy import linalg, ndimage, signal
from lineage_arrays.scipy_functions.calling import TracedModule
from lineage_arrays.scipy_functions.calling import traced as scipy_call
from lineage_arrays.scipy_functions.coverage import page
from lineage_arrays.scipy_functions.rules import Row, all_cells
from lineage_arrays.scipy_functions.table import TABLES
from lineage_arrays.scipy_functions.windows import BOXES_MAX, RAGGED
from tests.support.stored_arrays import assert_same_answers, reloaded

pytestmark = pytest.mark.unit

PAGE = Path(__file__).resolve().parents[3] / "docs/reference/arrays-scipy.md"
RANDOM = np.random.default_rng(5)


def traced(values: Any) -> tuple[Recording, TracedArray]:
    recording = Recording()
    return recording, recording.source("x", values)


def test_page_is_up_to_date() -> None:
    """The page has a row for each entry of the tables, and these have one for each public function (test_scipy_functions)."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_plain_arrays_are_scipys_own() -> None:
    values = RANDOM.random((4, 5))
    assert type(ndimage.gaussian_filter(values, 1)) is np.ndarray
    assert signal.ShortTimeFFT.__module__.startswith("scipy.")
    assert "gaussian_filter" in dir(ndimage)
    with pytest.raises(AttributeError):
        _ = ndimage.nothing


def test_a_traced_array_is_written_into() -> None:
    values = RANDOM.random((3, 4))
    recording, x = traced(values)
    row = x[1]
    assert ndimage.convolve1d(x, [1, 2, 1], output=x) is x
    assert np.array_equal(x.current, scipy.ndimage.convolve1d(values, [1, 2, 1]))
    assert recording.back(row, 1).cells["x"].coordinates().tolist() == [[1, 0], [1, 1], [1, 2]]


def test_a_function_that_no_table_has_is_refused() -> None:
    """As one of a newer SciPy."""
    rest = {name: row for name, row in TABLES["ndimage"].items() if name != "sobel"}
    _, x = traced(np.ones((3, 3)))
    with pytest.raises(UntracedError, match=r"ndimage\.sobel is not known"):
        TracedModule("scipy.ndimage", rest).attribute("sobel")(x)


def test_arrays_to_write_into_are_refused() -> None:
    _, x = traced(RANDOM.random((3, 3)))
    with pytest.raises(UntracedError, match="output= of an array"):
        ndimage.sobel(x, output=np.empty((3, 3)))
    with pytest.raises(UntracedError, match="another shape"):
        ndimage.sobel(x, output=x[0])
    assert ndimage.sobel(x, output=np.float32).dtype == np.float32
    with pytest.raises(UntracedError, match="distances="):
        ndimage.distance_transform_edt(x, distances=np.empty((3, 3)))


def test_objects_of_scipy_are_refused() -> None:
    """As ``cont2discrete`` gives them."""
    _, x = traced([1.0, 2.0])
    with pytest.raises(UntracedError, match=r"StateSpace.*which is no array"):
        scipy_call(signal.StateSpace, Row(all_cells, "superset", ""))(x[:1, None], 1, 1, 0)


@pytest.mark.parametrize("as_keyword", [True, False])
def test_values_are_never_overwritten(as_keyword: bool) -> None:
    """LAPACK writes into arrays that are marked as read-only."""
    before = np.asfortranarray(RANDOM.random((4, 4)))
    _, x = traced(before)
    given = {"overwrite_a": True} if as_keyword else {}
    result = linalg.inv(x, *([] if as_keyword else [True]), **given)
    assert np.array_equal(x.current, before)
    assert np.allclose(result.current @ before, np.eye(4))


def test_values_that_leave_are_never_overwritten() -> None:
    before = np.asfortranarray(RANDOM.random((4, 4)))
    _, x = traced(before)
    scipy.linalg.inv(x, overwrite_a=True)
    assert np.array_equal(x.current, before)


def test_values_that_leave_into_scipy_name_the_program() -> None:
    recording, x = traced(RANDOM.random((4, 4)))
    scipy.ndimage.gaussian_filter(x, 1)
    assert recording.flow.leaks
    assert all("test_scipy_calls.py:" in leak for leak in recording.flow.leaks)


def test_places_as_slices_leave() -> None:
    recording, x = traced(A_LABELLED)
    places = ndimage.find_objects(x)
    assert places[0] == (slice(0, 2), slice(0, 1))
    assert [leak.partition(" at ")[0] for leak in recording.flow.leaks] == ["ndimage.find_objects"]
    again = recording.source("again", A_LABELLED[places[0]])
    assert not recording.back(again + 1).complete


A_LABELLED = np.array([[1, 0, 2], [1, 0, 2]])


def test_cells_of_an_object_are_those_of_its_label() -> None:
    recording, x = traced(A_LABELLED)
    labels, count = ndimage.label(x)
    assert int(count) == 2
    trace = recording.back(labels, np.s_[0, 2])
    assert trace.cells["x"].positions().tolist() == [2, 5]
    assert trace.chosen_by
    assert recording.back(labels, np.s_[0, 1]).cells["x"].positions().tolist() == [1]
    assert recording.forward("x", labels, np.s_[1, 0]).cells[
        "ndimage.label"
    ].positions().tolist() == [0, 3]
    assert recording.back(labels, np.s_[0, 1], choices=True).cells["x"].is_whole


def test_operands_that_say_how_count_with_all_their_cells() -> None:
    recording = Recording()
    image = recording.source("image", RANDOM.random((4, 4)))
    weights = recording.source("weights", np.array([[1.0, 2.0]]))
    trace = recording.back(ndimage.correlate(image, weights), np.s_[1, 1])
    assert trace.cells["image"].coordinates().tolist() == [[1, 0], [1, 1]]
    assert trace.cells["weights"].is_whole
    assert not trace.exact
    other = Recording().source("other", np.ones(2))
    with pytest.raises(ArrayLineageError, match="several workflows"):
        ndimage.correlate1d(image, other)


def test_results_keep_their_form() -> None:
    _, x = traced(RANDOM.random((3, 3)))
    values, vectors = linalg.eig(x)
    assert isinstance(values, TracedArray)
    assert isinstance(vectors, TracedArray)
    places, said = signal.find_peaks(x[0] * 0 + np.array([0.0, 1.0, 0.0]), height=0.5)
    assert isinstance(said["peak_heights"], TracedArray)
    assert places.current.tolist() == [1]
    assert [int(part) for part in ndimage.maximum_position(x)] == [
        int(part) for part in np.unravel_index(x.current.argmax(), (3, 3))
    ]


def test_a_footprint_of_too_many_pieces_is_its_box() -> None:
    scattered = np.indices((50, 50)).sum(axis=0) % 2 == 0
    assert scattered.sum() > BOXES_MAX
    recording, x = traced(RANDOM.random((60, 60)))
    trace = recording.back(ndimage.maximum_filter(x, footprint=scattered), np.s_[30, 30])
    assert trace.cells["x"].count == 50 * 50
    assert RAGGED in trace.superset_reasons[0]


def test_without_scipy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(ArrayLineageError, match=r"extra \[arrays\]"):
        TracedModule("scipy.ndimage", {})


def test_a_stored_recording_answers_alike() -> None:
    recording, x = traced(RANDOM.random((3, 4)))
    ends = [
        ndimage.sobel(x, mode="nearest"),
        ndimage.binary_erosion(x > 0.2),
        ndimage.white_tophat(x, size=2),
        ndimage.zoom(x, 1.5, order=1),
        ndimage.label(x > 0.5)[0],
        signal.resample_poly(x, 3, 2, axis=1, window=[1.0, 2.0, 1.0]),
        signal.savgol_filter(x, 3, 1),
    ]
    assert_same_answers(recording.flow, reloaded(recording.flow), [end.node for end in ends])
