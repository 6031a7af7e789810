"""Capture notes of every row just the source rows that the interpreter says made it."""

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from pyspark import SparkContext

from lineage_emitter import LineageContext
from tests.oracle.brute import Evaluation, Witnesses, evaluate
from tests.oracle.budget import examples
from tests.oracle.captured import Lineage, SpoolReader, Traced, given_rows, saved_rows
from tests.oracle.functions import render
from tests.oracle.model import Program, Sink
from tests.oracle.program import programs
from tests.oracle.spark import Outcome, build, run_sink, write_sources

pytestmark = pytest.mark.property

Row = tuple[str, Witnesses]


class Capture:
    """One captured application in which program after program runs."""

    def __init__(self, sc: SparkContext, folder: Path) -> None:
        self.lc = LineageContext(sc, store=f"sqlite:///{folder / 'lineage.db'}", link=False)
        assert self.lc.session is not None
        self.session = self.lc.session
        self.reader = SpoolReader(self.session.api.spool.folder)

    def run(self, program: Program, home: Path) -> tuple[Lineage, list[Outcome]]:
        """Run all actions of a program; what capture noted of them."""
        self.reader.messages()
        rdds = build(program, self.lc, write_sources(program, home))
        outcomes = [
            run_sink(sink, rdds, home / f"out-{number}")
            for number, sink in enumerate(program.sinks)
        ]
        for step, rdd in zip(program.steps, rdds, strict=True):
            if step.op == "cache":
                rdd.unpersist(blocking=True)
        self.session.drain()
        self.session.api.spool.sync()
        messages = self.reader.messages()
        return Lineage(program, messages, self.reader.blocks(messages)), outcomes


@pytest.fixture(scope="module")
def capture(spark_context: SparkContext) -> Iterator[Capture]:
    with tempfile.TemporaryDirectory() as folder:
        capture = Capture(spark_context, Path(folder))
        yield capture
        capture.lc.close()


def traced_rows(lineage: Lineage, sink: str, outcome: Outcome) -> list[tuple[str, Traced]]:
    """(text, witnesses) of what an action gave."""
    match outcome.sink.action:
        case "save":
            return saved_rows(lineage, sink)
        case "count" | "reduce":
            return [(outcome.rows[0], lineage.back(f"{sink}#0", 0))]
        case "foreach":
            rows = sum(lineage.rows.get(sink, {}).values())
            return given_rows(lineage, sink, [""] * rows)
        case _:
            return given_rows(lineage, sink, outcome.rows)


def assert_traces(run: Evaluation, sink: Sink, traced: list[tuple[str, Traced]]) -> None:
    """The same rows with the same witnesses; more witnesses only where lineage says so."""
    foreach = sink.action == "foreach"
    wanted = [("" if foreach else render(r.value), r.witnesses) for r in run.sink_rows(sink)]
    exact = Counter((text, one.witnesses) for text, one in traced if one.exact)
    if sink.action in ("take", "first"):
        assert len(traced) == min(sink.rows if sink.action == "take" else 1, len(wanted))
    else:
        assert Counter(text for text, _ in traced) == Counter(text for text, _ in wanted)
    left = Counter(wanted)
    assert not exact - left
    left -= exact
    for text, one in traced:
        if not one.exact:
            assert any(t == text and w <= one.witnesses for t, w in left)


@settings(max_examples=examples(60))
@given(program=programs())
def test_capture_notes_the_witnesses_of_every_row(program: Program, capture: Capture) -> None:
    run = evaluate(program)
    with tempfile.TemporaryDirectory() as folder:
        lineage, outcomes = capture.run(program, Path(folder))
        assert lineage.complaints == []
        assert len(lineage.jobs) == len(program.sinks)
        for job, outcome in zip(lineage.jobs, outcomes, strict=True):
            assert job.sink is not None
            assert_traces(run, outcome.sink, traced_rows(lineage, job.sink, outcome))
