"""Functions of `numpy.polynomial` that look whether their points are an array, and take traced ones for a number: what they compute then is another thing."""

from __future__ import annotations

import inspect
import sys
from types import CodeType, FrameType
from typing import Any

import numpy as np

from lineage_arrays.errors import UntracedError
from lineage_arrays.workflow import Operand

_BASES = ("polynomial", "chebyshev", "legendre", "hermite", "hermite_e", "laguerre")
_EVALUATING: dict[str, CodeType] = {
    name: inspect.unwrap(function).__code__
    for base in _BASES
    for name, function in vars(getattr(np.polynomial, base)).items()
    if name.endswith(("val", "valfromroots"))
}
"""By their names: these are looked up quickly."""
_MIXIN = np.lib.mixins.__file__


def check_points() -> None:
    """Refuse a call of a universal function, two frames up, by one that evaluates a polynomial in another way than over an array.

    Raises:
        UntracedError: coefficients of several axes, or roots, meet points with axes.
    """
    caller: FrameType | None = sys._getframe(2)
    if caller is not None and caller.f_code.co_filename == _MIXIN:
        caller = caller.f_back
    if caller is None or _EVALUATING.get(caller.f_code.co_name) is not caller.f_code:
        return
    named: dict[str, Any] = caller.f_locals
    if not isinstance(named["x"], Operand) or not named["x"].current.ndim:
        return
    if "r" in named or (np.ndim(named["c"]) > 1 and named["tensor"]):
        raise UntracedError(
            f"{caller.f_code.co_name}: roots, or coefficients of several axes, at traced points, which it takes for a number",
            "one axis of coefficients at a time; np.asarray(x) ends its lineage",
        )
