"""The paper's microbenchmark: region pairs of one operator, by fan-in and fan-out, in each encoding (section VIII.C)."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lineage_arrays.cells import I64, Cells, Shape
from lineage_arrays.mappings import Mapping
from lineage_arrays.operators.encodings import (
    Encoding,
    Orientation,
    PairStore,
    PayloadStore,
    RangeStore,
)

SHAPE = (1000, 1000)
SHARE = 0.1
"""Of the output's cells that have lineage."""
FANS = (1, 10, 100)
QUERY_CELLS = 1000


class Store(Mapping, Protocol):
    """What takes region pairs."""

    @property
    def nbytes(self) -> int: ...


@dataclass(frozen=True)
class Pairs:
    """Region pairs: row n of both arrays holds the positions of the n-th."""

    shape: Shape
    outputs: I64
    inputs: I64

    def answer(self, cells: Cells, backward: bool) -> I64:
        """By definition: each pair is looked at."""
        given, wanted = (self.outputs, self.inputs) if backward else (self.inputs, self.outputs)
        return np.unique(wanted[np.isin(given, cells.positions()).any(axis=1)])


def pairs(fan_in: int, fan_out: int, shape: Shape = SHAPE, seed: int = 3) -> Pairs:
    """Regions of neighbouring output cells, each from neighbouring cells somewhere in the input."""
    random = np.random.default_rng(seed)
    count = max(int(SHARE * shape[0] * shape[1]) // fan_out, 1)
    return Pairs(
        shape, _blocks(random, count, fan_out, shape), _blocks(random, count, fan_in, shape)
    )


def _blocks(random: np.random.Generator, count: int, cells: int, shape: Shape) -> I64:
    """Blocks of some cells, as square as goes, at random places."""
    height = next(side for side in range(int(cells**0.5), 0, -1) if cells % side == 0)
    width = cells // height
    rows = random.integers(0, shape[0] - height + 1, count)
    columns = random.integers(0, shape[1] - width + 1, count)
    block = (np.arange(height)[:, None] * shape[1] + np.arange(width)).reshape(-1)
    return (rows * shape[1] + columns)[:, None] + block


def stores(pairs: Pairs) -> Iterator[tuple[str, Store, float]]:
    """Each encoding, written and with its index, and the seconds that it took."""
    out = [Cells.at(pairs.shape, row) for row in pairs.outputs]
    into = [Cells.at(pairs.shape, row) for row in pairs.inputs]
    for encoding, orientation in itertools.product((Encoding.ONE, Encoding.MANY), Orientation):
        begin = time.perf_counter()
        kept = PairStore(pairs.shape, pairs.shape, encoding, orientation)
        for outcells, incells in zip(out, into, strict=True):
            kept.append(outcells, incells)
        _ = kept.nbytes  # builds the index
        yield f"full-{encoding}-{orientation}", kept, time.perf_counter() - begin
    begin = time.perf_counter()
    ranges = RangeStore(pairs.shape, pairs.shape)
    for outcells, incells in zip(out, into, strict=True):
        ranges.append(outcells, incells)
    _ = ranges.nbytes
    yield "ranges", ranges, time.perf_counter() - begin
    for encoding in (Encoding.ONE, Encoding.MANY):
        begin = time.perf_counter()
        payloads = PayloadStore(
            pairs.shape, pairs.shape, encoding, functools.partial(_listed, pairs.shape)
        )
        for outcells, row in zip(out, pairs.inputs, strict=True):
            payloads.append(outcells, row.astype("<u4").tobytes())
        _ = payloads.nbytes  # builds the index
        yield f"pay-{encoding}", payloads, time.perf_counter() - begin


def _listed(shape: Shape, position: int, payload: bytes) -> Cells:
    return Cells.at(shape, np.frombuffer(payload, "<u4"))


def micro_rows(shape: Shape = SHAPE, fans: tuple[int, ...] = FANS) -> Iterator[dict[str, Any]]:
    """A row for each fan-in, fan-out and encoding; ``same``: answers are those of the definition."""
    for fan_in, fan_out in itertools.product(fans, fans):
        of = pairs(fan_in, fan_out, shape)
        random = np.random.default_rng(4)
        back = Cells.at(shape, random.choice(of.outputs.reshape(-1), QUERY_CELLS))
        forth = Cells.at(shape, random.choice(of.inputs.reshape(-1), QUERY_CELLS))
        for name, store, write_s in stores(of):
            row: dict[str, Any] = {
                "fan_in": fan_in, "fan_out": fan_out, "encoding": name,
                "write_s": round(write_s, 4), "bytes": store.nbytes, "same": True,
            }  # fmt: skip
            for way, cells in (("backward", back), ("forward", forth)):
                if way == "forward" and name.startswith("pay-"):
                    continue  # a scan that computes all cells: minutes
                begin = time.perf_counter()
                answer = store.backward(cells) if way == "backward" else store.forward(cells)
                row[f"{way}_s"] = round(time.perf_counter() - begin, 5)
                wanted = of.answer(cells, way == "backward")
                row["same"] = row["same"] and np.array_equal(answer.positions(), wanted)
            yield row
