"""The lineage of the same key in two runs of a job, against brute force over the lines that the runs read."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lineage.access import StoredAccess
from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_emitter import LineageContext
from lineage_query.run_difference import RunDifference
from lineage_query.trace_query import TraceQuery
from tests.support.api_server import readers, serving
from tests.support.job_runs import STORE, Begin, app_of, lineage, part_files

pytestmark = pytest.mark.e2e
KEYS = "abc"
BACK = TraceQuery(Direction.BACKWARD, ())

Row = tuple[str, int, str]
"""File, number from 1 and text."""
Job = Callable[[LineageContext, SparkSession, str, Path], None]


@dataclass(frozen=True)
class Ran:
    """A run. ``files``: name, version and lines of each file that it read; ``out``: its rows by key, as places."""

    app: str
    folder: Path
    files: dict[str, tuple[tuple[int, int], list[str]]]
    places: dict[str, str]

    def rows(self, key: str) -> list[Row]:
        return [
            (str(self.folder / name), number, line)
            for name, (_, lines) in self.files.items()
            for number, line in enumerate(lines, 1)
            if line.partition(",")[0] == key
        ]

    def version(self, row: Row) -> tuple[int, int]:
        return self.files[Path(row[0]).name][0]


def of_rdds(lc: LineageContext, spark: SparkSession, source: str, out: Path) -> None:
    pairs = lc.textFile(source, 3).map(lambda line: (line.split(",")[0], line.split(",")[1]))
    merged = pairs.reduceByKey(lambda left, right: f"{left} {right}", 2)
    merged.map(lambda pair: f"{pair[0]},{pair[1]}").saveAsTextFile(str(out))


def of_frames(lc: LineageContext, spark: SparkSession, source: str, out: Path) -> None:
    frame = spark.read.schema("key string, value string").csv(source)
    grouped = frame.groupBy("key").agg(F.concat_ws(" ", F.collect_list("value")).alias("values"))
    grouped.coalesce(1).write.csv(str(out))


def run(
    begin: Begin, spark: SparkSession, job: Job, folder: Path, out: Path, pattern: str = "*.csv"
) -> Ran:
    files = {
        path.name: (
            (path.stat().st_size, path.stat().st_mtime_ns),
            path.read_text().splitlines(),
        )
        for path in sorted(folder.glob(pattern))
    }
    with begin() as lc:
        job(lc, spark, f"{folder}/{pattern}", out)
        app = app_of(lc)
    places = {
        line.partition(",")[0]: f"{part}:{number}"
        for part in part_files(out)
        for number, line in enumerate(part.read_text().splitlines(), 1)
    }
    return Ran(app, folder, files, places)


def lines_of(chance: random.Random) -> list[str]:
    # Equal lines are frequent.
    return [f"{chance.choice(KEYS)},{chance.randrange(6)}" for _ in range(chance.randrange(1, 12))]


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


def split_name(item: str) -> tuple[str, int]:
    path, _, number = item.rpartition(":")
    return path, int(number)


def check(difference: RunDifference, left: Ran, right: Ran, key: str, *, readable: bool) -> None:
    """Hold a difference against the lines of both runs. ``readable``: they are as the runs read them."""
    rows = left.rows(key), right.rows(key)
    assert (difference.left.count, difference.right.count) == tuple(map(len, rows))
    (same_file, others) = ({}, ([], []))  # type: ignore[var-annotated]
    for at, (ours, theirs) in enumerate(((left, right), (right, left))):
        for row in rows[at]:
            name = Path(row[0]).name
            is_same = (
                left.folder == right.folder
                and name in theirs.files
                and theirs.files[name][0] == ours.files[name][0]
            )
            if is_same:
                same_file.setdefault(row, []).append(at)
            else:
                others[at].append(row)
    assert sum(group.same_places for group in difference.groups) == sum(
        sides == [0, 1] for sides in same_file.values()
    )
    texts = [Counter(text for *_, text in of) for of in others]
    both = texts[0] & texts[1]
    found = [
        [
            split_name(item.location or "")
            for group in difference.groups
            for item in (group.only_left, group.only_right)[at].items
        ]
        for at in (0, 1)
    ]
    undecided = [
        sum((group.undecided_left, group.undecided_right)[at].count for group in difference.groups)
        for at in (0, 1)
    ]
    same_texts = sum(group.same_texts for group in difference.groups)
    line_of = [{row[:2]: row[2] for row in of} for of in rows]
    for at in (0, 1):
        # Each row is on exactly one side, whatever is known of it.
        same = sum(group.same_places for group in difference.groups)
        assert len(set(found[at])) == len(found[at])
        assert same + same_texts + len(found[at]) + undecided[at] == len(rows[at])
        # What is only in one run is not in the other one.
        missing = Counter(line_of[at][place] for place in found[at])
        rest = texts[at] - both
        known = Counter(row[2] for row, sides in same_file.items() if sides == [at])
        assert missing <= rest + known
    assert same_texts <= both.total()
    assert difference.exact == (undecided == [0, 0])
    if readable:
        assert undecided == [0, 0]
        assert same_texts == both.total()
    assert difference.complete


@pytest.mark.parametrize(
    ("seed", "job"),
    [
        (0, of_rdds),
        pytest.param(1, of_rdds, marks=pytest.mark.long),
        pytest.param(0, of_frames, marks=pytest.mark.long),
        pytest.param(1, of_frames, marks=pytest.mark.long),
    ],
)
def test_what_two_runs_read(
    seed: int, job: Job, begin: Begin, spark: SparkSession, access: StoredAccess, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    first, second = tmp_path / "one", tmp_path / "two"
    first.mkdir()
    for name in ("a.csv", "b.csv", "c.csv"):
        write(first / name, [f"{key},0" for key in KEYS] + lines_of(chance))
    runs = [run(begin, spark, job, first, tmp_path / "out1")]
    # A file more, in the same folder.
    write(first / "d.csv", lines_of(chance))
    runs.append(run(begin, spark, job, first, tmp_path / "out2"))
    # Other files, some of which are copies.
    second.mkdir()
    shutil.copy(first / "a.csv", second / "e.csv")
    write(second / "f.csv", [f"{key},0" for key in KEYS] + lines_of(chance))
    runs.append(run(begin, spark, job, second, tmp_path / "out3"))
    for key in KEYS:
        for left, right in ((0, 1), (1, 0), (0, 2), (2, 1)):
            ran = runs[left], runs[right]
            places = ran[0].places[key], ran[1].places[key]
            difference = access.compare_runs(BACK, places, (ran[0].app, ran[1].app))
            check(difference, *ran, key, readable=True)
            if job is of_frames and key != KEYS[0]:
                # Each row of a DataFrame is recomputed.
                continue
            again = access.compare_runs(BACK, places[::-1], (ran[1].app, ran[0].app))
            for group, other in zip(difference.groups, again.groups, strict=True):
                assert group.same_places == other.same_places
                assert group.same_texts == other.same_texts


def test_rows_that_were_edited_since_are_not_compared(
    begin: Begin, spark: SparkSession, access: StoredAccess, tmp_path: Path
) -> None:
    """Texts as they are now say nothing of what the first run read: no row of that file is called the same, or another."""
    source = tmp_path / "in"
    source.mkdir()
    write(source / "kept.csv", ["a,1", "b,2", "a,3"])
    write(source / "edited.csv", ["a,4", "b,5"])
    left = run(begin, spark, of_rdds, source, tmp_path / "out1")
    write(source / "edited.csv", ["b,6", "a,4", "a,7"])
    right = run(begin, spark, of_rdds, source, tmp_path / "out2")
    difference = access.compare_runs(
        BACK, (left.places["a"], right.places["a"]), (left.app, right.app)
    )
    check(difference, left, right, "a", readable=False)
    (group,) = difference.groups
    assert (group.same_places, group.same_texts, group.only_left.count) == (2, 0, 0)
    assert (group.undecided_left.count, group.undecided_right.count) == (1, 2)
    assert not difference.exact
    assert any("did not read the same version" in reason for reason in difference.reasons)
    of_frames_left = run(begin, spark, of_frames, source, tmp_path / "out3")
    write(source / "edited.csv", ["a,4"])
    of_frames_right = run(begin, spark, of_frames, source, tmp_path / "out4")
    with pytest.raises(LineageError, match=r"edited\.csv"):
        access.compare_runs(
            BACK,
            (f"{tmp_path}/out3#key=a", f"{tmp_path}/out4#key=a"),
            (of_frames_left.app, of_frames_right.app),
        )


def test_an_output_that_was_overwritten_is_named_by_its_values(
    begin: Begin, spark: SparkSession, access: StoredAccess, tmp_path: Path
) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    write(source / "a.csv", ["a,1", "b,2"])

    def overwrite(lc: LineageContext, spark: SparkSession, path: str, out: Path) -> None:
        frame = spark.read.schema("key string, value string").csv(path)
        grouped = frame.groupBy("key").agg(F.count("*").alias("rows"))
        grouped.coalesce(1).write.mode("overwrite").csv(str(out))

    left = run(begin, spark, overwrite, source, out)
    write(source / "b.csv", ["a,3", "a,1"])
    right = run(begin, spark, overwrite, source, out)
    difference = access.compare_runs(BACK, (f"{out}#key=a",) * 2, (left.app, right.app))
    check(difference, left, right, "a", readable=True)
    assert [group.same_places for group in difference.groups] == [1]


@pytest.mark.long
def test_times_that_differ_by_a_microsecond_are_different_rows(
    begin: Begin, spark: SparkSession, access: StoredAccess, tmp_path: Path
) -> None:
    apps = []
    for number in (1, 2):
        at = F.expr(f"timestamp'2024-01-01 00:00:00.00000{number}'")
        spark.range(1).select(F.lit("a").alias("key"), at.alias("at")).coalesce(1).write.parquet(
            f"{tmp_path}/in{number}"
        )
        with begin() as lc:
            apps.append(app_of(lc))
            frame = spark.read.parquet(f"{tmp_path}/in{number}")
            frame.groupBy("key").count().write.parquet(f"{tmp_path}/out{number}")
    places = f"{tmp_path}/out1#key=a", f"{tmp_path}/out2#key=a"
    difference = access.compare_runs(BACK, places, (apps[0], apps[1]))
    (group,) = difference.groups
    assert (group.same_places, group.same_texts) == (0, 0)
    assert (group.only_left.count, group.only_right.count) == (1, 1)


@pytest.mark.long
def test_the_same_over_http_and_on_the_command_line(
    folder: Path, begin: Begin, spark: SparkSession, access: StoredAccess, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    source.mkdir()
    write(source / "a.csv", ["a,1", "b,2"])
    left = run(begin, spark, of_rdds, source, tmp_path / "out1")
    write(source / "b.csv", ["a,3"])
    right = run(begin, spark, of_rdds, source, tmp_path / "out2")
    runs = left.app, right.app
    places = left.places["a"], right.places["a"]
    expected = access.compare_runs(BACK, places, runs)
    assert RunDifference.from_json(json.loads(json.dumps(expected.to_json()))) == expected
    url = f"sqlite:///{folder / STORE}"
    with serving(url, api_roots=f"{folder},{tmp_path}") as address:
        for store in (url, address):
            done = lineage(folder, "--store", store, "diff", *places, "--runs", *runs, "--json")
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout) == expected.to_json()
    secrets, tokens = readers(tmp_path)
    settings = {"api_open": False, "api_tokens": tokens, "api_roots": f"{folder},{tmp_path}"}
    # Of other files, only texts say which rows are the same.
    other = tmp_path / "other"
    other.mkdir()
    write(other / "c.csv", ["a,1"])
    third = run(begin, spark, of_rdds, other, tmp_path / "out3")
    body = {
        "left": {"app": left.app, "places": [places[0]]},
        "right": {"app": third.app, "places": [third.places["a"]]},
    }
    with serving(url, **settings) as address:
        for caller, same, undecided in (("reads", 1, 0), ("looks", 0, 1)):
            answer = httpx.post(
                f"{address}/v1/answers/runs-diff",
                json=body,
                headers={"Authorization": f"Bearer {secrets[caller]}"},
                timeout=60,
            )
            (group,) = answer.json()["groups"]
            assert (group["same_texts"], group["undecided_left"]["count"]) == (same, undecided)
            assert ("a,1" in answer.text) == (caller == "reads")
            assert answer.json()["exact"] == (not undecided)
    shown = lineage(folder, "diff", *places, "--runs", *runs)
    assert f"only {right.app}: 1 row of " in shown.stdout
    assert "both: 1 by their places in the same version of" in shown.stdout
    for arguments in (("--runs", left.app, left.app), ("--runs", *runs, "--app", left.app), ()):
        assert lineage(folder, "diff", places[0], *arguments).returncode == 2
    with pytest.raises(TraceError, match="two runs are compared"):
        access.compare_runs(BACK, places, (left.app, left.app))
