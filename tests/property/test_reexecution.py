"""What the interpreter calls witnesses are enough to make the row."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyspark import SparkContext

from tests.oracle.brute import evaluate
from tests.oracle.budget import examples
from tests.oracle.functions import canonical, render
from tests.oracle.model import Program, Sink
from tests.oracle.program import programs
from tests.oracle.reexecute import cut_down, depends_on_rows_alone, reexecute, rerun
from tests.oracle.spark import build, run_sink, write_sources

pytestmark = pytest.mark.property


@settings(max_examples=examples(40))
@given(program=programs())
def test_a_row_is_made_again_from_its_witnesses_alone(program: Program) -> None:
    run = evaluate(program)
    step = program.sinks[0].step
    for row in run.bags[step].rows[:10]:
        again = reexecute(run, step, row)
        assert again is not None
        assert canonical(again.value) == canonical(row.value)
        assert again.witnesses == row.witnesses


@settings(max_examples=examples(15))
@given(program=programs(sinks_max=1), data=st.data())
def test_spark_makes_a_row_again_from_its_witness_rows_alone(
    program: Program, data: st.DataObject, spark_context: SparkContext
) -> None:
    step = program.sinks[0].step
    assume(depends_on_rows_alone(program, step))
    run = evaluate(program)
    assume(run.bags[step].rows)
    row = data.draw(st.sampled_from(run.bags[step].rows))
    assume(not rerun(run, step, row).dropped)
    alone = cut_down(program, row.witnesses)
    with tempfile.TemporaryDirectory() as folder:
        rdds = build(alone, spark_context, write_sources(alone, Path(folder)))
        outcome = run_sink(Sink("collect", step), rdds, Path(folder) / "out")
    assert render(row.value) in outcome.rows
