"""Generated programs that know nothing of lineage: captured as they are, on executors of any kind."""

import os
import pickle
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings

from lineage_core.contract.message import Begin
from tests.oracle.brute import evaluate
from tests.oracle.budget import examples
from tests.oracle.captured import SpoolReader, of_one_program
from tests.oracle.compare import assert_witnesses, sink_items
from tests.oracle.model import Program
from tests.oracle.program import programs
from tests.oracle.spark import Outcome
from tests.support.job_runs import run_program

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
JOB = ROOT / "tests" / "oracle" / "job.py"


def drawn(count: int) -> list[Program]:
    """Some generated programs."""
    found: list[Program] = []

    @settings(max_examples=count)
    @given(program=programs())
    def draw(program: Program) -> None:
        found.append(program)

    draw()
    return found


@pytest.mark.parametrize(
    "master", ["local[2]", pytest.param("local-cluster[2,1,1024]", marks=pytest.mark.long)]
)
def test_zero_code_lineage_is_the_witnesses_of_every_row(tmp_path: Path, master: str) -> None:
    chosen = drawn(examples(6))
    (tmp_path / "programs").write_bytes(pickle.dumps(chosen))
    conf = f"--conf spark.executorEnv.PYTHONPATH={ROOT} --conf spark.ui.enabled=false"
    done = run_program(
        tmp_path,
        [sys.executable, "-m", "lineage_emitter.autorun", str(JOB), "programs", str(tmp_path)],
        {
            "PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path)),
            "PYSPARK_SUBMIT_ARGS": f"--master {master} {conf} pyspark-shell",
            "LINEAGE_SPOOL": str(tmp_path / "spool"),
            "LINEAGE_LINK": "false",
        },
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    outcomes: list[list[Outcome]] = pickle.loads((tmp_path / "outcomes.pickle").read_bytes())
    (folder,) = (tmp_path / "spool").iterdir()
    reader = SpoolReader(folder)
    messages = reader.messages()
    assert isinstance(messages.pop(0), Begin)
    blocks = reader.blocks(messages)
    for program, given_out in zip(chosen, outcomes, strict=True):
        lineage, messages = of_one_program(program, messages, blocks)
        assert lineage.complaints == []
        run = evaluate(program)
        for job, outcome in zip(lineage.jobs, given_out, strict=True):
            items = sink_items(lineage, str(job.sink), outcome)
            traced = [(text, lineage.back(*item)) for text, item in items]
            assert_witnesses(run, outcome.sink, traced)
