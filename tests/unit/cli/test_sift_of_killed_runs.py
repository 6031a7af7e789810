"""A search for the smallest set of rows stops at a run that was killed: that it did not fail so proves nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from lineage.program_sifting import Failing, _Begin, _Search
from lineage.repeated_runs import RepeatedRun
from lineage_core.contract.region import Region
from lineage_query.program_sifts import ProgramSift, SourceRow
from lineage_store.rerun_plan import RaisedError, RerunReport, RerunSource

pytestmark = pytest.mark.unit


class Runs:
    """Runs that fail while they have row 2; the one of that number is killed."""

    def __init__(self, killed: int) -> None:
        self.killed, self.count = killed, 0

    def run(self, sources: Sequence[RerunSource], **_: Any) -> RepeatedRun:
        self.count += 1
        (kept,) = sources
        fails = bool(Region.from_positions([2]) & (kept.kept or {}).get(0, Region()))
        errors = [RaisedError("ValueError", "two")] if fails else []
        if self.count == self.killed:
            return RepeatedRun(-9, RerunReport((), (), (), (), (), ()), Path("/nowhere"))
        return RepeatedRun(int(fails), RerunReport((), (), (), (), (), errors), Path("/nowhere"))

    def forget(self, run: RepeatedRun) -> None:
        """Nothing was written."""


def search_of(killed: int) -> Any:
    program = Mock(sources=[Mock()])
    rows = [SourceRow(0, 0, ordinal) for ordinal in range(4)]
    sift = ProgramSift("app", program, None, rows, frozenset({0}))
    runs: Any = Runs(killed)
    search = _Search(Mock(), runs, Failing(None, "ValueError"), _Begin("app", program, sift))
    search._first = RerunReport((), (), (), (), (), ())
    _, found = search.minimise(lambda _: "", may_widen=False)
    return found, runs.count


def test_a_killed_run_ends_the_search() -> None:
    found, runs = search_of(0)
    assert (found.rows, found.one_minimal) == ((2,), True)
    for killed in range(2, runs + 1):
        found, _ = search_of(killed)
        assert not found.one_minimal
        assert "signal 9" in found.stopped
