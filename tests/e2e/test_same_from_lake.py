"""What programs leave is traced from a lake as from SQLite, whatever they do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark import SparkContext

from lineage_store.url import open_store
from tests.e2e.test_workloads import SMALL, captured
from tests.support.flights_demo import Demo
from tests.support.job_runs import CLI, STORE, run_captured, run_program
from tests.support.same_answers import check_same, lake_of, places_of

pytestmark = pytest.mark.e2e
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def same_answers(work: Path, lake: Path, outputs: list[Path], sources: list[Path]) -> None:
    """Compare all that the store in a folder says with what a lake of its applications does."""
    url = f"sqlite:///{work / STORE}"
    with open_store(url) as store, lake_of(store, lake) as other:
        assert check_same(store, other, url, places_of(outputs, sources)) > 0


@pytest.mark.parametrize(
    "name",
    ["join", *(pytest.param(name, marks=pytest.mark.long) for name in SMALL if name != "join")],
)
def test_workloads(
    name: str, spark_context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = captured(name, spark_context, tmp_path, monkeypatch)
    sources = [file for file in sorted(tmp_path.glob("inputs/**/*")) if file.is_file()]
    same_answers(tmp_path, tmp_path / "lake", [run.out], sources)


@pytest.mark.long
def test_the_flights(demo: Demo, tmp_path: Path) -> None:
    data = demo.work / "data"
    sources = [data / f"{table}.csv" for table in ("flights", "weather", "airlines", "airports")]
    same_answers(demo.work, tmp_path / "lake", [demo.work / "out"], sources)


@pytest.mark.long
def test_tweets_and_films_through_several_jobs(tmp_path: Path) -> None:
    def made(script: str, *words: str) -> None:
        done = run_program(tmp_path, [sys.executable, str(EXAMPLES / script), *words])
        assert done.returncode == 0, done.stderr

    def captured_run(script: str, *words: str) -> None:
        done = run_captured(tmp_path, str(EXAMPLES / script), *words)
        assert done.returncode == 0, done.stderr

    made("tweets/prepare.py", "tweets.json")
    captured_run("tweets/job.py", "tweets.json", "out")
    made("movies/prepare.py", ".", "20")
    captured_run("movies/spark_job.py", "averages", "averages", "ratings.txt")
    captured_run("movies/spark_job.py", "favourites", "favourites", "averages", "users.txt")
    captured_run("movies/spark_job.py", "demographics", "demographics", "favourites")
    outputs = [tmp_path / name for name in ("out", "averages", "favourites", "demographics")]
    sources = [tmp_path / name for name in ("tweets.json", "ratings.txt", "users.txt")]
    same_answers(tmp_path, tmp_path / "lake", outputs, sources)


@pytest.mark.long
def test_rows_of_dataframes(demo: Demo, tmp_path: Path) -> None:
    """Recipes are the same, and so are the rows that a trace by them computes."""
    script = str(EXAMPLES / "flights" / "dataframe_job.py")
    (tmp_path / "data").symlink_to(demo.work / "data")
    done = run_captured(tmp_path, script, "data", "frames")
    assert done.returncode == 0, done.stderr
    place = "frames#airline=American Airlines Inc.,airport=George Bush Intercontinental"
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        lake_of(store, tmp_path / "lake").close()
    answers = []
    for url in (f"sqlite:///{tmp_path / STORE}", f"lake:{tmp_path}/lake"):
        command = [*CLI, "--store", url, "back", place, "--json"]
        asked = run_program(tmp_path, command)
        assert asked.returncode == 0, asked.stderr
        answers.append(asked.stdout)
    assert answers[0] == answers[1]
    assert '"exact": true' in answers[0]
