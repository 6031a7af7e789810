"""What a trace goes through of SciPy's functions, and how: docs/reference/arrays-scipy.md, written from the tables themselves."""

from __future__ import annotations

from lineage_arrays.scipy_functions.table import TABLES


def page() -> str:
    """The reference page."""
    lines = [
        "# SciPy's functions",
        "",
        "How [traces of cells](../guide/arrays.md#functions-of-scipy) go through the public functions of `scipy.ndimage`, `scipy.signal` and `scipy.linalg`",
        "that are imported from `lineage_arrays.scipy`, and which cells of its operands a cell of the result has. The words are those of",
        "[NumPy's functions](arrays-numpy.md). *Exact* is for what is looked at: a weight of zero counts for floats, among which NaN shows",
        "through it, and makes a superset of whole numbers. An operand that only says how to compute (`sigma`, weights of `ndimage`) counts with all",
        "cells. Arrays to write into (`output=`, `distances=`) are refused, but for a traced one as `output=` by name, and `overwrite_a=True` and its like overwrite nothing. Classes (`signal.ShortTimeFFT`,",
        "`signal.lti`) are SciPy's own: values leave the recording there. `python -m lineage_arrays.scipy_functions.coverage` writes this page.",
    ]
    for module, table in TABLES.items():
        lines += [
            "",
            f"## {module}",
            "",
            "| function | lineage | cells, or what to do instead |",
            "|---|---|---|",
        ]
        lines += [f"| `{name}` | {row.kind} | {row.cells} |" for name, row in sorted(table.items())]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    import sys

    sys.stdout.write(page())
