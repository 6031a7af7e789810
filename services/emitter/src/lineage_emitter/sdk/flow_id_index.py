"""Flow ids of a task that no dictionary holds any more, and the content they were captured with.

A task may report any number of flows, and each id is promised to name one flow. So ids that were reported
long ago lie on the disk, 16 bytes each: sorted runs of hashes of ids, and beside them hashes of what
was reported. In memory is a filter of two bytes an id, up to :data:`FILTER_BYTES_MAX`, which lets a new id
pass without a look at the runs.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lineage_core.contract.block import I64, U64

FILTER_BYTES_MIN = 1 << 20
FILTER_BYTES_MAX = 1 << 26
"""Above 34 million ids the filter lets more known ones be looked for in vain: slower, never wrong."""
_BITS_PER_ID = 16

_u = np.uint64


def _nothing() -> None:
    pass


class FlowIdIndex:
    """Hashes of flow ids and of their contents. Not thread-safe.

    Two ids in 2**64 share a hash by chance: then one of them is taken for the other, which is an
    error unless both were captured with the same content.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: int | None = None
        """A descriptor, closed by :meth:`close` or with this object."""
        self._closing: Callable[[], object] = _nothing
        self._runs: list[int] = []
        """How many ids each run has: they lie behind one another, ids first, then contents."""
        self._filter = np.zeros(0, np.uint8)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, ids: U64, contents: U64) -> None:
        """Store ids (uint64 hashes) and the hashes of their content.

        Raises:
            OSError: the disk is full.
        """
        order = np.argsort(ids)
        run = np.stack((ids[order], contents[order]))
        if self._file is None:
            self._open()
        assert self._file is not None
        unwritten = memoryview(run.tobytes())
        while unwritten:
            unwritten = unwritten[os.write(self._file, unwritten) :]
        self._runs.append(len(ids))
        self._count += len(ids)
        self._mark(ids)

    def find(self, ids: U64) -> tuple[I64, U64]:
        """Which of the ids are known (indexes), and with which content."""
        if not self._count:
            return np.zeros(0, np.int64), np.zeros(0, np.uint64)
        maybe = np.flatnonzero(self._may_hold(ids))
        candidates = ids[maybe]
        rows, contents = [np.zeros(0, np.int64)], [np.zeros(0, np.uint64)]
        for at, run_ids in self._id_runs() if len(candidates) else ():
            positions = np.minimum(np.searchsorted(run_ids, candidates), len(run_ids) - 1)
            hit = np.flatnonzero(run_ids[positions] == candidates)
            if len(hit):
                content = self._read(at + run_ids.nbytes, len(run_ids))
                rows.append(maybe[hit])
                contents.append(content[positions[hit]])
        return np.concatenate(rows), np.concatenate(contents)

    def _id_runs(self) -> Iterator[tuple[int, U64]]:
        """Each run's ids, and where they lie."""
        at = 0
        for count in self._runs:
            yield at, self._read(at, count)
            at += 16 * count

    def _read(self, at: int, count: int) -> U64:
        assert self._file is not None
        return np.frombuffer(os.pread(self._file, 8 * count, at), np.uint64)

    def _open(self) -> None:
        self._file, path = tempfile.mkstemp(dir=self._folder)
        self._closing = weakref.finalize(self, os.close, self._file)
        # Without a name nothing is left of it, whatever becomes of the process.
        os.unlink(path)

    def close(self) -> None:
        """Forget all of it."""
        self._runs.clear()
        self._filter = np.zeros(0, np.uint8)
        self._closing()

    # -- the filter --------------------------------------------------------------------------

    def _mark(self, ids: U64) -> None:
        size = len(self._filter)
        filter_bytes = max(self._count * _BITS_PER_ID // 8, FILTER_BYTES_MIN)
        if size < min(filter_bytes, FILTER_BYTES_MAX):
            while size < min(filter_bytes, FILTER_BYTES_MAX):
                size = max(size * 4, FILTER_BYTES_MIN)
            self._filter = np.zeros(size, np.uint8)
            for _, run_ids in self._id_runs():
                self._set(run_ids)
        else:
            self._set(ids)

    def _set(self, ids: U64) -> None:
        for byte, bit in self._places(ids):
            np.bitwise_or.at(self._filter, byte, bit)

    def _may_hold(self, ids: U64) -> npt.NDArray[np.bool_]:
        may_hold = np.ones(len(ids), np.bool_)
        for byte, bit in self._places(ids):
            may_hold &= (self._filter[byte] & bit) != 0
        return may_hold

    def _places(self, ids: U64) -> list[tuple[I64, npt.NDArray[np.uint8]]]:
        """Two places of each id: byte and bit, from the upper and the lower half of its hash."""
        bits = _u(len(self._filter) * 8 - 1)
        halves = (ids & bits, (ids >> _u(32)) & bits)
        return [
            ((half >> _u(3)).astype(np.int64), (_u(1) << (half & _u(7))).astype(np.uint8))
            for half in halves
        ]
