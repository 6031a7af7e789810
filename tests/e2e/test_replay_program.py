"""``lineage replay --program``: programs of RDDs again, against plain runs on the rows that are left."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.job_runs import answered, lineage, part_files, run_captured, run_plain, write_job

pytestmark = [pytest.mark.e2e, pytest.mark.integration]

LINES = [
    "a,1.5,red blue",
    "b,2.25,blue",
    "a,4.0,green red green",
    "c,8.0,blue red",
    "b,16.5,green",
    "a,32.0,red",
    "d,64.0,black white",
    "c,0.5,red",
]
JOB = """
import os, shutil, sys
from pyspark import SparkContext

source, out = sys.argv[1:3]
if os.path.exists(out):
    shutil.rmtree(out)
sc = SparkContext("local[2]", "totals")
lines = sc.textFile(source, 3).map(lambda line: line.split(","))
names = sc.parallelize([("a", "Anna"), ("b", "Bob"), ("c", "Cy"), ("e", "Eve")], 2)
totals = lines.map(lambda f: (f[0], float(f[1]))).reduceByKey(lambda x, y: x + y, 2)
totals.join(names, 2).map(lambda kv: f"{kv[1][1]} {kv[1][0]}").saveAsTextFile(out + "/totals")
lines.flatMap(lambda f: f[2].split()).map(lambda w: (w, 1)).reduceByKey(lambda x, y: x + y, 2).saveAsTextFile(out + "/words")
lines.flatMap(lambda f: [f"{f[0]}:{w}" for w in f[2].split()]).saveAsTextFile(out + "/each")
best = totals.max(lambda kv: kv[1])[1]
totals.mapValues(lambda t: t / best).map(lambda kv: f"{kv[0]} {kv[1]:.4f}").saveAsTextFile(out + "/shares")
lines.zipWithIndex().map(lambda fi: f"{fi[1]} {fi[0][0]}").saveAsTextFile(out + "/numbered")
print("printed by the program")
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("program")
    write_job(folder, JOB)
    (folder / "in.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    done = run_captured(folder, "job.py", "in.txt", "out")
    assert done.returncode == 0, done.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


def places_of(folder: Path) -> dict[str, str]:
    """The rows of an output with their places."""
    return {
        line: f"{part}:{number}"
        for part in part_files(folder)
        for number, line in enumerate(part.read_text(encoding="utf-8").splitlines(), 1)
    }


def rows_of(folder: Path) -> list[str]:
    return sorted(places_of(folder))


def replayed(folder: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = lineage(
        folder, "replay", "--json", "--program", "job.py in.txt out", *map(str, arguments)
    )
    assert done.returncode == code, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture(scope="module")
def plain(ran: Path) -> Path:
    """The outputs of the program, without capture, over the input less two lines."""
    rest = [line for number, line in enumerate(LINES, 1) if number not in {3, 7}]
    (ran / "less.txt").write_text("\n".join(rest) + "\n", encoding="utf-8")
    done = run_plain(ran, "job.py", "less.txt", "plain")
    assert done.returncode == 0, done.stderr
    return ran / "plain"


LESS = ("--exclude", "in.txt:3", "--exclude", "in.txt:7")


def test_rows_come_out_as_they_were_and_the_output_is_not_touched(ran: Path) -> None:
    before = {part: part.read_bytes() for part in sorted((ran / "out").rglob("part-*"))}
    totals = places_of(ran / "out/totals")
    answer = replayed(ran, totals["Anna 37.5"], totals["Cy 8.5"], "--to", "again")
    assert [(row["state"], row["before"], row["after"]) for row in answer["rows"]] == [
        ("same", "Anna 37.5", "Anna 37.5"),
        ("same", "Cy 8.5", "Cy 8.5"),
    ]
    # Five lines of the file, and the two names.
    assert (answer["witnesses"], answer["read"], answer["reproduced"]) == (7, "witnesses", True)
    assert rows_of(ran / "again/totals") == ["Anna 37.5", "Cy 8.5"]
    assert {Path(output).name for output in answer["outputs"]} == {
        "totals", "words", "each", "shares", "numbered",
    }  # fmt: skip
    assert {part: part.read_bytes() for part in sorted((ran / "out").rglob("part-*"))} == before


@pytest.mark.long
def test_without_rows_it_is_what_plain_spark_gives_without_them(ran: Path, plain: Path) -> None:
    words = places_of(ran / "out/words")
    requested = [words[text] for text in ("('red', 5)", "('green', 3)", "('black', 1)")]
    answer = replayed(ran, *requested, *LESS)
    assert answer["read"] == "witnesses"
    after = [(row["state"], row["after"]) for row in answer["rows"]]
    # All that the last one is made from is left out.
    assert after == [("changed", "('red', 4)"), ("changed", "('green', 1)"), ("gone", None)]
    assert {"('red', 4)", "('green', 1)"} <= set(rows_of(plain / "words"))


@pytest.mark.long
def test_rows_that_are_made_from_the_same_row_are_told_apart(ran: Path) -> None:
    part = part_files(ran / "out/each")
    lines = [(p, n, text) for p in part for n, text in enumerate(p.read_text().splitlines(), 1)]
    (first, second, third) = [f"{p}:{n}" for p, n, text in lines if text.startswith("a:")][2:5]
    assert [(row["before"], row["state"]) for row in replayed(ran, first, second, third)["rows"]] == [
        ("a:green", "same"),
        ("a:red", "same"),
        ("a:green", "same"),
    ]  # fmt: skip


@pytest.mark.long
def test_what_depends_on_other_rows_is_run_on_all_of_them(ran: Path, plain: Path) -> None:
    place = places_of(ran / "out/shares")["a 0.5859"]
    answer = replayed(ran, place, *LESS)
    assert answer["read"] == "all other rows"
    assert any("max" in reason for reason in answer["reasons"])
    # The largest total is another one without these lines.
    assert answer["rows"][0]["after"] == "a 1.0000"
    assert "a 1.0000" in rows_of(plain / "shares")
    # On the witnesses alone it is another one, too, which the exit code says.
    answer = replayed(ran, place, code=1)
    assert (answer["rows"][0]["after"], answer["reproduced"]) == ("a 1.0000", False)


@pytest.mark.long
def test_what_people_see(ran: Path) -> None:
    place = places_of(ran / "out/totals")["Bob 18.75"]
    done = lineage(ran, "replay", place, "--program", "job.py in.txt out", "--exclude", "in.txt:5")
    assert done.stdout == (
        "run again on the 3 rows that the output is made from, without 1\n"
        f"before  {place}: Bob 18.75\n"
        "after   Bob 2.25\n"
    )
    assert "printed by the program" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "place", "reason"),
    [
        pytest.param(
            "job.py other.txt out",
            "",
            "the program reads textFile of other.txt",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "table.py in.txt out",
            "",
            "DataFrameWriter.saveAsTable writes where a replay can't",
            marks=pytest.mark.long,
        ),
        ("threads.py in.txt out", "", "in several threads"),
        ("fails.py in.txt out", "", "ended with exit code 1"),
        ("job.py in.txt out", "in.txt:1", "is no row that the program saved"),
    ],
)
def test_what_cant_be_run_again_is_refused(
    ran: Path, program: str, place: str, reason: str
) -> None:
    shutil.copy(ran / "in.txt", ran / "other.txt")
    begin = "import sys\nfrom pyspark import SparkContext\nsc = SparkContext('local[1]')\n"
    table = (
        "from pyspark.sql import SparkSession\nSparkSession(sc).range(3).write.saveAsTable('t')\n"
    )
    write_job(ran, begin + table, "table.py")
    threads = (
        "import threading\nt = threading.Thread(target=sc.range, args=(3,))\nt.start(); t.join()\n"
    )
    write_job(ran, begin + threads, "threads.py")
    write_job(ran, "raise SystemExit(1)\n", "fails.py")
    requested = place or places_of(ran / "out/totals")["Bob 18.75"]
    done = lineage(ran, "replay", requested, "--program", program)
    assert done.returncode not in {0, 1}
    assert reason in done.stderr


def test_rows_of_what_changed_are_refused(ran: Path) -> None:
    place = places_of(ran / "out/totals")["Bob 18.75"]
    arguments = ("replay", place, "--program", "job.py in.txt out")
    content = (ran / "in.txt").read_bytes()
    (ran / "in.txt").write_bytes(content.replace(b"2.25", b"3.25"))
    try:
        result = answered(ran, *arguments)
    finally:
        (ran / "in.txt").write_bytes(content)
    assert result.exit_code not in {0, 1}
    assert "has changed since the job read it" in result.stderr
    result = answered(ran, "replay", place)
    assert "replay it by its program: --program" in result.stderr


@pytest.mark.long
def test_sources_that_change_while_the_program_runs_are_noticed(ran: Path) -> None:
    change = 'os.system(f"printf x | dd of={source} conv=notrunc status=none")\n'
    write_job(ran, JOB + change, "changes.py")
    place = places_of(ran / "out/totals")["Bob 18.75"]
    content = (ran / "in.txt").read_bytes()
    try:
        done = lineage(ran, "replay", place, "--program", "changes.py in.txt out")
    finally:
        (ran / "in.txt").write_bytes(content)
    assert done.returncode not in {0, 1}
    assert "has changed since the job read it" in done.stderr


def stepped(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    done = lineage(folder, "step", *arguments, "--program", "job.py in.txt out", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["exact"], answer["reasons"]) == (True, [])
    steps: list[dict[str, Any]] = answer["steps"]
    return steps


@pytest.mark.long
def test_the_steps_of_a_row_have_the_values_of_each_operator(ran: Path) -> None:
    place = places_of(ran / "out/totals")["Anna 37.5"]
    steps = stepped(ran, place)
    assert [step["step"] for step in steps] == list(range(1, len(steps) + 1))
    by_number = {step["step"]: step for step in steps}
    texts = {n: sorted(item["text"] for item in step["items"]) for n, step in by_number.items()}

    # By plain Python, what each operator makes of the values that the steps before it gave.
    lines = [line for line in LINES if line.startswith("a,")]
    fields = [line.split(",") for line in lines]
    pairs = [(field[0], float(field[1])) for field in fields]
    total = ("a", sum(amount for _, amount in pairs))
    joined = ("a", (total[1], "Anna"))
    values: list[list[Any]] = [fields, pairs, [total], [("a", "Anna")], [joined]]
    found = list(texts.values())
    assert sorted(lines) in found
    for expected in values:
        assert sorted(map(repr, expected)) in found
    # Each operator is one step.
    names = [step["name"] for step in steps]
    assert sorted(names) == sorted(
        ["textFile", "map", "map", "parallelize", "reduceByKey", "join", "map", "saveAsTextFile"]
    )
    # The last one is the row, byte for byte, and each other step is an input of a later one.
    assert steps[-1]["items"] == [{"location": place, "text": "Anna 37.5"}]
    used = {number for step in steps for number in step["inputs"]}
    assert used == set(range(1, len(steps)))
    assert all(number < step["step"] for step in steps for number in step["inputs"])


@pytest.mark.long
def test_a_step_by_its_number_or_operator_and_what_people_see(ran: Path) -> None:
    place = places_of(ran / "out/totals")["Bob 18.75"]
    program = ("--program", "job.py in.txt out")
    done = lineage(ran, "step", place, *program, "--at", "1")
    assert done.stdout.splitlines()[0].startswith("1. textFile")
    assert "b,16.5,green" in done.stdout
    done = lineage(ran, "step", place, *program, "--at", "nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no step is nothing" in done.stderr
    # Of the largest total its functions know more than its witnesses.
    share = places_of(ran / "out/shares")["a 0.5859"]
    done = lineage(ran, "step", share, *program)
    assert (done.returncode, done.stdout) == (2, "")
    assert "does not come out as it was" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("when", "step", "texts"),
    [
        # Lines are tested as they are, lists and pairs as the program has them.
        ("record == 'a,4.0,green red green'", "textFile", ["a,4.0,green red green"]),
        ("record[1] == '4.0'", "map", ["['a', '4.0', 'green red green']"]),
        ("record[1] > 30 and record[1] < 33", "map", ["('a', 32.0)"]),
        ("record[1] > 33", "reduceByKey", ["('a', 37.5)"]),
        ("record[1][1] == 'Anna'", "join", ["('a', (37.5, 'Anna'))"]),
        ("record == 'Anna 37.5'", "map", ["'Anna 37.5'"]),
    ],
)
def test_steps_stop_at_the_first_record_of_a_condition(
    ran: Path, when: str, step: str, texts: list[str]
) -> None:
    place = places_of(ran / "out/totals")["Anna 37.5"]
    program = ("--program", "job.py in.txt out")
    done = lineage(ran, "step", place, *program, "--when", when, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    last = answer["steps"][-1]
    assert (last["step"], last["name"]) == (answer["stopped"]["step"], step)
    assert [item["text"] for item in last["items"]] == texts
    assert answer["stopped"]["fulfilling"] == len(texts)
    assert not any("not tested" in note for note in answer["not_tested"])


@pytest.mark.long
def test_steps_stop_at_a_line_of_the_program(ran: Path) -> None:
    place = places_of(ran / "out/totals")["Anna 37.5"]
    whole = stepped(ran, place)
    (site,) = {step["call_site"] for step in whole if step["name"] == "join"}
    steps = stepped(ran, place, "--until", site)
    assert steps == whole[: len(steps)]
    assert steps[-1]["call_site"] == site


# -- influence -------------------------------------------------------------------------------------


def influence(folder: Path, place: str, *arguments: str) -> dict[str, Any]:
    done = lineage(
        *(folder, "suspects", "--bad", place, "--influence", "--json"),
        *("--program", "job.py in.txt out", *arguments),
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def numbers_of(name: str) -> dict[int, float]:
    """The lines of a key, with their numbers."""
    cells = [line.split(",") for line in LINES]
    return {n: float(row[1]) for n, row in enumerate(cells, 1) if row[0] == name}


@pytest.mark.long
def test_the_influence_of_each_row_is_what_the_program_gives_without_it(ran: Path) -> None:
    answer = influence(ran, places_of(ran / "out/totals")["Anna 37.5"])
    numbers = numbers_of("a")
    after = {
        f"in.txt:{n}": f"Anna {sum(numbers.values()) - number}" for n, number in numbers.items()
    }
    assert (answer["before"], answer["read"], answer["how"]) == (
        "Anna 37.5",
        "witnesses",
        "re-execution",
    )
    assert (answer["witnesses"], answer["computed"], answer["stopped"]) == (4, 4, None)
    gone, *others = answer["rows"]
    assert (gone["state"], gone["after"], gone["rank"]) == ("gone", None, 1)
    # The list that the program wrote: its rows have no place in a file.
    assert gone["location"] not in after
    assert {row["location"]: row["after"] for row in others} == after
    # Those first that change it most.
    assert [row["location"] for row in others] == ["in.txt:6", "in.txt:3", "in.txt:1"]
    assert [row["rank"] for row in others] == [2, 3, 4]
    assert [row["text"] for row in others] == [LINES[5], LINES[2], LINES[0]]


@pytest.mark.long
def test_the_influence_on_a_row_that_depends_on_others_is_computed_of_all_rows(ran: Path) -> None:
    answer = influence(ran, places_of(ran / "out/shares")["a 0.5859"])
    numbers = numbers_of("a")
    assert answer["read"] == "all other rows"
    assert any("results of max" in reason for reason in answer["uncertain"])
    # The greatest total is that of another key.
    assert {row["location"]: row["after"] for row in answer["rows"]} == {
        f"in.txt:{n}": f"a {(sum(numbers.values()) - number) / 64:.4f}"
        for n, number in numbers.items()
    }


@pytest.mark.long
def test_influences_that_are_refused(ran: Path) -> None:
    place = places_of(ran / "out/totals")["Anna 37.5"]
    other = places_of(ran / "out/totals")["Cy 8.5"]
    program = ("--program", "job.py in.txt out")
    for arguments, why in (
        (("--bad", place, "--bad", other, "--influence", *program), "takes one row"),
        (("--bad", place, *program), "is run for --influence"),
        (("--bad", place, "--influence", "--program", "job.py other.txt out"), "does not come out"),
        (("--bad", place, "--influence"), "--program"),
        (("--bad", place, "--influence", *program, "--timeout", "0.01"), "first run ended"),
    ):
        refused = lineage(ran, "suspects", *arguments)
        assert (refused.returncode, why in refused.stderr) == (2, True), (why, refused.stderr)
        assert "Traceback" not in refused.stderr
