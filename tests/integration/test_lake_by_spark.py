"""``lineage back --engine spark`` over an application in a lake: as the embedded engine answers row by row, and as the job's own records say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import Result
from pyspark import SparkContext
from typer.testing import CliRunner

from lineage.main import app
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.errors import FramesError
from lineage_dataframes.lakes import exchange, tracing
from lineage_emitter import LineageContext
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.store import LakeStore
from lineage_store.moving import move_application
from lineage_store.sqlite.store import SqliteStore

pytestmark = pytest.mark.integration

LINES = [["a", "b"], ["b", "the", "c"], ["the"], ["c", "a", "a"], ["d"]]
NAMES = ["a,1", "b,2", "c,3", "a,4"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, spark_context: SparkContext) -> Path:
    """A captured job of several stages, in a lake: words are counted, joined with names and sorted."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "lines").write_text("".join(" ".join(line) + "\n" for line in LINES))
    (folder / "names").write_text("".join(name + "\n" for name in NAMES))
    with LineageContext(spark_context, store=f"sqlite:///{folder}/own.db", link=True) as lc:
        words = lc.textFile(f"{folder}/lines", 2).flatMap(str.split)
        counts = words.filter(lambda word: word != "the").map(lambda word: (word, 1))
        names = lc.textFile(f"{folder}/names", 1).map(lambda line: tuple(line.split(",")))
        sums = counts.reduceByKey(lambda one, other: one + other, 2)
        rows = sums.join(names, 2).sortByKey(numPartitions=1)
        rows.map(lambda row: f"{row[0]} {row[1]}").saveAsTextFile(f"{folder}/out")
    with SqliteStore(folder / "own.db") as own, LakeStore(LakeAddress(f"{folder}/lake")) as lake:
        move_application(own, lake, own.application_ids()[0], deletes=False)
    return folder


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LINEAGE_STORE", f"lake:{home}/lake")


def lineage(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def by_spark(*words: str) -> Result:
    return lineage(*words, "--engine", "spark", "--to", "answer")


def pairs(folder: str = "answer") -> list[tuple[str, str]]:
    """Input and output of each row of the table, by the names of files and lines."""
    return sorted(
        (_place(row, "input"), _place(row, "output")) for row in pq.read_table(folder).to_pylist()
    )


def _place(row: dict[str, Any], side: str) -> str:
    if row[f"{side}_file"] is None:
        return ""
    return f"{Path(row[f'{side}_file']).name}:{row[f'{side}_row'] + 1}"


def expected(home: Path) -> list[tuple[str, str]]:
    """What the program says: an output line has a word, made of all lines with the word, and of the name that it shows."""
    found = set()
    for at, text in enumerate((home / "out/part-00000").read_text().splitlines(), 1):
        word, number = text.split(" (")[0], text.split("'")[1]
        found |= {
            (f"lines:{n}", f"part-00000:{at}") for n, line in enumerate(LINES, 1) if word in line
        }
        found.add((f"names:{NAMES.index(f'{word},{number}') + 1}", f"part-00000:{at}"))
    return sorted(found)


def test_all_rows_of_an_output_are_traced_each_by_itself(home: Path) -> None:
    result = by_spark("back", f"{home}/out", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert pairs() == expected(home)
    counts = (4, len(expected(home)))
    assert (said["items"], said["rows"], said["exact"], said["complete"]) == (*counts, True, True)
    assert json.loads(Path("answer/_verdict.json").read_text()) | {"folder": "answer"} == said
    assert all(row["exact"] for row in pq.read_table("answer").to_pylist())
    embedded = set()
    with LakeStore(LakeAddress(f"{home}/lake")) as store:
        engine = QueryEngine(store, RowReader())
        for row in range(1, 5):
            query = TraceQuery(Direction.BACKWARD, (f"{home}/out/part-00000:{row}",))
            for group in engine.ask(query).groups:
                places = (Path(item.location or "").name for item in group.items)
                embedded |= {(place, f"part-00000:{row}") for place in places}
    assert pairs() == sorted(embedded)
    assert "answer is there already" in by_spark("back", f"{home}/out").stderr


@pytest.mark.long
def test_a_list_of_rows_is_traced_forward_each_by_itself_or_together(home: Path) -> None:
    Path("rows.csv").write_text(
        f"item\n{home}/lines:2\n{home}/lines:4\n{home}/names:4\n{home}/lines:2\n"
    )
    assert by_spark("forward", "--items", "rows.csv").exit_code == 0
    asked = {"lines:2", "lines:4", "names:4"}
    assert pairs() == [pair for pair in expected(home) if pair[0] in asked]
    result = lineage(
        "forward", f"{home}/lines:2", "--items", "rows.csv", "--together", "--engine", "spark", "--to", "once"
    )  # fmt: skip
    assert "exact; the lineage is complete" in result.stdout
    outputs = {output for source, output in expected(home) if source in asked}
    assert pairs("once") == sorted(("", output) for output in outputs)


@pytest.mark.long
def test_an_answer_with_too_many_rows_is_refused_and_leaves_nothing(home: Path) -> None:
    assert "more than 5 rows" in by_spark("back", f"{home}/out", "--rows", "5").stderr
    assert not Path("answer").exists()


def test_what_is_refused_is_refused_before_spark_starts(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = f"{home}/out/part-00000:1"
    assert "name its folder by --to" in lineage("back", out, "--engine", "spark").stderr
    assert (
        "--limit, --all-jobs: not of" in by_spark("back", out, "--limit", "2", "--all-jobs").stderr
    )
    assert "take --engine spark" in lineage("back", out, "--together").stderr
    assert "none of embedded, spark" in lineage("back", out, "--engine", "flink").stderr
    assert "name rows, files or folders" in lineage("forward").stderr
    assert "numbered records" in by_spark("back", "4@0#7").stderr
    assert "has 4 rows" in by_spark("back", f"{home}/out/part-00000:5").stderr
    monkeypatch.setenv("LINEAGE_STORE", f"sqlite:///{home}/own.db")
    assert "lineage archive" in by_spark("back", out).stderr
    assert "reads a lake by itself" in by_spark("back", out, "--store", "http://localhost:1").stderr
    assert not Path("answer").exists()


def test_processes_of_spark_without_the_package_are_named() -> None:
    problem = tracing.not_traced(
        "app", FramesError("x\nModuleNotFoundError: No module named 'lineage_core'")
    )
    assert "have no lineage_core" in str(problem)


def test_positions_go_through_columns_of_spark_as_they_are() -> None:
    assert exchange.ranges_of(-(2**63), 2**63 - 1) == (0, 2**64 - 1)
