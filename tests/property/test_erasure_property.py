"""A short draw of `make erasure-oracle`: plans over drawn chains of jobs against a scan of all outputs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.oracle.budget import examples
from tests.oracle.erasure import check_program

pytestmark = pytest.mark.property

PROGRAMS = 30
FOUND = (5001034,)
"""Seeds that found a fault: rows of an incomplete plan were taken for others."""


def test_plans_miss_nothing_and_name_nothing_else(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for seed in (*FOUND, *range(examples(PROGRAMS))):
        folder = tmp_path / str(seed)
        folder.mkdir()
        counts += check_program(seed, folder)
    # What was drawn holds what is to be seen: rows that carry a row, values of several, and chains that were disturbed.
    assert counts["carries"] > PROGRAMS
    assert counts["mixed"]
    assert counts["disturbed"]
    assert counts["complete"] > PROGRAMS // 2
