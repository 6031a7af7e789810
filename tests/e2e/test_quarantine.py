"""Records that functions fail on are set aside with their lineage: against a run in memory that does the same."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from pyspark import RDD

from lineage_core.contract.verdict import Verdict
from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageContext
from lineage_emitter.errors import SettingsError
from lineage_query.record_tracing import RecordTracer
from lineage_query.reruns import trace_of_records
from lineage_query.rows.reader import RowReader
from lineage_query.set_aside import SetAsideRecords, set_aside_records
from lineage_query.trace_query import TraceQuery
from lineage_store.url import open_store
from tests.support.job_runs import (
    CLI,
    STORE,
    judged,
    lineage,
    part_files,
    run_plain,
    run_program,
    traced,
    write_job,
)
from tests.support.repairs import mended

pytestmark = pytest.mark.e2e

Capture = Callable[..., LineageContext]
Pair = tuple[str, int]
Traced = list[tuple[Any, frozenset[int]]]
"""Records, and the lines that they were made from."""


# -- what programs are drawn from ------------------------------------------------------------------


def parsed(line: str) -> Pair:
    key, value = line.split()
    return key, int(value)


def divided(pair: Pair) -> Pair:
    return pair[0], 60 // (pair[1] % 4)


def spread(pair: Pair) -> Iterator[Pair]:
    yield pair
    if pair[1] % 5 == 3:
        raise KeyError(pair[1])
    yield pair[0], pair[1] + 1


def spread_all(pairs: Iterable[Pair]) -> Iterator[Pair]:
    for pair in pairs:
        yield pair
        if pair[1] % 7 == 2:
            raise KeyError(pair[1])
        yield pair[0], pair[1] + 3


def is_chosen(pair: Pair) -> bool:
    return bool([True, False, True][pair[1] % 4])


def looked_up(value: int) -> int:
    return [7, 8, 9, 10][value % 5]


def order_of(pair: Pair) -> Any:
    return 10 // (pair[1] % 6)


def add(one: int, other: int) -> int:
    return one + other


STEPS: dict[str, Callable[[RDD[Any]], RDD[Any]]] = {
    "map": lambda rdd: rdd.map(divided),
    "flatMap": lambda rdd: rdd.flatMap(spread),
    "filter": lambda rdd: rdd.filter(is_chosen),
    "mapPartitions": lambda rdd: rdd.mapPartitions(spread_all),
    "mapValues": lambda rdd: rdd.mapValues(looked_up),
    "reduceByKey": lambda rdd: rdd.reduceByKey(add, 2),
    "sortBy": lambda rdd: rdd.sortBy(order_of, numPartitions=2),
    "union": lambda rdd: rdd.union(rdd),
    "cache": lambda rdd: rdd.cache(),
}
OUTPUTS: dict[str, Callable[[Pair], Iterable[Pair]]] = {
    "map": lambda pair: (divided(pair),),
    "flatMap": lambda pair: tuple(spread(pair)),
    "filter": lambda pair: (pair,) if is_chosen(pair) else (),
    "mapPartitions": lambda pair: tuple(spread_all([pair])),
    "mapValues": lambda pair: ((pair[0], looked_up(pair[1])),),
    "sortBy": lambda pair: (pair,) if order_of(pair) is not None else (),
}


Repair = Callable[[Any, Exception], Any]
Ids = Counter[frozenset[int]]


def in_memory(
    steps: Sequence[str], lines: Sequence[str], repair: Repair | None = None
) -> tuple[Traced, Ids, Ids]:
    """What a program gives, and the lines that each record was made from which is set aside, or repaired."""
    set_aside, repaired = Ids(), Ids()

    def each(outputs: Callable[[Any], Iterable[Any]], records: Traced) -> Traced:
        made: Traced = []
        for record, ids in records:
            try:
                made += [(output, ids) for output in outputs(record)]
            except Exception as problem:
                other = None if repair is None else repair(record, problem)
                try:
                    made += [(output, ids) for output in (outputs(other) if other else ())]
                except Exception:
                    other = None
                (repaired if other else set_aside)[ids] += 1
        return made

    records = each(
        lambda line: (parsed(line),), [(line, frozenset([n])) for n, line in enumerate(lines, 1)]
    )
    for step in steps:
        if step in OUTPUTS:
            records = each(OUTPUTS[step], records)
        elif step == "union":
            records = records + records
        elif step == "reduceByKey":
            ordered = sorted(records, key=lambda traced: traced[0][0])
            records = [
                (
                    (key, sum(record[1] for record, _ in group)),
                    frozenset().union(*(ids for _, ids in group)),
                )
                for key, found in groupby(ordered, key=lambda traced: traced[0][0])
                for group in [list(found)]
            ]
    return records, set_aside, repaired


def drawn(seed: int) -> tuple[list[str], list[str]]:
    draw = random.Random(seed)
    lines = [f"{draw.choice('abcd')} {draw.randrange(40)}" for _ in range(draw.randrange(5, 40))]
    for _ in range(draw.randrange(3)):
        lines.insert(draw.randrange(len(lines)), draw.choice(["", "a", "b two", "c 1 2"]))
    steps = draw.choices(list(STEPS), k=draw.randrange(1, 6))
    return [step for step, _ in groupby(steps)], lines


def listed(folder: Path, app: str) -> SetAsideRecords:
    with open_store(f"sqlite:///{folder / STORE}") as store:
        return set_aside_records(RecordTracer(store, RowReader(None)), app, 10_000, 1_000)


def lines_of(found: SetAsideRecords, *, repaired: bool = False) -> Ids:
    """The lines that each record was made from."""
    return Counter(
        frozenset(
            int((item.location or "").rpartition(":")[2])
            for group in record.sources
            for item in group.items
        )
        for record in found.records
        if record.is_repaired == repaired
    )


def check_drawn(
    capture: Capture, folder: Path, seed: int, repair_of: Repair | None = None, **settings: Any
) -> int:
    """See that a drawn program gives what it gives in memory; how many records it repaired."""
    steps, lines = drawn(seed)
    source = folder / "lines.txt"
    source.write_text("".join(f"{line}\n" for line in lines))
    with capture(quarantine=1_000, **settings) as lc:
        rdd: RDD[Any] = lc.textFile(str(source), 3).map(parsed)
        for step in steps:
            rdd = STEPS[step](rdd)
        rdd.map("{0[0]} {0[1]}".format).saveAsTextFile(str(folder / "out"))
        # Once more: what is set aside again is the same.
        collected = rdd.collect()
        app = lc.app
    expected, set_aside, repaired = in_memory(steps, lines, repair_of)
    verdict: Verdict = judged(folder, app)
    assert (verdict.reasons, verdict.superset) == ((), {}), (seed, steps)
    assert Counter(collected) == Counter(record for record, _ in expected), (seed, steps)
    rows = {
        (text, frozenset(int(place.rpartition(":")[2]) for place in places))
        for text, places in traced(folder, folder / "out", app)
    }
    assert rows == {(f"{record[0]} {record[1]}", ids) for record, ids in expected}, (seed, steps)
    found = listed(folder, app)
    assert found.complete
    assert not found.is_cut
    assert lines_of(found) == set_aside, (seed, steps)
    assert lines_of(found, repaired=True) == repaired, (seed, steps)
    assert all(record.exact for record in found.records)
    assert sum(count for _, count in found.operators) == set_aside.total(), (seed, steps)
    assert sum(count for _, count in found.repaired) == repaired.total(), (seed, steps)
    return repaired.total()


@pytest.mark.parametrize("seed", range(3))
def test_what_is_left_and_what_is_set_aside(capture: Capture, tmp_path: Path, seed: int) -> None:
    check_drawn(capture, tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3, 60))
def test_more_of_what_is_left_and_set_aside(capture: Capture, tmp_path: Path, seed: int) -> None:
    check_drawn(capture, tmp_path, seed)


@pytest.mark.parametrize(
    "seed", [3, *(pytest.param(n, marks=pytest.mark.long) for n in range(4, 20))]
)
def test_records_are_repaired_on_the_way(capture: Capture, tmp_path: Path, seed: int) -> None:
    assert check_drawn(capture, tmp_path, seed, mended, repair="tests.support.repairs:mended")


# -- bounds ----------------------------------------------------------------------------------------


def test_one_more_than_allowed_ends_the_job(capture: Capture, tmp_path: Path) -> None:
    source = tmp_path / "lines.txt"
    source.write_text("x\n" * 4)
    with capture(quarantine=4) as lc:
        assert lc.textFile(str(source), 1).map(parsed).collect() == []
    with capture(quarantine=3) as lc, pytest.raises(Exception, match="had set aside 3 records"):
        lc.textFile(str(source), 1).map(parsed).collect()
    with capture() as lc, pytest.raises(Exception, match="not enough values to unpack"):
        lc.textFile(str(source), 1).map(parsed).collect()


def test_repaired_records_count_and_need_a_bound(capture: Capture, tmp_path: Path) -> None:
    source = tmp_path / "lines.txt"
    source.write_text("x\n" * 3)
    mend = {"repair": "tests.support.repairs:mended"}
    with capture(quarantine=3, **mend) as lc:
        assert lc.textFile(str(source), 1).map(parsed).collect() == [("x", 1)] * 3
        app = lc.app
    assert judged(tmp_path, app).repaired == dict.fromkeys(("1",), 3)
    with (
        capture(quarantine=2, **mend) as lc,
        pytest.raises(Exception, match="had set aside or repaired 2 records"),
    ):
        lc.textFile(str(source), 1).map(parsed).collect()
    with pytest.raises(SettingsError, match="needs LINEAGE_QUARANTINE"):
        capture(**mend)
    # A repair that fails, or gives what fails again, sets the record aside.
    for wrong in ("failing", "useless"):
        with capture(quarantine=3, repair=f"tests.support.repairs:{wrong}") as lc:
            assert lc.textFile(str(source), 1).map(parsed).collect() == []
            app = lc.app
        found = listed(tmp_path, app)
        assert (sum(count for _, count in found.operators), found.repaired) == (3, ())


def test_actions_hand_over_the_others(
    capture: Capture, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = tmp_path / "lines.txt"
    source.write_text("a 1\nb two\nc 3\nd\n")
    with capture(quarantine=9) as lc:
        total = lc.accumulator(0)
        lc.textFile(str(source), 1).foreach(lambda line: total.add(parsed(line)[1]))
        app = lc.app
        assert total.value == 4
        assert not caplog.messages
        # It may keep something from record to record.
        sums = lc.textFile(str(source), 1).mapPartitions(running)
        with pytest.raises(Exception, match="invalid literal"):
            sums.collect()
    assert any(
        "the function of mapPartitions at test_quarantine.py" in message
        and "total may hold what an earlier record left there" in message
        for message in caplog.messages
    ), caplog.messages
    assert judged(tmp_path, app).set_aside
    found = listed(tmp_path, app)
    assert lines_of(found) == Counter([frozenset([2]), frozenset([4])])
    assert all(record.what.startswith("foreach at ") for record in found.records)
    # What it failed on is no item of the action's sink.
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        tracer = RecordTracer(store, RowReader(None))
        query = TraceQuery(Direction.BACKWARD, ("foreach#0#0", "foreach#0#1"), app=app)
        answer = trace_of_records(tracer, query).answer(10, texts=False)
        rows = [item.location for group in answer.groups for item in group.items]
    assert [(row or "").rpartition(":")[2] for row in rows] == ["1", "3"]


def running(lines: Iterable[str]) -> Iterator[int]:
    total = 0
    for line in lines:
        total += parsed(line)[1]
        yield total


def buffered(records: Iterable[Any]) -> Iterable[Any]:
    return iter(sorted(records))


def stopping(line: str) -> str:
    if line == "stop":
        raise StopIteration
    return line


def test_what_is_not_certain_says_so_and_what_ends_data_ends_the_job(
    capture: Capture, tmp_path: Path
) -> None:
    source = tmp_path / "lines.txt"
    source.write_text("b 1\nx\na 2\n")
    with capture(quarantine=9) as lc:
        lines = lc.textFile(str(source), 1).mapPartitions(buffered)
        assert lines.map(parsed).collect() == [("a", 2), ("b", 1)]
        app = lc.app
    (record,) = listed(tmp_path, app).records
    assert not record.exact
    # Behind a function that may have looked at all of them.
    assert lines_of(listed(tmp_path, app)) == Counter([frozenset([1, 2, 3])])
    source.write_text("go\nstop\ngo\n")
    with (
        capture(quarantine=9) as lc,
        pytest.raises(Exception, match=r"STOP_ITERATION|StopIteration"),
    ):
        lc.textFile(str(source), 1).map(stopping).collect()


def test_errors_are_told_by_their_type_alone_where_values_are_not_kept(
    capture: Capture, tmp_path: Path
) -> None:
    source = tmp_path / "lines.txt"
    source.write_text("a secret\n")
    said = []
    for settings in ({}, {"values": False}):
        with capture(quarantine=1, **settings) as lc:
            lc.textFile(str(source), 1).map(parsed).count()
            app = lc.app
        (record,) = listed(tmp_path, app).records
        said.append(record.what.rpartition("py:")[2].partition(": ")[2])
    assert said == ["ValueError: invalid literal for int() with base 10: 'secret'", "ValueError"]


# -- repaired --------------------------------------------------------------------------------------

LINES = ["a=1;b=2", "a=two", "c=0;b=3", "d", "a=5;c=x;b=1", "c=4"]
MENDED = ["a=1;b=2", "a=2", "c=8;b=3", "a=5;c=9;b=1", "c=4"]
REPAIR = """
CHANGED = {"a=two": "a=2", "c=0;b=3": "c=8;b=3", "d": None, "a=5;c=x;b=1": "a=5;c=9;b=1"}

def repaired(line):
    return CHANGED.get(line, line)

def left(line):
    return line
"""
JOB = """
import sys
from pyspark import SparkContext

sc = SparkContext("local[2]", "totals")
words = sc.textFile(sys.argv[1], 2).flatMap(lambda line: line.split(";"))
pairs = words.map(lambda word: (word.split("=")[0], int(word.split("=")[1])))
pairs.filter(lambda pair: 10 / pair[1] > 0).map(str).saveAsTextFile(sys.argv[2] + "/each")
totals = pairs.reduceByKey(lambda one, other: one + other, 2)
totals.map(lambda pair: f"{pair[0]} {pair[1]}").saveAsTextFile(sys.argv[2] + "/totals")
"""
RUN = ("--program", "job.py in.txt out")


def rows_of(folder: Path) -> list[str]:
    return sorted(
        line for part in part_files(folder) for line in part.read_text("utf-8").splitlines()
    )


@pytest.mark.long
def test_a_row_of_a_job_that_repaired_records_is_replayed_with_the_same_repair(
    tmp_path: Path,
) -> None:
    write_job(tmp_path, JOB)
    (tmp_path / "mending.py").write_text(
        "def mended(record, problem):\n"
        "    return 'z=1' if isinstance(record, str) else (record[0], 1)\n"
    )
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n")
    mend = {"LINEAGE_QUARANTINE": "5", "LINEAGE_REPAIR": "mending:mended", "PYTHONPATH": "."}
    ran = run_program(tmp_path, [*CLI, "run", "job.py", "in.txt", "out"], env=mend)
    assert ran.returncode == 0, ran.stderr
    assert "4 records were repaired" in ran.stderr
    assert "set aside" not in ran.stderr
    # Three words and a pair of zero, all with 1.
    assert "z 3" in rows_of(tmp_path / "out/totals")
    (place,) = (
        f"{part}:{number}"
        for part in part_files(tmp_path / "out/totals")
        for number, line in enumerate(part.read_text().splitlines(), 1)
        if line == "z 3"
    )
    replay = [*CLI, "replay", place, *RUN]
    refused = run_program(tmp_path, replay)
    assert (refused.returncode, "name its function by LINEAGE_REPAIR" in refused.stderr) == (
        2,
        True,
    )
    again = run_program(tmp_path, replay, env=mend)
    assert (again.returncode, "the same" in again.stdout) == (0, True), again.stderr
    listing = json.loads(lineage(tmp_path, "quarantine", "--json").stdout)
    assert [record["repaired"] for record in listing["records"]] == [True] * 4
    assert not listing["operators"]


@pytest.mark.long
def test_a_program_again_on_repaired_rows_is_plain_pyspark_on_these(tmp_path: Path) -> None:
    write_job(tmp_path, JOB)
    (tmp_path / "repair.py").write_text(REPAIR)
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n")
    (tmp_path / "mended.txt").write_text("\n".join(MENDED) + "\n")
    ran = run_program(
        tmp_path, [*CLI, "run", "job.py", "in.txt", "out"], env={"LINEAGE_QUARANTINE": "5"}
    )
    assert ran.returncode == 0, ran.stderr
    assert "4 records were set aside" in ran.stderr
    listing = json.loads(lineage(tmp_path, "quarantine", "--json").stdout)
    assert {entry["operator"].split()[0]: entry["records"] for entry in listing["operators"]} == {
        "map": 3,
        "filter": 1,
    }
    places = {
        item["location"]
        for record in listing["records"]
        for group in record["sources"]
        for item in group["items"]
    }
    assert places == {f"in.txt:{number}" for number in (2, 3, 4, 5)}
    # A row is replayed as ever, although its line has a word that fails.
    row = next(part for part in part_files(tmp_path / "out/totals") if part.read_text())
    again = lineage(tmp_path, "replay", f"{row}:1", *RUN)
    assert (again.returncode, "the same" in again.stdout) == (0, True), again.stderr
    plain = run_plain(tmp_path, "job.py", "mended.txt", "plain")
    assert plain.returncode == 0, plain.stderr
    before = rows_of(tmp_path / "out/each"), rows_of(tmp_path / "out/totals")
    mended = lineage(
        *(tmp_path, "replay", "--quarantined", *RUN, "--with", "repair.py:repaired"),
        *("--to", "again", "--json"),
    )
    assert mended.returncode == 0, mended.stderr
    assert json.loads(mended.stdout)["repaired"] == 4
    for output in ("each", "totals"):
        assert rows_of(tmp_path / "again" / output) == rows_of(tmp_path / "plain" / output)
    assert (rows_of(tmp_path / "out/each"), rows_of(tmp_path / "out/totals")) == before
    still = lineage(
        tmp_path, "replay", "--quarantined", *RUN, "--with", "repair.py:left", "--to", "other"
    )
    assert still.returncode != 0
    assert "ended with exit code" in still.stderr
    for wrong in ("repair.py:none", "none.py:left", "repair.py"):
        refused = lineage(
            tmp_path, "replay", "--quarantined", *RUN, "--with", wrong, "--to", "other"
        )
        assert (refused.returncode, "Traceback" in refused.stderr) != (0, True), wrong
        assert refused.returncode != 0
