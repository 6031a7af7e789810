"""What lineage of array cells costs: python -m benchmarks.arrays {numpy,astronomy,genomics,microbenchmark,libraries,pictures}.

numpy: the built-in operators of the astronomy workflow as plain NumPy code, plain and recorded. astronomy: the workflow with
each strategy of its UDFs. genomics: the paper's other workflow. microbenchmark: region pairs in each encoding. libraries: a catalogue of stars by
photutils, astroscrappy and scikit-image as they are. pictures: draws traces of the workflows into docs/images/benchmarks. Runs take turns, plain and recorded (A B B A). Each
prints a JSON line for each row; a row says whether its answers are those of the definition or of re-execution.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.arrays.astronomy import SHAPE
from benchmarks.arrays.genomics import REPLICAS
from benchmarks.arrays.microbenchmark import micro_rows
from benchmarks.arrays.workflows import astronomy_rows, genomics_rows, numpy_row
from benchmarks.provenance import provenance

PICTURES = Path(__file__).resolve().parents[2] / "docs/images/benchmarks"
SQUARE = (512, 512)
"""Of the exposure that libraries make a catalogue of."""
SMALLER = (40, 120)
"""Of exposures with region pairs of each cell: those of the whole ones take gigabytes."""


def rows(name: str, pairs: int) -> Iterator[dict[str, Any]]:
    """The rows of a benchmark."""
    kinds: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
        "numpy": lambda: iter([numpy_row(SHAPE, pairs)]),
        "astronomy": lambda: astronomy_rows(SHAPE, SMALLER, pairs),
        "genomics": lambda: genomics_rows(REPLICAS, pairs),
        "microbenchmark": micro_rows,
        "libraries": lambda: iter([_library_row(pairs)]),
    }
    for row in kinds[name]():
        yield {"benchmark": f"arrays-{name}", **row}


def _library_row(pairs: int) -> dict[str, Any]:
    # Here: the libraries take seconds to import.
    from benchmarks.arrays.libraries import library_row

    return library_row(SQUARE, pairs)


def main() -> int:
    """Print the rows, or draw the pictures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.arrays", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "benchmark",
        choices=("numpy", "astronomy", "genomics", "microbenchmark", "libraries", "pictures"),
    )
    parser.add_argument("--pairs", type=int, default=5, help="runs of each kind, in turns")
    parser.add_argument("--json-out", type=Path, help="append the rows to this file, too")
    words = parser.parse_args()
    if words.benchmark == "pictures":
        from benchmarks.arrays.pictures import draw_all

        for picture in draw_all(PICTURES):
            print(f"{picture}: {picture.stat().st_size:,} bytes")
        return 0
    same = True
    for row in rows(words.benchmark, words.pairs):
        line = json.dumps(row | {"provenance": provenance()}) + "\n"
        sys.stdout.write(line)
        sys.stdout.flush()
        if words.json_out is not None:
            with words.json_out.open("a", encoding="utf-8") as out:
                out.write(line)
        same = same and row["same"]
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
