"""Groups that a stream gives before they are due, and what functions of ``foreachBatch`` get of states, against an oracle: rows say what they were made of.

Drawn are arrivals, event times that come late, and keys and times that are NULL. Each query runs twice: one writes the identities of the records
that Spark made a row of, the other does not. Rows of both must go back to these records.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from lineage.access import StoredAccess
from lineage_core.tracing.trace_result import Direction
from tests.support.drawn import drawn
from tests.support.job_runs import run_captured, stored, verify, write_job
from tests.support.stream_rows import Places, Row, drawn_files, made_of, traced_places

ASKED = 4
"""Rows of a query that are traced."""
CHOSEN = "distinct"
"""Which of equal records it keeps, each run decides."""
KINDS = (
    "window", "sliding", "time", "key", "mixed", "all", "whole", "top", "due", "again", "cached", "now", CHOSEN
)  # fmt: skip

JOB = """
import json
from pyspark.sql import SparkSession, functions as F

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
ALL = [F.collect_list("id").alias("ids"), F.count(F.lit(1)).alias("n"), F.sum("v").alias("s")]


def read():
    reader = spark.readStream.schema("id string, key string, v int, t long")
    rows = reader.option("maxFilesPerTrigger", 1).json("l")
    return rows.withColumn("at", F.timestamp_seconds("t")).withWatermark("at", "5 seconds")


def windows(*more):
    groups = read().groupBy(F.window("at", "10 seconds", *more), "key").agg(*ALL)
    return groups.withColumn("end", F.unix_seconds("window.end"))


def by(*keys):
    return read().groupBy(*keys).agg(*ALL)


def times():
    return by("at").withColumn("end", F.unix_seconds("at"))


def mixed():
    return by(F.lower("key").alias("key"), "at").withColumn("end", F.unix_seconds("at"))


def again(frame):
    return frame.groupBy("key").agg(F.flatten(F.collect_list("ids")).alias("ids"), F.sum("n").alias("n"))


def now():
    return windows().where("n > 0").withColumn("now", F.current_timestamp())


def distinct():
    return read().dropDuplicates(["key"]).withColumn("ids", F.array("id"))


TIMED = ["key", "end", "n", "s"]
MADE = {
    "window": ("update", windows, TIMED),
    "sliding": ("update", lambda: windows("5 seconds"), TIMED),
    "time": ("update", times, ["end", "n", "s"]),
    "key": ("update", lambda: by("key"), ["key", "n", "s"]),
    "mixed": ("update", mixed, TIMED),
    "all": ("update", lambda: read().agg(*ALL), ["n", "s"]),
    "whole": ("complete", lambda: by("key"), ["key", "n", "s"]),
    "top": ("complete", lambda: by("key").orderBy(F.desc("n"), "key").limit(2), ["key", "n", "s"]),
    "due": ("append", windows, TIMED),
    "again": ("update", windows, ["key", "n"]),
    "cached": ("update", windows, TIMED),
    "now": ("update", now, [*TIMED, "now"]),
    "distinct": ("update", distinct, ["key"]),
}


def run(kind, name):
    mode, make, values = MADE[kind]
    columns = ["ids", *values] if name == "told" else values

    def save(frame, number):
        if kind == "cached":
            frame.persist()
            frame.count()
        if kind == "again":
            frame = again(frame)
        writer = frame.select(*columns).coalesce(1).write.option("ignoreNullFields", "false")
        writer.json(f"{kind}-{name}/{number}")
        frame.unpersist()

    writer = make().writeStream.outputMode(mode).foreachBatch(save)
    writer = writer.option("checkpointLocation", f"checkpoints/{kind}-{name}")
    writer.trigger(availableNow=True).start().awaitTermination()


kinds, outputs = json.load(open("cases.json"))
for kind in kinds:
    for name in outputs:
        run(kind, name)
"""


def values_of(row: Row) -> str:
    return json.dumps({name: value for name, value in row.items() if name not in {"ids", "now"}})


def rows_of(folder: Path) -> Iterator[tuple[int, str, Row]]:
    """The rows that a function wrote, with their batches and places."""
    for path in sorted(folder.glob("*/part-*.json")):
        for at, line in enumerate(path.read_text().splitlines()):
            yield int(path.parent.name), f"{path}:{at + 1}", json.loads(line)


def check_kind(
    folder: Path, kind: str, access: StoredAccess, draw: random.Random, places: Places
) -> None:
    told, plain = list(rows_of(folder / f"{kind}-told")), list(rows_of(folder / f"{kind}-plain"))
    # The group of all rows is one before there are any.
    told = [row for row in told if row[2]["ids"]]
    plain = [row for row in plain if row[2].get("n") != 0]
    assert told
    # Rows of later batches were made of those of earlier ones, too.
    told_last = sorted(told, key=lambda row: (-len(row[2]["ids"]), row[1]))[:1]
    for _, place, row in [*told_last, *draw.sample(told, min(ASKED, len(told)))]:
        items, is_exact = traced_places(access, Direction.BACKWARD, place)
        assert items == made_of(row, places), (place, row)
        assert is_exact, (place, row)
    options: defaultdict[tuple[int, str], list[frozenset[str]]] = defaultdict(list)
    for number, _, row in told:
        options[number, values_of(row)].append(made_of(row, places))
    for number, place, row in draw.sample(plain, min(ASKED, len(plain))):
        of_row = options[number, values_of(row)]
        assert of_row or kind == CHOSEN, (place, row)
        items, is_exact = traced_places(access, Direction.BACKWARD, place)
        assert frozenset().union(*of_row) <= items, (place, row, of_row)
        if of_row and (is_exact or len(of_row) == 1):
            assert {items} == set(of_row) or (kind == CHOSEN and not is_exact), (place, row, of_row)


def check_forward(
    folder: Path, kinds: list[str], access: StoredAccess, record: str, places: Places
) -> None:
    """A record goes into all rows of all batches that say so, and no others."""
    items, _ = traced_places(access, Direction.FORWARD, record)
    for kind in kinds:
        told = rows_of(folder / f"{kind}-told")
        expected = {place for _, place, row in told if record in made_of(row, places)}
        of_kind = {place for place in items if f"/{kind}-told/" in place}
        assert expected == of_kind or (kind == CHOSEN and expected <= of_kind), (kind, record)


FEW = "few"
CASES = {FEW: ["window"], **{f"{seed}": list(KINDS) for seed in range(1, 4)}}


@pytest.mark.parametrize("name", drawn(CASES, every=len(CASES)))
def test_rows_go_back_to_the_records_that_spark_made_them_of(name: str, tmp_path: Path) -> None:
    draw, kinds = random.Random(f"changed {name}"), CASES[name]
    places = drawn_files(draw, tmp_path, "l")
    outputs = ["told"] if name == FEW else ["told", "plain"]
    (tmp_path / "cases.json").write_text(json.dumps([kinds, outputs]))
    write_job(tmp_path, JOB)
    done = run_captured(tmp_path, "job.py")
    assert done.returncode == 0, done.stderr
    verdict = verify(tmp_path)
    assert verdict["complete"], verdict["reasons"]
    with stored(tmp_path) as access:
        for kind in kinds:
            check_kind(tmp_path, kind, access, draw, places)
        if name != FEW:
            check_forward(tmp_path, kinds, access, draw.choice(sorted(places.values())), places)
