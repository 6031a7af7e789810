"""What actions gave the program of this process: libraries that go on with it outside of the engine ask for the rows that it is made of.

Whoever captures actions keeps their answers here, and libraries that compute with values (arrays) find them. Neither knows the other.
"""

from __future__ import annotations

import operator
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np

from lineage_core.contract.collected import CollectedRows

ROWS_KEPT_MAX = 1_000_000
"""Rows of answers in lists that are kept, at most; those of the oldest answers go first."""
BYTES_KEPT_MAX = 512 << 20
"""Bytes of these rows, at most, by an estimate."""
LISTS_KEPT_MAX = 4096
"""Such lists, at most."""
_SAMPLED = 64
"""Rows of a list whose size is looked at."""


@dataclass(frozen=True, slots=True)
class LinkedRows:
    """Rows of an answer by their places.

    ``among``: of the answer's rows, from 0, those that have the places, in their order.
    """

    rows: CollectedRows
    among: Sequence[int]


class Answer(ABC):
    """What an action gave.

    Args:
        what: the action and its place in the program: ``DataFrame.toPandas at job.py:7``.
        columns: of rows of a DataFrame; None: they are records.
    """

    def __init__(self, what: str, columns: Sequence[str] | None = None) -> None:
        self.what = what
        self.columns = columns

    @abstractmethod
    def link(self, positions: Sequence[int]) -> LinkedRows:
        """Places of some of its rows, for traces that go on from there.

        Args:
            positions: of the rows, from 0, in any order.

        Returns:
            Places of these rows at least.

        Raises:
            LineageError: they can't be traced.
        """

    def has_changed(self, given: Any) -> bool:
        """Whether the program has changed what it was given, where it can."""
        return False

    def columns_in(self, given: Any, part: Any) -> Sequence[int] | None:
        """Which of its columns something is that the program took out of what it was given: the very memory, that is. None: it is none."""
        return None


class CollectedAnswer(Answer):
    """An answer whose rows have places, as an RDD's records do.

    Args:
        what: as of any.
        rows: their places.
    """

    def __init__(self, what: str, rows: CollectedRows) -> None:
        super().__init__(what)
        self._rows = rows

    def link(self, positions: Sequence[int]) -> LinkedRows:
        return LinkedRows(self._rows, range(self._rows.total))


@dataclass(frozen=True, slots=True)
class Found:
    """An answer, and which of its rows something has, from 0, in the order in which it has them.

    ``records``: all that it gave, where that was a list. ``columns``: of a part of what it gave, those that it has; None: it is no part.
    """

    answer: Answer
    positions: Sequence[int]
    records: Sequence[Any] | None = None
    columns: Sequence[int] | None = None


@dataclass(slots=True)
class _KeptList:
    """An answer in a list. ``given`` is the program's, ``records`` is what was in it."""

    given: list[Any]
    records: tuple[Any, ...]
    answer: Answer
    size: int
    _places: dict[int, int] | None = None

    @property
    def places(self) -> dict[int, int]:
        """Where records are, by their identity; those that are there twice are at -1."""
        if self._places is None:
            self._places = {}
            for position, record in enumerate(self.records):
                self._places[id(record)] = -1 if id(record) in self._places else position
        return self._places

    def positions_of(self, values: list[Any]) -> Sequence[int] | None:
        """Which records a list has, where these are the very objects that were given; None: others are among them."""
        if not values:
            return () if values is self.given else None
        if id(values[0]) not in self.places:
            return None
        is_unchanged = values is self.given and len(values) == len(self.records)
        if is_unchanged and all(map(operator.is_, values, self.records)):
            # Also where several of its rows are one object.
            return range(len(values)) if all(map(_has_identity, values)) else None
        found = [self.places.get(id(value)) for value in values]
        positions = [position for position in found if position is not None]
        is_all = len(positions) == len(values) and all(map(_has_identity, values))
        return positions if is_all else None


def _has_identity(value: Any) -> bool:
    """Whether a value that is the same object is the same record: one of the small numbers, and a text, may be many."""
    return isinstance(value, float) or (isinstance(value, tuple) and bool(value))


def _size_of(records: Sequence[Any]) -> int:
    """Bytes of records, by a sample of them; texts and the like in it are counted once for each."""
    sample = records[:: max(1, len(records) // _SAMPLED)]
    return sum(map(_bytes_of, sample)) * len(records) // len(sample) if sample else 0


def _bytes_of(value: Any, depth: int = 4) -> int:
    size = sys.getsizeof(value)
    if depth and isinstance(value, tuple | list | set | frozenset | dict):
        parts = (*value, *value.values()) if isinstance(value, dict) else value
        size += sum(_bytes_of(part, depth - 1) for part in parts)
    return size


class _KeptLists:
    """Answers in lists, the oldest first."""

    def __init__(self) -> None:
        self.lists: deque[_KeptList] = deque()
        self._rows = 0
        self._bytes = 0

    def add(self, kept: _KeptList) -> None:
        self.lists.append(kept)
        self._rows += len(kept.records)
        self._bytes += kept.size
        while (
            self._rows > ROWS_KEPT_MAX
            or self._bytes > BYTES_KEPT_MAX
            or len(self.lists) > LISTS_KEPT_MAX
        ):
            oldest = self.lists.popleft()
            self._rows -= len(oldest.records)
            self._bytes -= oldest.size


_FIXED = (int, float, complex, str, bytes, type(None), Decimal, date, time, timedelta, np.generic)


def is_fixed(value: Any) -> bool:
    """Whether nobody can have written to a value."""
    return all(map(is_fixed, value)) if isinstance(value, tuple) else isinstance(value, _FIXED)


class Answers:
    """The answers of a process. Thread-safe.

    ``latest``: the latest action that gave the program anything; empty: none did.
    """

    _local: ClassVar[threading.local] = threading.local()

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Forget all: another program begins."""
        with self._lock:
            self.latest = ""
            self._wanting: set[weakref.ref[Any]] = set()
            self._kept = _KeptLists()
            self._objects: dict[int, tuple[weakref.ref[Any], Answer]] = {}

    def want(self, asker: object) -> None:
        """Keep answers from now on, while something is there that may ask for their rows."""
        self._wanting.add(weakref.ref(asker, self._forget_asker))

    @property
    def wanted(self) -> bool:
        """Whether something may ask for the rows of answers that come from now on."""
        return bool(self._wanting)

    def _forget_asker(self, asker: weakref.ref[Any]) -> None:
        # It may come while this very thread holds the lock: it takes none.
        if asker in self._wanting:
            self._wanting.discard(asker)
            if not self._wanting:
                self._kept = _KeptLists()

    def note(self, what: str) -> None:
        """An action has given the program something."""
        if not getattr(self._local, "linking", False):
            self.latest = what

    @contextmanager
    def linking(self) -> Iterator[None]:
        """What actions in the body give, whoever asked for it has linked."""
        before = getattr(self._local, "linking", False)
        self._local.linking = True
        try:
            yield
        finally:
            self._local.linking = before

    def keep_list(self, given: list[Any], answer: Answer) -> None:
        """Keep an answer that is a list, until there are too many, or nothing is left that may ask for it."""
        size = _size_of(given)
        if len(given) > ROWS_KEPT_MAX or size > BYTES_KEPT_MAX:
            return
        with self._lock:
            self._kept.add(_KeptList(given, tuple(given), answer, size))

    def keep_object(self, given: Any, answer: Answer) -> None:
        """Keep an answer that is one object, as long as the program has it."""
        key = id(given)

        def forget(reference: weakref.ref[Any]) -> None:
            kept = self._objects.get(key)
            if kept is not None and kept[0] is reference:
                del self._objects[key]

        self._objects[key] = weakref.ref(given, forget), answer

    def find(self, given: Any) -> Found | str:
        """The answer that something is, or has records of.

        Args:
            given: the object that an action gave; or a list of the very rows (tuples) or floating-point numbers that one gave: all or some of them, in any
                order.

        Returns:
            The answer, or the reason why there is none.
        """
        if isinstance(given, list):
            return self._find_list(given)
        reason = f"this {type(given).__name__} is not what an action gave"
        for reference, answer in list(self._objects.values()):
            whole = reference()
            if whole is None:
                continue
            columns = None if whole is given else answer.columns_in(whole, given)
            if whole is not given and columns is None:
                continue
            if not answer.has_changed(whole):
                return Found(answer, range(len(whole)), columns=columns)
            reason = f"what {answer.what} gave has been changed since"
        return reason

    def _find_list(self, given: list[Any]) -> Found | str:
        with self._lock:
            newest_first = list(reversed(self._kept.lists))
        for kept in newest_first:
            positions = kept.positions_of(given)
            if positions is None:
                continue
            if -1 in positions:
                return f"{kept.answer.what} gave some of these rows several times: which of them is meant is not known"
            return Found(kept.answer, positions, kept.records)
        return "not all of its elements are tuples or floating-point numbers that one action gave, unchanged"


ANSWERS = Answers()
"""Those of this process."""
