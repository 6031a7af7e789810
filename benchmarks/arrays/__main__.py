"""What lineage of array cells costs: python -m benchmarks.arrays NAME.

numpy: the built-in operators of the astronomy workflow as plain NumPy code, plain and recorded. astronomy: the workflow with
each strategy of its UDFs. genomics: the paper's other workflow. microbenchmark: region pairs in each encoding. spatial: the same points by
spatial indexes that are not used. kinds: ranges of kinds of operators, and range queries over 10^8 associations. solver: the optimiser over
drawn costs. query-time: questions that what is kept answers badly, by it alone, by running the operator again, and by whichever is quicker.
libraries: a catalogue of stars by photutils, astroscrappy and scikit-image as they are. pictures: draws traces of the workflows into
docs/images/benchmarks. Runs take turns, plain and recorded (A B B A). Each prints one JSON line; parts of it are shown on stderr as
they are measured. ``same`` says whether all answers are those of the definition or of re-execution.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.arrays.astronomy import SHAPE
from benchmarks.arrays.figures import row_of
from benchmarks.arrays.genomics import REPLICAS
from benchmarks.arrays.kinds import kinds_row
from benchmarks.arrays.microbenchmark import micro_rows
from benchmarks.arrays.query_time import query_time_rows
from benchmarks.arrays.solving import solver_row
from benchmarks.arrays.spatial import spatial_rows
from benchmarks.arrays.workflows import astronomy_rows, genomics_rows, numpy_row
from benchmarks.provenance import provenance
from benchmarks.row import put_out

PICTURES = Path(__file__).resolve().parents[2] / "docs/images/benchmarks"
SQUARE = (512, 512)
"""Of the exposure that libraries make a catalogue of."""
SMALLER = (40, 120)
"""Of exposures for strategies that the paper does not have, and for plans that may keep region pairs of each cell."""


SIZE, ASSOCIATIONS = 1000, 10**8
"""Cells on each axis of the kinds of operators, and associations of range queries."""
OPERATORS, STRATEGIES, DRAWS = 100, 12, 30
"""Of the solver."""


def parts(name: str, pairs: int) -> Iterator[dict[str, Any]]:
    """The parts of a benchmark's row."""
    kinds: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
        "numpy": lambda: iter([numpy_row(SHAPE, pairs)]),
        "astronomy": lambda: astronomy_rows(SHAPE, SMALLER, pairs),
        "genomics": lambda: genomics_rows(REPLICAS, pairs),
        "microbenchmark": micro_rows,
        "spatial": spatial_rows,
        "kinds": lambda: iter([kinds_row(SIZE, ASSOCIATIONS, pairs)]),
        "solver": lambda: iter([solver_row(OPERATORS, STRATEGIES, DRAWS)]),
        "query-time": lambda: query_time_rows(pairs),
        "libraries": lambda: iter([_library_row(pairs)]),
    }
    return kinds[name]()


def _library_row(pairs: int) -> dict[str, Any]:
    # Here: the libraries take seconds to import.
    from benchmarks.arrays.libraries import library_row

    return library_row(SQUARE, pairs)


def main() -> int:
    """Print the row, or draw the pictures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.arrays", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "benchmark",
        choices=(
            "numpy",
            "astronomy",
            "genomics",
            "microbenchmark",
            "spatial",
            "kinds",
            "solver",
            "query-time",
            "libraries",
            "pictures",
        ),
    )
    parser.add_argument("--pairs", type=int, default=5, help="runs of each kind, in turns")
    parser.add_argument("--json-out", type=Path, help="append the row to this file, too")
    words = parser.parse_args()
    if words.benchmark == "pictures":
        from benchmarks.arrays.pictures import draw_all

        for picture in draw_all(PICTURES):
            print(f"{picture}: {picture.stat().st_size:,} bytes")
        return 0
    measured = []
    for part in parts(words.benchmark, words.pairs):
        print(json.dumps(part), file=sys.stderr, flush=True)
        measured.append(part)
    row = row_of(words.benchmark, measured)
    put_out(row | {"provenance": provenance()}, words.json_out)
    return 0 if row["same"] else 1


if __name__ == "__main__":
    sys.exit(main())
