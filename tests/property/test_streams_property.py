"""Micro-batches against an oracle: rows of a sink's files go back to the rows of their batch's files that make such rows.

Drawn are arrivals (files, in the order of their times), cuts into batches, formats, equal rows, and queries that keep no state.
"""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage.frame_traces import spark_session
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.trace.following import RowTracing
from lineage_dataframes.trace.warm_up import sample_in
from lineage_query.follow_events import Ending, Gap, Late, Made, Read
from lineage_query.followed import FollowedFile
from lineage_query.following import Follow
from lineage_query.message_feed import Lost, MessageFeed
from lineage_query.rows.places import parse_location
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.url import open_store
from tests.support.job_runs import STORE, ask, run_captured, stored, verify, write_job

QUERIES = ("select", "explode", "join", "union", "parted", "function", "windows")
ASKED = 4
"""Rows of a query that are traced."""

JOB = """
import json
from pyspark.sql import SparkSession, functions as F

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.streaming.fileSink.log.compactInterval", "2")
builder = builder.config("spark.sql.streaming.fileSource.log.compactInterval", "2")
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
static = spark.createDataFrame([("a", 100), ("b", 200)], "key string, m int")


def read(case, folder):
    days = ", day int" if case["query"] == "parted" else ""
    reader = spark.readStream.schema("key string, n int" + days).format(case["source"])
    return reader.option("maxFilesPerTrigger", case["cut"]).load(f"{case['name']}/{folder}")


def windows(rows):
    times = rows.withColumn("at", F.expr("timestamp_seconds(n * 60)")).withWatermark("at", "1 minute")
    groups = times.groupBy(F.window("at", "2 minutes"), "key").agg(F.sum("n").alias("n"))
    return groups.selectExpr("concat(key, '-', unix_seconds(window.end)) AS key", "cast(n AS int) AS n")


def save(frame, number):
    sums = frame.groupBy("key").agg(F.sum("n").cast("int").alias("n"))
    sums.write.mode("append").format(sink).save(f"{name}/out")


for case in json.load(open("cases.json")):
    name, sink, rows = case["name"], case["sink"], read(case, "in")
    made = {
        "select": lambda: rows.where("n % 2 = 0").selectExpr("key", "n * 10 AS n"),
        "explode": lambda: rows.selectExpr("key", "explode(sequence(1, n)) AS n"),
        "join": lambda: rows.join(static, "key").selectExpr("key", "n + m AS n"),
        "union": lambda: rows.union(read(case, "other")),
        "parted": lambda: rows.selectExpr("key", "n * day AS n"),
        "function": lambda: rows,
        "windows": lambda: windows(rows),
    }[case["query"]]()
    writer = made.writeStream.option("checkpointLocation", f"{name}/checkpoint")
    if case["query"] == "function":
        writer = writer.foreachBatch(save)
    else:
        writer = writer.format(sink).option("path", f"{name}/out")
    writer.trigger(availableNow=True).start().awaitTermination()
"""

Batches: TypeAlias = list[dict[tuple[str, int], set[str]]]
KINDS = (pa.string(), pa.int32())
STATIC = {"a": 100, "b": 200}


@dataclass(frozen=True)
class Arrival:
    """A file of a stream: its place, and its rows."""

    place: str
    rows: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Case:
    name: str
    query: str
    source: str
    sink: str
    cut: int


def drawn_arrivals(draw: random.Random, folder: Path, case: Case) -> list[Arrival]:
    arrivals = []
    for number in range(draw.randint(2, 5) + 2 * (case.query == "windows")):
        # Windows of before 1970 are late from the beginning.
        least, most = (-3, 12) if case.query == "windows" else (1, 4)
        rows = tuple(
            (draw.choice("abc"), draw.randint(least, most)) for _ in range(draw.randint(0, 4))
        )
        day = f"day={draw.randint(1, 2)}/" if case.query == "parted" else ""
        path = folder / f"{day}{draw.choice('pqr')}-{number}.{case.source}"
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, case.source, rows)
        os.utime(path, (1_700_000_000 + number,) * 2)
        arrivals.append(Arrival(str(path), rows))
    return arrivals


def _write(path: Path, form: str, rows: tuple[tuple[str, int], ...]) -> None:
    if form == "parquet":
        keys, numbers = (pa.array([row[at] for row in rows], kind) for at, kind in enumerate(KINDS))
        pq.write_table(pa.table({"key": keys, "n": numbers}), path)
    elif form == "json":
        path.write_text("".join(json.dumps({"key": key, "n": n}) + "\n" for key, n in rows))
    else:
        path.write_text("".join(f"{key},{n}\n" for key, n in rows))


def place(path: str, number: int) -> str:
    """A row's place, as answers have it."""
    return f"{path}#{number}" if path.endswith(".parquet") else f"{path}:{number + 1}"


def made_of(case: Case, path: str, row: tuple[str, int]) -> list[tuple[str, int]]:
    """What a query makes of a row."""
    key, n = row
    if case.query == "select":
        return [(key, n * 10)] if n % 2 == 0 else []
    if case.query == "explode":
        return [(key, made) for made in range(1, n + 1)]
    if case.query == "join":
        return [(key, n + STATIC[key])] if key in STATIC else []
    if case.query == "parted":
        return [(key, n * int(path.partition("day=")[2][0]))]
    return [(key, n)]


def expected_of(case: Case, batch: list[Arrival]) -> dict[tuple[str, int], set[str]]:
    """By row that a batch gives, the rows that make such rows; each is made of one of them, or of all of a group."""
    rows = [
        (arrival.place, number, row) for arrival in batch for number, row in enumerate(arrival.rows)
    ]
    made: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    if case.query == "function":
        for key in {row[0] for _, _, row in rows}:
            group = [(path, number, n) for path, number, (name, n) in rows if name == key]
            made[key, sum(n for _, _, n in group)] = {place(path, at) for path, at, _ in group}
        return made
    for path, number, row in rows:
        for result in made_of(case, path, row):
            made[result].add(place(path, number))
    return made


def expected_of_windows(batches: list[list[Arrival]]) -> list[dict[tuple[str, int], set[str]]]:
    """By batch the groups that are due in it. Rows are late by the watermark of the batch before theirs, in seconds."""
    groups: defaultdict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
    expected: list[dict[tuple[str, int], set[str]]] = []
    latest, before, now = 0, 0, 0
    # The last watermark is one more batch's, which reads nothing.
    for batch in [*batches, [], []]:
        for arrival in batch:
            for number, (key, n) in enumerate(arrival.rows):
                end = (n // 2 + 1) * 120
                if end > before:
                    groups[key, end].append((place(arrival.place, number), n))
                latest = max(latest, n * 60)
        due = [group for group in groups if group[1] <= now]
        expected.append({})
        for key, end in due:
            rows = groups.pop((key, end))
            expected[-1][f"{key}-{end}", sum(n for _, n in rows)] = {path for path, _ in rows}
        before, now = now, max(now, latest - 60)
    return expected


def cut(arrivals: list[Arrival], size: int) -> list[list[Arrival]]:
    return [arrivals[first : first + size] for first in range(0, len(arrivals), size)]


def rows_of(path: Path) -> list[tuple[str, int]]:
    if path.suffix == ".parquet":
        return [(row["key"], row["n"]) for row in pq.read_table(path).to_pylist()]
    lines = path.read_text().splitlines()
    if path.suffix == ".json":
        return [(row["key"], row["n"]) for row in map(json.loads, lines)]
    return [(line.split(",")[0], int(line.split(",")[1])) for line in lines]


def written(folder: Path, case: Case, batches: int) -> Iterator[tuple[int, Path]]:
    """The files of a sink with their batches, as its own log has them, or as they were written one after the other."""
    out = folder / case.name / "out"
    log = out / "_spark_metadata"
    seen: set[str] = set()
    for number in range(batches):
        names = (str(number), f"{number}.compact")
        texts = [(log / name).read_text() for name in names if (log / name).exists()]
        for line in texts[0].splitlines()[1:] if texts else ():
            path = unquote(json.loads(line)["path"]).removeprefix("file:").replace("//", "/")
            if path not in seen:
                yield number, Path(path)
            seen.add(path)
    if not log.exists():
        yield from ((-1, found) for found in out.glob("part-*"))


def check_followed(
    folder: Path, case: Case, arrivals: list[Arrival], batches: Batches, draw: random.Random
) -> None:
    """Rows of sources go into just the rows that were made of them, and nothing more comes once that is said."""
    candidates = [(arrival.place, at) for arrival in arrivals for at in range(len(arrival.rows))]
    if not candidates:
        return
    source = place(*draw.choice(candidates))
    url = f"sqlite:///{folder / STORE}"
    feed = MessageFeed(folder / ".lineage/spool", lambda: open_store(url))
    with spark_session() as spark:
        recipe, sample = sample_in(folder)
        warmed = RowTracing(lambda: spark, RowReader(None), sample).rows(recipe)
        assert [row.place for row in warmed.rows] == [f"{folder / 'sample' / 'part-0.json'}:2"], (
            warmed
        )
        assert not warmed.reasons
        tracing = RowTracing(lambda: spark, RowReader(None), parse_location(source))
        follow = Follow(FollowedFile(parse_location(source).path), tracing)
        events = [
            event
            for item in feed.read()
            if not isinstance(item, Lost)
            for event in follow.take(item)
        ]
    made = [event for event in events if isinstance(event, Made)]
    told = {
        (event.batch.number, *json.loads(row.text or "").values())
        for event in made
        for row in event.rows.rows
    }
    expected = {
        (number, *row)
        for number, batch in enumerate(batches)
        for row in batch
        if source in batch[row]
    }
    assert told == expected, (case, source)
    assert not any(isinstance(event, Gap) for event in events), events
    # Of what the query with the join reads beside its stream nothing is known, so it counts for each file.
    read = {event.batch.query for event in events if isinstance(event, Read)}
    if not read:
        # The plans of batches in which no window is due read nothing.
        assert case.query == "windows"
        assert Ending.DONE not in follow.endings().values()
        return
    (query,) = read
    ending = follow.endings()[query]
    if case.query == "windows":
        # Each row is in one window.
        is_late = any(isinstance(event, Late) for event in events)
        assert (ending is Ending.DONE) == (bool(expected) or is_late), (case, source)
        assert not (expected and is_late)
        answer = ask(folder, Direction.FORWARD, source)
        said = [warning for warning in answer.warnings if "given before" in warning]
        assert len(said) == is_late, (case, source, answer.warnings)
    else:
        assert (ending is Ending.DONE) == (case.query != "join"), (case, follow.open_reasons())


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 9))
def test_rows_of_batches_go_back_to_the_rows_that_make_them(seed: int, tmp_path: Path) -> None:
    draw = random.Random(f"streams {seed}")
    cases, batches, arrivals = [], {}, {}
    for number, query in enumerate(QUERIES):
        formats = ("csv", "json", "parquet")
        sink = draw.choice(formats)
        # Groups of windows are then made over several batches.
        size = 1 if query == "windows" else draw.randint(1, 3)
        case = Case(f"case-{number}", query, draw.choice(formats), sink, size)
        cases.append(case)
        arrivals[case.name] = drawn_arrivals(draw, tmp_path / case.name / "in", case)
        cuts = cut(arrivals[case.name], case.cut)
        if query == "union":
            others = cut(drawn_arrivals(draw, tmp_path / case.name / "other", case), case.cut)
            longest = max(len(cuts), len(others))
            cuts = [
                [*(cuts[at] if at < len(cuts) else ()), *(others[at] if at < len(others) else ())]
                for at in range(longest)
            ]
        of_windows = query == "windows"
        batches[case.name] = (
            expected_of_windows(cuts)
            if of_windows
            else [expected_of(case, batch) for batch in cuts]
        )
    (tmp_path / "cases.json").write_text(json.dumps([asdict(case) for case in cases]))
    write_job(tmp_path, JOB)
    done = run_captured(tmp_path, "job.py")
    assert done.returncode == 0, done.stderr
    verdict = verify(tmp_path)
    assert verdict["complete"], verdict["reasons"]
    with stored(tmp_path) as access:
        for case in cases:
            checked = 0
            files = list(written(tmp_path, case, len(batches[case.name])))
            rows = [
                (number, path, at, row)
                for number, path in files
                for at, row in enumerate(rows_of(path))
            ]
            assert rows or not any(batches[case.name])
            for number, path, at, row in draw.sample(rows, min(ASKED, len(rows))):
                where = place(str(path), at)
                answer = access.ask(TraceQuery(Direction.BACKWARD, (where,), texts=False))
                found = {str(item.location) for group in answer.groups for item in group.items}
                candidates = [batches[case.name][number]] if number >= 0 else batches[case.name]
                expected = [batch[row] for batch in candidates if row in batch]
                if case.query == "join":
                    found = {one for one in found if "/in/" in one}
                assert found in expected, (case, path, row, found, expected)
                is_exact = case.query in {"function", "windows"} or len(found) == 1
                assert answer.exact == is_exact, (case, path, row, answer.warnings)
                checked += 1
            assert checked or not rows
            check_followed(tmp_path, case, arrivals[case.name], batches[case.name], draw)
