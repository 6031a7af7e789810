"""The smallest set of rows of a program's sources with which it still fails, held against brute force."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.support.job_runs import CLI, answered, part_files, run_captured, run_program, write_job

pytestmark = [pytest.mark.e2e, pytest.mark.integration]

BEGIN = """
import builtins
import os
import sys
from pyspark import SparkContext
from pyspark.sql import SparkSession
import counting

source, out = sys.argv[1:3]
sc = SparkContext("local[2]", "totals")
run = os.getpid()

def fields_of(line):
    of_worker = builtins.__dict__.setdefault("run", run)
    if of_worker != run:
        raise ValueError("this worker's 1 run too much is an earlier one")
    return line.split(",")

# Fails where a view, a module or a worker of an earlier run is left.
SparkSession.builder.getOrCreate().range(3).createTempView("view")
assert counting.next_number() == 1
fields = sc.textFile(source, 3).map(fields_of).cache()
"""
TOTALS = (
    BEGIN
    + """
totals = fields.map(lambda f: (f[0], int(f[1]))).reduceByKey(lambda x, y: x + y, 2)
totals.map(lambda kv: f"{kv[0]} {kv[1]}").saveAsTextFile(out)
largest = totals.values().max()
assert largest < 100, f"too large: {largest}"
"""
)
CRASHES = (
    BEGIN
    + """
def add(x, y):
    if x + y > 100:
        raise ValueError(f"{x + y} is too much")
    return x + y

fields.map(lambda f: (f[0], int(f[1]))).reduceByKey(add, 2).saveAsTextFile(out)
"""
)
COUNTING = """
numbers = [0]


def next_number():
    numbers[0] += 1
    return numbers[0]
"""
CHECKS = """
def small(row):
    assert int(row.split()[1]) < 100, row


def never(row):
    return True
"""
LINES = [
    "a,10", "b,60", "a,35", "c,99", "a,5", "b,30", "a,70",
    "b,20", "a,1", "c,0", "b,15", "a,3", "d,7",
]  # fmt: skip

Fails = Callable[[Iterable[str]], bool]


def sums(lines: Iterable[str]) -> dict[str, int]:
    """What the programs add up, by plain Python."""
    totals: dict[str, int] = defaultdict(int)
    for line in lines:
        key, amount = line.split(",")
        totals[key] += int(amount)
    return totals


def has_large(lines: Iterable[str]) -> bool:
    return any(total >= 100 for total in sums(lines).values())


def is_too_much(lines: Iterable[str]) -> bool:
    return any(total > 100 for total in sums(lines).values())


def prepared(folder: Path, program: str, lines: Iterable[str]) -> Path:
    """A folder where a program has run, captured."""
    write_job(folder, program)
    write_job(folder, COUNTING, "counting.py")
    write_job(folder, CHECKS, "checks.py")
    (folder / "in.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    run_captured(folder, "job.py", "in.txt", "out")
    return folder


@pytest.fixture(scope="module")
def totals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("totals"), TOTALS, LINES)


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("crashed"), CRASHES, LINES)


def sifted(folder: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    program = ("--program", "job.py in.txt out", "--json")
    done = run_program(folder, [*CLI, "sift", *arguments, *program])
    assert done.returncode == code, done.stderr
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


def check_minimal(outcome: dict[str, Any], fails: Fails, lines: list[str] = LINES) -> None:
    """See that rows are those of the file, fail, and do not without any one of them."""
    rows = [row["text"] for row in outcome["rows"]]
    numbers = [int(row["location"].rpartition(":")[2]) for row in outcome["rows"]]
    assert [lines[number - 1] for number in numbers] == rows
    assert outcome["one_minimal"]
    assert fails(rows)
    assert not any(fails(fewer) for fewer in combinations(rows, len(rows) - 1))


@pytest.mark.long
def test_rows_of_an_output_that_fail_a_test(totals: Path) -> None:
    before = {part: part.read_bytes() for part in part_files(totals / "out")}
    outcome = sifted(totals, "out", "--test", "checks.py:small")
    check_minimal(outcome, has_large)
    key = outcome["rows"][0]["text"][0]
    # Lineage leaves out all rows of other keys.
    witnesses = [line for line in LINES if line.startswith(key)]
    assert (outcome["searched"], outcome["witnesses"]) == ("witnesses", len(witnesses))
    total = sums(row["text"] for row in outcome["rows"])[key]
    assert outcome["outcome"] == [f"{key} {total}"]
    assert len(outcome["failing"]) == 2
    assert {part: part.read_bytes() for part in part_files(totals / "out")} == before


@pytest.mark.long
def test_a_failure_of_the_program_itself_is_sought_among_all_rows(totals: Path) -> None:
    outcome = sifted(totals, "--fails-with", "too large")
    check_minimal(outcome, has_large)
    assert (outcome["searched"], outcome["witnesses"]) == ("all rows", len(LINES))
    (error,) = outcome["outcome"]
    assert error.startswith("AssertionError: too large")


@pytest.mark.long
def test_a_failure_of_a_task_is_sought_among_the_rows_it_died_on(crashed: Path) -> None:
    outcome = sifted(crashed, "--fails-with", "ValueError")
    check_minimal(outcome, is_too_much)
    assert outcome["searched"] == "witnesses"
    assert outcome["witnesses"] < len(LINES)
    (error,) = outcome["outcome"]
    assert error.endswith("is too much")


@pytest.mark.long
def test_a_search_that_is_stopped_has_the_best_so_far(crashed: Path) -> None:
    outcome = sifted(crashed, "--fails-with", "ValueError", "--runs", "2", code=1)
    assert (outcome["one_minimal"], outcome["stopped"], outcome["runs"]) == (False, "2 runs", 2)
    assert is_too_much(row["text"] for row in outcome["rows"])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("out", "--test", "checks.py:never"), "no row of out fails"),
        (("--fails-with", "x", "--test", "checks.py:small"), "one of both"),
        ((), "one of both"),
        (("--test", "checks.py:small"), "name the output"),
        (("out", "--fails-with", "x", "--where", "true"), "--program runs RDDs"),
    ],
)
def test_what_names_nothing_to_sift_is_refused(
    totals: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], reason: str
) -> None:
    monkeypatch.chdir(totals)
    result = answered(totals, "sift", *arguments, "--program", "job.py in.txt out")
    assert (result.exit_code, result.stdout) == (2, "")
    assert reason in " ".join(result.stderr.replace("│", " ").split())


def test_an_error_without_its_program_is_one_of_dataframes(totals: Path) -> None:
    result = answered(totals, "sift", "--fails-with", "x")
    assert result.exit_code == 2
    assert "--program" in result.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "arguments", "reason"),
    [
        ("job.py in.txt out", ("--fails-with", "KeyError"), "does not fail so"),
        ("job.py other.txt out", ("--fails-with", "too large"), "textFile of other.txt"),
        ("job.py other.txt out", ("out", "--test", "checks.py:small"), "textFile of other.txt"),
        ("table.py in.txt out", ("--fails-with", "x"), "writes where a replay can't"),
    ],
)
def test_what_fails_otherwise_is_refused(
    totals: Path, program: str, arguments: tuple[str, ...], reason: str
) -> None:
    (totals / "other.txt").write_bytes((totals / "in.txt").read_bytes())
    write_job(totals, BEGIN + "SparkSession(sc).range(3).write.saveAsTable('t')\n", "table.py")
    done = run_program(totals, [*CLI, "sift", *arguments, "--program", program])
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr


MANY = """
import sys
from pyspark import SparkContext

source, out = sys.argv[1:3]
sc = SparkContext("local[2]", "drawn")
pairs = sc.textFile(source, 3).map(lambda line: line.split(",")).map(lambda f: (f[0], int(f[1])))
"""
DRAWN: dict[str, tuple[str, Fails]] = {
    "group": (
        "pairs.groupByKey(2).map(lambda kv: f'{kv[0]} {sum(kv[1])}').saveAsTextFile(out)",
        has_large,
    ),
    "distinct": (
        "pairs.distinct(2).reduceByKey(max, 2).map(lambda kv: f'{kv[0]} {kv[1]}').saveAsTextFile(out)",
        lambda lines: any(int(line.split(",")[1]) >= 100 for line in lines),
    ),
    "join": (
        "pairs.filter(lambda kv: kv[1] % 2).join(pairs.filter(lambda kv: kv[1] % 2 == 0), 2)"
        ".map(lambda kv: f'{kv[0]} {sum(kv[1])}').saveAsTextFile(out)",
        lambda lines: any(
            first.split(",")[0] == second.split(",")[0]
            and int(first.split(",")[1]) % 2 != int(second.split(",")[1]) % 2
            and int(first.split(",")[1]) + int(second.split(",")[1]) >= 100
            for first, second in combinations(list(lines), 2)
        ),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("seed", range(3))
def test_drawn_programs(tmp_path: Path, name: str, seed: int) -> None:
    draw = random.Random(seed)
    program, fails = DRAWN[name]
    lines = [f"{draw.choice('ab')},{draw.randint(0, 80)}" for _ in range(12)]
    lines += [f"c,{draw.randint(60, 120)}", "c,101", "c,100"]
    prepared(tmp_path, MANY + program, lines)
    outcome = sifted(tmp_path, "out", "--test", "checks.py:small")
    check_minimal(outcome, fails, lines)
