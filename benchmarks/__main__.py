"""What lineage costs: python -m benchmarks [NAME ...] --size 100MB --pairs 7 --mode spool.

One JSON line per row: jobs (wordcount, grep, ...) in the modes that are asked for, the codec and the
SDK. Without names: all. `python -m benchmarks.report` makes docs/benchmarks.md of such lines.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from benchmarks.catalog import WORKLOADS
from benchmarks.codec import codec_row
from benchmarks.generate import parse_size
from benchmarks.modes import MODES, mode_row
from benchmarks.pairs import SPOOL, RunError
from benchmarks.provenance import provenance
from benchmarks.sdk import WrongFlowsError, sdk_row

CODEC, SDK = "codec", "sdk"
NAMES = (*WORKLOADS, CODEC, SDK)


def arguments_of(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog="modes:\n" + "\n".join(f"  {name:<15} {run.__doc__}" for name, run in MODES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        *("names",),
        nargs="*",
        choices=[*NAMES, []],
        metavar="NAME",
        default=[],
        help=f"of {', '.join(NAMES)}",
    )
    parser.add_argument("--size", type=parse_size, default=parse_size("100MB"))
    parser.add_argument("--rows", type=int, default=1_000_000, help="of join and pagerank")
    parser.add_argument(
        *("--mode",),
        action="append",
        choices=list(MODES),
        dest="modes",
        help="see below; several times for several (default: spool)",
    )
    parser.add_argument("--kafka", default="", help="of emission: HOST:PORT (default: its own)")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/out"))
    parser.add_argument("--json-out", type=Path, help="append the rows to this file, too")
    return parser.parse_args(words)


def rows_of(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure what is asked for, one after the other.

    Raises:
        RunError, WrongFlowsError: something is not as it must be; no figure counts then.
    """
    for name in options.names or NAMES:
        if name == CODEC:
            yield codec_row()
        elif name == SDK:
            yield sdk_row(options.folder.resolve() / SDK)
        else:
            for mode in options.modes or [SPOOL]:
                yield mode_row(name, mode, options)


def emit(row: dict[str, Any], targets: list[TextIO]) -> None:
    """Print one row with its provenance."""
    line = json.dumps(row | {"provenance": provenance()})
    for target in targets:
        print(line, file=target, flush=True)


def run(words: list[str] | None = None) -> int:
    """Measure what the command line asks for; the exit code."""
    options = arguments_of(words)
    # As Ctrl-C does: servers that were started for the while are stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    targets: list[TextIO] = [sys.stdout]
    if options.json_out is not None:
        options.json_out.parent.mkdir(parents=True, exist_ok=True)
        targets.append(options.json_out.open("a", encoding="utf-8"))
    try:
        for row in rows_of(options):
            emit(row, targets)
    except (RunError, WrongFlowsError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run())
