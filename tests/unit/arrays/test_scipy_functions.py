"""Every function of SciPy's tables, held against what changes when cells are changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lineage_arrays import Recording
from lineage_arrays.scipy import linalg, ndimage, signal
from lineage_arrays.scipy_functions import signal_table
from lineage_arrays.scipy_functions.rules import Row, all_cells
from lineage_arrays.scipy_functions.table import TABLES
from tests.support.cell_oracle import dependences, same
from tests.unit.arrays.test_numpy_functions import Case, matrices, traces

pytestmark = [
    pytest.mark.unit,
    # SciPy warns of small arrays, of NaN in matrices and of what it calls otherwise in the next version.
    pytest.mark.filterwarnings("ignore"),
]

MODULES = {"ndimage": ndimage, "signal": signal, "linalg": linalg}
S = (4, 5)
LINE = (9,)
A = np.array
MODES = ("reflect", "constant", "nearest", "mirror", "wrap")
CROSS = A([[0, 1, 0], [1, 1, 1], [0, 1, 0]])
L_SHAPE = A([[1, 0, 0], [1, 1, 1]])


def of(names: str, call: Callable[..., Any], *shapes: Any, dtypes: Any = ()) -> list[Case]:
    """The same call for several functions, which are named with their module."""
    cases = []
    for name in names.split():
        module, _, function = name.partition(".")
        found = getattr(MODULES[module], function, None)
        if found is None:
            # Another version of SciPy has it.
            continue
        cases.append(Case((name,), lambda *a, f=found: call(f, *a), shapes, dtypes))
    return cases


def ways(names: str, options: list[dict[str, Any]], *shapes: Any, **more: Any) -> list[Case]:
    return [
        case
        for option in options
        for case in of(names, lambda f, *a, o=option: f(*a, **o), *shapes, **more)
    ]


def square(x: Any) -> Any:
    return x @ x.T + 3 * np.eye(len(x))


PLAIN: list[Case] = [
    # Filters along an axis, in all modes, with origins, and longer than the axis.
    *ways("ndimage.correlate1d ndimage.convolve1d",
          [{"weights": [1.0, 2.0, 0.5], "axis": 0, "mode": mode} for mode in MODES], (5, 2)),
    *ways("ndimage.correlate1d ndimage.convolve1d",
          [{"weights": [1.0, 2.0, 0.5, 3.0], "mode": mode, "origin": origin} for mode in ("reflect", "wrap", "constant") for origin in (-2, 0, 1)],
          (6,)),
    *ways("ndimage.correlate1d", [{"weights": list(range(1, 10)), "mode": mode} for mode in MODES], (3,)),
    *ways("ndimage.gaussian_filter1d", [{"sigma": 0.6, "order": order, "axis": 0} for order in (0, 1, 2)], (7, 2)),
    *ways("ndimage.gaussian_filter1d", [{"sigma": 1, "radius": 1, "mode": "mirror"}], (5,)),
    *ways("ndimage.minimum_filter1d ndimage.maximum_filter1d",
          [{"size": size, "mode": mode, "origin": 1} for mode in MODES for size in (3, 4)], (7,)),
    *ways("ndimage.uniform_filter1d", [{"size": 3, "mode": mode} for mode in MODES], (7,), dtypes=(np.int32,)),
    *ways("ndimage.uniform_filter1d", [{"size": 3, "mode": mode, "origin": -1} for mode in MODES], (7,)),
    # Windows over several axes.
    *ways("ndimage.correlate ndimage.convolve",
          [{"weights": L_SHAPE * 2.0, "mode": mode, "origin": origin} for mode in MODES for origin in ((0, 0), (-1, 1))], S),
    *ways("ndimage.correlate ndimage.convolve", [{"weights": CROSS[None] + 0.0}], (2, 3, 3)),
    *ways("ndimage.correlate", [{"weights": [[1.0, 2.0]], "axes": (0, 2)}], (2, 2, 3)),
    *ways("ndimage.correlate", [{"weights": np.zeros((3, 3))}], (3, 3)),
    *ways("ndimage.correlate", [{"weights": A([1, 1j, 0])}], (5,)),
    *ways("ndimage.gaussian_filter", [{"sigma": (0.4, 0.5), "mode": ("wrap", "nearest")}, {"sigma": (0, 0.4), "order": 1}, {"sigma": 0.4, "axes": (1,)}], S),
    *ways("ndimage.gaussian_laplace ndimage.gaussian_gradient_magnitude",
          [{"sigma": 0.4}, {"sigma": 0.3, "mode": ("wrap", "reflect"), "truncate": 3.0}], S),
    *ways("ndimage.laplace", [{"mode": mode} for mode in MODES], (4, 4)),
    *ways("ndimage.laplace", [{"axes": (1,)}, {"mode": ("wrap", "constant")}], S),
    *ways("ndimage.prewitt ndimage.sobel", [{"axis": 0, "mode": "mirror"}, {"mode": ("wrap", "constant")}], S),
    *ways("ndimage.uniform_filter", [{"size": (3, 2)}, {"size": 3, "axes": (0,)}], S, dtypes=(np.int16,)),
    *ways("ndimage.uniform_filter", [{"size": (3, 2), "mode": ("wrap", "constant")}], S),
    *ways("ndimage.uniform_filter", [{"size": 3, "output": np.float64}], S, dtypes=(np.int16,)),
    *ways("ndimage.minimum_filter ndimage.maximum_filter ndimage.grey_erosion ndimage.grey_dilation",
          [{"size": (2, 3), "mode": mode} for mode in MODES], S),
    *ways("ndimage.minimum_filter ndimage.grey_erosion ndimage.grey_dilation",
          [{"footprint": L_SHAPE, "mode": mode, "origin": (0, 1)} for mode in MODES], S),
    *ways("ndimage.grey_erosion ndimage.grey_dilation", [{"structure": L_SHAPE * 0.5}], S),
    *ways("ndimage.median_filter", [{"size": 3, "mode": mode} for mode in MODES], S),
    *ways("ndimage.median_filter", [{"footprint": CROSS, "axes": (0, 1)}, {"size": (1, 3)}, {"size": 3, "axes": (1,)}], S),
    *ways("ndimage.rank_filter", [{"rank": 1, "size": (3, 2), "origin": (1, 0)}, {"rank": 0, "footprint": CROSS}], S),
    *ways("ndimage.percentile_filter", [{"percentile": 70, "size": 3}, {"percentile": 100, "size": 3}], S),
    *ways("ndimage.median_filter", [{"size": 3, "mode": mode} for mode in MODES], (8,), dtypes=(int,)),
    *ways("ndimage.grey_opening ndimage.grey_closing ndimage.white_tophat ndimage.black_tophat ndimage.morphological_gradient "
          "ndimage.morphological_laplace",
          [{"size": (2, 3)}, {"footprint": L_SHAPE, "mode": "wrap"}], S),
    *ways("ndimage.binary_erosion ndimage.binary_dilation ndimage.binary_opening ndimage.binary_closing",
          [{}, {"structure": L_SHAPE, "origin": (0, 1)}, {"iterations": 2}, {"iterations": 0}, {"iterations": 3, "border_value": 1}, {"structure": L_SHAPE, "iterations": 2}],
          S, dtypes=(bool,)),
    *ways("ndimage.binary_erosion", [{"mask": A([[True, False, True, True, True]] * 4)}, {"axes": (1,)}], S, dtypes=(bool,)),
    *ways("ndimage.binary_hit_or_miss", [{}, {"structure1": CROSS, "origin1": 1}], S, dtypes=(bool,)),
    *ways("ndimage.binary_propagation ndimage.binary_fill_holes", [{}], S, dtypes=(bool,)),
    *of("ndimage.watershed_ift", lambda f, x: f(x, A([[1, 0, 0], [0, 0, -1]])), (2, 3), dtypes=(np.uint8,)),
    *of("ndimage.generic_filter", lambda f, x: f(x, np.max, size=2), (2, 3)),
    *of("ndimage.vectorized_filter", lambda f, x: f(x, np.max, size=2), (2, 3)),
    *of("ndimage.generic_filter1d", lambda f, x: f(x, lambda line, out: out.__setitem__(..., line[1:-1]), 3), (2, 3)),
    *of("ndimage.generic_laplace", lambda f, x: f(x, lambda x, axis, output, mode, cval: np.add(x, 1, out=output) if isinstance(output, np.ndarray) else x + 1), (2, 3)),
    *of("ndimage.generic_gradient_magnitude", lambda f, x: f(x, lambda x, axis, output, mode, cval: np.add(x, 1, out=output) if isinstance(output, np.ndarray) else x + 1), (2, 3)),
    *of("ndimage.geometric_transform", lambda f, x: f(x, lambda at: (at[0], at[1] - 0.5), order=1), (2, 3)),
    *of("ndimage.labeled_comprehension", lambda f, x: f(x, A([[1, 1, 2], [2, 2, 0]]), [1, 2], np.sum, float, 0), (2, 3)),
    # Interpolation, by default prefiltered.
    *ways("ndimage.shift", [{"shift": 0.3}], S),
    *ways("ndimage.zoom", [{"zoom": 2}], (2, 3)),
    *ways("ndimage.rotate", [{"angle": 30}], (3, 3)),
    *of("ndimage.affine_transform", lambda f, x: f(x, [0.5, 1]), (3, 3)),
    *of("ndimage.map_coordinates", lambda f, x, at: f(x, at % 3), (4, 4), (2, 3)),
    *ways("ndimage.shift", [{"shift": (1, -2), "order": 0, "mode": mode} for mode in (*MODES, "grid-wrap", "grid-mirror", "grid-constant")], S),
    *ways("ndimage.shift", [{"shift": (0.5, -1), "order": 1, "mode": mode} for mode in (*MODES, "grid-wrap", "grid-constant")], S),
    *ways("ndimage.shift", [{"shift": 0.3, "order": 3, "prefilter": False}], S),
    *ways("ndimage.shift", [{"shift": 0.3}], S),
    *ways("ndimage.shift", [{"shift": 1, "order": 1}], S, dtypes=(int,)),
    *ways("ndimage.zoom", [{"zoom": (2, 0.5), "order": order, "grid_mode": grid, "mode": "nearest"} for order in (0, 1) for grid in (False, True)], S),
    *ways("ndimage.zoom", [{"zoom": 1.7, "order": 2, "prefilter": False}], S),
    *ways("ndimage.zoom", [{"zoom": 2}], (2, 3)),
    *ways("ndimage.rotate", [{"angle": 30, "order": 0}, {"angle": 90, "order": 0, "reshape": False}], S),
    *ways("ndimage.rotate", [{"angle": 30, "order": 1, "axes": (1, 2)}, {"angle": 20}], (2, 3, 3)),
    *of("ndimage.affine_transform", lambda f, x: f(x, [[0.5, 0.1], [0, 1]], offset=0.2, order=0, mode="mirror"), S),
    *of("ndimage.affine_transform", lambda f, x: f(x, [0.5, 1]), S),
    *of("ndimage.map_coordinates", lambda f, x: f(x, A([[0, 1.2, 5], [1, 2.7, 0]]), order=0), S),
    *of("ndimage.map_coordinates", lambda f, x, at: f(x, at % 3, order=1), (4, 4), (2, 3)),
    *ways("ndimage.spline_filter ndimage.spline_filter1d", [{}], S),
    *ways("ndimage.spline_filter1d", [{"order": 1}], S),
    *ways("ndimage.distance_transform_bf ndimage.distance_transform_cdt ndimage.distance_transform_edt", [{}], (3, 3), dtypes=(int,)),
    # Measurements.
    *ways("ndimage.sum ndimage.sum_labels ndimage.mean ndimage.variance ndimage.standard_deviation", [{}], S),
    *ways("ndimage.minimum ndimage.maximum ndimage.median", [{}], S),
    *ways("ndimage.sum ndimage.sum_labels ndimage.mean ndimage.variance ndimage.standard_deviation",
          [{"labels": A([[1, 1, 2], [2, 0, 2]]), "index": index} for index in (None, 2, [2, 1, 7])], (2, 3)),
    *ways("ndimage.minimum ndimage.maximum ndimage.median",
          [{"labels": A([[1, 1, 2], [2, 0, 2]]), "index": index} for index in (None, 2, [2, 1, 7])], (2, 3)),
    *ways("ndimage.sum", [{"labels": A([1, 2, 1]), "index": [1, 1]}], (3,)),
    *of("ndimage.center_of_mass", lambda f, x: f(x)[1], S),
    *of("ndimage.extrema", lambda f, x: f(x)[2][0], S),
    *of("ndimage.histogram", lambda f, x: f(x, -2, 2, 3), S),
    *of("ndimage.iterate_structure", lambda f, x: f(x, 2), (3, 3), dtypes=(bool,)),
    *of("ndimage.fourier_gaussian ndimage.fourier_uniform ndimage.fourier_ellipsoid", lambda f, x: f(x + 0j, 1.5), S),
    *of("ndimage.fourier_shift", lambda f, x: f(x + 0j, 1.5), S),
    # Convolutions.
    *[
        case
        for mode in ("full", "same", "valid")
        for n, m in (((6,), (3,)), ((5,), (4,)), ((3,), (5,)), ((4, 3), (2, 3)), ((4, 4), (2, 4)), ((2, 3), (3, 4)))
        for case in of("signal.convolve signal.correlate", lambda f, x, y, mode=mode: f(x, y, mode, method="direct"), n, m)
    ],
    *of("signal.convolve signal.correlate", lambda f, x, y: f(x, y, "same", method="fft"), (5,), (3,)),
    *of("signal.convolve signal.correlate", lambda f, x: f(x, np.ones((3, 3))), (5, 4)),
    *of("signal.convolve signal.correlate", lambda f, x, y: f(x, y, "same"), (3, 4), (2, 2), dtypes=(int, int)),
    *of("signal.fftconvolve signal.oaconvolve", lambda f, x, y: f(x, y), (5,), (3,)),
    *[
        case
        for mode in ("full", "same", "valid")
        for boundary in ("fill", "wrap", "symm")
        for shape in ((3, 2), (2, 4))
        for case in of("signal.convolve2d signal.correlate2d", lambda f, x, mode=mode, boundary=boundary, shape=shape: f(x, np.arange(1.0, 1 + np.prod(shape)).reshape(shape), mode, boundary), (4, 5))
    ],
    *[
        case
        for mode in ("full", "same", "valid")
        for boundary in ("fill", "wrap", "symm")
        for case in of("signal.convolve2d signal.correlate2d", lambda f, x, y, mode=mode, boundary=boundary: f(x, y, mode, boundary), (3, 4), (2, 3))
    ],
    *ways("signal.medfilt", [{}, {"kernel_size": (1, 5)}], S),
    *ways("signal.medfilt", [{"kernel_size": 5}], (7,)),
    *ways("signal.medfilt", [{"kernel_size": 5}], (7,), dtypes=(int,)),
    *ways("signal.medfilt2d", [{}, {"kernel_size": (1, 3)}], S),
    *of("signal.order_filter", lambda f, x: f(x, CROSS, 2), S),
    *of("signal.wiener", lambda f, x: f(x, 3), S),
    *of("signal.sepfir2d", lambda f, x: f(x, A([1.0, 2, 1]), A([1.0, 2, 1])), S),
    *of("signal.deconvolve", lambda f, x: f(x, [1.0, 2.0])[0], (5,)),
    # Along an axis.
    *of("signal.lfilter", lambda f, x: f([1.0, 2.0, 0.5], [1.0], x, axis=0), (6, 2)),
    *of("signal.lfilter", lambda f, x: f([1.0, 2.0], [1.0, 0.5], x), (2, 6)),
    *of("signal.lfilter", lambda f, x: f([1.0, 2.0], [1.0, 0.5], x, zi=np.zeros((2, 1)))[0], (2, 6)),
    *of("signal.lfilter", lambda f, x: f([1.0, 2.0], [1.0, 0.5], x, zi=np.zeros((2, 1)))[1], (2, 6)),
    *of("signal.lfilter", lambda f, x: f([1.0, 2.0], [1.0, 0.5], x), (6,), dtypes=(int,)),
    *of("signal.lfilter", lambda f, b, a, x: f(b, a, x), (2,), (2,), (4,)),
    *of("signal.sosfilt", lambda f, x: f([[1, 0.5, 0.2, 1, 0.3, 0.1]] * 2, x, axis=0), (5, 2)),
    *of("signal.filtfilt", lambda f, x: f([1.0, 2.0], [1.0, 0.5], x, axis=0, padlen=2), (6, 2)),
    *of("signal.sosfiltfilt", lambda f, x: f([[1, 0.5, 0.2, 1, 0.3, 0.1]], x, padlen=2), (2, 6)),
    *[
        case
        for mode in ("mirror", "constant", "nearest", "wrap", "interp")
        for size in (3, 4, 5)
        for case in of("signal.savgol_filter", lambda f, x, mode=mode, size=size: f(x, size, 2, axis=0, mode=mode), (7, 2))
    ],
    *[
        case
        for up, down in ((1, 1), (3, 1), (1, 2), (2, 3), (3, 2))
        for size in (1, 4, 5)
        for case in of("signal.upfirdn", lambda f, x, up=up, down=down, size=size: f(np.arange(1.0, size + 1), x, up, down), (2, 6))
    ],
    *of("signal.upfirdn", lambda f, x: f([1.0, 2.0], x, mode="wrap"), (6,)),
    *[
        case
        for up, down in ((1, 1), (2, 1), (1, 2), (2, 3), (6, 4))
        for window in ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0])
        for case in of("signal.resample_poly", lambda f, x, up=up, down=down, window=window: f(x, up, down, axis=1, window=window), (2, 7))
    ],
    *of("signal.resample_poly", lambda f, x: f(x, 2, 3), (50,)),
    *of("signal.resample_poly", lambda f, x: f(x, 2, 3, padtype="mean"), (7,)),
    *of("signal.detrend", lambda f, x: f(x, axis=0, type="constant"), (4, 2)),
    *of("signal.detrend", lambda f, x: f(x, axis=0), (4, 2)),
    *of("signal.decimate", lambda f, x: f(x, 2, n=1), (10,)),
    *of("signal.hilbert signal.czt", lambda f, x: f(x, axis=0), (4, 2)),
    *of("signal.zoom_fft", lambda f, x: f(x, 1), (2, 4)),
    *of("signal.hilbert2", lambda f, x: f(x), (3, 3)),
    *of("signal.envelope", lambda f, x: f(x), (6,)),
    *of("signal.resample", lambda f, x: f(x, 3, axis=1), (2, 4)),
    *of("signal.periodogram signal.welch", lambda f, x: f(x, nfft=4)[1], (2, 4)),
    *of("signal.csd signal.coherence", lambda f, x, y: f(x, y, nperseg=4)[1], (2, 6), (2, 6)),
    *of("signal.stft signal.spectrogram", lambda f, x: f(x, nperseg=4)[2], (6,)),
    *of("signal.istft", lambda f, x: f(x + 0j, nperseg=4)[1], (3, 4)),
    *of("signal.lombscargle", lambda f, x, y: f(x, y, [1.0, 2.0]), (4,), (4,)),
    *of("signal.vectorstrength", lambda f, x: f(x, 2.0)[0], (4,)),
    *of("signal.cspline1d signal.qspline1d signal.symiirorder1", lambda f, x: f(x, *([0.5, 0.2, 0.1] if "symiir" in f.__name__ else [])), (9,)),
    *of("signal.symiirorder2", lambda f, x: f(x, 0.2, 0.2, 0.1), (9,)),
    *of("signal.cspline1d_eval signal.qspline1d_eval", lambda f, x, y: f(x, y), (4,), (3,)),
    *of("signal.cspline2d signal.qspline2d", lambda f, x: f(x, 0.0, 0.5), (9, 9)),
    *of("signal.spline_filter", lambda f, x: f(x, 0.1), (30, 30)),
    *of("signal.find_peaks_cwt", lambda f, x: f(x, [1, 2]), (8,)),
    *of("signal.peak_prominences signal.peak_widths", lambda f, x: f(x, signal.find_peaks(np.asarray(x))[0])[0], (8,)),
    *of("signal.lfilter_zi", lambda f, b: f(b, [1.0, 0.5]), (2,)),
    *of("signal.lfiltic", lambda f, y: f([1.0], [1.0, 0.5], y), (1,)),
    *of("signal.sosfilt_zi", lambda f, x: f(x + A([[9.0] * 6])), (1, 6)),
    *of("signal.minimum_phase", lambda f, x: f(x), (5,)),
    *of("signal.chirp", lambda f, t: f(t, 1.0, 1.0, 2.0), (4,)),
    *of("signal.chirp", lambda f, t, f0: f(t, f0, 1.0, 2.0), (4,), ()),
    *of("signal.gausspulse", lambda f, t: f(t), (4,)),
    *of("signal.gausspulse", lambda f, t: f(t, retquad=True)[1], (4,)),
    *of("signal.sweep_poly", lambda f, t: f(t, [1.0, 2.0]), (4,)),
    *of("signal.gauss_spline", lambda f, x: f(x, 2), (4,)),
    *of("signal.sawtooth signal.square", lambda f, t: f(t, 0.5), (4,)),
    # Matrices.
    *of("linalg.inv linalg.pinv linalg.pinvh linalg.expm linalg.det linalg.eigvals linalg.eigvalsh linalg.svdvals", lambda f, x: f(square(x)), (2, 3)),
    *of("linalg.sqrtm", lambda f, x: f(square(x)), (2, 3)),
    *of("linalg.inv linalg.det linalg.svdvals linalg.expm", lambda f, x: f(x + 3 * np.eye(2)), (2, 2, 2)),
    *of("linalg.solve", lambda f, x, y: f(square(x), y), (2, 3), (2, 2)),
    *of("linalg.solve", lambda f, x, y: f(square(x), y), (2, 3), (2,)),
    *of("linalg.cho_solve", lambda f, y: f((np.linalg.cholesky(square(np.ones((2, 3)))), True), y), (2, 2)),
    *of("linalg.lu_solve", lambda f, y: f((2 * np.eye(2) + 1, A([0, 1])), y), (2, 2)),
    *of("linalg.solve_banded", lambda f, y: f((1, 1), np.ones((3, 3)) + A([[0], [3], [0]]), y), (3, 2)),
    *of("linalg.solveh_banded", lambda f, y: f(A([[0, 1, 1], [3.0, 3, 3]]), y), (3, 2)),
    *[
        case
        for lower in (False, True)
        for trans in (0, 1, "N", "T")
        for shape in ((3,), (3, 2))
        for case in of("linalg.solve_triangular", lambda f, y, lower=lower, trans=trans: f(np.ones((3, 3)) + np.eye(3), y, trans=trans, lower=lower), shape)
    ],
    *ways("linalg.norm", [{}, {"axis": 1}, {"axis": (0, 1), "keepdims": True}, {"axis": -1, "keepdims": True}], S),
    *ways("linalg.norm", [{"ord": 1}, {"ord": np.inf, "axis": 0}], S),
    *of("linalg.block_diag", lambda f, x, y: f(x, [[1.0]], y), (2, 2), (2,)),
    *of("linalg.toeplitz linalg.hankel", lambda f, x: f(x), (3,)),
    *of("linalg.toeplitz linalg.hankel", lambda f, x, y: f(x, y), (3,), (2,)),
    *of("linalg.leslie", lambda f, x, y: f(x, y), (3,), (2,)),
    *of("linalg.circulant", lambda f, x: f(x), (3,)),
    *[case for mode in ("full", "same", "valid") for case in of("linalg.convolution_matrix", lambda f, x, mode=mode: f(x, 4, mode), (3,))],
    *of("linalg.diagsvd", lambda f, x: f(x, 3, 2), (2,)),
    *of("linalg.khatri_rao", lambda f, x, y: f(x, y), (2, 3), (2, 3)),
    *of("linalg.companion linalg.fiedler linalg.fiedler_companion", lambda f, x: f(x), (3,)),
    *of("linalg.matmul_toeplitz linalg.solve_toeplitz linalg.solve_circulant", lambda f, c, x: f(c + A([9.0, 0, 0]), x), (3,), (3, 2)),
    *of("linalg.lstsq", lambda f, x, y: f(x, y)[0], (4, 2), (4, 2)),
    *of("linalg.bandwidth", lambda f, x: f(x)[0], (3, 3)),
    *of("linalg.ishermitian linalg.issymmetric", lambda f, x: f(x @ x.T), (2, 2)),
    *of("linalg.cdf2rdf", lambda f, w: f(w, np.eye(2))[0], (2,)),
    *of("linalg.cholesky linalg.coshm linalg.cosm linalg.hessenberg linalg.logm linalg.signm linalg.sinhm linalg.sinm linalg.tanhm linalg.tanm linalg.orth linalg.expm_cond",
        lambda f, x: f(square(x)), (2, 3)),
    *of("linalg.cho_factor linalg.ldl linalg.lu linalg.lu_factor linalg.polar linalg.qr linalg.rq linalg.schur linalg.svd linalg.eig linalg.eigh linalg.matrix_balance",
        lambda f, x: f(square(x))[0], (2, 3)),
    *of("linalg.eig", lambda f, x: f(square(x), overwrite_a=True)[1], (2, 3)),
    *of("linalg.cholesky_banded", lambda f, x: f(x * 0.1 + A([[0, 0, 0], [3.0, 3, 3]])), (2, 3)),
    *of("linalg.cho_solve_banded", lambda f, x: f((A([[0, 0.1, 0.1], [3.0, 3, 3]]), False), x), (3,)),
    *of("linalg.eig_banded linalg.eigvals_banded", lambda f, x: A(f(x)[0]) if isinstance(f(x), tuple) and isinstance(x, np.ndarray) else f(x)[0], (2, 3)),
    *of("linalg.eigh_tridiagonal", lambda f, x, y: f(x, y)[0], (3,), (2,)),
    *of("linalg.eigvalsh_tridiagonal", lambda f, x, y: f(x, y), (3,), (2,)),
    *of("linalg.clarkson_woodruff_transform", lambda f, x: f(x, 2, 1), (3, 2)),
    *of("linalg.cossin", lambda f, x: f(np.linalg.qr(x)[0], p=1, q=1)[1], (2, 2)),
    *of("linalg.expm_frechet", lambda f, x, y: f(x, y)[1], (2, 2), (2, 2)),
    *of("linalg.fractional_matrix_power", lambda f, x: f(square(x), 0.5), (2, 3)),
    *of("linalg.funm", lambda f, x: f(square(x), np.exp), (2, 3)),
    *of("linalg.null_space", lambda f, x: f(x), (2, 3)),
    *of("linalg.ordqz linalg.qz", lambda f, x, y: f(x, y)[0], (2, 2), (2, 2)),
    *of("linalg.orthogonal_procrustes", lambda f, x, y: f(x, y)[0], (3, 2), (3, 2)),
    *of("linalg.qr_delete", lambda f, x: f(np.eye(3), x, 0)[1], (3, 3)),
    *of("linalg.qr_insert", lambda f, x: f(np.eye(3), np.eye(3), x, 0)[1], (3,)),
    *of("linalg.qr_update", lambda f, x: f(np.eye(3), np.eye(3), x, x)[1], (3,)),
    *of("linalg.qr_multiply", lambda f, x: f(x, np.eye(2))[0], (2, 2)),
    *of("linalg.rsf2csf", lambda f, x: f(x, np.eye(2))[0], (2, 2)),
    *of("linalg.solve_continuous_are linalg.solve_discrete_are", lambda f, x: f(np.eye(2) * 0.5, np.eye(2), square(x), np.eye(2)), (2, 3)),
    *of("linalg.solve_continuous_lyapunov linalg.solve_lyapunov linalg.solve_discrete_lyapunov", lambda f, x: f(np.eye(2) * 0.5, x), (2, 2)),
    *of("linalg.solve_sylvester", lambda f, x: f(np.eye(2), np.eye(2), x), (2, 2)),
    *of("linalg.subspace_angles", lambda f, x, y: f(x, y), (3, 2), (3, 2)),
]  # fmt: skip

OF_SYSTEMS = set(signal_table.OF_SYSTEMS)
"""Functions of numbers and of systems, which take arrays of a few numbers at most."""

CHOOSING: list[Case] = [
    *of("ndimage.label", lambda f, x: f(x > 0)[0], (3, 4)),
    *of("ndimage.maximum_position ndimage.minimum_position", lambda f, x: f(x)[1], (3, 4)),
    *of("ndimage.sum ndimage.maximum", lambda f, x, y: f(x, y, [1, 2]), (2, 3), (2, 3), dtypes=(float, int)),
    *of("signal.argrelmax signal.argrelmin", lambda f, x: f(x, axis=1)[1], (2, 6)),
    *of("signal.argrelextrema", lambda f, x: f(x, np.greater)[0], (6,)),
    *of("signal.find_peaks", lambda f, x: f(x)[0], (8,)),
]  # fmt: skip


SEEDS = 10
"""Draws of changes, at most: one that a cell shows in is enough, and one is enough where it is a sum."""


def check(case: Case) -> set[str]:
    """Hold a call against what changes: nothing outside of its lineage, and each cell of what is called exact. Returns how it is traced."""
    result, arrays, of_arrays = traces(case, choices=False)
    said = matrices(of_arrays)
    seen = [np.zeros_like(one) for one in said]
    exact = all(way.exact for of_array in of_arrays for way in of_array)
    shown = [exact and array.dtype.kind == "f" for array in arrays]
    with np.errstate(all="ignore"):
        assert same(np.asarray(case.call(*arrays)), result.current).all()
        for seed in range(SEEDS):
            for at, changes in enumerate(dependences(case.call, arrays, seed)):
                seen[at] |= changes.reshape(said[at].shape)
                assert not (seen[at] & ~said[at]).any(), "a change outside of the lineage was seen"
            if all(
                (s == w).all() for s, w, wanted in zip(said, seen, shown, strict=True) if wanted
            ):
                break
        else:
            raise AssertionError("a cell of exact lineage changes nothing")
    return {"exact" if exact else "superset"}


def row_of(case: Case) -> Row:
    module, _, name = case.covers[0].partition(".")
    return TABLES[module][name]


def firsts(cases: list[Case]) -> list[Case]:
    return list({case.covers: case for case in reversed(cases)}.values())


@pytest.mark.parametrize("module", sorted(MODULES))
def test_mapping_is_what_changes(module: str) -> None:
    """A call of each function that is traced more narrowly than by all cells."""
    for case in firsts(PLAIN):
        row = row_of(case)
        if case.covers[0].startswith(module) and row.handler is not all_cells:
            assert check(case) == {row.kind}, case.covers


@pytest.mark.long
@pytest.mark.parametrize("at", range(len(PLAIN)))
def test_mapping_is_what_changes_in_all_modes(at: int) -> None:
    check(PLAIN[at])


def test_what_is_traced_by_all_cells_says_so() -> None:
    for case in firsts(PLAIN):
        row = row_of(case)
        if row.handler is all_cells:
            recording, arrays = Recording(), case.arrays()
            sources = [recording.source(f"a{n}", one) for n, one in enumerate(arrays)]
            result = case.call(*sources)
            assert same(np.asarray(case.call(*arrays)), result.current).all(), case.covers
            trace = recording.back(result)
            assert result.size == 0 or not trace.exact, case.covers
            assert result.size == 0 or all(cells.is_whole for cells in trace.cells.values())
            assert row.kind in ("superset", "no lineage"), case.covers


@pytest.mark.parametrize("at", range(len(CHOOSING)))
def test_choice_is_among_what_took_part(at: int) -> None:
    case = CHOOSING[at]
    _, arrays, every = traces(case, choices=True)
    _, _, some = traces(case, choices=False)
    with np.errstate(all="ignore"):
        changed = dependences(case.call, arrays)
    for said, seen, witness in zip(matrices(every), changed, matrices(some), strict=True):
        assert not (seen.reshape(said.shape) & ~said).any()
        assert not (witness & ~said).any()
    assert any(way.chosen_by for of_array in some for way in of_array)


def test_every_function_is_in_a_table_and_tried() -> None:
    tried = {case.covers[0] for case in (*PLAIN, *CHOOSING)}
    for module, found in MODULES.items():
        functions = {
            name
            for name in found.__dir__()
            if callable(getattr(found, name)) and not isinstance(getattr(found, name), type)
        }
        assert functions - set(TABLES[module]) == set()
        untried = {
            name
            for name in functions
            if f"{module}.{name}" not in tried
            and TABLES[module][name].handler is not None
            and TABLES[module][name].kind != "no lineage"
        }
        assert untried <= OF_SYSTEMS, untried
