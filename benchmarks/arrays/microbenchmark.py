"""The paper's microbenchmark: region pairs of one operator, by fan-in and fan-out, in each encoding (section VIII.C)."""

from __future__ import annotations

import functools
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.arrays.paper_stores import PaperStore
from lineage_arrays.cells import I64, Cells, Shape
from lineage_arrays.operators.encodings import (
    Encoding,
    Orientation,
    PairStore,
    PayloadStore,
    RangeStore,
)
from lineage_arrays.operators.regions import Regions

SHAPE = (1000, 1000)
SHARE = 0.1
"""Of the output's cells that have lineage."""
FANS = (1, 10, 100)
QUERY_CELLS = 1000


class Store(Protocol):
    """What keeps region pairs, and answers."""

    def backward(self, cells: Cells) -> Cells: ...
    def forward(self, cells: Cells) -> Cells: ...


@dataclass(frozen=True)
class Pairs:
    """Region pairs: row n of both arrays holds the positions of the n-th."""

    shape: Shape
    outputs: I64
    inputs: I64

    def regions(self) -> tuple[Regions, Regions]:
        """Of both sides, as an operator gives them in bulk."""
        return Regions.of_rows(self.shape, self.outputs), Regions.of_rows(self.shape, self.inputs)

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


@dataclass(frozen=True)
class Way:
    """An encoding, and how pairs are written by it to a file, with the index that a lookup uses."""

    name: str
    write: Callable[[Pairs, Path], Store]
    forward: bool = True


def _full(encoding: Encoding, orientation: Orientation) -> Way:
    def write(pairs: Pairs, path: Path) -> Store:
        store = PairStore(pairs.shape, pairs.shape, encoding, orientation)
        store.extend(*pairs.regions())
        _ = store.index
        path.write_bytes(b"".join(store.packed()))
        return store

    return Way(f"full-{encoding}-{orientation}", write)


def _payloads(encoding: Encoding) -> Way:
    def write(pairs: Pairs, path: Path) -> Store:
        listed = functools.partial(_listed, pairs.shape)
        store = PayloadStore(pairs.shape, pairs.shape, encoding, listed)
        packed = pairs.inputs.astype("<u4")
        payloads = packed.view(f"V{4 * packed.shape[1]}")[:, 0].tolist()
        store.extend(Regions.of_rows(pairs.shape, pairs.outputs), payloads)
        _ = store.index
        path.write_bytes(b"".join(store.packed()))
        return store

    # Forward a scan computes all cells: minutes.
    return Way(f"pay-{encoding}", write, forward=False)


def _ranges(pairs: Pairs, path: Path) -> Store:
    store = RangeStore(pairs.shape, pairs.shape)
    store.extend(*pairs.regions())
    path.write_bytes(b"".join(store.packed()))
    return store


def _paper(encoding: Encoding) -> Way:
    def write(pairs: Pairs, path: Path) -> Store:
        return PaperStore(path, pairs.shape, encoding, pairs.outputs, pairs.inputs)

    return Way(f"paper-{encoding}", write, forward=False)


BOTH = (Encoding.ONE, Encoding.MANY)
WAYS = (
    *map(_paper, BOTH),
    *itertools.starmap(_full, itertools.product(BOTH, Orientation)),
    Way("ranges", _ranges),
    *map(_payloads, BOTH),
)


def _listed(shape: Shape, position: int, payload: bytes) -> Cells:
    return Cells.at(shape, np.frombuffer(payload, "<u4"))


@dataclass
class Measured:
    """A way at a point: what its file takes, its store, and the processor's seconds of each time that it was written."""

    store: Store | None = None
    nbytes: int = 0
    seconds: list[float] = field(default_factory=list)

    def write(self, way: Way, of: Pairs, path: Path) -> None:
        begin = time.process_time()
        self.store = way.write(of, path)
        self.seconds.append(time.process_time() - begin)
        self.nbytes = path.stat().st_size


def written(of: Pairs, folder: Path, times: int, ways: Sequence[Way]) -> dict[Way, Measured]:
    """Each way, written so often, in turns."""
    found = {way: Measured() for way in ways}
    for number, (way, measured) in itertools.product(range(times), found.items()):
        measured.write(way, of, folder / f"{way.name}.{number}")
    return found


def micro_rows(
    shape: Shape = SHAPE,
    fans: tuple[int, ...] = FANS,
    times: int = 3,
    ways: Sequence[Way] = WAYS,
    asked_cells: Sequence[int] = (QUERY_CELLS,),
) -> Iterator[dict[str, Any]]:
    """A row for each fan-in, fan-out and way; ``same``: answers are those of the definition.

    Times of questions are called ``backward_s`` and ``forward_s``, of other numbers of cells than the first ``backward_1_s``.
    """
    for fan_in, fan_out in itertools.product(fans, fans):
        of = pairs(fan_in, fan_out, shape)
        with tempfile.TemporaryDirectory() as folder:
            for way, measured in written(of, Path(folder), times, ways).items():
                row: dict[str, Any] = {
                    "fan_in": fan_in, "fan_out": fan_out, "encoding": way.name, "bytes": measured.nbytes,
                    "write_s": round(float(np.median(measured.seconds)), 5), "same": True,
                }  # fmt: skip
                store = measured.store
                if store is None:
                    raise ValueError("nothing was written")
                for name, backward, cells in _questions(of, asked_cells):
                    if not backward and not way.forward:
                        continue
                    ask = store.backward if backward else store.forward
                    answer, seconds = timed(functools.partial(ask, cells), times)
                    same = np.array_equal(answer.positions(), of.answer(cells, backward))
                    row["same"] = row["same"] and same
                    row[name] = round(float(np.median(seconds)), 6)
                yield row


def timed(ask: Callable[[], Cells], times: int) -> tuple[Cells, list[float]]:
    """The answer to a question, and the processor's seconds of each time that it was asked: at least once."""
    seconds = []
    for _ in range(times - 1):
        begin = time.process_time()
        ask()
        seconds.append(time.process_time() - begin)
    begin = time.process_time()
    answer = ask()
    return answer, [*seconds, time.process_time() - begin]


def _questions(of: Pairs, asked_cells: Sequence[int]) -> Iterator[tuple[str, bool, Cells]]:
    for at, count in enumerate(asked_cells):
        random = np.random.default_rng(4)
        ending = "_s" if not at else f"_{count}_s"
        for direction, positions in (("backward", of.outputs), ("forward", of.inputs)):
            cells = Cells.at(of.shape, random.choice(positions.reshape(-1), count))
            yield direction + ending, direction == "backward", cells
