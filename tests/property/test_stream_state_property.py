"""Streams that keep a state against an oracle: records carry an identity, which one of two equal queries writes and the other does not.

Drawn are arrivals (files, one a batch), event times that come late, keys and values that repeat, and NULL. What Spark made of which
records, the query with identities says; rows of the other query must go back to these, exactly where nothing else has their values.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path

import pytest

from lineage.access import StoredAccess
from lineage_core.tracing.trace_result import Direction
from tests.support.drawn import drawn
from tests.support.job_runs import run_captured, stored, verify, write_job
from tests.support.stream_rows import Places, Row, drawn_files, rows_of, traced_places

DISTINCT = ("key", "time", "within")
JOINS = ("inner", "leftOuter", "rightOuter", "fullOuter", "leftSemi")
ASKED = 3
"""Rows of a query that are traced."""

JOB = """
import json
from pyspark.sql import SparkSession, functions as F

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()


def read(folder):
    reader = spark.readStream.schema("id string, key string, v int, t long")
    rows = reader.option("maxFilesPerTrigger", 1).json(folder)
    return rows.withColumn("at", F.timestamp_seconds("t")).withWatermark("at", "5 seconds")


def side(folder, mark):
    return read(folder).selectExpr(*(f"{name} AS {mark}{name}" for name in ("id", "key", "v", "at")))


near = F.expr("lkey = rkey AND rat >= lat - interval 4 seconds AND rat <= lat + interval 4 seconds")
kinds, outputs = json.load(open("cases.json"))
for kind in kinds:
    if kind in ("key", "time", "within"):
        rows = read("l")
        made = {
            "key": lambda: rows.dropDuplicates(["key"]),
            "time": lambda: rows.dropDuplicates(["key", "at"]),
            "within": lambda: rows.dropDuplicatesWithinWatermark(["key"]),
        }[kind]()
        ids, values = ["id"], ["key", "v"]
    else:
        made = side("l", "l").join(side("r", "r"), near, kind)
        ids, values = ["lid", "rid"], ["lkey", "lv", "rkey", "rv"]
        if kind == "leftSemi":
            ids, values = ["lid"], ["lkey", "lv"]
    for name in outputs:
        columns = [*ids, *values] if name == "told" else values
        frame = made.select(*columns).coalesce(1)
        writer = frame.writeStream.format("json").option("path", f"{kind}-{name}")
        writer = writer.option("ignoreNullFields", "false")
        writer = writer.option("checkpointLocation", f"checkpoints/{kind}-{name}")
        writer.trigger(availableNow=True).start().awaitTermination()
"""


def values_of(row: Row) -> str:
    return json.dumps({name: value for name, value in row.items() if not name.endswith("id")})


def made_of(kind: str, row: Row, places: Places) -> frozenset[str]:
    """The records that a row was made of, as it says itself; of a semi join the left one."""
    return frozenset(places[row[name]] for name in ("id", "lid", "rid") if row.get(name))


def check_kind(
    folder: Path, kind: str, access: StoredAccess, draw: random.Random, places: Places
) -> int:
    """How many answers were exact."""
    told, plain = rows_of(folder / f"{kind}-told"), rows_of(folder / f"{kind}-plain")
    exact = 0
    for _, place, row in draw.sample(told, min(ASKED, len(told))):
        truth = made_of(kind, row, places)
        items, is_exact = traced_places(access, Direction.BACKWARD, place)
        if kind == "leftSemi":
            matches = items - truth
            assert truth < items, (place, row, items)
            assert all("/r/" in match for match in matches)
            assert is_exact == (len(matches) == 1), (place, row, items)
        else:
            assert (items, is_exact) == (truth, True), (place, row)
        exact += is_exact
    options: defaultdict[tuple[int, str], list[frozenset[str]]] = defaultdict(list)
    for number, _, row in told:
        options[number, values_of(row)].append(made_of(kind, row, places))
    for number, place, row in draw.sample(plain, min(ASKED, len(plain))):
        of_row = options[number, values_of(row)]
        assert of_row, (place, row)
        items, is_exact = traced_places(access, Direction.BACKWARD, place)
        assert frozenset().union(*of_row) <= items, (place, row, of_row)
        if is_exact and kind != "leftSemi":
            assert set(of_row) == {items}, (place, row, of_row)
        exact += is_exact
    return exact


def check_forward(
    folder: Path, kinds: list[str], access: StoredAccess, draw: random.Random, places: Places
) -> None:
    """A record goes into just the rows that say so, of those that hold identities."""
    record = draw.choice(sorted(places.values()))
    items, _ = traced_places(access, Direction.FORWARD, record)
    for kind in kinds:
        told = rows_of(folder / f"{kind}-told")
        expected = {place for _, place, row in told if record in made_of(kind, row, places)}
        of_kind = {place for place in items if f"/{kind}-told/" in place}
        assert expected <= of_kind, (kind, record, expected)
        # The right record of a semi join is not in its rows.
        assert expected == of_kind or (kind == "leftSemi" and "/r/" in record)


FEW = "few"
CASES = {FEW: ["key", "leftOuter"], **{f"{seed}": [*DISTINCT, *JOINS] for seed in range(1, 5)}}


@pytest.mark.long
@pytest.mark.parametrize("name", drawn(CASES, every=len(CASES)))
def test_rows_go_back_to_the_records_that_spark_made_them_of(name: str, tmp_path: Path) -> None:
    draw, kinds = random.Random(f"state {name}"), CASES[name]
    places = drawn_files(draw, tmp_path, "l") | drawn_files(draw, tmp_path, "r")
    outputs = ["told"] if name == FEW else ["told", "plain"]
    (tmp_path / "cases.json").write_text(json.dumps([kinds, outputs]))
    write_job(tmp_path, JOB)
    done = run_captured(tmp_path, "job.py")
    assert done.returncode == 0, done.stderr
    verdict = verify(tmp_path)
    assert verdict["complete"], verdict["reasons"]
    with stored(tmp_path) as access:
        exact = sum(check_kind(tmp_path, kind, access, draw, places) for kind in kinds)
        assert exact
        if name != FEW:
            check_forward(tmp_path, kinds, access, draw, places)
