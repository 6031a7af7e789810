"""Functions that keep a state in a store of Spark's (`transformWithState`), against an oracle: rows say what they were made of."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from lineage.access import StoredAccess
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.errors import RefusedError
from tests.support.job_runs import run_captured, stored, verify, write_job
from tests.support.stream_rows import Places, Row, drawn_files, made_of, rows_of, traced_places
from tests.support.versions import not_before_41

pytestmark = [pytest.mark.long, not_before_41("transformWithState of rows")]

KEYED = ("keyed", "pandas", "timed", "changed")
"""Those whose function declares in which column its key is."""
WHOLE = ("plain", "started")
SEVERAL = ("above",)
"""A function that is called for numbers of rows of windows."""
REFUSED = "grouped"
"""Windows of a function's rows."""
ASKED = 4
"""Rows of a query that are traced."""

JOB = """
import sys
from pathlib import Path

import pandas as pd
from pyspark.sql import Row, SparkSession, functions as F, types as T
from pyspark.sql.streaming import StatefulProcessor

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.streaming.stateStore.providerClass", PROVIDER)
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
IDS = T.ArrayType(T.StringType())
STATE = T.StructType([T.StructField("id", T.StringType())])


def of_rows(key="key", time=False):
    metadata = {"lineage.key": key} if key else None
    columns = [
        T.StructField("who", T.StringType(), metadata=metadata),
        T.StructField("ids", IDS),
        T.StructField("n", T.IntegerType()),
    ]
    return T.StructType(columns + [T.StructField("end", T.TimestampType())] * time)


class Collect(StatefulProcessor):
    # All rows of the key so far; two rows a call, one of another number.
    def init(self, handle):
        self.handle = handle
        self.ids = handle.getListState("ids", STATE)

    def handleInitialState(self, key, initialState, timerValues):
        self.ids.appendValue((initialState.id,))

    def add(self, ids):
        for one in ids:
            self.ids.appendValue((one,))
        return [row[0] for row in self.ids.get()]

    def handleInputRows(self, key, rows, timerValues):
        ids = self.add(row.id for row in rows)
        yield Row(who=key[0], ids=ids, n=len(ids))
        yield Row(who=key[0], ids=ids[:1], n=-1)

    def close(self):
        pass


class CollectFrames(Collect):
    def handleInputRows(self, key, rows, timerValues):
        ids = self.add(one for frame in rows for one in frame["id"])
        yield pd.DataFrame({"who": [key[0]], "ids": [ids], "n": [len(ids)]})


class Timed(Collect):
    # Gives nothing before the watermark has passed what it was, and forgets then.
    def handleInputRows(self, key, rows, timerValues):
        self.add(row.id for row in rows)
        self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 1)
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        ids = self.add(())
        self.ids.clear()
        if ids:
            yield Row(who=key[0], ids=ids, n=len(ids))


class CollectAll(Collect):
    def handleInputRows(self, key, rows, timerValues):
        ids = self.add(one for row in rows for one in row.ids)
        yield Row(who=key[0], ids=ids, n=len(ids))


class Ended(Collect):
    # A row with a time for each call.
    def handleInputRows(self, key, rows, timerValues):
        rows = list(rows)
        ids = self.add(row.id for row in rows)
        yield Row(who=key[0], ids=ids, n=len(ids), end=max((row.at for row in rows if row.at), default=None))


def read():
    reader = spark.readStream.schema("id string, key string, v int, t long")
    rows = reader.option("maxFilesPerTrigger", 1).json("l")
    return rows.withColumn("at", F.timestamp_seconds("t")).withWatermark("at", "5 seconds")


def made(function, rows, mode="append", times="None", **more):
    return read().groupBy("key").transformWithState(function, rows, mode, times, **more)


def started():
    first = spark.read.schema("id string, key string, v int, t long").json("first").groupBy("key")
    return made(Collect(), of_rows(key=None), initialState=first)


def grouped():
    rows = made(Ended(), of_rows(time=True), times="eventTime", eventTimeColumnName="end")
    groups = rows.groupBy(F.window("end", "10 seconds"), F.col("who"))
    return groups.agg(F.flatten(F.collect_list("ids")).alias("ids"), F.sum("n").alias("n"))


def above():
    groups = read().groupBy(F.window("at", "10 seconds"), "key")
    groups = groups.agg(F.collect_list("id").alias("ids"), F.count(F.lit(1)).cast("string").alias("m"))
    rows = of_rows(key="m")
    return groups.groupBy("m").transformWithState(CollectAll(), rows, "append", "None")


MADE = {
    "plain": lambda: made(Collect(), of_rows(key=None)),
    "keyed": lambda: made(Collect(), of_rows()),
    "pandas": lambda: read().groupBy("key").transformWithStateInPandas(CollectFrames(), of_rows(), "append", "None"),
    "timed": lambda: made(Timed(), of_rows(), times="eventTime"),
    "changed": lambda: made(Collect(), of_rows(), mode="update"),
    "started": started,
    "grouped": grouped,
    "above": above,
}
for kind in sys.argv[1:]:
    frame = MADE[kind]().select("who", "ids", "n").coalesce(1)
    writer = frame.writeStream.option("checkpointLocation", f"checkpoints/{kind}")
    if kind == "changed":
        # By a function, which takes groups that change.
        def write(rows, number):
            rows.write.option("ignoreNullFields", "false").json(f"{kind}/{number}")

        writer = writer.outputMode("update").foreachBatch(write)
    else:
        writer = writer.format("json").option("path", kind).option("ignoreNullFields", "false")
    writer.trigger(availableNow=True).start().awaitTermination()
"""


def rows_in(folder: Path, kind: str) -> list[tuple[int, str, Row]]:
    """The rows that a query wrote, with their batches and places."""
    if kind != "changed":
        return rows_of(folder / kind)
    return [
        (int(path.parent.name), f"{path}:{at + 1}", json.loads(line))
        for path in (folder / kind).glob("*/part-*.json")
        for at, line in enumerate(path.read_text().splitlines())
    ]


def read_so_far(places: Places, batch: int) -> dict[str, str | None]:
    """The keys of the records of this batch and those before, by where they stand: one file a batch."""
    keys: dict[str, str | None] = {}
    for place in places.values():
        path, _, line = place.rpartition(":")
        if int(Path(path).stem) <= batch:
            keys[place] = json.loads(Path(path).read_text().splitlines()[int(line) - 1])["key"]
    return keys


def check_kind(
    folder: Path,
    kind: str,
    access: StoredAccess,
    draw: random.Random,
    places: Places,
    first: frozenset[str],
) -> None:
    """``first``: where the records stand that the state of ``started`` begins with."""
    rows = rows_in(folder, kind)
    assert rows, kind
    if kind == REFUSED:
        with pytest.raises(RefusedError, match="a Python function that keeps a state"):
            traced_places(access, Direction.BACKWARD, rows[0][1])
        return
    for batch, place, row in draw.sample(rows, min(ASKED, len(rows))):
        truth = made_of(row, places)
        items, is_exact = traced_places(access, Direction.BACKWARD, place)
        assert not is_exact, (place, row)
        assert truth <= items, (place, row, truth - items)
        read = read_so_far({name: at for name, at in places.items() if at not in first}, batch)
        if kind in KEYED:
            assert items == {at for at, key in read.items() if key == row["who"]}, (place, row)
        elif kind in WHOLE:
            assert items == {*read, *(first if kind == "started" else ())}, (place, row)


def check_forward(
    folder: Path, kinds: list[str], access: StoredAccess, record: str, places: Places
) -> None:
    """A record goes into all rows that say so, where the key is declared."""
    items, is_exact = traced_places(access, Direction.FORWARD, record)
    assert not is_exact
    for kind in kinds:
        expected = {at for _, at, row in rows_in(folder, kind) if record in made_of(row, places)}
        assert expected <= items, (kind, record, expected - items)


FEW = ["keyed", "timed"]
# By the seed of their draws, which have records of several keys, and of none, in several files.
CASES = {"3": FEW, "5": [*KEYED, *WHOLE, *SEVERAL, REFUSED]}


@pytest.mark.parametrize("name", CASES)
def test_rows_go_back_to_the_records_that_the_state_was_made_of(name: str, tmp_path: Path) -> None:
    draw, kinds = random.Random(f"transformed {name}"), CASES[name]
    places = drawn_files(draw, tmp_path, "l")
    of_first = drawn_files(draw, tmp_path, "first")
    write_job(tmp_path, JOB)
    done = run_captured(tmp_path, "job.py", *kinds)
    assert done.returncode == 0, done.stderr
    verdict = verify(tmp_path)
    assert verdict["complete"], verdict["reasons"]
    with stored(tmp_path) as access:
        for kind in kinds:
            check_kind(
                *(tmp_path, kind, access, draw, places | of_first), frozenset(of_first.values())
            )
        record = draw.choice(sorted(places.values()))
        check_forward(tmp_path, [kind for kind in kinds if kind in KEYED], access, record, places)
