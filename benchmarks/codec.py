"""Associations a second through the CSV codec, each way, on one core.

python -m benchmarks codec
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from lineage_core.codec.csv_codec import decode_csv, encode_csv, header_of
from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section

SEED = 11
RUNS = 262_144
"""Runs of a full block: where writers cut."""
KEYS = 8_000
RUN_LENGTH_MAX = 6
REPEATS = 7
MEASURE_S = 0.5


def block_of(in_first: Any, in_last: Any, in_ptr: Any, out_first: Any, out_space: str) -> FlowBlock:
    """One block of node 4 over a source split."""
    sections = (Section(out_space, 0, len(out_first)),)
    return FlowBlock(
        block_id=BlockId("4", 0, 17, 0),
        relation=Relation.ROWS,
        in_space="1#0",
        out=sections,
        in_first=in_first,
        in_last=in_last,
        in_ptr=in_ptr,
        out_first=out_first,
        app="app",
    )


def shapes() -> dict[str, tuple[FlowBlock, int]]:
    """Block and associations by name.

    ``keys``: a combining shuffle, single positions spread over 8,000 keys by Zipf's law.
    ``rows``: one position to one position, as a filter leaves them.
    ``runs``: ranges of up to six positions.
    """
    generator = np.random.default_rng(SEED)
    gaps = generator.integers(2, 8, RUNS).cumsum().astype(np.uint64)
    bounds = np.sort(generator.integers(0, RUNS, KEYS - 1))
    in_ptr = np.concatenate(([0], bounds, [RUNS])).astype(np.int64)
    keys = generator.integers(0, 2**63, KEYS, dtype=np.uint64)
    lengths = generator.integers(0, RUN_LENGTH_MAX, RUNS).astype(np.uint64)
    last_positions = gaps * np.uint64(RUN_LENGTH_MAX) + lengths
    rows = 65_536
    return {
        "keys": (block_of(gaps, None, in_ptr, keys, "4@0"), RUNS),
        "rows": (
            block_of(gaps[:rows], None, None, np.arange(rows, dtype=np.uint64), "4#0.17"),
            rows,
        ),
        "runs": (
            block_of(gaps * np.uint64(RUN_LENGTH_MAX), last_positions, in_ptr, keys, "4@0"),
            int(lengths.sum()) + RUNS,
        ),
    }


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process, Arrow's threads included, on one core."""
    cores, threads = os.sched_getaffinity(0), pa.cpu_count()
    os.sched_setaffinity(0, {min(cores)})
    pa.set_cpu_count(1)
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        pa.set_cpu_count(threads)


def per_second(work: Callable[[], object], units: int) -> float:
    """Median over ``REPEATS`` of units a second, each over at least ``MEASURE_S``."""
    work()
    rates = []
    for _ in range(REPEATS):
        rounds, started = 0, time.perf_counter()
        while (passed := time.perf_counter() - started) < MEASURE_S:
            work()
            rounds += 1
        rates.append(rounds * units / passed)
    return statistics.median(rates)


def codec_row() -> dict[str, Any]:
    """Measure every shape; what was decoded is checked against what was encoded."""
    row: dict[str, Any] = {"benchmark": "codec", "cores": 1, "shapes": {}}
    with one_core():
        for name, (block, associations) in shapes().items():
            payload, header = encode_csv(block), header_of(block)
            back = decode_csv(payload, header)
            assert np.array_equal(back.in_first, block.in_first)
            assert np.array_equal(back.out_first, block.out_first)
            row["shapes"][name] = {
                "associations": associations,
                "payload_bytes": len(payload),
                "encode_per_s": round(per_second(partial(encode_csv, block), associations)),
                "decode_per_s": round(
                    per_second(partial(decode_csv, payload, header), associations)
                ),
            }
    for rate in ("encode_per_s", "decode_per_s"):
        row[f"{rate}_min"] = min(shape[rate] for shape in row["shapes"].values())
    return row
