"""The preferences of movie-goers in three jobs (Logothetis et al., Newt, SoCC 2013), over MapReduce and Spark in turn.

A trace of a number crosses from the jobs of the one engine into those of the other, to the lines that brute force names.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from lineage_core.tracing.trace_result import Direction
from lineage_query.trace_query import TraceQuery
from tests.hadoop.streaming import streaming_command
from tests.support.job_runs import CLI, part_files, run_captured, run_program, stored

pytestmark = [pytest.mark.e2e, pytest.mark.long]
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


@pytest.fixture(scope="module", params=["reduced", pytest.param("sparked", marks=pytest.mark.long)])
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


def brute_force(data: Path) -> dict[str, tuple[int, set[str]]]:
    """By genre and people their number, and the lines of ratings and users that it was made from."""
    ratings = defaultdict[str, defaultdict[str, list[int]]](lambda: defaultdict(list))
    made_from = defaultdict[str, set[str]](set)
    for place, (user, _, genres, rating) in lines_of(data / "ratings.txt"):
        made_from[user].add(place)
        for genre in genres.split("|"):
            ratings[user][genre].append(int(rating))
    found = dict[str, tuple[int, set[str]]]()
    for place, (user, gender, age) in lines_of(data / "users.txt"):
        averages = {genre: f"{sum(each) / len(each):.2f}" for genre, each in ratings[user].items()}
        top = sorted(averages, key=lambda genre: (-float(averages[genre]), genre))[:3]
        for genre in top:
            people, places = found.get(f"{genre},{gender} {age}", (0, set()))
            found[f"{genre},{gender} {age}"] = people + 1, places | made_from[user] | {place}
    return found


def rows(out: Path) -> dict[str, str]:
    """Place and text of each line."""
    return {
        f"{part}:{number}": text
        for part in part_files(out)
        for number, text in enumerate(part.read_text().splitlines(), 1)
    }


def test_both_engines_count_what_brute_force_counts(chain: Path) -> None:
    expected = sorted(f"{key}\t{people}" for key, (people, _) in brute_force(chain).items())
    assert sorted(rows(chain / "demographics").values()) == expected


def test_numbers_are_traced_through_the_jobs_of_both_engines(chain: Path) -> None:
    expected = brute_force(chain)
    with stored(chain) as access:
        for place, text in rows(chain / "demographics").items():
            answer = access.ask(TraceQuery(Direction.BACKWARD, (place,), all_jobs=True))
            assert (answer.exact, answer.complete, answer.reasons) == (True, True, ())
            found = {Path(i.location or "").name for group in answer.groups for i in group.items}
            assert found == expected[text.split("\t")[0]][1]


def test_a_user_is_traced_forward_to_the_numbers_that_count_them(chain: Path) -> None:
    out = rows(chain / "demographics")
    with stored(chain) as access:
        place = f"{chain / 'users.txt'}:3"
        answer = access.ask(TraceQuery(Direction.FORWARD, (place,), all_jobs=True))
    locations = {item.location or "" for group in answer.groups for item in group.items}
    keys = {key for key, (_, places) in brute_force(chain).items() if "users.txt:3" in places}
    assert {out[location].split("\t")[0] for location in locations & out.keys()} == keys
