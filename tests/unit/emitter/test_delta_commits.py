"""Which commits of a Delta table are those of a write."""

from __future__ import annotations

from typing import Any

import pytest

from lineage_emitter.dataframes.delta import is_own_write
from lineage_emitter.dataframes.own_commits import transactions_of

pytestmark = pytest.mark.unit

OWN = frozenset({"1a", "2b"})


def commit(operation: str = "WRITE", **said: str) -> list[dict[str, Any]]:
    return [{"commitInfo": {"operation": operation, **said}}, {"add": {"path": "part-0"}}]


@pytest.mark.parametrize(
    ("actions", "is_own"),
    [
        (commit(txnId="1a"), True),
        (commit("CREATE TABLE AS SELECT", txnId="2b"), True),
        (commit("OPTIMIZE", txnId="1a"), False),
        (commit(txnId="other"), False),
        (commit(), None),
        (commit(txnId=""), None),
        ([{"add": {"path": "part-0"}}], None),
        ([*commit(txnId="1a"), *commit(txnId="other")], None),
    ],
)
def test_a_commit_is_told_by_its_transaction(
    actions: list[dict[str, Any]], *, is_own: bool | None
) -> None:
    assert is_own_write(actions, OWN) is is_own


def test_transactions_are_told_by_their_table() -> None:
    assert transactions_of("") == {}
    text = "1a file:/t one\n2b file:/t one\n3c file:/u\n"
    assert transactions_of(text) == {
        "file:/t one": frozenset({"1a", "2b"}),
        "file:/u": frozenset({"3c"}),
    }
