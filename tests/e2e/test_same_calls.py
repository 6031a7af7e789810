"""A draw of the calls that ``make same`` runs all of: plainly and captured they give what a user sees the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.same.comparing import PARTS

pytestmark = pytest.mark.e2e

ACTIONS = {
    "RDD.collect()",
    "RDD.collectWithJobGroup(groupId, description)",
    "RDD.count()",
    "RDD.first()",
    "RDD.max(key=)",
    "RDD.min(key=)",
    "RDD.reduce(f)",
    "RDD.toLocalIterator(prefetchPartitions=)",
}
DRAWN, SEED = 16, 24


@pytest.mark.long
def test_drawn_calls_are_the_same(tmp_path: Path) -> None:
    methods = PARTS["methods"]
    drawn = ACTIONS | set(methods.draw(SEED, DRAWN, None))
    names = [name for name in methods.names() if name in drawn]
    assert set(names) >= ACTIONS
    assert [one for one in methods.compare(names, tmp_path) if not one.known] == []
