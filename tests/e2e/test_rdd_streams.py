"""Streams of RDDs under capture: rows that a batch wrote go back to the lines that it was made of, held against the batches as the program saw them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

import pytest

from lineage_core.tracing.trace_result import Direction
from tests.support.job_runs import (
    Row,
    ask,
    run_captured,
    run_plain,
    traced,
    verify,
    write_job,
)

pytestmark = pytest.mark.e2e

BEGIN = """
import json, os, sys, time
from pathlib import Path
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext
from pyspark.streaming.util import rddToFileName


def new_context():
    conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false")
    sc = SparkContext.getOrCreate(conf.set("spark.default.parallelism", "2"))
    sc.setLogLevel("ERROR")
    return sc


def wait_until(condition):
    deadline = time.monotonic() + 900
    while not condition():
        assert time.monotonic() < deadline, "nothing came"
        time.sleep(0.05)


def put(name):
    # Of a time at which the stream runs already.
    Path(f"{name}.ready").write_text(Path("given", name).read_text())
    os.rename(f"{name}.ready", Path("in", name))


"""
FILES = (
    BEGIN
    + """
seconds = int(sys.argv[1])
stream = StreamingContext(new_context(), seconds)
lines = stream.textFileStream("in")
batches, seen = {}, []


def upper(found):
    return (line.upper() for line in found)


def note(at, rdd):
    found = rdd.collect()
    batches[rddToFileName("", None, at)] = found
    seen.extend(found)


pairs = lines.flatMap(lambda line: line.split(" ")).map(lambda word: (word, 1))
pairs.reduceByKey(lambda a, b: a + b).saveAsTextFiles("counts")
pairs.reduceByKeyAndWindow(lambda a, b: a + b, None, 3 * seconds, seconds).saveAsTextFiles("windows")
short = lines.filter(lambda line: len(line) < 12)
short.mapPartitions(upper).saveAsTextFiles("short")
short.union(lines.map(str)).transform(lambda rdd: rdd.sortBy(lambda line: line)).saveAsTextFiles("both")
lines.window(2 * seconds, seconds).filter(lambda line: "pear" in line).saveAsTextFiles("pears")
lines.foreachRDD(note)
stream.start()
for name in sorted(os.listdir("given")):
    put(name)
    wait_until(lambda: len(seen) >= 3 and Path("given", name).read_text().splitlines()[-1] in seen)
stream.stop(stopSparkContext=True, stopGraceFully=True)
Path("batches.json").write_text(json.dumps(batches))
"""
)
GIVEN = {
    "1.txt": ["apple pear", "fig apple", "pear plum plum"],
    "2.txt": ["pear", "apple quince medlar"],
    "3.txt": ["fig pear fig", "plum apple pear sloe"],
}


def put_given(folder: Path, given: Mapping[str, list[str]]) -> dict[str, str]:
    """Files for a stream that are not there yet; the place of each of their lines, which are unlike."""
    (folder / "in").mkdir()
    (folder / "given").mkdir()
    for name, lines in given.items():
        (folder / "given" / name).write_text("".join(f"{line}\n" for line in lines))
    return {line: f"{name}:{n}" for name, lines in given.items() for n, line in enumerate(lines, 1)}


def rows_of(folder: Path, name: str) -> dict[str, list[Row]]:
    """By the time in the names of output folders: their rows, traced."""
    outputs = [out for out in folder.iterdir() if re.fullmatch(rf"{name}-\d+", out.name)]
    return {out.name.removeprefix(name): sorted(traced(folder, out).elements()) for out in outputs}


@pytest.mark.parametrize("files", [2, pytest.param(3, marks=pytest.mark.long)])
def test_rows_go_back_to_the_lines_of_their_batches(tmp_path: Path, files: int) -> None:
    place = put_given(tmp_path, dict(islice(GIVEN.items(), files)))
    write_job(tmp_path, FILES)
    done = run_captured(tmp_path, "job.py", "6")
    assert done.returncode == 0, done.stderr
    check_rows(tmp_path, place)


def check_rows(folder: Path, place: Mapping[str, str]) -> None:
    """``place``: of each line."""
    batches = json.loads((folder / "batches.json").read_text())
    assert sorted(line for lines in batches.values() for line in lines) == sorted(place)
    verdict = verify(folder)
    assert verdict["complete"], verdict["reasons"]
    assert not verdict["superset"]
    times = sorted(batches)

    def counted(lines: list[str]) -> list[Row]:
        words = {word for line in lines for word in line.split(" ")}
        return sorted(
            (
                str((word, sum(line.split(" ").count(word) for line in lines))),
                tuple(sorted(place[line] for line in lines if word in line.split(" "))),
            )
            for word in words
        )

    def each(text: Callable[[str], str], lines: list[str]) -> list[Row]:
        return sorted((text(line), (place[line],)) for line in lines)

    counts, windows, short, both, pears = (
        rows_of(folder, name) for name in ("counts", "windows", "short", "both", "pears")
    )
    assert set(counts) == set(windows) == set(pears) == set(times)
    for number, time in enumerate(times):
        now = batches[time]
        assert counts[time] == counted(now)
        # The times of batches have no gaps.
        last = [line for at in times[max(0, number - 2) : number + 1] for line in batches[at]]
        assert windows[time] == counted(last)
        few = [line for line in now if len(line) < 12]
        assert short[time] == each(str.upper, few)
        assert both[time] == each(str, now + few)
        last = [line for at in times[max(0, number - 1) : number + 1] for line in batches[at]]
        assert pears[time] == each(str, [line for line in last if "pear" in line])
    forward = ask(folder, Direction.FORWARD, str(folder / "in" / "2.txt:1")).to_json()
    reached = {
        Path(str(end["path"])).name.partition("-")[0] for end in forward["sinks"] if end["path"]
    }
    assert {"counts", "windows", "short", "both", "pears"} <= reached


STATE = (
    BEGIN
    + """
out, last = sys.argv[1], sys.argv[2]


def begin():
    stream = StreamingContext(new_context(), 1)
    words = stream.textFileStream("in").flatMap(lambda line: line.split(" "))
    pairs = words.map(lambda word: (word, 1))
    pairs.reduceByKey(lambda a, b: a + b).saveAsTextFiles(f"{os.getcwd()}/{out}/counts")
    totals = pairs.updateStateByKey(lambda new, old: sum(new) + (old or 0))
    totals.foreachRDD(lambda rdd: Path(f"{os.getcwd()}/totals.json").write_text(json.dumps(dict(rdd.collect()))))
    return stream


stream = StreamingContext.getOrCreate("checkpoint", begin)
stream.start()
for name in sorted(os.listdir("given")):
    put(name)
wait_until(lambda: Path("totals.json").exists() and json.loads(Path("totals.json").read_text()).get(last) == 1)
print(sorted(json.loads(Path("totals.json").read_text()).items()))
stream.stop(stopSparkContext=True, stopGraceFully=True)
"""
)


@pytest.mark.long
def test_state_is_named_and_programs_without_capture_go_on_from_its_checkpoint(
    tmp_path: Path,
) -> None:
    place = put_given(tmp_path, {"1.txt": ["apple pear", "fig apple first"]})
    write_job(tmp_path, STATE)
    captured = run_captured(tmp_path, "job.py", "one", "first")
    assert captured.returncode == 0, captured.stderr
    assert captured.stdout == "[('apple', 2), ('fig', 1), ('first', 1), ('pear', 1)]\n"
    verdict = verify(tmp_path)
    assert not verdict["complete"]
    assert "updateStateByKey" in str(verdict["reasons"])
    # What was made of the same records beside the state is traced.
    outputs = list((tmp_path / "one").iterdir())
    rows = {row for out in outputs for row in traced(tmp_path, out)}
    assert ("('apple', 2)", tuple(sorted(place.values()))) in rows
    (tmp_path / "given" / "1.txt").unlink()
    (tmp_path / "given" / "2.txt").write_text("pear second\n")
    plain = run_plain(tmp_path, "job.py", "two", "second")
    assert plain.returncode == 0, plain.stderr
    assert plain.stdout == "[('apple', 2), ('fig', 1), ('first', 1), ('pear', 2), ('second', 1)]\n"
