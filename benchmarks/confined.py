"""What it costs that the Spark which traces is confined: python -m benchmarks.confined --pairs 9 --first-pairs 9.

Prints one JSON line. ``tasks``: two processes stay, with ``LINEAGE_TRACING_SANDBOX`` ``off`` (*before*) and ``auto`` (*after*),
each with a Spark that it starts as commands do, and trace the same rows in turn (A B B A) after rounds that only warm
up: a row of each TPC query, one of text (CSV joined with Parquet) and one through a Python function. Answers must be
equal. Ratios are of *after* over *before*, pair by pair: ``wall`` of time, ``cpu`` of user and system time of Python,
JVM, daemon and workers together, which a busy machine disturbs less. ``frames`` is over all of them.
``first``: seconds of a whole command that starts a Spark for its question, in turn, with an archive of Java's classes
that a session of either kind left; ``wall_more_s`` and ``cpu_more_s`` are what the confined one takes more, pair by pair.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.against import AFTER, BEFORE, compare, start_side, summary_of_queries
from benchmarks.against_side import FUNCTION, STARTED, TEXT
from benchmarks.catalog import ROOT
from benchmarks.intervals import median_interval
from benchmarks.one_question import QuestionRunner, check, write_orders
from benchmarks.provenance import provenance
from benchmarks.row import put_out
from benchmarks.tpc import make_tables, queries

SANDBOX = "LINEAGE_TRACING_SANDBOX"
MODES = {BEFORE: "off", AFTER: "auto"}
KEY = "a key of the benchmark for functions"
SUITE = "tpch"


def measure_warm(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Traces in a Spark that is there."""
    tables = options.folder.resolve() / f"{SUITE}-{options.scale:g}"
    make_tables(SUITE, options.scale, tables)
    setup = {
        "kind": STARTED,
        "cores": options.cores,
        "suite": SUITE,
        "tables": str(tables),
        "orders": str(folder / "in"),
    }
    names = [*(f"{SUITE} {number}" for number in queries(SUITE)), TEXT, FUNCTION]
    if options.only:
        names = [name for name in names if name.startswith(tuple(options.only))]
    with ExitStack() as stack:
        sides = {
            kind: stack.enter_context(
                start_side(
                    ROOT,
                    folder / kind,
                    setup,
                    {
                        SANDBOX: mode,
                        "LINEAGE_FUNCTIONS_KEY": KEY,
                        "LINEAGE_CACHE": str(folder / "cache"),
                    },
                )
            )
            for kind, mode in MODES.items()
        }
        rows = compare(sides, names, options.warm, options.pairs, options.seconds)
    return {"frames": summary_of_queries(rows), "tasks": rows}


def measure_first(pairs: int, folder: Path) -> dict[str, Any]:
    """Whole commands, each with a Spark of its own."""
    import pyarrow.parquet as pq

    kinds = {
        kind: QuestionRunner(folder, {SANDBOX: mode, "LINEAGE_SESSION_S": "0"})
        for kind, mode in MODES.items()
    }
    kinds[BEFORE].run()
    for mode in MODES.values():
        # It leaves an archive when it ends.
        session = QuestionRunner(folder, {SANDBOX: mode, "LINEAGE_SESSION_S": "600"})
        session.start_session()
        session.stop_session()
    output = next(iter(sorted((folder / "out").glob("*.parquet"))))
    rows = pq.read_table(output).to_pylist()
    seconds: dict[str, dict[str, list[float]]] = {
        unit: {kind: [] for kind in MODES} for unit in ("wall", "cpu")
    }
    for number in range(pairs + 1):
        for kind in (BEFORE, AFTER) if number % 2 else (AFTER, BEFORE):
            answer, wall, cpu = kinds[kind].measured("back", "--json", f"{output}#{number}")
            check(kinds[kind], answer, rows[number]["city"], str(rows[number]["day"]))
            # The first pair brings files into memory.
            if number:
                seconds["wall"][kind].append(wall)
                seconds["cpu"][kind].append(cpu)
    return first_row(seconds)


def first_row(seconds: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, Any]:
    """What pairs of commands took: medians, and what the confined one took more."""
    row: dict[str, Any] = {"pairs": len(seconds["wall"][BEFORE])}
    for unit, values in seconds.items():
        more = [now - then for then, now in zip(values[BEFORE], values[AFTER], strict=True)]
        row[f"{unit}_more_s"] = median_interval(more)
        row[f"{unit}_s"] = {
            kind: round(statistics.median(each), 3) for kind, each in values.items()
        }
    return row


def arguments_of(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.confined",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--pairs", type=int, default=9, help="of each trace; 0: none")
    parser.add_argument("--first-pairs", type=int, default=9, help="of commands; 0: none")
    parser.add_argument("--warm", type=int, default=2, help="rounds before any counts")
    parser.add_argument("--seconds", type=float, default=3_600, help="then no round begins")
    parser.add_argument("--only", action="append", help="traces whose names begin so; all")
    parser.add_argument("--scale", type=float, default=0.01, help="of the tables")
    parser.add_argument("--rows", type=int, default=100_000, help="of the orders")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/out"))
    parser.add_argument("--json-out", type=Path, help="append the line to this file, too")
    return parser.parse_args(words)


def main() -> int:
    """Command line entry."""
    options = arguments_of()
    # Of what is loaded now, whatever is committed meanwhile.
    about = provenance()
    row: dict[str, Any] = {"benchmark": "confined", "before": "off", "after": "auto"}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve()
        write_orders(folder / "in", options.rows)
        if options.pairs:
            row |= measure_warm(options, folder)
        if options.first_pairs:
            row |= {"first": measure_first(options.first_pairs, folder)}
    put_out(row | {"provenance": about}, options.json_out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
