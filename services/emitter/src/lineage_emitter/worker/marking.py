"""Texts of records that say whether each fulfils a condition. Runs in the workers.

The condition is tested on the record itself: what `repr` shows of it may not be all that it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from lineage_core.contract.marked_texts import (
    CONDITION_VARIABLE,
    MARK_VARIABLE,
    VALUE_CHARACTERS,
    marked,
)
from lineage_core.contract.record_conditions import read_condition, test_record
from lineage_emitter.worker.values import ReprEncoder


class MarkedTexts:
    """`repr` of a record, behind the mark and the sign of its test. Picklable.

    Args:
        condition: as `lineage_core.contract.record_conditions` reads it.
        mark: what texts begin with.
    """

    def __init__(self, condition: str, mark: str) -> None:
        self._condition, self._mark = condition, mark
        self._encode = ReprEncoder(VALUE_CHARACTERS)
        self._test: Callable[[Any], bool] | None = None
        """Read on the first record: it can't be pickled."""

    def __reduce__(self) -> tuple[type[MarkedTexts], tuple[str, str]]:
        """What it has made on use stays behind."""
        return (MarkedTexts, (self._condition, self._mark))

    def __call__(self, record: Any) -> str:
        """The text."""
        if self._test is None:
            self._test = read_condition(self._condition)
        return marked(self._mark, test_record(self._test, record), self._encode(record))


encode = MarkedTexts(os.environ.get(CONDITION_VARIABLE, ""), os.environ.get(MARK_VARIABLE, ""))
"""For the setting `value_encoder`; the driver reads the variables, and tasks get what it read."""
