"""Texts of records that say how a test of each came out, behind a mark that no record can know.

A program that runs again step by step makes them in its tasks, and ``lineage step`` reads them.
"""

from __future__ import annotations

from lineage_core.contract.record_conditions import Test

CONDITION_VARIABLE, MARK_VARIABLE = "LINEAGE_STEP_CONDITION", "LINEAGE_STEP_MARK"
"""Of the process that runs the program: the condition, and the mark."""
ENCODER = "lineage_emitter.worker.marking:encode"
"""The value encoder that reads these variables."""
VALUE_CHARACTERS = 32_768
"""Kept of a value: the most that capture keeps."""
_SIGNS: dict[Test, str] = {"yes": "+", "no": "-", "failed": "!"}
_TESTS = {sign: test for test, sign in _SIGNS.items()}


def marked(mark: str, test: Test, text: str) -> str:
    """A text behind the mark and the sign of its record's test."""
    return f"{mark}{_SIGNS[test]}{text}"


def read_marked(mark: str, text: str) -> tuple[Test | None, str]:
    """The test (None: the record was not tested) and the text."""
    if not text.startswith(mark):
        return None, text
    rest = text.removeprefix(mark)
    return _TESTS.get(rest[:1]), rest[1:]
