"""Jobs that write to tables of Delta Lake and Iceberg while others do, some of no rows, and what traces say of the rows.

Rows are texts that say who wrote them. What the test needs goes to commits.json.
"""

import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage.access import StoredAccess
from lineage_core.recipe.document import Recipe
from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageContext
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


def rows_of(lc: LineageContext, text: str, meddle: Callable[[], None], *, empty: bool) -> DataFrame:
    """A row of a file of one line. ``meddle``: is called when the line is read. ``empty``: it becomes no row."""

    def record_of(line: str) -> tuple[str]:
        meddle()
        return (line,)

    (home / f"{text}.txt").write_text(f"{text}\n")
    records = lc.textFile(str(home / f"{text}.txt"), 1).map(record_of)
    return records.filter(lambda _: not empty).toDF("text string")


def write(
    name: str,
    write_rows: Callable[[DataFrame], None],
    meddle: Callable[[], None] = lambda: None,
    *,
    empty: bool = False,
) -> None:
    """A job of one write."""
    with begin(name) as lc:
        write_rows(rows_of(lc, name, meddle, empty=empty))


def append(table: str, mode: str = "append") -> Callable[[DataFrame], None]:
    return lambda rows: rows.write.format("delta").mode(mode).save(str(home / table))


def foreign(table: str, text: str) -> Callable[[], None]:
    """A table with a row of a job, and what makes another program's append of a row to it the next version."""
    write(f"{table}-first", append(table))
    shutil.copytree(home / table, home / f"{table}.copy")
    other = spark.createDataFrame([(text,)], "text string").coalesce(1)
    other.write.format("delta").mode("append").save(str(home / f"{table}.copy"))
    log = f"_delta_log/{1:020}.json"
    copied = home / f"{table}.copy"
    (part,) = (
        json.loads(line)["add"]["path"]
        for line in (copied / log).read_text().splitlines()
        if '{"add"' in line
    )

    def commit() -> None:
        if not (home / table / log).exists():
            shutil.copy(copied / part, home / table)
            shutil.copy(copied / log, home / table / log)

    return commit


def meanwhile(
    name: str, slow: Callable[[DataFrame], None], quick: Callable[[DataFrame], None], *, empty: bool
) -> None:
    """A job in which one thread writes while another one's write to the same table begins and returns."""
    pipe = home / f"{name}.pipe"
    os.mkfifo(pipe)

    def wait() -> None:
        # Until the other write has returned.
        if pipe.exists():
            pipe.read_text()
            pipe.unlink()

    with begin(name) as lc:
        thread = threading.Thread(
            target=lambda: slow(rows_of(lc, f"{name}-slow", wait, empty=empty))
        )
        thread.start()
        # Opens once the other one's task waits.
        with pipe.open("w"):
            quick(rows_of(lc, f"{name}-quick", lambda: None, empty=False))
        thread.join()


def report(table: str) -> None:
    with begin(f"{table}-report"):
        delta = spark.read.format("delta")
        rows = (
            delta.load(str(home / table)) if table in DELTA else spark.table(f"local.db.`{table}`")
        )
        rows.coalesce(1).write.text(f"{table}-out")


def append_to(name: str) -> Callable[[DataFrame], None]:
    return lambda rows: rows.writeTo(name).append()


def overwrite_in(name: str) -> Callable[[DataFrame], None]:
    return lambda rows: rows.writeTo(name).overwritePartitions()


DELTA = ("empty", "both", "ignored", "threads", "threads-empty")
ICEBERG = ("ice", "ice-empty")
write("empty-job", append("empty"), foreign("empty", "foreign"), empty=True)
write("both-job", append("both"), foreign("both", "foreign"))
write("ignored-first", append("ignored"))
write("ignored-job", append("ignored", "ignore"))
for table in ("threads", "threads-empty"):
    write(f"{table}-first", append(table))
    meanwhile(table, append(table), append(table), empty=table == "threads-empty")
for table in ICEBERG:
    spark.sql(f"CREATE TABLE local.db.`{table}` (text STRING) USING iceberg")
    name = f"local.db.`{table}`"
    is_empty = table == "ice-empty"
    slow = overwrite_in(name) if is_empty else append_to(name)
    meanwhile(table, slow, append_to(name), empty=is_empty)
# A write of no rows that reads its own table, to which another program commits before it does.
commit = foreign("own", "foreign")
with begin("own-job"):
    is_wanted = F.udf(lambda _: commit() is not None, "boolean")
    append("own")(spark.read.format("delta").load(str(home / "own")).where(is_wanted("text")))
for table in DELTA + ICEBERG:
    report(table)

with open_store(sys.argv[1]) as store:
    access = StoredAccess(store, sys.argv[1])

    def asked(place: str) -> dict[str, object]:
        answer = access.ask(TraceQuery(Direction.BACKWARD, (place,), all_jobs=True))
        return {
            "found": sorted(
                {
                    str(item.text)
                    for group in answer.groups
                    for item in group.items
                    if re.search(r"\.txt:\d+$", item.location or "")
                }
            ),
            "exact": answer.exact,
            "complete": answer.complete,
            "refused": [gap.app for gap in answer.not_queried],
        }

    def recipes(name: str) -> list[Recipe]:
        graph = store.graph(apps[name])
        texts = (graph.recipe(node.node) for node in graph.nodes() if node.kind == "frame")
        return [Recipe.from_json(text) for text in texts if text is not None]

    traces = {}
    for table in DELTA + ICEBERG:
        (part,) = (home / f"{table}-out").glob("part-*")
        traces[table] = {
            line: asked(f"{part}:{at}") for at, line in enumerate(part.read_text().splitlines(), 1)
        }
    outputs = {
        name: [
            (len(recipe.output.files), recipe.output.version, recipe.output.commits)
            for recipe in recipes(name)
            if recipe.output.kind != "driver"
        ]
        for name in apps
    }
    own = [
        (source.version, recipe.output.version)
        for recipe in recipes("own-job")
        for source in recipe.sources
    ]
(home / "commits.json").write_text(
    json.dumps({"apps": apps, "traces": traces, "outputs": outputs, "own": own})
)
