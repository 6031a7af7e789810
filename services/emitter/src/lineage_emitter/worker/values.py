"""What records look like: the texts that detailed mode stores. Runs in the workers.

A text is made of a record in three steps: the redaction hook may replace the record, the encoder
makes a text of it, and the text is cut. All of it happens before anything leaves the worker.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable
from typing import Any

from pyspark.resultiterable import ResultIterable

from lineage_core.codec.csv_codec import clean_value

CUT = "… (cut)"
"""Ends a text that was longer."""
_SHOWN = 100
"""Elements of a container that are shown; a text is cut later all the same."""
_PLAIN = frozenset((int, float, bool, type(None)))


class _Readable(reprlib.Repr):
    """``repr`` that costs no more for a record of a million elements."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.maxlevel = 8
        self.maxstring = self.maxlong = self.maxother = max(length, 8)
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = self.maxfrozenset = _SHOWN
        self.maxarray = self.maxdeque = _SHOWN

    def repr_ResultIterable(self, values: ResultIterable[Any], level: int) -> str:
        """The values that ``groupByKey`` gives for a key."""
        return self.repr1(getattr(values, "data", values), level)


class ReprEncoder:
    """``repr``, within bounds."""

    def __init__(self, length: int) -> None:
        self.length = length
        self._readable: _Readable | None = None

    def __call__(self, record: Any) -> str:
        kind = type(record)
        if kind in _PLAIN or (kind is str and len(record) <= self.length):
            return repr(record)
        if kind is tuple and len(record) <= _SHOWN and all(map(self._is_small, record)):
            return repr(record)
        if self._readable is None:
            self._readable = _Readable(self.length)
        return self._readable.repr(record)

    def _is_small(self, value: Any) -> bool:
        kind = type(value)
        return kind in _PLAIN or (kind is str and len(value) <= self.length)

    def __reduce__(self) -> tuple[type[ReprEncoder], tuple[int]]:
        """What it has made on use stays behind."""
        return (ReprEncoder, (self.length,))


def json_text(record: Any) -> str:
    """JSON; what it has no form for is shown as ``str``."""
    if isinstance(record, ResultIterable):
        record = list(record)
    return json.dumps(record, ensure_ascii=False, default=str)


class ValueTexts:
    """Makes the text of a record; never raises. Picklable.

    Args:
        encode: text of what is to be shown.
        redact: what to show instead of a record; None: the record.
        length: characters kept.
    """

    def __init__(
        self,
        encode: Callable[[Any], str],
        redact: Callable[[Any], Any] | None = None,
        length: int = 200,
    ) -> None:
        self.encode = encode
        self.redact = redact
        self.length = length

    def __call__(self, record: Any) -> str:
        """The text; where the user's hook fails its error's type (never the record)."""
        try:
            text = self.encode(record if self.redact is None else self.redact(record))
            if len(text) > self.length:
                text = text[: self.length] + CUT
            return clean_value(text)
        except Exception as problem:
            return f"(no value: {type(problem).__name__})"
