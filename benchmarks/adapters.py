"""How many lines the adapters of other engines have, without comments, docstrings and empty lines: python -m benchmarks.adapters.

Prints one JSON line: of each engine all modules of ``lineage_emitter.sdk`` that are its own.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from pathlib import Path

from benchmarks.catalog import ROOT
from benchmarks.provenance import provenance
from benchmarks.row import put_out

SDK = ROOT / "services" / "emitter" / "src" / "lineage_emitter" / "sdk"
ENGINES = ("dask", "mapreduce")
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def code_lines(text: str) -> int:
    """Lines of a module that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        # A text that stands by itself is a docstring, of whatever it follows.
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def main() -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adapters", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--json-out", type=Path, help="append the row to this file, too")
    options = parser.parse_args()
    modules = {
        engine: {
            path.name: code_lines(path.read_text(encoding="utf-8"))
            for path in sorted(SDK.glob(f"{engine}_*.py"))
        }
        for engine in ENGINES
    }
    row = {
        "benchmark": "adapters",
        "lines": {engine: sum(counts.values()) for engine, counts in modules.items()},
        "modules": modules,
        "provenance": provenance(),
    }
    put_out(row, options.json_out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
