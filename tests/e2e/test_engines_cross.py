"""A chain of jobs of Dask, Spark and MapReduce: traces cross all three, to the lines that brute force names."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from lineage_core.tracing.trace_result import Direction
from lineage_query.trace_query import TraceQuery
from tests.hadoop.streaming import streaming_command
from tests.support.job_runs import (
    CLI,
    STORE,
    part_files,
    run_captured,
    run_program,
    stored,
    write_job,
)

pytestmark = pytest.mark.e2e
LINES = [f"{'abc'[n % 3]}{n % 5} {'xyz'[n % 2]}{n % 4} # {n}" for n in range(40)]
CAPTURED = """
    import runpy, sys

    from lineage import LineageApi, capture_dask

    with LineageApi("clean", store=sys.argv[1]) as api, capture_dask(api):
        runpy.run_path("clean.py", run_name="__main__")
"""
CLEAN = """
    import dask
    from dask import bag

    dask.config.set(scheduler="synchronous")
    lines = bag.read_text("in/*.txt", blocksize=150)
    words = lines.map(lambda line: line.split("#")[0].strip()).filter(lambda line: line[0] != "c")
    words.to_textfiles("clean/*.txt")
"""
COUNT = """
    from pyspark import SparkContext

    sc = SparkContext("local[2]", "count")
    pairs = sc.textFile("clean").flatMap(str.split).map(lambda word: (word, 1))
    pairs.reduceByKey(lambda a, b: a + b).map(lambda p: f"{p[0]} {p[1]}").saveAsTextFile("counts")
    sc.stop()
"""
MAPPER = """
    import sys

    for line in sys.stdin:
        word, count = line.split()
        print(word[0], count, sep="\\t")
"""
REDUCER = """
    import sys
    from itertools import groupby

    for letter, rows in groupby((line.split("\\t") for line in sys.stdin), key=lambda row: row[0]):
        print(letter, sum(int(row[1]) for row in rows), sep="\\t")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engines")
    (folder / "in").mkdir()
    for name, lines in (("a.txt", LINES[:30]), ("b.txt", LINES[30:])):
        (folder / "in" / name).write_text("".join(f"{line}\n" for line in lines))
    for name, program in (
        ("captured.py", CAPTURED),
        ("clean.py", CLEAN),
        ("count.py", COUNT),
        ("mapper.py", MAPPER),
        ("reducer.py", REDUCER),
    ):
        write_job(folder, program, name)
    dask = run_program(folder, [sys.executable, "captured.py", f"sqlite:///{folder / STORE}"])
    assert dask.returncode == 0, dask.stderr
    spark = run_captured(folder, "count.py")
    assert spark.returncode == 0, spark.stderr
    job = streaming_command(
        folder,
        *("-D", "mapreduce.job.reduces=2", "-input", "counts", "-output", "letters"),
        *("-mapper", f"{sys.executable} mapper.py", "-reducer", f"{sys.executable} reducer.py"),
    )
    hadoop = run_program(folder, [*CLI, "mapreduce", "--each-line", "--named-keys", *job])
    assert hadoop.returncode == 0, hadoop.stderr
    return folder


def letters() -> tuple[Counter[str], dict[str, set[str]]]:
    """Of each letter the number of words, and the lines that hold them."""
    counts, places = Counter[str](), defaultdict[str, set[str]](set)
    for number, line in enumerate(LINES):
        place = f"a.txt:{number + 1}" if number < 30 else f"b.txt:{number - 29}"
        words = line.split("#")[0].split()
        if not line.startswith("c"):
            counts.update(word[0] for word in words)
            for word in words:
                places[word[0]].add(place)
    return counts, places


@pytest.mark.long
def test_a_trace_goes_from_mapreduce_by_spark_to_the_lines_that_dask_read(folder: Path) -> None:
    counts, places = letters()
    seen = Counter[str]()
    with stored(folder) as access:
        for part in part_files(folder / "letters"):
            for number, text in enumerate(part.read_text().splitlines(), 1):
                letter, count = text.split("\t")
                seen[letter] += int(count)
                place = f"{part}:{number}"
                answer = access.ask(TraceQuery(Direction.BACKWARD, (place,), all_jobs=True))
                assert (answer.exact, answer.complete, answer.reasons) == (True, True, ())
                found = {
                    Path(item.location or "").name
                    for group in answer.groups
                    for item in group.items
                }
                assert found == places[letter]
    assert seen == counts


def test_a_line_is_followed_to_the_outputs_of_mapreduce(folder: Path) -> None:
    _, places = letters()
    out = {
        f"{part}:{number}": text.split("\t")[0]
        for part in part_files(folder / "letters")
        for number, text in enumerate(part.read_text().splitlines(), 1)
    }
    with stored(folder) as access:
        for number in (1, 2, 30):
            place = f"{folder / 'in' / 'a.txt'}:{number}"
            answer = access.ask(TraceQuery(Direction.FORWARD, (place,), all_jobs=True))
            assert answer.complete
            found = {out[item.location or ""] for group in answer.groups for item in group.items}
            expected = {letter for letter, lines in places.items() if f"a.txt:{number}" in lines}
            assert found == expected
