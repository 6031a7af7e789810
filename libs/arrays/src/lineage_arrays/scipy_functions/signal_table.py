"""Places of extremes, waves, and what else ``scipy.signal`` computes of all cells; the table of its functions."""

from __future__ import annotations

import numpy as np

from lineage_arrays.calls import Call, Result, Results
from lineage_arrays.mappings import Gather
from lineage_arrays.scipy_functions import convolving, signals
from lineage_arrays.scipy_functions.footprints import exactly, same_cell
from lineage_arrays.scipy_functions.rules import (
    Given,
    Row,
    all_cells,
    all_cells_of,
    by_rules,
    chosen,
    everything,
    given,
    inputs_of,
    known_shape,
    structured,
)
from lineage_arrays.workflow import FIRST_AXIS, AnyArray, Input, Operand


def extremes(call: Call) -> Result | Results:
    """``argrelextrema`` and its like: the cell whose place it is."""
    of_call = given(call)
    operand = of_call.raw["data"]
    if not isinstance(operand, Operand):
        return all_cells_of(of_call)
    shape = operand.current.shape
    places = np.ravel_multi_index(of_call.result, shape)
    return structured(
        of_call, lambda _, value: _at(of_call, "data", places, value), lambda *_: FIRST_AXIS
    )


def _at(of_call: Given, name: str, places: AnyArray, value: AnyArray) -> list[Input]:
    witness = chosen(Gather(of_call.shape(name), value.shape, lambda: places + 1))
    return inputs_of(of_call, {name: lambda *_: exactly(witness)}, value)


def peaks(call: Call) -> Result | Results:
    """``find_peaks``: the cell at the peak; all cells for what is said of it."""
    of_call = given(call)
    places = np.array(of_call.result[0])

    def inputs(at: int, value: AnyArray) -> list[Input]:
        return _at(of_call, "x", places, value) if at == 0 else everything(of_call, value)

    return structured(of_call, inputs, lambda *_: FIRST_AXIS)


_ALL = Row(all_cells, "superset", "all cells of each operand")

_TIMES = "the cell of the times; of what shapes the wave all cells"

_PLACES: dict[str, Row] = {
    **dict.fromkeys(["argrelextrema", "argrelmax", "argrelmin"], Row(extremes, "chosen", "the cell whose place it is; chosen among all")),
    "find_peaks": Row(peaks, "chosen", "the cell at the peak; chosen among all (what is said of peaks: superset, all cells)"),
    **dict.fromkeys(["chirp", "gausspulse", "sweep_poly"], Row(by_rules(t=same_cell("t")), "exact", _TIMES)),
    "gauss_spline": Row(by_rules(x=same_cell("x")), "exact", _TIMES),
    "sawtooth": Row(by_rules(t=same_cell("t"), width=same_cell("width")), "exact", "the cell of the times, and of the widths"),
    "square": Row(by_rules(t=same_cell("t"), duty=same_cell("duty")), "exact", "the cell of the times, and of the duties"),
    **dict.fromkeys(["choose_conv_method"], Row(None, "leaves", "values leave: traces of what is made of them say so")),
}  # fmt: skip

_OF_KNOWN_SHAPE = [
    "fftconvolve",
    "oaconvolve",
    "wiener",
    "sepfir2d",
    "hilbert2",
    "lombscargle",
    "cspline1d_eval",
    "qspline1d_eval",
    "cspline2d",
    "qspline2d",
    "spline_filter",
    "peak_prominences",
    "peak_widths",
    "whittaker_henderson",
]
_ALL_OF = [
    "deconvolve",
    "envelope",
    "stft",
    "istft",
    "spectrogram",
    "vectorstrength",
    "find_peaks_cwt",
    "lfilter_zi",
    "lfiltic",
    "sosfilt_zi",
    "minimum_phase",
]
OF_SYSTEMS = [
    "abcd_normalize",
    "bode",
    "cont2discrete",
    "dbode",
    "dfreqresp",
    "dimpulse",
    "dlsim",
    "dstep",
    "freqresp",
    "impulse",
    "lsim",
    "place_poles",
    "ss2tf",
    "ss2zpk",
    "step",
    "tf2ss",
    "tf2zpk",
    "zpk2ss",
    "zpk2tf",
    "tf2sos",
    "sos2tf",
    "sos2zpk",
    "zpk2sos",
    "freqs",
    "freqs_zpk",
    "freqz",
    "freqz_sos",
    "freqz_zpk",
    "sosfreqz",
    "group_delay",
    "band_stop_obj",
    "bessel",
    "besselap",
    "bilinear",
    "bilinear_zpk",
    "buttap",
    "butter",
    "buttord",
    "cheb1ap",
    "cheb1ord",
    "cheb2ap",
    "cheb2ord",
    "cheby1",
    "cheby2",
    "ellip",
    "ellipap",
    "ellipord",
    "findfreqs",
    "firls",
    "firwin",
    "firwin2",
    "firwin_2d",
    "gammatone",
    "iircomb",
    "iirdesign",
    "iirfilter",
    "iirnotch",
    "iirpeak",
    "invres",
    "invresz",
    "residue",
    "residuez",
    "unique_roots",
    "kaiser_atten",
    "kaiser_beta",
    "kaiserord",
    "lp2bp",
    "lp2bp_zpk",
    "lp2bs",
    "lp2bs_zpk",
    "lp2hp",
    "lp2hp_zpk",
    "lp2lp",
    "lp2lp_zpk",
    "normalize",
    "remez",
    "savgol_coeffs",
    "closest_STFT_dual_window",
    "check_COLA",
    "check_NOLA",
    "czt_points",
    "max_len_seq",
    "get_window",
    "unit_impulse",
    "correlation_lags",
]

TABLE: dict[str, Row] = {
    **convolving.TABLE,
    **signals.TABLE,
    **_PLACES,
    **dict.fromkeys(_ALL_OF, _ALL),
    **dict.fromkeys(_OF_KNOWN_SHAPE, Row(known_shape, "superset", "all cells of each operand")),
    **dict.fromkeys(
        OF_SYSTEMS,
        Row(all_cells, "superset", "all cells of each operand; refused where it gives an object of SciPy"),
    ),
}  # fmt: skip
