"""Generated jobs of Hadoop Streaming, real ones, and their traces in both directions against what their records say of themselves."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings

from lineage.access import StoredAccess
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer
from lineage_query.trace_query import TraceQuery
from tests.hadoop.streaming import streaming_command
from tests.oracle.budget import examples
from tests.oracle.mapreduce import EXAMPLE, MAPPER, REDUCER, Case, Job, Line, cases, expected_output
from tests.support.job_runs import CLI, part_files, run_program, stored, verify

pytestmark = pytest.mark.property

drawn = settings(deadline=None, phases=[Phase.explicit, Phase.generate])


def test_traces_of_some_programs(tmp_path: Path) -> None:
    check(EXAMPLE, tmp_path)


@pytest.mark.long
@settings(drawn, max_examples=examples(4))
@given(case=cases())
def test_traces_through_generated_jobs(case: Case) -> None:
    with tempfile.TemporaryDirectory() as name:
        check(case, Path(name).resolve())


def check(case: Case, folder: Path) -> None:
    """Run the jobs, and hold the trace of each line of the last one's output, and of each line of the sources, against its ids."""
    (folder / "mapper.py").write_text(MAPPER)
    (folder / "reducer.py").write_text(REDUCER)
    (folder / "out0").mkdir()
    for name, lines in case.lines().items():
        text = "".join(f"{key}\t{ids}\n" for key, ids in lines)
        (folder / "out0" / name).write_text(text)
    expected = Counter(line for lines in case.lines().values() for line in lines)
    for number, job in enumerate(case.jobs):
        run_job(folder, number, job)
        verdict = verify(folder)
        assert verdict["reasons"] == []
        assert job.is_declared <= (verdict["superset"] == {})
        expected = expected_output(job, expected.elements())
        assert Counter(line for _, line in rows_of(folder, number + 1)) == expected
    is_declared = all(job.is_declared for job in case.jobs)
    outputs = rows_of(folder, len(case.jobs))
    with stored(folder) as access:
        made = defaultdict[str, set[str]](set)
        for place, (_, ids) in outputs:
            sources = set(ids.split(","))
            for source in sources:
                made[source].add(place)
            answer = ask(access, Direction.BACKWARD, place)
            hold(answer, {Path(p).name for p in places(answer)}, sources, is_declared)
        for name, lines in case.lines().items():
            for at in range(1, len(lines) + 1):
                answer = ask(access, Direction.FORWARD, f"{folder / 'out0' / name}:{at}")
                hold(answer, places(answer), made[f"{name}:{at}"], is_declared)


def hold(answer: Answer, found: set[str], expected: set[str], is_declared: bool) -> None:
    assert answer.complete, answer
    assert answer.exact >= is_declared, answer
    assert found >= expected, (found, expected, answer)
    if answer.exact:
        assert found == expected, (answer, found, expected)


def run_job(folder: Path, number: int, job: Job) -> None:
    """Run one job, captured."""
    spec = shlex.quote(json.dumps(asdict(job)))
    options = [
        *("-D", f"mapreduce.job.maps={job.maps}", "-D", f"mapreduce.job.reduces={job.reduces}"),
        *("-input", str(folder / f"out{number}"), "-output", str(folder / f"out{number + 1}")),
        *("-mapper", f"{sys.executable} {folder}/mapper.py {spec}"),
    ]
    if job.reduces:
        options += ["-reducer", f"{sys.executable} {folder}/reducer.py {spec}"]
    command = streaming_command(folder, *options)
    declared = ["--each-line"] + ["--named-keys"] * (job.reduces > 0) if job.is_declared else []
    done = run_program(folder, [*CLI, "mapreduce", *declared, *command])
    assert done.returncode == 0, done.stderr


def rows_of(folder: Path, number: int) -> list[tuple[str, Line]]:
    """Place, key and ids of each line of an output."""
    return [
        (f"{part}:{at}", (key, ids))
        for part in part_files(folder / f"out{number}")
        for at, line in enumerate(part.read_text().splitlines(), 1)
        for key, ids in [line.split("\t")]
    ]


def ask(access: StoredAccess, direction: Direction, place: str) -> Answer:
    return access.ask(TraceQuery(direction, (place,), all_jobs=True, texts=False))


def places(answer: Answer) -> set[str]:
    return {item.location or item.address for group in answer.groups for item in group.items}
