"""Jobs of RDDs and DataFrames, one after another, through tables of Delta Lake and Iceberg, and what traces through all of them say.

Rows carry the numbers of the lines that made them. What the test needs goes to chain.json: by output its applications, each row with what
it says of itself and what the trace says. Arguments: the store, and "busy" for the jobs of a table that another program commits to meanwhile.
"""

import contextlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage.access import StoredAccess
from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageContext
from lineage_emitter.dataframes import own_commits
from lineage_query.trace_query import TraceQuery
from lineage_store.url import open_store

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
home = Path.cwd()
apps: dict[str, str] = {}


def begin(name: str) -> LineageContext:
    lc = LineageContext(spark.sparkContext, store=sys.argv[1], link=True)
    assert lc.session is not None
    apps[name] = lc.session.app
    return lc


def append(number: int, table: str = "orders", meddle: Callable[[], None] = lambda: None) -> None:
    """A job of RDDs that appends to a table of Delta Lake. ``meddle``: is called while it does."""

    def fields_of(line: str) -> tuple[str, ...]:
        meddle()
        return tuple(line.split(","))

    name = "append" if table == "orders" else table
    with begin(f"{name} {number}") as lc:
        lines = lc.textFile(str(home / f"in{number}.txt"), 1)
        lines.map(fields_of).toDF("key string, ids string").write.format("delta").mode(
            "append"
        ).save(table)


def commit_meanwhile() -> None:
    """Another program's commit to a table: the rows of another table."""
    actions = map(json.loads, (home / f"other/_delta_log/{0:020}.json").read_text().splitlines())
    (add,) = (action["add"] for action in actions if "add" in action)
    shutil.copy(home / "other" / add["path"], home / "busy")
    log = home / f"busy/_delta_log/{1:020}.json"
    with contextlib.suppress(FileExistsError), log.open("x") as commit:
        commit.write(json.dumps({"add": add}) + "\n")


def total(name: str) -> None:
    """A job of DataFrames from that table to one of Iceberg."""
    with begin(name):
        orders = spark.read.format("delta").load("orders")
        ids = F.concat_ws(" ", F.sort_array(F.collect_list("ids"))).alias("ids")
        totals = orders.groupBy("key").agg(ids).coalesce(1)
        totals.writeTo(f"local.db.{name}").using("iceberg").create()


def report(name: str, read: Callable[[], DataFrame]) -> None:
    """A job of DataFrames that writes lines."""
    with begin(name):
        read().coalesce(1).write.csv(name)


for number, keys in ((1, "aba"), (2, "bc")):
    lines = (f"{key},{number}{at}\n" for at, key in enumerate(keys, 1))
    (home / f"in{number}.txt").write_text("".join(lines))
if sys.argv[2:] == ["busy"]:
    other = spark.createDataFrame([("z", "9")], "key string, ids string").coalesce(1)
    other.write.format("delta").save("other")
    append(1, "busy")
    # As with a version of Delta Lake that does not say which transactions it begins.
    with patch.object(own_commits, "_begun", lambda name: None):
        append(2, "busy", commit_meanwhile)
    report("busied", lambda: spark.read.format("delta").load("busy"))
else:
    for number in (1, 2):
        append(number)
    total("totals")
    report("chained", lambda: spark.table("local.db.totals"))
    # The same rows in other files.
    spark.sql(f"OPTIMIZE delta.`{home}/orders`")
    total("packed")
    spark.sql("UPDATE local.db.totals SET key = 'z' WHERE key = 'a'")
    report("updated", lambda: spark.table("local.db.totals"))

with open_store(sys.argv[1]) as store:
    access = StoredAccess(store, sys.argv[1])

    def asked(direction: Direction, place: str) -> dict[str, object]:
        answer = access.ask(TraceQuery(direction, (place,), all_jobs=True))
        return {
            "found": [
                (item.location, item.text)
                for group in answer.groups
                for item in group.items
                if "/.lineage/rows/" not in (item.location or "")
            ],
            "exact": answer.exact,
            "complete": answer.complete,
            "refused": [(gap.app, gap.reason) for gap in answer.not_queried],
        }

    traces = {}
    for out in apps.keys() & {"chained", "updated", "busied"}:
        (part,) = (home / out).glob("part-*")
        for at, line in enumerate(part.read_text().splitlines(), 1):
            traces[f"{out} {line} {at}"] = asked(Direction.BACKWARD, f"{part}:{at}")
    for part in (home / "warehouse/db/packed/data").glob("*.parquet"):
        traces["packed"] = asked(Direction.BACKWARD, f"{part}#0")
    for number in (1, 2):
        traces[f"forward {number}"] = asked(Direction.FORWARD, f"{home}/in{number}.txt:1")
    versions = {
        name: [
            (run.app, run.wrote, run.use.table_versions)
            for run in access.dataset_runs("file", f"{home}/{name}").items
        ]
        for name in ("orders", "busy", "warehouse/db/totals")
        if (home / name).exists()
    }
    found = [dataset.name for dataset in access.datasets(f"file:{home}/orders@2").items]
(home / "chain.json").write_text(
    json.dumps({"apps": apps, "traces": traces, "versions": versions, "orders@2": found})
)
