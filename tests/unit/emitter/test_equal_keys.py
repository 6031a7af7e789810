"""Which keys have a canonical form, and what is noted of those that have none."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from lineage_core.contract.positions import key_position
from lineage_emitter.worker.equal_keys import CHUNK, EqualKeys, all_canonical
from tests.support.case_blind import CaseBlind

pytestmark = pytest.mark.unit


def at_once(action: Callable[[], None]) -> None:
    action()


@pytest.mark.parametrize(
    ("keys", "canonical"),
    [
        ([], True),
        (["a", 1, None, b"x", True], True),
        ([("a", 1), ("b", (2, None))], True),
        ([1.5, Decimal("1.5"), ("a", 2.5)], True),
        ([CaseBlind("a")], False),
        (["a", ("b", (CaseBlind("a"),))], False),
        ([object], False),
    ],
)
def test_canonical_keys(keys: list[Any], canonical: bool) -> None:
    assert all_canonical(keys) is canonical


def test_nothing_is_noted_of_canonical_keys() -> None:
    equal = EqualKeys(at_once)
    records = [(str(n), n) for n in range(3 * CHUNK + 1)]
    assert list(equal.watch(records)) == records
    assert not equal


def test_all_positions_of_equal_keys() -> None:
    equal = EqualKeys(at_once)
    records = [("a", 0), (CaseBlind("A"), 1), ("a", 2), ("b", 3)]
    assert list(equal.watch(iter(records))) == records
    assert equal
    counts, first, last = equal.runs(["a", "b", "c"])
    assert counts.tolist() == [2, 1, 1]
    both = sorted([key_position("a")[0], key_position(CaseBlind("A"))[0]])
    assert first.tolist() == last.tolist() == [*both, key_position("b")[0], key_position("c")[0]]
