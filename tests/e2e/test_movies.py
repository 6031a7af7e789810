"""The preferences of movie-goers in three jobs (Logothetis et al., Newt, SoCC 2013), over MapReduce and Spark in turn, or Spark alone.

A trace of a number crosses from the jobs of the one engine into those of the other, to the lines that brute force names.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from runpy import run_path

import pytest
from pyspark import SparkContext

from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageContext
from lineage_query.trace_query import TraceQuery
from tests.hadoop.streaming import streaming_command
from tests.support.job_runs import CLI, STORE, part_files, run_captured, run_program, stored

pytestmark = pytest.mark.e2e
MOVIES = Path(__file__).resolve().parents[2] / "examples" / "movies"
STEPS = {
    "averages": ("ratings.txt",),
    "favourites": ("averages", "users.txt"),
    "demographics": ("favourites",),
}
CHAINS = {
    "reduced": ("mapreduce", "spark", "mapreduce"),
    "sparked": ("spark", "mapreduce", "spark"),
}


def run_step(folder: Path, engine: str, step: str) -> None:
    inputs, output = [str(folder / name) for name in STEPS[step]], str(folder / step)
    if engine == "spark":
        done = run_captured(folder, str(MOVIES / "spark_job.py"), step, output, *inputs)
    else:
        mapper, reducer = (
            f"{sys.executable} {MOVIES / step}_{program}.py" for program in ("mapper", "reducer")
        )
        job = streaming_command(
            folder,
            *("-D", "mapreduce.job.maps=3", "-D", "mapreduce.job.reduces=2"),
            *(word for path in inputs for word in ("-input", path)),
            *("-output", output, "-mapper", mapper, "-reducer", reducer),
        )
        done = run_program(folder, [*CLI, "mapreduce", "--each-line", "--named-keys", *job])
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module", params=CHAINS)
def chain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a chain of jobs, each over another engine than the one before."""
    folder = tmp_path_factory.mktemp("movies")
    prepare = run_program(folder, [sys.executable, str(MOVIES / "prepare.py"), ".", "20"])
    assert prepare.returncode == 0, prepare.stderr
    for step, engine in zip(STEPS, CHAINS[request.param], strict=True):
        run_step(folder, engine, step)
    return folder


def lines_of(file: Path) -> Iterator[tuple[str, list[str]]]:
    for number, line in enumerate(file.read_text().splitlines(), 1):
        yield f"{file.name}:{number}", line.split(",")


@dataclass
class Expected:
    """What the jobs write, and by genre and people the lines of ratings and users that their number was made from."""

    averages: list[str]
    favourites: list[str]
    demographics: list[str]
    made_from: dict[str, set[str]]


def brute_force(data: Path) -> Expected:
    """The answers by the ratings and users alone: averages by user and genre, three genres of each user, people by genre."""
    ratings = defaultdict[tuple[str, str], list[int]](list)
    ratings_of = defaultdict[str, set[str]](set)
    for place, (user, _, genres, rating) in lines_of(data / "ratings.txt"):
        ratings_of[user].add(place)
        for genre in genres.split("|"):
            ratings[user, genre].append(int(rating))
    averages = {key: f"{sum(each) / len(each):.2f}" for key, each in ratings.items()}
    people, made_from = Counter[str](), defaultdict[str, set[str]](set)
    favourites = list[str]()
    for place, (user, gender, age) in lines_of(data / "users.txt"):
        of_user = [(-float(text), genre) for (of, genre), text in averages.items() if of == user]
        for _, genre in sorted(of_user)[:3]:
            key = f"{genre},{gender} {age}"
            favourites.append(f"{user}\t{key}")
            people[key] += 1
            made_from[key] |= ratings_of[user] | {place}
    return Expected(
        [f"{user},{genre}\t{text}" for (user, genre), text in averages.items()],
        favourites,
        [f"{key}\t{number}" for key, number in people.items()],
        made_from,
    )


def rows(out: Path) -> dict[str, str]:
    """Place and text of each line."""
    return {
        f"{part}:{number}": text
        for part in part_files(out)
        for number, text in enumerate(part.read_text().splitlines(), 1)
    }


@pytest.mark.long
def test_both_engines_write_what_brute_force_says(chain: Path) -> None:
    check_outputs(chain)


@pytest.mark.long
def test_numbers_are_traced_through_the_jobs_of_both_engines(chain: Path) -> None:
    check_numbers(chain)


@pytest.mark.long
def test_a_user_is_traced_forward_to_the_numbers_that_count_them(chain: Path) -> None:
    check_user(chain, 3)


def test_few_users_over_spark_alone(spark_context: SparkContext, tmp_path: Path) -> None:
    prepare, spark_job = (run_path(str(MOVIES / f"{name}.py")) for name in ("prepare", "spark_job"))
    prepare["write_data"](tmp_path, 4)
    for step, names in STEPS.items():
        with LineageContext(spark_context, store=f"sqlite:///{tmp_path / STORE}", link=True) as lc:
            lines = lc.textFile(",".join(str(tmp_path / name) for name in names), 2)
            spark_job["STEPS"][step](lines).saveAsTextFile(str(tmp_path / step))
    check_outputs(tmp_path)
    check_numbers(tmp_path)
    check_user(tmp_path, 3)


def check_outputs(chain: Path) -> None:
    expected = brute_force(chain)
    for step in STEPS:
        assert sorted(rows(chain / step).values()) == sorted(getattr(expected, step)), step


def check_numbers(chain: Path) -> None:
    expected = brute_force(chain)
    with stored(chain) as access:
        for place, text in rows(chain / "demographics").items():
            answer = access.ask(TraceQuery(Direction.BACKWARD, (place,), all_jobs=True))
            assert (answer.exact, answer.complete, answer.reasons) == (True, True, ())
            found = {Path(i.location or "").name for group in answer.groups for i in group.items}
            assert found == expected.made_from[text.split("\t")[0]]


def check_user(chain: Path, line: int) -> None:
    out = rows(chain / "demographics")
    with stored(chain) as access:
        place = f"{chain / 'users.txt'}:{line}"
        answer = access.ask(TraceQuery(Direction.FORWARD, (place,), all_jobs=True))
    locations = {item.location or "" for group in answer.groups for item in group.items}
    made_from = brute_force(chain).made_from
    keys = {key for key, places in made_from.items() if f"users.txt:{line}" in places}
    assert keys
    assert {out[location].split("\t")[0] for location in locations & out.keys()} == keys
