"""Cells through libraries that import NumPy and SciPy themselves, against what changes; black boxes; names put back."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numpy.linalg import _umath_linalg

from lineage_arrays import ArrayLineageError, Recording, TracedArray, UntracedError
from lineage_arrays.libraries import black_box, tracing
from lineage_arrays.libraries.numpy_names import REPLACED
from lineage_arrays.operators import Encoding, Mode, Operator, Regions, Strategy
from tests.support.cell_oracle import dependences

pytestmark = pytest.mark.unit

CODE = """
import numpy as np
import scipy
from numpy import asarray, ones_like
from scipy import ndimage as ndi
from scipy.ndimage import convolve1d as along
from astropy.convolution._convolve import _convolveNd_c as compiled

def smooth(image):
    image = np.asarray(image)
    assert isinstance(image, np.ndarray) and not isinstance(image, (list, float))
    return along(asarray(image, dtype=float), [0.25, 0.5, 0.25])

def listed(image):
    totals = [[row.sum(), row[0]] for row in np.asanyarray(image)]
    assert isinstance(totals[0][0], float) and np.isscalar(totals[0][0])
    return np.array(totals)

def deeper(image):
    return np.array([image[0], image[1]], ndmin=3)

def moved(image):
    out = np.zeros_like(image)
    out[1:] = image[:-1]
    return np.clip(out, -1, 1, out=out) + ones_like(image)

def lowest(image):
    out = np.empty_like(image)
    got = ndi.minimum_filter(image, size=2, output=out)
    assert got is out
    return scipy.ndimage.shift(out, (0, 1), order=0)

def median(image):
    return np.nanmedian(np.array(image), axis=0, overwrite_input=True)

def bright(image):
    return np.array(image)[np.where(image > 0)]

def leaving(image):
    from scipy.ndimage import convolve1d
    return convolve1d(image, [1, 2, 1])

def convolved(image):
    result = np.zeros_like(image)
    compiled(result, image, np.ones((3, 3)), False, True, 1)
    return result

def lost(image):
    result = np.zeros(image.shape)
    compiled(result, image, np.ones((3, 3)), False, True, 1)
    return result
"""
LATER = "import numpy as np\ndef doubled(image):\n    return np.asarray(image) * 2\n"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    folder = tmp_path / "skylib"
    folder.mkdir()
    (folder / "__init__.py").write_text(CODE, encoding="utf-8")
    (folder / "later.py").write_text(LATER, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("skylib")
    for name in [name for name in sys.modules if name.partition(".")[0] == "skylib"]:
        del sys.modules[name]


def image_of(shape: tuple[int, ...] = (4, 5), seed: int = 3) -> npt.NDArray[np.float64]:
    return np.random.default_rng(seed).normal(0, 2, shape)


def related(recording: Recording, made: TracedArray, **how: Any) -> npt.NDArray[np.bool_]:
    """Which cells of the source (rows) a trace has for each cell of the result (columns)."""
    return np.stack(
        [
            recording.back(made, np.unravel_index(at, made.shape), **how)
            .cells["image"]
            .mask()
            .reshape(-1)
            for at in range(made.size)
        ],
        axis=1,
    )


@pytest.mark.parametrize("name", ["smooth", "listed", "deeper", "moved", "lowest", "median"])
def test_functions_are_traced_exactly(library: ModuleType, name: str) -> None:
    function, values = getattr(library, name), image_of()
    recording = Recording()
    with tracing("skylib"):
        made = function(recording.source("image", values))
    assert np.array_equal(made.current, function(values))
    expected = dependences(function, [values])[0]
    found = related(recording, made)
    # A draw may not show each cell of a median or a minimum.
    assert np.array_equal(found, expected) or (
        name in ("median", "lowest") and not (expected & ~found).any()
    )
    trace = recording.back(made)
    assert trace.exact
    assert trace.complete


def test_choices_through_a_library(library: ModuleType) -> None:
    function, values = library.bright, image_of()
    recording = Recording()
    with tracing("skylib"):
        made = function(recording.source("image", values))
    assert np.array_equal(made.current, function(values))
    assert recording.back(made).chosen_by
    assert not (dependences(function, [values])[0] & ~related(recording, made, choices=True)).any()


def test_a_compiled_function_is_a_black_box(library: ModuleType) -> None:
    recording = Recording()
    with tracing("skylib"):
        made = library.convolved(recording.source("image", image_of((5, 6))))
    assert np.array_equal(made.current, library.convolved(image_of((5, 6))))
    trace = recording.back(made, (2, 2))
    assert trace.cells["image"].is_whole
    assert not trace.exact
    assert "not looked into" in trace.superset_reasons[0]
    assert trace.complete


def test_what_leaves_a_library_is_reported(library: ModuleType) -> None:
    """A name that a function imports, and plain arrays that compiled code writes into."""
    for name in ("leaving", "lost"):
        recording = Recording()
        image = recording.source("image", image_of((5, 6)))
        with tracing("skylib"):
            made = getattr(library, name)(image)
        assert type(made) is np.ndarray
        assert not recording.back(image + made).complete


def test_names_are_put_back_when_the_last_one_leaves(library: ModuleType) -> None:
    before, finders = dict(vars(library)), list(sys.meta_path)
    with tracing("skylib"):
        with tracing("skylib", "skylib.later"):
            pass
        assert library.np is not np
        later = importlib.import_module("skylib.later")
        recording = Recording()
        image = recording.source("image", image_of())
        assert isinstance(later.doubled(image), TracedArray)
        vars(library)["asarray"] = kept = list
    # What the program put there stays.
    assert library.asarray is kept
    after = {**vars(library), "asarray": before["asarray"]}
    after.pop("later")
    assert after == {key: value for key, value in before.items() if key != "later"}
    assert later.np is np
    assert "isinstance" not in vars(later)
    assert later.__spec__ is not None
    assert later.__spec__.loader is later.__loader__
    assert sys.meta_path == finders


def test_a_module_imported_meanwhile_is_traced(library: ModuleType) -> None:
    recording = Recording()
    with tracing("skylib"):
        later = importlib.import_module("skylib.later")
        made = later.doubled(recording.source("image", image_of()))
    assert recording.back(made, (1, 2)).cells["image"].coordinates().tolist() == [[1, 2]]
    assert later.np is np


def test_other_threads_see_no_difference(library: ModuleType) -> None:
    values = image_of()
    expected = library.smooth(values), library.listed(values)
    got: list[Any] = []
    with tracing("skylib"):
        thread = threading.Thread(
            target=lambda: got.extend((library.smooth(values), library.listed(values)))
        )
        thread.start()
        thread.join()
    assert all(type(one) is np.ndarray for one in got)
    assert all(np.array_equal(one, other) for one, other in zip(got, expected, strict=True))


@pytest.mark.parametrize("name", ["numpy", "scipy.ndimage", "lineage_arrays", "no_such_package"])
def test_packages_that_are_not_traced_are_refused(name: str) -> None:
    with pytest.raises(ArrayLineageError, match=name), tracing(name):
        pass


def test_results_of_a_black_box() -> None:
    recording = Recording()
    left = recording.source("image", image_of((3,)))
    right = recording.source("right", np.arange(2))

    def mixed(one: Any, more: dict[str, Any], number: float) -> Any:
        total = one.sum() * number
        return {"total": total, "both": (one + more["right"][0], None)}, [one]

    found, [same] = black_box(mixed)(left, {"right": right}, 2.0)
    assert same is left
    assert found["total"].is_number
    assert found["both"][1] is None
    assert set(recording.back(found["both"][0], 0).cells) == {"image", "right"}
    assert black_box(np.sort)([3, 1]).tolist() == [1, 3]
    assert not recording.flow.leaks
    assert black_box(lambda x: float(x[0]))(left) == left.current[0]
    assert recording.flow.leaks
    assert not recording.back(found["total"] * 2).complete


def test_a_black_box_writes_into_its_arguments() -> None:
    def fill(target: Any, by: Any) -> None:
        target[...] = by.sum()

    recording = Recording()
    image = recording.source("image", image_of((2, 2)))
    other = recording.source("other", np.arange(3.0))
    row, before = image[0], image + 0
    black_box(fill)(image, other)
    assert row.current.tolist() == [3.0, 3.0]
    assert recording.back(row, 0).cells["other"].is_whole
    assert "other" not in recording.back(before).cells
    with pytest.raises(UntracedError, match="the same memory"):
        black_box(fill)(image, image[0])
    plain = np.zeros(2)
    assert black_box(fill)(plain, other) is None
    assert plain.tolist() == [3.0, 3.0]
    assert recording.flow.leaks


def test_the_flat_view_of_an_array_in_one_piece() -> None:
    recording = Recording()
    image = recording.source("image", image_of((2, 3)))
    assert recording.back(image.flat, 4).cells["image"].coordinates().tolist() == [[1, 1]]
    image.flat[4] = image.flat[0]
    assert image.current[1, 1] == image.current[0, 0]
    assert recording.back(image, (1, 1)).cells["image"].coordinates().tolist() == [[0, 0]]
    with pytest.raises(UntracedError, match="flat"):
        _ = image.T.flat


def test_records_of_traced_numbers_are_refused() -> None:
    image = Recording().source("image", image_of((2,)))
    array = REPLACED[np.array]
    with pytest.raises(UntracedError, match="records"):
        array([(image[0], image[1])], dtype=[("a", float), ("b", float)])


def test_an_operator_of_a_recording_and_arrays_in_between() -> None:
    class Kept(Operator):
        """Each cell, if the sum of all is positive."""

        name = "kept"
        chooses = True

        def supported_modes(self) -> frozenset[Mode]:
            return frozenset({Mode.FULL})

        def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
            if Mode.FULL in modes:
                each = Regions.of_rows(inputs[0].shape, np.arange(inputs[0].size))
                self.lwrite_many(each, each)
            return inputs[0] * (inputs[0].sum() > 0)

    recording, values = Recording(), np.abs(image_of((2, 3)))
    doubled = recording.source("image", values) * 2
    made = doubled
    for strategies in ((), (Strategy(Mode.FULL, Encoding.MANY),)):
        made = recording.run(Kept(), doubled, strategies=strategies)
        assert np.array_equal(made.current, values * 2)
        trace = recording.back(made + 1, (1, 2))
        assert trace.cells["image"].coordinates().tolist() == [[1, 2]]
        assert trace.chosen_by
        assert recording.back(made, (1, 2), choices=True).cells["image"].is_whole
        ended = recording.back(made + 1, (1, 2), until={"doubled": doubled})
        assert list(ended.cells) == ["doubled"]
        assert ended.values["doubled"] is doubled.current
    with pytest.raises(ArrayLineageError, match="has this name"):
        recording.back(made, until={"image": doubled})
    with pytest.raises(ArrayLineageError, match="another recording"):
        Recording().run(Kept(), doubled)


def test_writes_at_traced_indices() -> None:
    def written(values: Any, at: Any, new: Any) -> Any:
        values = values * 1
        values[at] = new
        return values

    arrays: list[Any] = [image_of((3, 2)), np.array([2, 0]), image_of((2, 2), 9)]
    recording = Recording()
    sources = [recording.source(str(at), one) for at, one in enumerate(arrays)]
    made = written(*sources)
    assert np.array_equal(made.current, written(*arrays))
    for at, changes in enumerate(dependences(written, arrays)):
        for cell in range(made.size):
            trace = recording.back(made, np.unravel_index(cell, made.shape))
            found = trace.cells[str(at)].mask().reshape(-1)
            if at == 1:
                assert found.all()
            else:
                assert np.array_equal(found, changes[:, cell])
    assert not recording.back(made).exact


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (_umath_linalg.det, [(2, 3, 3)]),
        (_umath_linalg.inv, [(2, 2, 2)]),
        (_umath_linalg.solve, [(2, 2, 2), (2, 2, 1)]),
        (_umath_linalg.slogdet, [(2, 2, 2)]),
    ],
)
def test_generalised_functions_by_their_signatures(
    function: Callable[..., Any], shapes: list[tuple[int, ...]]
) -> None:
    arrays = [image_of(shape, seed) for seed, shape in enumerate(shapes)]
    for part in range(2 if function is _umath_linalg.slogdet else 1):

        def called(*given: Any, part: int = part) -> Any:
            with np.errstate(all="ignore"):
                result = function(*given)
            return result[part] if isinstance(result, tuple) else result

        recording = Recording()
        made = called(*(recording.source(str(at), one) for at, one in enumerate(arrays)))
        assert not recording.back(made).exact
        for at, changes in enumerate(dependences(called, arrays)):
            for cell in range(made.size):
                trace = recording.back(made, np.unravel_index(cell, made.shape))
                found = trace.cells[str(at)].mask().reshape(-1)
                assert not (changes[:, cell] & ~found).any()
                # Nothing of another place in the loop.
                assert found.sum() == arrays[at][0].size
    with pytest.raises(UntracedError, match="other axes"):
        _umath_linalg.det(Recording().source("x", arrays[0]), axes=[(0, 1), ()])
