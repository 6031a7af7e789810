"""Functions of texts (``numpy.strings``, ``numpy.char``) that are no universal functions: cell by cell.

The type of most results is as wide as the longest text needs, so values decide its width, and some functions cut what they give to the width of
an operand. A text that fits into its own cell's width is never cut, whatever the other cells are. Where one does not, and values decided the width,
the width has left the recording as a number does (:meth:`lineage_arrays.workflow.Workflow.leak_width`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from lineage_arrays.calls import Call, Handler, Result, Results, plain
from lineage_arrays.functions.elementwise import by_cell
from lineage_arrays.workflow import Operand


def _wide_as_needed(lay: Handler) -> Handler:
    """A function whose result is as wide as its longest text."""

    def handler(call: Call) -> Result | Results:
        laid = lay(call)
        if isinstance(laid, Results):
            return replace(laid, parts=[replace(part, decided_width=True) for part in laid.parts])
        return replace(laid, decided_width=True)

    return handler


def _wide_as_before(lay: Handler, method: str, *names: str) -> Handler:
    """A function whose result is as wide as its first argument, and cut to that.

    Args:
        lay: how cells are laid.
        method: of ``str``, which NumPy calls for each cell.
        names: of its arguments, behind the texts.
    """

    def handler(call: Call) -> Result | Results:
        laid = lay(call)
        texts = call.argument(0, "a")
        if isinstance(laid, Results) or not _has_decided_width(texts):
            return laid
        words = [plain(call.argument(at, name)) for at, name in enumerate(names, start=1)]
        is_cut = texts.current.dtype.kind == "U" and any(
            len(getattr(text, method)(*words)) > len(text)
            for text in texts.current.reshape(-1).tolist()
        )
        return replace(laid, cut_to_width=is_cut)

    return handler


def _sought(lay: Handler, *names: str) -> Handler:
    """A function that cuts what it looks for, or puts there, to the width of its first argument.

    Args:
        lay: how cells are laid.
        names: of its arguments behind the texts.
    """

    def handler(call: Call) -> Result | Results:
        laid = lay(call)
        texts = call.argument(0, "a")
        if not _has_decided_width(texts) or not texts.current.size:
            return laid
        sought = [np.asarray(plain(call.argument(at, name))) for at, name in enumerate(names, 1)]
        longest = max(int(np.strings.str_len(one).max(initial=1)) for one in sought)
        # Any width holds one character.
        is_cut = longest > max(int(np.strings.str_len(texts.current).min()), 1)
        if isinstance(laid, Results):
            return replace(laid, parts=[replace(part, cut_to_width=is_cut) for part in laid.parts])
        return replace(laid, cut_to_width=is_cut)

    return handler


def _has_decided_width(texts: Any) -> bool:
    return isinstance(texts, Operand) and texts.node.decided_width


TABLE: dict[Callable[..., Any], Handler] = {
    **{
        function: _wide_as_before(by_cell(1, ("a",)), function.__name__)
        for function in (
            np.strings.capitalize, np.strings.lower, np.strings.upper, np.strings.swapcase, np.strings.title,
        )
    },
    np.strings.translate: _wide_as_before(by_cell(1, ("a",)), "translate", "table"),
    **dict.fromkeys((np.strings.decode, np.strings.encode), _wide_as_needed(by_cell(1, ("a",)))),
    np.strings.expandtabs: _wide_as_needed(by_cell(2, ("a", "tabsize"))),
    np.strings.zfill: _wide_as_needed(by_cell(2, ("a", "width"))),
    np.strings.multiply: _wide_as_needed(by_cell(2, ("a", "i"))),
    np.strings.mod: _wide_as_needed(by_cell(2, ("a", "values"))),
    **dict.fromkeys(
        (np.strings.partition, np.strings.rpartition),
        _wide_as_needed(_sought(by_cell(2, ("a", "sep")), "sep")),
    ),
    **dict.fromkeys(
        (np.strings.center, np.strings.ljust, np.strings.rjust),
        _wide_as_needed(by_cell(3, ("a", "width", "fillchar"))),
    ),
    np.strings.replace: _wide_as_needed(_sought(by_cell(4, ("a", "old", "new", "count")), "old", "new")),
    np.char.join: _wide_as_needed(by_cell(2, ("sep", "seq"))),
    **dict.fromkeys(
        (
            np.char.equal, np.char.not_equal, np.char.less, np.char.less_equal, np.char.greater,
            np.char.greater_equal,
        ),
        by_cell(2, ("x1", "x2")),
    ),
}  # fmt: skip
