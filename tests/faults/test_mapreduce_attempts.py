"""Tasks of MapReduce that fail and are tried again, on a cluster of Hadoop."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.hadoop.streaming import cluster, streaming_command
from tests.support.job_runs import CLI, Row, run_program, traced, verify, write_job

pytestmark = [pytest.mark.faults, pytest.mark.long]

MAPPER = """
    import os
    import sys

    is_first = os.environ["mapreduce_task_attempt_id"].endswith("_0")
    for number, line in enumerate(sys.stdin):
        for word in line.split():
            print(word, 1, sep="\\t")
        if is_first and number == 1:
            sys.stdout.flush()
            sys.exit("the first attempt fails")
"""
REDUCER = """
    import os
    import sys
    from itertools import groupby

    records = (line.rstrip("\\n").split("\\t") for line in sys.stdin)
    for key, group in groupby(records, key=lambda record: record[0]):
        print(key, sum(1 for _ in group), sep="\\t")
    if os.environ["mapreduce_task_attempt_id"].endswith("_0"):
        sys.stdout.flush()
        sys.exit("the first attempt fails")
"""
LINES = {"a.txt": ["b a", "a c", "c a a"], "b.txt": ["x a", "a x", "b"]}


def test_tasks_that_are_tried_again_count_once(tmp_path: Path) -> None:
    for name, lines in LINES.items():
        (tmp_path / "in" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_text("".join(f"{line}\n" for line in lines))
    programs = [
        write_job(tmp_path, MAPPER, "mapper.py"),
        write_job(tmp_path, REDUCER, "reducer.py"),
    ]
    mapper, reducer = (f"{sys.executable} {program}" for program in programs)
    with cluster(tmp_path) as settings:
        files = ("-input", str(tmp_path / "in"), "-output", str(tmp_path / "out"))
        job = streaming_command(
            tmp_path,
            *(*files, "-mapper", mapper, "-reducer", reducer),
            settings=settings,
            is_cluster=True,
        )
        done = run_program(
            tmp_path,
            [*CLI, "mapreduce", "--each-line", "--named-keys", *job],
            {"USER": os.environ.get("USER", "tests")},
        )
    assert done.returncode == 0, done.stderr
    assert "Failed map tasks=2" in done.stdout + done.stderr
    assert "Failed reduce tasks=1" in done.stdout + done.stderr
    expected = Counter[Row]()
    for word in "abcx":
        places = [
            f"{name}:{number}"
            for name, lines in LINES.items()
            for number, line in enumerate(lines, 1)
            for each in line.split()
            if each == word
        ]
        expected[f"{word}\t{len(places)}", tuple(sorted(set(places)))] += 1
    assert traced(tmp_path, tmp_path / "out") == expected
    verdict = verify(tmp_path)
    assert (verdict["reasons"], verdict["superset"], verdict["tasks"]["committed"]) == ([], {}, 1)
