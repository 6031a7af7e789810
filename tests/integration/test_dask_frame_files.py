"""Files that Dask's DataFrames write: their rows are traced to what brute force says, also by the jobs that read them later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import pandas as pd
import pyarrow.parquet as pq
import pytest
from dask import bag
from dask import dataframe as dd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lineage import LineageApi, UnsupportedOperatorError, capture_dask
from lineage_core.contract.verdict import Verdict
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer
from lineage_query.trace_query import TraceQuery
from tests.support.dask_cluster import two_workers
from tests.support.job_runs import STORE, ask, judged, run_plain, stored

pytestmark = pytest.mark.integration

Placed = tuple[str, tuple[Any, ...]]
"""The place of a row of a file, and its values."""


@pytest.fixture(autouse=True)
def own_process() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(
    params=[
        pytest.param(False, id="one process"),
        pytest.param(True, id="cluster", marks=pytest.mark.long),
    ]
)
def workers(request: pytest.FixtureRequest) -> Iterator[None]:
    """This process, or two of a cluster."""
    if not request.param:
        yield
        return
    with two_workers() as client, dask.config.set(scheduler=client):
        yield


def run(folder: Path, program: Callable[[], Any]) -> Verdict:
    with (
        LineageApi("files", store=f"sqlite:///{folder / STORE}", spool=str(folder / "s")) as api,
        capture_dask(api),
    ):
        program()
    return judged(folder, api.app)


def table(rows: list[tuple[int, int]]) -> Any:
    """Rows that carry their identity, which is their number."""
    return pd.DataFrame([(n, k, v) for n, (k, v) in enumerate(rows)], columns=["n", "k", "v"])


def items_of(answer: Answer) -> set[str]:
    return {item.location or item.address for group in answer.groups for item in group.items}


def traced(folder: Path, place: str) -> set[str]:
    answer = ask(folder, Direction.BACKWARD, place)
    assert (answer.exact, answer.complete) == (True, True), answer.reasons
    return items_of(answer)


def csv_rows(folder: Path) -> list[Placed]:
    """The rows of files of CSV with a header each."""
    return [
        (f"{path}:{at}", tuple(map(float, line.split(","))))
        for path in sorted(folder.glob("*.csv"))
        for at, line in enumerate(path.read_text().splitlines()[1:], 2)
    ]


def parquet_rows(folder: Path) -> list[Placed]:
    return [
        (f"{path}#{at}", tuple(map(float, row.values())))
        for path in sorted(folder.glob("*.parquet"))
        for at, row in enumerate(pq.read_table(path).to_pylist())
    ]


def all_jobs(folder: Path, direction: Direction, place: str) -> Answer:
    with stored(folder) as access:
        return access.ask(TraceQuery(direction, (place,), all_jobs=True))


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(-2, 3)), min_size=1, max_size=8),
    partitions=st.integers(1, 3),
    kind=st.sampled_from(["chosen", "summed", "joined"]),
    writes_index=st.booleans(),
)
def test_rows_of_files_are_traced_to_the_rows_they_were_made_from(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int, int]],
    partitions: int,
    kind: str,
    writes_index: bool,
) -> None:
    folder = tmp_path_factory.mktemp("frames")
    places: list[str] = []

    def program() -> None:
        frame = dd.from_pandas(table(rows), npartitions=partitions)
        for part in range(frame.npartitions):
            length = frame.divisions[part + 1] - frame.divisions[part]
            length += part == frame.npartitions - 1
            places.extend(f"FromPandas-0#{part}#{at}" for at in range(length))
        if kind == "joined":
            frame = frame.merge(frame[["k", "n"]], on="k", suffixes=("", "_other"))[
                ["n", "n_other"]
            ]
        elif kind == "summed":
            frame = frame.groupby("k").v.sum().reset_index()
        else:
            frame = frame[frame.v > 0]
        frame.to_csv(f"{folder}/csv/*.csv", index=False)
        frame.to_parquet(f"{folder}/parquet", write_index=writes_index)

    assert run(folder, program).complete
    written = csv_rows(folder / "csv")
    in_parquet = parquet_rows(folder / "parquet")
    for place, values in [*written, *in_parquet]:
        numbers = {
            "chosen": lambda values: {int(values[0])},
            "summed": lambda values: {n for n, (k, _) in enumerate(rows) if k == values[0]},
            "joined": lambda values: {int(values[0]), int(values[1])},
        }[kind](values)
        assert traced(folder, place) == {places[n] for n in numbers}, (place, values)
    keys = [k for k, _ in rows]
    count = {
        "chosen": sum(v > 0 for _, v in rows),
        "summed": len(set(keys)),
        "joined": sum(keys.count(k) for k in keys),
    }[kind]
    assert len(written) == len(in_parquet) == count
    for path in (folder / "csv").glob("*.csv"):
        assert traced(folder, f"{path}:1") == set()


@pytest.mark.usefixtures("workers")
def test_a_trace_goes_on_through_files_of_frames(tmp_path: Path) -> None:
    """Parquet to CSV to text, by three jobs: rows carry their number."""
    rows = [(n % 3, n) for n in range(12)]

    def first() -> None:
        dd.from_pandas(table(rows), npartitions=3).to_parquet(f"{tmp_path}/parquet")

    def second() -> None:
        frame = dd.read_parquet(f"{tmp_path}/parquet")
        frame[frame.n > 2].to_csv(f"{tmp_path}/csv/*.csv", index=False)

    def third() -> None:
        lines = bag.read_text(f"{tmp_path}/csv/*.csv").map(str.strip)
        lines.filter(lambda line: line[0].isdigit()).to_textfiles(f"{tmp_path}/text/*.txt")

    assert all(run(tmp_path, job).complete for job in (first, second, third))
    seen = {}
    for path in (tmp_path / "text").iterdir():
        for at, line in enumerate(path.read_text().splitlines(), 1):
            answer = all_jobs(tmp_path, Direction.BACKWARD, f"{path}:{at}")
            assert (answer.exact, answer.complete) == (True, True), answer.not_queried
            seen[int(line.split(",")[0])] = items_of(answer)
    assert seen == {n: {f"FromPandas-0#{n // 4}#{n % 4}"} for n in range(3, 12)}
    for place, values in parquet_rows(tmp_path / "parquet"):
        answer = all_jobs(tmp_path, Direction.FORWARD, place)
        assert (answer.exact, answer.complete) == (True, True), answer.not_queried
        lines = [
            Path(name).read_text().splitlines()[int(at) - 1]
            for name, _, at in (item.rpartition(":") for item in items_of(answer))
        ]
        expected = [",".join(str(int(value)) for value in values[:3])] if values[0] > 2 else []
        assert lines == expected
    # Another file than the one that was written.
    part = next((tmp_path / "parquet").glob("part.2.*"))
    other = pd.read_parquet(part)
    other["n"] += 20
    other.to_parquet(part)
    assert run(tmp_path, second).complete
    place = next(place for place, values in csv_rows(tmp_path / "csv") if values[0] >= 20)
    assert not all_jobs(tmp_path, Direction.BACKWARD, place).complete


def test_what_is_written_is_what_dask_writes(tmp_path: Path) -> None:
    frame = table([(1, 2), (2, 3), (1, 5)])

    def program(folder: Path) -> list[Any]:
        read = dd.from_pandas(frame, npartitions=2)
        return [
            read.to_csv(f"{folder}/a-*.csv"),
            dd.to_csv(read, f"{folder}/b", header_first_partition_only=True, index=False),
            read.v.to_csv(f"{folder}/c-*.csv", header=False),
            read.to_parquet(f"{folder}/p"),
            dd.to_parquet(
                read, f"{folder}/q", write_index=False, name_function=lambda n: f"x{n}.parquet"
            ),
            read.to_parquet(f"{folder}/q", overwrite=True, compression="gzip"),
        ]

    results = []
    plain, captured = tmp_path / "plain", tmp_path / "captured"
    plain.mkdir()
    captured.mkdir()
    expected = program(plain)
    verdict = run(tmp_path, lambda: results.extend(program(captured)))
    assert verdict.complete
    assert results == [
        [path.replace(str(plain), str(captured)) for path in paths] if paths else paths
        for paths in expected
    ]
    files = {path.relative_to(plain): path for path in plain.rglob("*") if path.is_file()}
    assert files.keys() == {
        path.relative_to(captured) for path in captured.rglob("*") if path.is_file()
    }
    for name, path in files.items():
        if name.suffix == ".parquet":
            assert pq.read_table(path).equals(pq.read_table(captured / name))
        else:
            assert path.read_bytes() == (captured / name).read_bytes()
    assert traced(tmp_path, f"{captured}/b/1.part:1") == {"FromPandas-0#1#0"}
    assert traced(tmp_path, f"{captured}/c-0.csv:1") == {"FromPandas-0#0#0"}


def test_rows_that_are_no_lines_are_not_traced_as_lines(tmp_path: Path) -> None:
    frame = pd.DataFrame({"t": ["a", "b\nc", "d"]})

    def program() -> None:
        dd.from_pandas(frame, npartitions=1).to_csv(f"{tmp_path}/*.csv", index=False)

    verdict = run(tmp_path, program)
    assert not verdict.complete
    assert "holds a line end" in " ".join(map(str, verdict.reasons))


@pytest.mark.parametrize(
    "write",
    [
        lambda frame, to: frame.to_csv(f"{to}/a.csv", single_file=True),
        lambda frame, to: frame.to_csv(f"{to}/*.csv", compute=False),
        lambda frame, to: frame.to_csv(f"{to}/*.csv", mode="at"),
        lambda frame, to: frame.to_csv(f"{to}/*.csv", compression="gzip"),
        lambda frame, to: frame.to_csv("memory://a/*.csv"),
        lambda frame, to: frame.to_parquet(to, partition_on="k"),
        lambda frame, to: frame.to_parquet(to, append=True),
        lambda frame, to: frame.to_parquet(to, compute=False),
        lambda frame, to: frame.to_parquet(to, write_metadata_file=True),
        lambda frame, to: frame.to_parquet("memory://a"),
        lambda frame, to: frame.to_json(to),
    ],
)
def test_files_that_cannot_be_traced_are_refused(
    tmp_path: Path, write: Callable[[Any, str], Any]
) -> None:
    def program() -> None:
        write(dd.from_pandas(table([(1, 2)]), npartitions=1), f"{tmp_path}/out")

    with pytest.raises(UnsupportedOperatorError):
        run(tmp_path, program)


SPARK_JOB = """
import sys
from pyspark.sql import SparkSession
from lineage_emitter import LineageContext
spark = SparkSession.builder.master("local[1]").getOrCreate()
with LineageContext(spark.sparkContext, store=sys.argv[1], link=True):
    spark.read.parquet("parquet").where("v > 1").coalesce(1).write.csv("spark-parquet")
    spark.read.option("header", True).csv("csv").where("v > 1").coalesce(1).write.csv("spark-csv")
"""


@pytest.mark.long
def test_a_job_of_spark_reads_what_frames_wrote(tmp_path: Path) -> None:
    rows = [(n % 2, n) for n in range(5)]

    def program() -> None:
        frame = dd.from_pandas(table(rows), npartitions=2)
        frame.to_parquet(f"{tmp_path}/parquet", write_index=False)
        frame.to_csv(f"{tmp_path}/csv/*.csv", index=False)

    assert run(tmp_path, program).complete
    (tmp_path / "job.py").write_text(SPARK_JOB)
    done = run_plain(tmp_path, "job.py", f"sqlite:///{tmp_path / STORE}")
    assert done.returncode == 0, done.stderr
    sizes = [len(pq.read_table(path)) for path in sorted((tmp_path / "parquet").glob("*.parquet"))]
    places = [f"FromPandas-0#{part}#{at}" for part, size in enumerate(sizes) for at in range(size)]
    seen = 0
    for kind in ("parquet", "csv"):
        (part,) = (tmp_path / f"spark-{kind}").glob("part-*.csv")
        for at, line in enumerate(part.read_text().splitlines(), 1):
            answer = all_jobs(tmp_path, Direction.BACKWARD, f"{part}:{at}")
            assert (answer.exact, answer.complete) == (True, True), answer.not_queried
            assert items_of(answer) == {places[int(line.split(",")[0])]}
            seen += 1
    assert seen == 6
