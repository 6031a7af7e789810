"""A short draw of `make erasure-oracle`: plans over drawn chains of jobs against a scan of all outputs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.oracle.budget import examples
from tests.oracle.erasure import check_program
from tests.oracle.erasure_applying import check_applied

pytestmark = pytest.mark.property

PROGRAMS = 30
APPLIED = 6
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


def test_plans_are_carried_out_whatever_interrupts_and_change_no_other_answer(
    tmp_path: Path,
) -> None:
    counts: Counter[str] = Counter()
    for seed in range(examples(APPLIED)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        counts += check_applied(seed, folder)
    assert counts["erased"] > APPLIED
    assert counts["kept"] > APPLIED
    assert counts["interrupted"] > APPLIED
    assert counts["traces"] > 10 * APPLIED
    assert counts["clean"]
