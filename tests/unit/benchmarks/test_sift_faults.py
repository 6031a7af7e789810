"""The programs with faults: what is wrong in their output is so by the one wrong record, and delta debugging finds it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks.sift import Ddmin
from benchmarks.workloads.faults import PROGRAMS, lines_of

RECORDS = 2_000


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_fails_by_its_wrong_record_alone(name: str) -> None:
    program = PROGRAMS[name]
    lines, at = lines_of(name, RECORDS, seed=7)

    def fails(part: Sequence[str]) -> bool:
        return any(not program.is_right(row, RECORDS) for row in program.plain(part))

    assert lines[at] == program.wrong
    assert not fails([line for line in lines if line != program.wrong])
    alone = Ddmin(fails)
    smallest = alone.minimal(lines)
    assert program.wrong in smallest
    assert len(smallest) == program.needed
    assert alone.rows > RECORDS


def test_ddmin_finds_records_that_fail_together() -> None:
    wanted = {"7", "400", "401", "993"}
    found = Ddmin(lambda part: wanted <= set(part)).minimal([str(n) for n in range(1_000)])
    assert set(found) == wanted
