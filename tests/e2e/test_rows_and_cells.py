"""From lines of a file through Spark, an array, a model and Spark again to a report: every answer against changes of single lines."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage.access import StoredAccess
from lineage_arrays import ArrayLineageError, Recording, UntracedError
from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageContext
from lineage_query.answers import Answer
from lineage_query.trace_query import TraceQuery
from lineage_store.url import open_store
from tests.support.array_programs import (
    FEATURES,
    MODELS,
    OF_FRAMES,
    OF_RDDS,
    REPORTS,
    Line,
    Pipeline,
)
from tests.support.job_runs import STORE, answered, part_files

pytestmark = pytest.mark.e2e


def drawn_lines(seed: int, count: int = 12, keys: int = 5) -> list[Line]:
    draw = random.Random(seed)
    # Each key is there.
    return [
        (
            at % keys if at < keys else draw.randrange(keys),
            round(draw.uniform(1, 9), 3),
            draw.random(),
        )
        for at in range(count)
    ]


@dataclass
class Ran:
    """A program that has run in a folder, and its store."""

    pipeline: Pipeline
    folder: Path
    access: StoredAccess

    def report_rows(self) -> Iterator[tuple[str, int]]:
        """Places of the rows of the report, and which row of the oracle each is."""
        expected, _ = self.pipeline.depends()
        for part in part_files(self.folder / "report"):
            for number, text in enumerate(part.read_text().splitlines(), 1):
                cells = [float(cell) for cell in text.split(",")]
                yield f"{part}:{number}", int(np.argmin(np.abs(expected - cells).max(axis=1)))

    def ask(self, place: str, direction: Direction) -> Answer:
        return self.access.ask(TraceQuery(direction, (place,), all_jobs=True))

    def lines_in(self, answer: Answer) -> set[int]:
        places = [
            item.location or ""
            for group in answer.groups
            for item in group.items
            if group.path == str(self.folder / "in.csv")
        ]
        return {int(place.rpartition(":")[2]) for place in places}

    def check_back(self, place: str, row: int) -> None:
        answer = self.ask(place, Direction.BACKWARD)
        _, made_of = self.pipeline.depends()
        assert (answer.exact, answer.complete) == (True, True), (answer.reasons, answer.warnings)
        assert self.lines_in(answer) == made_of[row]

    def check_forward(self, line: int) -> None:
        answer = self.ask(f"{self.folder / 'in.csv'}:{line}", Direction.FORWARD)
        _, made_of = self.pipeline.depends()
        assert (answer.exact, answer.complete) == (True, True), (answer.reasons, answer.warnings)
        rows = dict(self.report_rows())
        reached = {
            item.location
            for group in answer.groups
            for item in group.items
            if "report" in (item.location or "")
        }
        assert reached == {place for place, row in rows.items() if line in made_of[row]}


def ran(spark: SparkSession, folder: Path, pipeline: Pipeline) -> Ran:
    url = f"sqlite:///{folder / STORE}"
    with LineageContext(spark.sparkContext, store=url, link=True) as lc:
        pipeline.run(spark, lc, folder, url)
    return Ran(pipeline, folder, StoredAccess(open_store(url), url))


@pytest.fixture(scope="module")
def model(spark: SparkSession, folder: Path) -> Iterator[Ran]:
    program = Pipeline(drawn_lines(3), "grouped", "fitted", "rows", "toPandas", in_memory=True)
    done = ran(spark, folder, program)
    with done.access:
        yield done


def test_a_report_goes_back_to_the_lines_that_change_it(model: Ran) -> None:
    place, row = next(model.report_rows())
    model.check_back(place, row)


@pytest.mark.long
def test_a_line_goes_forward_to_the_rows_of_the_report_that_it_changes(model: Ran) -> None:
    _, made_of = model.pipeline.depends()
    # One of a group that the model was not fitted to: it changes one row alone.
    line = next(at for at in range(1, 13) if sum(at in lines for lines in made_of) == 1)
    model.check_forward(line)


def test_cells_go_on_to_rows_on_the_command_line(model: Ran, spark: SparkSession) -> None:
    scores = model.pipeline.scores
    found = answered(model.folder, "arrays", "back", f"{scores}[4,1]", "--all-jobs", "--json")
    answer = json.loads(found.stdout)
    lines = {
        int(item["location"].rpartition(":")[2])
        for group in answer["rows"]
        for item in group["items"]
        if group["path"] == str(model.folder / "in.csv")
    }
    expected, made_of = model.pipeline.depends()
    assert (answer["exact"], answer["complete"]) == (True, True)
    assert lines == made_of[4]
    assert len(expected) == 5


@pytest.mark.long
@pytest.mark.parametrize("seed", range(16))
def test_any_program_answers_as_changes_of_lines_do(
    seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    draw = random.Random(seed)
    keys = draw.randint(5, 6)
    features = sorted(FEATURES)[seed % len(FEATURES)]
    ways = {"by key": OF_RDDS, "written": ()}.get(features, OF_FRAMES)
    # Each way comes up.
    given = ["", *sorted(ways)][(seed // len(FEATURES)) % (len(ways) + 1)]
    done = ran(
        spark,
        tmp_path,
        Pipeline(
            drawn_lines(seed, draw.randint(8, 14), keys),
            features,
            draw.choice(sorted(MODELS)),
            REPORTS[(seed // 2) % len(REPORTS)],
            given,
            in_memory=draw.random() < 0.5,
        ),
    )
    with done.access:
        for place, row in done.report_rows():
            done.check_back(place, row)
        for line in range(1, len(done.pipeline.lines) + 1, 3):
            done.check_forward(line)


def test_what_is_no_captured_collection_or_no_array_is_refused(
    spark: SparkSession, spark_context: SparkContext, tmp_path: Path
) -> None:
    recording = Recording()
    with pytest.raises(ArrayLineageError, match="nothing captures"):
        recording.rows_of("numbers", spark_context.parallelize([1.0, 2.0]))
    with pytest.raises(ArrayLineageError, match="one action gave"):
        recording.rows_of("numbers", [1.0, 2.0])
    url = f"sqlite:///{tmp_path / STORE}"
    with LineageContext(spark_context, store=url) as lc:
        mixed = spark.createDataFrame([(1, "a"), (2, "b")], "n int, t string")
        with pytest.raises(UntracedError, match="int, str"):
            recording.rows_of("mixed", lc.rdd(mixed))
        with pytest.raises(ArrayLineageError, match="exactly one column 'm'"):
            recording.rows_of("mixed", lc.rdd(mixed), ["m"])
        records = lc.parallelize([(1.0, None), (2.0, 3.0)])
        with pytest.raises(UntracedError, match="NoneType"):
            recording.rows_of("null", records)
        empty = recording.rows_of("empty", records.filter(lambda record: record[0] > 5))
        assert empty.shape == (0,)
        later = lc.parallelize([1.0])
    with pytest.raises(Exception, match="does not capture any more"):
        recording.rows_of("later", later)
