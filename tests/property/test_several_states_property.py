"""Sessions, several nodes with state in one query, and functions with a state, against an oracle: rows say what they were made of.

Each query runs twice over the same arrivals: one writes the identities of the records that Spark made a row of, the other does not. Rows of
both must go back to these records, to others besides only where the answer is no exact one.
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
from tests.support.stream_rows import Places, Row, drawn_files, made_of, rows_of, traced_places

GROUPS = (
    "session",
    "sessionKey",
    "dedupWindow",
    "valueWindow",
    "withinWindow",
    "twice",
    "joinWindow",
)
OTHERS = ("function", "keyed", "limit", "windowDedup", "two")
EXACT_IF_NONE_IS_LATE = {"twice", "two"}
ASKED = 3
"""Rows of a query that are traced."""

JOB = """
import json
from pyspark.sql import SparkSession, functions as F

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
ALL = [F.collect_list("id").alias("ids"), F.count(F.lit(1)).alias("n"), F.sum("v").alias("s")]


def read(folder):
    reader = spark.readStream.schema("id string, key string, v int, t long")
    rows = reader.option("maxFilesPerTrigger", 1).json(folder)
    return rows.withColumn("at", F.timestamp_seconds("t")).withWatermark("at", "5 seconds")


def side(folder, mark):
    return read(folder).selectExpr(*(f"{name} AS {mark}{name}" for name in ("id", "key", "v", "at")))


def windows(rows, length="10 seconds"):
    return rows.groupBy(F.window("at", length), "key").agg(*ALL)


def ends(rows, name="window"):
    return rows.withColumn("end", F.unix_seconds(f"{name}.end"))


def sessions():
    return read("l").groupBy(F.session_window("at", "2 seconds"), "key").agg(*ALL)


def twice():
    inner = windows(read("l"), "5 seconds").select(F.window_time("window").alias("at"), "ids", "n", "s")
    outer = inner.groupBy(F.window("at", "10 seconds"))
    return ends(outer.agg(F.flatten(F.collect_list("ids")).alias("ids"), F.sum("n").alias("n"), F.sum("s").alias("s")))


def joined():
    near = F.expr("lkey = rkey AND rat >= lat - interval 4 seconds AND rat <= lat + interval 4 seconds")
    pairs = side("l", "l").join(side("r", "r"), near).withColumn("ids", F.array("lid", "rid"))
    groups = pairs.groupBy(F.window("lat", "10 seconds"), F.col("lkey").alias("key"))
    return ends(groups.agg(F.flatten(F.collect_list("ids")).alias("ids"), F.count(F.lit(1)).alias("n"), F.sum("rv").alias("s")))


def function():
    import pandas as pd

    def count(key, frames, state):
        ids = list(state.get[0]) if state.exists else []
        for frame in frames:
            ids += list(frame["id"])
        state.update((ids,))
        yield pd.DataFrame({"ids": [ids], "n": [len(ids)]})

    groups = read("l").groupBy("key")
    return groups.applyInPandasWithState(count, "ids array<string>, n int", "ids array<string>", "append", "NoTimeout")


def keyed():
    import pandas as pd
    from pyspark.sql import types as T

    def count(key, frames, state):
        ids = list(state.get[0]) if state.exists else []
        for frame in frames:
            ids += list(frame["id"])
        state.update((ids,))
        # Two rows of a group, one of another number than it has rows.
        yield pd.DataFrame({"who": [key[0]] * 2, "ids": [ids, ids[:1]], "n": [len(ids), -1]})

    rows = T.StructType([
        T.StructField("who", T.StringType(), metadata={"lineage.key": "key"}),
        T.StructField("ids", T.ArrayType(T.StringType())),
        T.StructField("n", T.IntegerType()),
    ])
    groups = read("l").groupBy("key")
    return groups.applyInPandasWithState(count, rows, "ids array<string>", "append", "NoTimeout")


def one(rows):
    return rows.withColumn("ids", F.array("id"))


def two():
    other = read("r").withColumn("key", F.concat(F.lit("r"), "key"))
    return ends(windows(read("l"))).union(ends(windows(other)))


MADE = {
    "session": (lambda: ends(sessions(), "session_window"), ["key", "end", "n", "s"]),
    "sessionKey": (sessions, ["key", "n"]),
    "dedupWindow": (lambda: ends(windows(read("l").dropDuplicates(["key", "at"]))), ["key", "end", "n", "s"]),
    "valueWindow": (lambda: ends(windows(read("l").dropDuplicates(["key", "v"]))), ["key", "end", "n", "s"]),
    "withinWindow": (lambda: ends(windows(read("l").dropDuplicatesWithinWatermark(["key"]))), ["key", "end", "n"]),
    "twice": (twice, ["end", "n", "s"]),
    "joinWindow": (joined, ["key", "end", "n", "s"]),
    "function": (function, ["n"]),
    "keyed": (keyed, ["who", "n"]),
    "limit": (lambda: one(read("l").limit(3)), ["key", "v"]),
    "windowDedup": (lambda: ends(windows(read("l")).dropDuplicates(["window"])), ["key", "end", "n", "s"]),
    "two": (two, ["key", "end", "n", "s"]),
}
kinds, outputs = json.load(open("cases.json"))
for kind in kinds:
    make, values = MADE[kind]
    for name in outputs:
        frame = make().select(*(["ids", *values] if name == "told" else values)).coalesce(1)
        writer = frame.writeStream.format("json").option("path", f"{kind}-{name}")
        writer = writer.option("ignoreNullFields", "false")
        writer = writer.option("checkpointLocation", f"checkpoints/{kind}-{name}")
        writer.trigger(availableNow=True).start().awaitTermination()
rows = spark.read.schema("id string, key string, v int, t long").json("l")
rows = rows.withColumn("at", F.timestamp_seconds("t"))
batch = rows.groupBy(F.session_window("at", "3 seconds"), "key").agg(*ALL)
batch.select("ids", "key", "n", F.unix_seconds("session_window.end").alias("end")).coalesce(1).write.json("batch")
"""


def values_of(row: Row) -> str:
    return json.dumps({name: value for name, value in row.items() if name != "ids"})


def keys_of(places: Places) -> dict[str, str | None]:
    """The keys of the records, by where they stand."""
    keys: dict[str, str | None] = {}
    for place in places.values():
        path, _, line = place.rpartition(":")
        keys[place] = json.loads(Path(path).read_text().splitlines()[int(line) - 1])["key"]
    return keys


def check_kind(
    folder: Path,
    kind: str,
    access: StoredAccess,
    draw: random.Random,
    places: Places,
    *,
    late: bool,
) -> None:
    told, plain = rows_of(folder / f"{kind}-told"), rows_of(folder / f"{kind}-plain")
    keys = keys_of(places)
    for _, place, row in draw.sample(told, min(ASKED, len(told))):
        truth = made_of(row, places)
        items, is_exact = traced_places(access, Direction.BACKWARD, place)
        assert truth <= items, (place, row, items)
        assert items == truth or not is_exact, (place, row, items)
        if kind == "keyed":
            # Of the rows so far those that have its key.
            assert not is_exact
            assert {keys[place] for place in items} == {row["who"]}, (place, row, items)
        if kind in EXACT_IF_NONE_IS_LATE and not late:
            assert is_exact, (place, row)
    options: defaultdict[tuple[int, str], list[frozenset[str]]] = defaultdict(list)
    for number, _, row in told:
        options[number, values_of(row)].append(made_of(row, places))
    for number, place, row in draw.sample(plain, min(ASKED, len(plain))):
        of_row = options[number, values_of(row)]
        if not of_row:
            # Which of several a deduplication or a limit keeps, each run decides.
            continue
        items, is_exact = traced_places(access, Direction.BACKWARD, place)
        assert frozenset().union(*of_row) <= items, (place, row, of_row)
        if is_exact:
            assert set(of_row) == {items}, (place, row, of_row)


def check_forward(
    folder: Path, kind: str, access: StoredAccess, record: str, places: Places
) -> None:
    """A record goes into all rows that say so."""
    told = rows_of(folder / f"{kind}-told")
    expected = {place for _, place, row in told if record in made_of(row, places)}
    items, is_exact = traced_places(access, Direction.FORWARD, record)
    of_kind = {place for place in items if f"/{kind}-told/" in place}
    assert expected <= of_kind, (kind, record, expected)
    assert expected == of_kind or not is_exact


def check_batch(folder: Path, access: StoredAccess, places: Places) -> None:
    """Sessions of no stream."""
    (path,) = (folder / "batch").glob("part-*.json")
    for at, line in enumerate(path.read_text().splitlines()):
        truth = made_of(json.loads(line), places)
        assert traced_places(access, Direction.BACKWARD, f"{path}:{at + 1}") == (truth, True), line


FEW = "few"
CASES = {
    FEW: (["session", "valueWindow"], False),
    **{f"{seed}": ([*GROUPS, *OTHERS], seed % 2 == 0) for seed in range(1, 5)},
}


@pytest.mark.parametrize("name", drawn(CASES, every=len(CASES)))
def test_rows_go_back_to_the_records_of_all_states(name: str, tmp_path: Path) -> None:
    draw, (kinds, late) = random.Random(f"states {name}"), CASES[name]
    places = drawn_files(draw, tmp_path, "l", late=late)
    places |= drawn_files(draw, tmp_path, "r", late=late)
    outputs = ["told"] if name == FEW else ["told", "plain"]
    (tmp_path / "cases.json").write_text(json.dumps([kinds, outputs]))
    write_job(tmp_path, JOB)
    done = run_captured(tmp_path, "job.py")
    assert done.returncode == 0, done.stderr
    verdict = verify(tmp_path)
    assert verdict["complete"], verdict["reasons"]
    with stored(tmp_path) as access:
        check_batch(tmp_path, access, places)
        for kind in kinds:
            check_kind(tmp_path, kind, access, draw, places, late=late)
        record = draw.choice(sorted(places.values()))
        if name != FEW:
            check_forward(tmp_path, "session", access, record, places)
            check_forward(tmp_path, "keyed", access, record, places)
