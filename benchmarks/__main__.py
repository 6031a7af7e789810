"""What capture costs: python -m benchmarks [NAME ...] --size 100MB --pairs 7.

One JSON line per row: job pairs (wordcount, grep, ...), the codec and the SDK. Without names: all.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, TextIO

from benchmarks.catalog import WORKLOADS, Workload, input_bytes
from benchmarks.codec import codec_row
from benchmarks.generate import parse_size
from benchmarks.kafka import broker
from benchmarks.lineage_rows import lineage_row
from benchmarks.pairs import KAFKA, SPOOL, RunError, Setup, compared, over_kafka, run_pairs
from benchmarks.pipeline import pipeline_row
from benchmarks.provenance import provenance
from benchmarks.sdk import WrongFlowsError, sdk_row

CODEC, SDK = "codec", "sdk"
NAMES = (*WORKLOADS, CODEC, SDK)


def arguments_of(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], metavar="NAME", default=[])
    parser.add_argument("--size", type=parse_size, default=parse_size("100MB"))
    parser.add_argument("--rows", type=int, default=1_000_000, help="of join and pagerank")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/out"))
    parser.add_argument("--json-out", type=Path, help="append the rows to this file, too")
    parser.add_argument("--control", action="store_true", help="compare plain with plain")
    parser.add_argument(
        "--detailed", action="store_true", help="capture every operator, and values"
    )
    parser.add_argument(
        "--dispatcher", choices=[KAFKA], help="compare what emission costs: Kafka with the spool"
    )
    parser.add_argument(
        "--pipeline", action="store_true", help="through Kafka, linker and writer into Neo4j"
    )
    parser.add_argument("--kafka", default="", help="HOST:PORT; default: a broker of its own")
    return parser.parse_args(words)


def row_of(name: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Measure what a name stands for.

    Raises:
        RunError, WrongFlowsError: something is not as it must be; no figure counts then.
    """
    if name == CODEC:
        return codec_row()
    if name == SDK:
        return sdk_row(asked.folder.resolve() / SDK)
    return pair_row(name, asked)


def pair_row(name: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Run the pairs of one workload.

    Raises:
        RunError: a run failed, or capture changed the output.
    """
    folder = asked.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    workload = WORKLOADS[name]
    source = workload.prepare(folder / "inputs", asked.rows if workload.by_rows else asked.size)
    if asked.detailed:
        workload = workload.with_settings(f"{name}-detailed", LINEAGE_DETAILED="true")
    name = workload.name
    if asked.dispatcher == KAFKA:
        return kafka_row(workload, asked, source)
    if asked.pipeline:
        return whole_row(workload, asked, source)
    setup = Setup(
        workload, source, folder / name, asked.partitions, asked.cores, control=asked.control
    )
    plain, captured = run_pairs(setup, asked.pairs)
    size = input_bytes(source)
    row = {
        "benchmark": f"{name}-control" if asked.control else name,
        "input_bytes": size,
        "pairs": asked.pairs,
        "partitions": asked.partitions,
        "local_cores": asked.cores,
        "outputs_identical": True,
        **compared(plain, captured),
    }
    return row if asked.control else row | lineage_row(setup, captured, size)


def kafka_row(workload: Workload, asked: argparse.Namespace, source: Path) -> dict[str, Any]:
    """Pairs of captured runs that only emit: to the spool, and to Kafka.

    Raises:
        RunError: a run failed, its output differs, or Kafka did not take all.
    """
    folder = asked.folder.resolve() / f"{workload.name}-kafka"
    with broker(folder / "broker", asked.kafka) as bootstrap:
        setup = Setup(
            *(workload, source, folder, asked.partitions, asked.cores),
            kinds=(SPOOL, KAFKA),
            settings=over_kafka(bootstrap),
        )
        spool, kafka = run_pairs(setup, asked.pairs)
    return {
        "benchmark": f"{workload.name}-kafka",
        "input_bytes": input_bytes(source),
        "pairs": asked.pairs,
        "partitions": asked.partitions,
        "local_cores": asked.cores,
        "outputs_identical": True,
        **compared(spool, kafka),
    }


def whole_row(workload: Workload, asked: argparse.Namespace, source: Path) -> dict[str, Any]:
    """One run through a pipeline of its own.

    Raises:
        RunError: the run failed, or its lineage never became complete.
    """
    folder = asked.folder.resolve() / f"{workload.name}-pipeline"
    setup = Setup(workload, source, folder, asked.partitions, asked.cores)
    size = input_bytes(source)
    return {
        "benchmark": f"{workload.name}-pipeline",
        "input_bytes": size,
        "partitions": asked.partitions,
        "local_cores": asked.cores,
        **pipeline_row(setup, size),
    }


def emit(row: dict[str, Any], targets: list[TextIO]) -> None:
    """Print one row with its provenance."""
    line = json.dumps(row | {"provenance": provenance()})
    for target in targets:
        print(line, file=target, flush=True)


def main() -> int:
    """Command line entry."""
    asked = arguments_of()
    targets: list[TextIO] = [sys.stdout]
    if asked.json_out is not None:
        targets.append(asked.json_out.open("a", encoding="utf-8"))
    try:
        for name in asked.names or NAMES:
            emit(row_of(name, asked), targets)
    except (RunError, WrongFlowsError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
