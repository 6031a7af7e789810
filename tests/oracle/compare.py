"""Traced rows against the interpreter's."""

from __future__ import annotations

from collections import Counter

from tests.oracle.brute import Evaluation
from tests.oracle.captured import Item, Lineage, Traced, given_items, saved_items
from tests.oracle.functions import render
from tests.oracle.model import Sink
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


def assert_witnesses(run: Evaluation, sink: Sink, traced: list[tuple[str, Traced]]) -> None:
    """The same rows with the same witnesses; more witnesses only where lineage says so."""
    foreach = sink.action == "foreach"
    wanted = [("" if foreach else render(r.value), r.witnesses) for r in run.sink_rows(sink)]
    if sink.action in ("take", "first"):
        assert len(traced) == min(sink.rows if sink.action == "take" else 1, len(wanted))
    else:
        assert Counter(text for text, _ in traced) == Counter(text for text, _ in wanted)
    exact = Counter((text, one.witnesses) for text, one in traced if one.exact)
    left = Counter(wanted)
    assert not exact - left
    left -= exact
    for text, one in traced:
        if not one.exact:
            assert any(t == text and w <= one.witnesses for t, w in left)
