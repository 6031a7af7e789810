"""A short benchmark that fails when lineage has become dear: python -m benchmarks.guard.

Word count, plain and captured in turn. Only ratios count, and the bounds are wide: other work on the
machine slows both sides. What is outside after the first pairs is looked at again with more of them.
Prints a JSON line, to be read by people; it is no measurement.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.catalog import WORKLOADS, input_bytes
from benchmarks.generate import parse_size
from benchmarks.lineage_rows import lineage_row
from benchmarks.pairs import RunError, Setup, comparison_row, run_pairs

LIMITS: Mapping[str, float] = {"jobs_ratio": 1.3, "store_ratio": 0.2}
"""Of quiet machines: about 0.85 and 0.04."""
SIZE = "30MB"
"""Less, and what every run needs to get going hides the rest."""
PAIRS, MORE_PAIRS = 2, 5
PARTITIONS, CORES = 8, 2


def limits_exceeded(row: Mapping[str, Any], limits: Mapping[str, float] = LIMITS) -> list[str]:
    """What is above its limit, in words."""
    values = {
        name: row[name]["median"] if isinstance(row[name], Mapping) else row[name]
        for name in limits
    }
    return [
        f"{name} of word count is {value:.3g}, above {limits[name]:g}"
        for name, value in values.items()
        if value > limits[name]
    ]


def measure_until_inside(setup: Setup, rounds: Sequence[int]) -> dict[str, Any]:
    """The row of so many pairs; of those of the next round as well while something is outside.

    Raises:
        RunError: a run failed, outputs differ, or lineage is not right.
    """
    plain, captured = run_pairs(setup, rounds[0])
    row = _row(setup, plain, captured)
    for pairs in rounds[1:]:
        if not limits_exceeded(row):
            break
        more = run_pairs(setup, pairs)
        plain, captured = [*plain, *more[0]], [*captured, *more[1]]
        row = _row(setup, plain, captured)
    return row


def _row(setup: Setup, plain: Any, captured: Any) -> dict[str, Any]:
    size = input_bytes(setup.source)
    return {
        "pairs": len(plain),
        **comparison_row(plain, captured),
        **lineage_row(setup, captured, size),
    }


def main() -> int:
    """Command line entry; 1: something is outside."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=__doc__)
    parser.add_argument("--size", type=parse_size, default=parse_size(SIZE))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workload = WORKLOADS["wordcount"]
        source = workload.prepare(folder / "inputs", options.size)
        setup = Setup(workload, source, folder / workload.name, PARTITIONS, CORES)
        try:
            row = measure_until_inside(setup, (PAIRS, MORE_PAIRS))
        except RunError as error:
            print(error, file=sys.stderr)
            return 1
    print(json.dumps({"guard": {name: row[name] for name in LIMITS}, "pairs": row["pairs"]}))
    wrong = limits_exceeded(row)
    for line in wrong:
        print(
            f"{line}: python -m benchmarks.profile wordcount shows where it goes", file=sys.stderr
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
