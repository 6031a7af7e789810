"""Versions of a file that two runs recorded: how many of them are compared for a row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

from lineage_core.tracing.budget import Budget, TimeUpError, use_budget
from lineage_query.answers import Group, Item
from lineage_query.run_comparing import VERSION_PAIRS_MAX, _Comparison
from lineage_query.run_rows import RunRow
from lineage_store.recorded_files import FileVersion

pytestmark = pytest.mark.unit

ITEM = Item("0", "/x:1", "text", "state")
ROW = RunRow(Group("0", "0", "", "/x", 1, (ITEM,)), ITEM, ("/x", 0, ""), True, "text")


class Side(NamedTuple):
    """What a run recorded of the file, and its rows."""

    recorded: Iterable[FileVersion]
    rows: tuple[RunRow, ...] = (ROW,)

    def versions(self, _: str) -> Iterable[FileVersion]:
        return self.recorded


def compared(left: Any, right: Any) -> bool:
    return _Comparison(Side(left), Side(right), texts=True)._is_same_version(ROW)  # type: ignore[arg-type]


class Counted(FileVersion):
    """A version that counts how often it is compared."""

    compared = 0

    def is_same(self, other: FileVersion) -> bool:
        Counted.compared += 1
        return super().is_same(other)


def versions(number: int) -> set[FileVersion]:
    return {Counted(1, 1.0 + n / 1e9) for n in range(number)}


@pytest.mark.parametrize("number", [1, 10, 31, 32, 3_000])
def test_pairs_of_versions_are_bounded_however_many_a_run_recorded(number: int) -> None:
    Counted.compared = 0
    several = versions(number)
    assert len(several) == number
    is_bounded = number * number <= VERSION_PAIRS_MAX
    # Beyond the bound rows are compared by their texts.
    assert compared(several, several) is is_bounded
    assert Counted.compared == (number * number if is_bounded else 0)


def test_files_that_a_run_did_not_record_are_not_the_same() -> None:
    one = {FileVersion(1, 1.0)}
    assert compared(one, one)
    assert not compared(one, set())
    assert not compared(set(), one)
    assert not compared({FileVersion(1, 1.0), FileVersion(2, 1.0)}, one)


def test_comparing_versions_ends_with_the_budget() -> None:
    clock = iter(range(1_000_000))
    budget = Budget(seconds=5, clock=lambda: float(next(clock)))
    one = {FileVersion(1, 1.0)}
    with use_budget(budget), pytest.raises(TimeUpError):
        all(compared(one, one) for _ in range(100))
