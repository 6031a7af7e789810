"""Keys that equal each other but have different positions.

A key without a canonical form stands at a position of its ``hash``; a key of another type that equals
it (a text and a subclass of ``str`` with an equality of its own) stands elsewhere. One dict holds both
as one key, the first that came. So the reduce side records, from the first such key on, where each key
that comes stands: a combined record is made from all of these positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter, length_hint
from types import NoneType
from typing import Any

import numpy as np

from lineage_core.contract.positions import key_position, positions_of
from lineage_core.contract.runs import normalise
from lineage_emitter.code.key_parts import parts_of
from lineage_emitter.errors import CaptureFailedError

CHUNK = 64
"""Records processed together; groups of values may be large."""
RECORDED_KEYS_MAX = 1_000_000
_ALWAYS_CANONICAL = frozenset({str, int, bytes, bool, NoneType})
_key_of = itemgetter(0)

Guard = Callable[[Callable[[], None]], None]
Columns = tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]


def all_canonical(keys: Sequence[Any]) -> bool:
    """Whether every key has a canonical form."""
    parts: Sequence[Any] = keys
    while True:
        kinds = set(map(type, parts))
        if kinds <= _ALWAYS_CANONICAL:
            return True
        if not kinds <= _ALWAYS_CANONICAL | {tuple}:
            return all(key_position(key)[1] for key in keys)
        parts = list(chain.from_iterable(part for part in parts if type(part) is tuple))


class EqualKeys:
    """Records the positions of the keys that reach one reduce task."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._positions: dict[Any, set[int]] = {}
        self._chunk: list[Any] = []
        self._remaining: Iterator[Any] = iter(())
        self.hashed = False
        """Whether the position of a key is only as good as its hash."""

    def current(self) -> list[Any]:
        """The key of the record that was passed on last, if any was."""
        passed = len(self._chunk) - length_hint(self._remaining)
        return [self._chunk[passed - 1][0]] if passed else []

    def __bool__(self) -> bool:
        """Whether a key without a canonical form has come."""
        return bool(self._positions)

    def watch(self, records: Iterable[Any]) -> Iterator[Any]:
        """Pass (key, value) records on, recording their keys where that is needed."""
        records = iter(records)
        while chunk := list(islice(records, CHUNK)):
            self._guard(lambda: self._record_positions(list(map(_key_of, chunk))))
            self._chunk, self._remaining = chunk, iter(chunk)
            yield from self._remaining

    def _record_positions(self, keys: list[Any]) -> None:
        if not self._positions and all_canonical(keys):
            return
        own = positions_of(keys, parts_of)
        self.hashed = self.hashed or own.hashed
        for key, position in zip(keys, own.positions.tolist(), strict=True):
            self._positions.setdefault(key, set()).add(position)
        if len(self._positions) > RECORDED_KEYS_MAX:
            raise CaptureFailedError(
                f"more than {RECORDED_KEYS_MAX} keys in a task, some of a type without a canonical form"
            )

    def runs(self, keys: list[Any]) -> Columns:
        """Runs of positions of combined keys: how many each (int64), first and last of all (uint64)."""
        own = positions_of(keys, parts_of).positions
        regions = []
        for key, position in zip(keys, own.tolist(), strict=True):
            positions = np.array(sorted(self._positions.get(key, set()) | {position}), np.uint64)
            regions.append(normalise(positions, positions))
        counts = np.array([len(first) for first, _ in regions], np.int64)
        return (
            counts,
            np.concatenate([first for first, _ in regions]),
            np.concatenate([last for _, last in regions]),
        )
