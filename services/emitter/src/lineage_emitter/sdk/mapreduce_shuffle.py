"""Which lines of the splits the records of a reducer were made from: what mappers and reducers logged, joined by key.

A record carries through Hadoop which attempt at a map task wrote it, and a reducer counts what it is given of each attempt and of
each key. The logs of these attempts hold all of their records; where there are as many of a key as the reducer was given,
they are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise, repeat
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING

import numpy as np

from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.sdk.mapreduce_logs import ReducerKeys, TaskLog
from lineage_emitter.sdk.paired_buffer import COLUMN_EVENTS_MAX

if TYPE_CHECKING:
    from lineage_core.contract.block import I64

RECORDS_JOINED = COLUMN_EVENTS_MAX
"""Records whose lineage is in memory at a time, those of a single key aside."""
KEYS_JOINED = 1 << 20
"""Keys of reducers in memory at a time, those of a single reducer aside."""
PARTS_OPEN = 1 << 8
"""Parts of joined records that are open at a time."""
BYTES_IN_MEMORY = 1 << 24
"""Of a part, before it is a file."""


@dataclass(frozen=True, slots=True, eq=False)
class JoinedRecords:
    """Records that a reducer was given, in the order of their keys' numbers, and what they were made from.

    ``code``, ``split``, ``made_from``: int64[n], the key's number, the partition of the split, and its lines
    (:func:`lineage_emitter.sdk.mapreduce_logs.lines_of`).
    """

    code: I64
    split: I64
    made_from: I64

    def take(self, rows: slice | I64) -> JoinedRecords:
        """Some of the records."""
        return JoinedRecords(self.code[rows], self.split[rows], self.made_from[rows])


class _Part:
    """Records of some keys of a reducer, in a file where they are many."""

    def __init__(self, files: ExitStack) -> None:
        file = SpooledTemporaryFile(BYTES_IN_MEMORY)  # noqa: SIM115 (it is open until the stack is closed)
        self._file: IO[bytes] = files.enter_context(file)
        self.is_superset = False

    def add(self, rows: I64) -> None:
        self.is_superset |= bool((rows[:, 2] < 0).any())
        self._file.write(rows.tobytes())

    def rows(self) -> I64:
        self._file.seek(0)
        return np.frombuffer(self._file.read(), np.int64).reshape(-1, 3)


class Reducer:
    """The records of one reducer, in parts of keys whose numbers follow on one another."""

    def __init__(self, log: TaskLog) -> None:
        self.log, self.keys = log, ReducerKeys(log)
        before = np.cumsum(self.keys.given) - self.keys.given
        self.part_of_code: I64 = before // RECORDS_JOINED
        """Rises; a number may be left out where a key has many records."""
        self.parts: list[_Part] = []
        self.first_code = 0
        """The number of its first key among those of all reducers that are joined with it."""
        self.logged: I64 = np.zeros(len(before), np.int64)
        """How many records of each key mappers have logged."""

    @property
    def part_count(self) -> int:
        """How many parts it has."""
        return int(self.part_of_code[-1]) + 1 if len(self.part_of_code) else 0

    @property
    def is_superset(self) -> bool:
        """Whether some records may be made from fewer lines than those here."""
        return any(part.is_superset for part in self.parts)

    def joined(self) -> Iterator[tuple[JoinedRecords, int, int]]:
        """The records of each part, the number of its first key, and that behind its last one."""
        for number, part in enumerate(self.parts):
            low, high = np.searchsorted(self.part_of_code, [number, number + 1]).tolist()
            rows = part.rows()
            # The records of a key stay in the order of splits and lines.
            code = rows[:, 0] - (self.first_code + low)
            order = np.argsort(
                code.astype(np.uint16) if high - low < 1 << 16 else code, kind="stable"
            )
            yield JoinedRecords(code[order] + low, rows[order, 1], rows[order, 2]), low, high


class Shuffle:
    """The records of a job between its mappers and its reducers. Use it as a context manager.

    Args:
        mappers: by attempt their logs.
        reducers: logs. They are joined with the mappers' several at a time, in this order.
    """

    def __init__(self, mappers: Mapping[str, TaskLog], reducers: Sequence[TaskLog]) -> None:
        self._mappers, self._logs = mappers, list(reducers)
        self._reducers: dict[int, Reducer] = {}
        self._files = ExitStack()

    def __enter__(self) -> Shuffle:
        return self

    def __exit__(self, *problem: object) -> None:
        self._files.close()

    def reducer(self, log: TaskLog) -> Reducer:
        """What a reducer was given.

        Raises:
            CaptureFailedError: logs do not fit each other.
            OSError, ValueError, KeyError: a log can't be read.
        """
        for attempt in sorted(log.given.keys() - self._mappers.keys()):
            raise CaptureFailedError(f"attempt {attempt} at a map task left no log")
        if log.partition not in self._reducers:
            self._files.close()
            self._reducers = {}
            self._join(self._logs[self._logs.index(log) :])
        reducer = self._reducers[log.partition]
        if sum(log.given.values()) != int(reducer.keys.given.sum()):
            raise CaptureFailedError(f"{log.path.name} counts its records in two ways")
        if bool((reducer.logged < reducer.keys.given).any()):
            raise CaptureFailedError(
                f"{log.path.name} counts records that no mapper logged, or other reducers were given some of their key"
            )
        return reducer

    def _join(self, logs: Sequence[TaskLog]) -> None:
        """Join the records of reducers from the first one on, as many as fit."""
        reducers, codes, parts = list[Reducer](), 0, 0
        for log in logs:
            reducer = Reducer(log)
            codes, parts = codes + len(reducer.keys.given), parts + reducer.part_count
            if reducers and (codes > KEYS_JOINED or parts > PARTS_OPEN):
                break
            reducers.append(reducer)
        self._read_mappers(reducers)
        self._reducers = {reducer.log.partition: reducer for reducer in reducers}

    def _read_mappers(self, reducers: Sequence[Reducer]) -> None:
        code_of, parts, part_of_code = dict[bytes, int](), list[_Part](), [np.zeros(0, np.int64)]
        for reducer in reducers:
            first = reducer.first_code = sum(map(len, part_of_code))
            code_of |= {key: first + code for key, code in reducer.keys.codes.items()}
            part_of_code.append(reducer.part_of_code + len(parts))
            reducer.parts = [_Part(self._files) for _ in range(reducer.part_count)]
            parts += reducer.parts
        part_of, logged = (
            np.concatenate(part_of_code),
            np.zeros(sum(map(len, part_of_code)), np.int64),
        )
        for log in self._mappers.values():
            for made_from, key, keys in log.records():
                code = np.fromiter(map(code_of.get, keys, repeat(-1)), np.int64, len(keys))[key]
                is_given = code >= 0
                logged += np.bincount(code[is_given], minlength=len(logged))
                chosen = np.flatnonzero(is_given & (made_from != 0))
                code = code[chosen]
                split = np.full(len(code), log.partition)
                rows = np.stack((code, split, made_from[chosen]), axis=1)
                for number, of_part in _by_part(part_of[code], rows):
                    parts[number].add(of_part)
        for reducer in reducers:
            last = reducer.first_code + len(reducer.logged)
            reducer.logged = logged[reducer.first_code : last]


def _by_part(part: I64, rows: I64) -> Iterator[tuple[int, I64]]:
    """The rows of each part, in their order. ``part``: of each row its part."""
    order = np.argsort(part.astype(np.uint16), kind="stable")
    part = part[order]
    bounds = np.flatnonzero(np.diff(part, prepend=-1, append=-1)).tolist()
    for low, high in pairwise(bounds):
        yield int(part[low]), rows[order[low:high]]
