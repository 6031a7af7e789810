"""The interpreter computes what Spark computes; else its witnesses would prove nothing."""

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from pyspark import SparkContext

from tests.oracle.brute import Evaluation, evaluate
from tests.oracle.budget import examples
from tests.oracle.functions import render
from tests.oracle.model import CHOOSING, RANKING, Program, Sink
from tests.oracle.program import programs
from tests.oracle.spark import Outcome, build, run_sink, write_sources

pytestmark = pytest.mark.property


def expected_lines(run: Evaluation, sink: Sink) -> list[str]:
    """The texts an action gives; a saved row with newlines is several lines."""
    texts = [render(row.value) for row in run.sink_rows(sink)]
    if sink.action == "save":
        return [line for text in texts for line in text.split("\n")]
    return texts


def assert_same(run: Evaluation, outcome: Outcome) -> None:
    sink, bag = outcome.sink, run.bags[outcome.sink.step]
    wanted = expected_lines(run, sink)
    match sink.action:
        case "foreach":
            assert outcome.rows == []
        case _ if sink.action in RANKING:
            assert outcome.rows == [render(row.value) for row in run.ranked(sink)]
        case _ if sink.action in CHOOSING:
            count = min(1 if sink.action == "first" else sink.rows, len(wanted))
            assert len(outcome.rows) == count
            if bag.ordered and sink.action != "takeSample":
                assert outcome.rows == wanted[:count]
            else:
                assert not Counter(outcome.rows) - Counter(wanted)
        case _ if bag.ordered:
            assert outcome.rows == wanted
        case _:
            assert Counter(outcome.rows) == Counter(wanted)


@settings(max_examples=examples(5))
@given(program=programs())
def test_spark_gives_the_rows_that_the_interpreter_gives(
    program: Program, spark_context: SparkContext
) -> None:
    run = evaluate(program)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        rdds = build(program, spark_context, write_sources(program, home))
        for number, sink in enumerate(program.sinks):
            assert_same(run, run_sink(sink, rdds, home / f"out-{number}"))
        for step, rdd in zip(program.steps, rdds, strict=True):
            if step.op == "cache":
                rdd.unpersist()
