"""Functions of texts (``numpy.strings``, ``numpy.char``) that are no universal functions: cell by cell.

The type of a result is as wide as its longest text; no cell's text depends on that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lineage_arrays.calls import Handler
from lineage_arrays.functions.elementwise import by_cell

TABLE: dict[Callable[..., Any], Handler] = {
    **dict.fromkeys(
        (
            np.strings.capitalize, np.strings.lower, np.strings.upper, np.strings.swapcase, np.strings.title,
            np.strings.decode, np.strings.encode, np.strings.translate,
        ),
        by_cell(1, ("a",)),
    ),
    np.strings.expandtabs: by_cell(2, ("a", "tabsize")),
    np.strings.zfill: by_cell(2, ("a", "width")),
    np.strings.multiply: by_cell(2, ("a", "i")),
    np.strings.mod: by_cell(2, ("a", "values")),
    **dict.fromkeys((np.strings.partition, np.strings.rpartition), by_cell(2, ("a", "sep"))),
    **dict.fromkeys(
        (np.strings.center, np.strings.ljust, np.strings.rjust), by_cell(3, ("a", "width", "fillchar"))
    ),
    np.strings.replace: by_cell(4, ("a", "old", "new", "count")),
    np.char.join: by_cell(2, ("sep", "seq")),
    **dict.fromkeys(
        (
            np.char.equal, np.char.not_equal, np.char.less, np.char.less_equal, np.char.greater,
            np.char.greater_equal,
        ),
        by_cell(2, ("x1", "x2")),
    ),
}  # fmt: skip
