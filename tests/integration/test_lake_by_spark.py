"""``lineage back --engine spark`` over an application in a lake: as the embedded engine answers row by row, and as the job's own records say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import Result
from pyspark import SparkContext
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lineage.main import app
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.errors import FramesError
from lineage_dataframes.lakes import exchange, processes
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
def counted(tmp_path_factory: pytest.TempPathFactory, spark_context: SparkContext) -> Path:
    """A captured job of two stages, in a lake: words are counted."""
    folder = tmp_path_factory.mktemp("counted")
    with captured(folder, spark_context) as lc:
        counts = words_of(lc, folder).reduceByKey(lambda one, other: one + other, 2)
        counts.map(lambda row: f"{row[0]} {row[1]}").saveAsTextFile(f"{folder}/out")
    return folder


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory, spark_context: SparkContext) -> Path:
    """One of several stages: words are counted, joined with names and sorted."""
    folder = tmp_path_factory.mktemp("joined")
    (folder / "names").write_text("".join(name + "\n" for name in NAMES))
    with captured(folder, spark_context) as lc:
        names = lc.textFile(f"{folder}/names", 1).map(lambda line: tuple(line.split(",")))
        sums = words_of(lc, folder).reduceByKey(lambda one, other: one + other, 2)
        rows = sums.join(names, 2).sortByKey(numPartitions=1)
        rows.map(lambda row: f"{row[0]} {row[1]}").saveAsTextFile(f"{folder}/out")
    return folder


@contextmanager
def captured(folder: Path, context: SparkContext) -> Iterator[LineageContext]:
    """What runs in the body is captured, and moved into a lake."""
    (folder / "lines").write_text("".join(" ".join(line) + "\n" for line in LINES))
    with LineageContext(context, store=f"sqlite:///{folder}/own.db", link=True) as lc:
        yield lc
    with SqliteStore(folder / "own.db") as own, LakeStore(LakeAddress(f"{folder}/lake")) as lake:
        move_application(own, lake, own.application_ids()[0], deletes=False)


def words_of(lc: LineageContext, folder: Path) -> Any:
    """The words, each with one."""
    words = lc.textFile(f"{folder}/lines", 2).flatMap(str.split)
    return words.filter(lambda word: word != "the").map(lambda word: (word, 1))


@pytest.fixture(autouse=True)
def _in_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_context: SparkContext
) -> None:
    # One that commands take, and do not stop.
    SparkSession.builder.getOrCreate()
    monkeypatch.chdir(tmp_path)


def use_lake(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
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
    for file in sorted((home / "out").glob("part-*")):
        for at, text in enumerate(file.read_text().splitlines(), 1):
            word, output = text.split()[0], f"{file.name}:{at}"
            found |= {(f"lines:{n}", output) for n, line in enumerate(LINES, 1) if word in line}
            if "'" in text:
                name = f"{word},{text.split(chr(39))[1]}"
                found.add((f"names:{NAMES.index(name) + 1}", output))
    return sorted(found)


def by_embedded(home: Path) -> list[tuple[str, str]]:
    """What the engine without Spark says of each output line."""
    found = set()
    with LakeStore(LakeAddress(f"{home}/lake")) as store:
        engine = QueryEngine(store, RowReader())
        for output in {output for _, output in expected(home)}:
            query = TraceQuery(Direction.BACKWARD, (f"{home}/out/{output}",))
            for group in engine.ask(query).groups:
                found |= {(Path(item.location or "").name, output) for item in group.items}
    return sorted(found)


def check_all_rows(home: Path) -> None:
    """Trace all rows of an output back."""
    result = by_spark("back", f"{home}/out", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert pairs() == expected(home) == by_embedded(home)
    counts = (len({output for _, output in expected(home)}), len(expected(home)))
    assert (said["items"], said["rows"], said["exact"], said["complete"]) == (*counts, True, True)
    assert json.loads(Path("answer/_verdict.json").read_text()) | {"folder": "answer"} == said
    assert all(row["exact"] for row in pq.read_table("answer").to_pylist())
    assert "answer is there already" in by_spark("back", f"{home}/out").stderr


def test_all_rows_of_an_output_are_traced_each_by_itself(
    counted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_lake(monkeypatch, counted)
    check_all_rows(counted)


@pytest.mark.long
def test_all_rows_are_traced_through_several_stages(
    joined: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_lake(monkeypatch, joined)
    check_all_rows(joined)


@pytest.mark.long
def test_a_list_of_rows_is_traced_forward_each_by_itself_or_together(
    joined: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_lake(monkeypatch, joined)
    Path("rows.csv").write_text(
        f"item\n{joined}/lines:2\n{joined}/lines:4\n{joined}/names:4\n{joined}/lines:2\n"
    )
    assert by_spark("forward", "--items", "rows.csv").exit_code == 0
    asked = {"lines:2", "lines:4", "names:4"}
    assert pairs() == [pair for pair in expected(joined) if pair[0] in asked]
    result = lineage(
        "forward", f"{joined}/lines:2", "--items", "rows.csv", "--together", "--engine", "spark", "--to", "once"
    )  # fmt: skip
    assert "exact; the lineage is complete" in result.stdout
    outputs = {output for source, output in expected(joined) if source in asked}
    assert pairs("once") == sorted(("", output) for output in outputs)


@pytest.mark.long
def test_an_answer_with_too_many_rows_is_refused_and_leaves_nothing(
    counted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_lake(monkeypatch, counted)
    assert "more than 3 rows" in by_spark("back", f"{counted}/out", "--rows", "3").stderr
    assert not Path("answer").exists()


def test_what_is_refused_is_refused_before_spark_starts(
    counted: Path, monkeypatch: pytest.MonkeyPatch, spark_context: SparkContext
) -> None:
    use_lake(monkeypatch, counted)
    out = f"{counted}/out/part-00000:1"
    assert "name its folder by --to" in lineage("back", out, "--engine", "spark").stderr
    refused = by_spark("back", out, "--limit", "2", "--step").stderr
    assert "--limit, --step: not of --engine spark" in refused
    assert "take --engine spark" in lineage("back", out, "--together").stderr
    assert "none of embedded, spark" in lineage("back", out, "--engine", "flink").stderr
    assert "name rows, files or folders" in lineage("forward").stderr
    with LakeStore(LakeAddress(f"{counted}/lake")) as store:
        refs = list(store.graph(store.application_ids()[0]).blocks())
    keys = next(ref.in_space for ref in refs if "@" in ref.in_space)
    assert "has no numbered records" in by_spark("back", f"{keys}#7").stderr
    assert "there is no line 9" in by_spark("back", f"{counted}/out/part-00000:9").stderr
    monkeypatch.setenv("LINEAGE_STORE", f"sqlite:///{counted}/own.db")
    assert "lineage archive" in by_spark("back", out).stderr
    assert "reads a lake by itself" in by_spark("back", out, "--store", "http://localhost:1").stderr
    assert not Path("answer").exists()
    assert SparkContext._active_spark_context is spark_context


def test_processes_of_spark_without_the_package_are_named() -> None:
    lacking = FramesError("x\nModuleNotFoundError: No module named 'lineage_core'")
    assert "have no lineage_core" in str(processes.not_traced("app", lacking))


def test_positions_go_through_columns_of_spark_as_they_are() -> None:
    assert exchange.ranges_of(-(2**63), 2**63 - 1) == (0, 2**64 - 1)
