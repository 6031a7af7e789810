"""Traced rows against the interpreter's."""

from __future__ import annotations

from collections import Counter

from tests.oracle.brute import Evaluation
from tests.oracle.captured import Item, Lineage, Trace, given_items, saved_items
from tests.oracle.functions import render
from tests.oracle.model import CHOOSING, RANKING, Sink
from tests.oracle.spark import Outcome


def sink_items(lineage: Lineage, sink: str, outcome: Outcome) -> list[tuple[str, Item]]:
    """(text, item) of what an action gave."""
    match outcome.sink.action:
        case "save":
            return saved_items(lineage, sink)
        case "count" | "reduce":
            return [(outcome.rows[0], (f"{sink}#0", 0))]
        case "foreach":
            return [("", item) for item in given_items(lineage, sink)]
        case _:
            return list(zip(outcome.rows, given_items(lineage, sink), strict=True))


def assert_witnesses(run: Evaluation, sink: Sink, traced: list[tuple[str, Trace]]) -> None:
    """The same rows with the same witnesses; more witnesses only where lineage says so."""
    if sink.action in RANKING:
        _assert_ranked(run, sink, traced)
    foreach = sink.action == "foreach"
    wanted = [("" if foreach else render(r.value), r.witnesses) for r in run.sink_rows(sink)]
    if sink.action in CHOOSING:
        assert len(traced) == min(1 if sink.action == "first" else sink.rows, len(wanted))
    elif sink.action not in RANKING:
        assert Counter(text for text, _ in traced) == Counter(text for text, _ in wanted)
    exact = Counter((text, one.witnesses) for text, one in traced if one.exact)
    left = Counter(wanted)
    assert not exact - left
    left -= exact
    for text, one in traced:
        if not one.exact:
            assert any(t == text and w <= one.witnesses for t, w in left)


def _assert_ranked(run: Evaluation, sink: Sink, traced: list[tuple[str, Trace]]) -> None:
    """The rows of the first ranks, in order; which of equal ones, where Spark's order is known."""
    wanted = [(render(row.value), row.witnesses) for row in run.ranked(sink)]
    assert [text for text, _ in traced] == [text for text, _ in wanted]
    if run.bags[sink.step].ordered:
        for (_, one), (_, witnesses) in zip(traced, wanted, strict=True):
            assert one.witnesses == witnesses if one.exact else one.witnesses >= witnesses
