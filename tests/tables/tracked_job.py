"""Tables that track rows (Delta Lake, Iceberg): jobs append to them, others change them and put their rows into other files, jobs read them.

Each row carries the line that made it, and how often it was changed. What traces say goes to tracked.json.
Usage: tracked_job.py STORE FORMAT TRACES SEED[=STEP,STEP...]..., of each table that many rows back, and half as many forward
"""

import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage.access import StoredAccess
from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageContext
from lineage_query.trace_query import TraceQuery
from lineage_store.url import open_store

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
home = Path.cwd()
ROWS = 4
"""Lines that a job appends."""


@contextmanager
def captured() -> Iterator[LineageContext]:
    with LineageContext(spark.sparkContext, store=sys.argv[1], link=True) as lc:
        yield lc


class Table:
    """One table of Delta Lake, and what was done to it."""

    format = "delta"
    properties: Sequence[Mapping[str, str]] = (
        {"delta.enableDeletionVectors": "true"},
        {"delta.enableDeletionVectors": "false"},
        {"delta.enableDeletionVectors": "false", "delta.columnMapping.mode": "name"},
        {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "id"},
    )
    tracked: Mapping[str, str] = {"delta.enableRowTracking": "true"}
    untracked: Mapping[str, str] = {}
    steps_drawn: Mapping[str, int] = {
        "optimize": 4, "update": 3, "delete": 3, "merge": 2, "append": 1, "add": 1, "replace": 1, "restore": 1,
    }  # fmt: skip

    def __init__(self, name: str, draw: random.Random, *, late: bool) -> None:
        self.name, self.draw = name, draw
        self.sql_name = self.named(name)
        self.steps: list[str] = []
        self.appended: list[str] = []
        """The lines that jobs appended."""
        self.read: list[str] = []
        """The outputs of jobs that read it."""
        self.is_tracked = self.keeps_ids = not late
        """Whether rows kept their ids from the first version on; ``keeps_ids``: and all commits say so."""
        properties = {**draw.choice(self.properties), **(self.untracked if late else self.tracked)}
        told = ",".join(f"'{key}' = '{value}'" for key, value in properties.items())
        spark.sql(
            f"CREATE TABLE {self.sql_name} (ids STRING, changes BIGINT) USING {self.format} TBLPROPERTIES ({told})"
        )
        self.steps.append(told)

    def named(self, name: str) -> str:
        return f"delta.`{home / name}`"

    def write(self, rows: DataFrame) -> None:
        rows.write.format("delta").mode("append").save(str(home / self.name))

    def load(self) -> DataFrame:
        return spark.read.format("delta").load(str(home / self.name))

    def run(self) -> None:
        for _ in range(2):
            self.append()
        for _ in range(self.draw.randint(2, 3)):
            steps = self.steps_drawn
            for step in self.draw.choices((*steps,), [*steps.values()], k=self.draw.randint(1, 2)):
                getattr(self, step)()
            self.report()

    def append(self) -> None:
        name = f"{self.name}.{len(self.appended) // ROWS}"
        lines = [f"{name}.{at}" for at in range(1, ROWS + 1)]
        (home / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
        with captured() as lc:
            rows = lc.textFile(str(home / f"{name}.txt"), 1).map(lambda line: (line, 0))
            self.write(rows.toDF("ids string, changes bigint"))
        self.appended += lines
        self.steps.append("append")

    def report(self) -> None:
        name = f"{self.name}-out{len(self.read)}"
        with captured():
            self.load().coalesce(1).write.csv(name)
        self.read.append(name)
        self.steps.append("report")

    def sql(self, statement: str) -> None:
        self.steps.append(statement)
        if self.draw.random() < 0.3:
            self.steps.append("(captured)")
            with captured():
                spark.sql(statement)
        else:
            spark.sql(statement)

    def some(self) -> str:
        live = sorted(row.ids for row in self.load().collect())
        picked = self.draw.sample(live, min(len(live), 2))
        return ", ".join(f"'{ids}'" for ids in picked) or "''"

    def optimize(self) -> None:
        self.sql(f"OPTIMIZE {self.sql_name}")

    def update(self) -> None:
        self.sql(f"UPDATE {self.sql_name} SET changes = changes + 1 WHERE ids IN ({self.some()})")

    def delete(self) -> None:
        self.sql(f"DELETE FROM {self.sql_name} WHERE ids IN ({self.some()})")

    def merge(self) -> None:
        some = self.some()
        new = f"{self.name}.new.{len(self.steps)}"
        source = f"(SELECT explode(array({some}, '{new}')) AS ids)"
        self.sql(
            f"MERGE INTO {self.sql_name} t USING {source} s ON t.ids = s.ids "
            "WHEN MATCHED THEN UPDATE SET changes = t.changes + 1 "
            "WHEN NOT MATCHED THEN INSERT (ids, changes) VALUES (s.ids, 0)"
        )

    def restore(self) -> None:
        history = spark.sql(f"DESCRIBE HISTORY {self.sql_name}").select("version").collect()
        version = self.draw.choice([row.version for row in history if row.version > 1] or [0])
        self.steps.append(f"restore {version}")
        spark.sql(f"RESTORE {self.sql_name} TO VERSION AS OF {version}")

    def add(self) -> None:
        new = f"{self.name}.new.{len(self.steps)}"
        self.steps.append(f"add {new}")
        rows = spark.range(1).select(
            F.lit(new).alias("ids"), F.lit(0).cast("bigint").alias("changes")
        )
        self.write(rows)

    def replace(self) -> None:
        """Overwrite the rows of a line, and put the others into another file."""
        ids = self.some().split(",")[0]
        new = f"{self.name}.new.{len(self.steps)}"
        self.steps.append(f"replace {ids} by {new}")
        self.keeps_ids = False
        rows = spark.range(1).select(
            F.lit(new).alias("ids"), F.lit(0).cast("bigint").alias("changes")
        )
        where = f"ids IN ({ids}, '{new}')"
        rows.write.format("delta").mode("overwrite").option("replaceWhere", where).save(
            str(home / self.name)
        )

    def vacuum(self) -> None:
        """Delete files that are not in the table now."""
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        # It lists folders in as many tasks: 10,000.
        spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "1")
        self.sql(f"VACUUM {self.sql_name} RETAIN 0 HOURS")

    def track(self) -> None:
        told = ",".join(f"'{key}' = '{value}'" for key, value in self.tracked.items())
        self.steps.append("track")
        spark.sql(f"ALTER TABLE {self.sql_name} SET TBLPROPERTIES ({told})")


class IcebergTable(Table):
    """One table of Iceberg, and what was done to it."""

    format = "iceberg"
    properties: Sequence[Mapping[str, str]] = tuple(
        {f"write.{change}.mode": mode for change in ("update", "delete", "merge")}
        for mode in ("copy-on-write", "merge-on-read")
    )
    tracked: Mapping[str, str] = {"format-version": "3"}
    untracked: Mapping[str, str] = {"format-version": "2"}
    steps_drawn: Mapping[str, int] = {
        "optimize": 4, "update": 3, "delete": 3, "merge": 2, "append": 1, "add": 1, "restore": 1, "expire": 1,
    }  # fmt: skip

    def named(self, name: str) -> str:
        return f"local.db.{name}"

    def write(self, rows: DataFrame) -> None:
        rows.writeTo(self.sql_name).append()

    def load(self) -> DataFrame:
        return spark.table(self.sql_name)

    def call(self, procedure: str, *arguments: str) -> None:
        told = ", ".join((f"table => 'db.{self.name}'", *arguments))
        self.sql(f"CALL local.system.{procedure}({told})")

    def optimize(self) -> None:
        self.call("rewrite_data_files", "options => map('rewrite-all', 'true')")

    def restore(self) -> None:
        snapshots = spark.table(f"{self.sql_name}.history").where("is_current_ancestor").collect()
        version = self.draw.choice(snapshots[1:] or snapshots).snapshot_id
        self.call("rollback_to_snapshot", f"snapshot_id => {version}")

    def expire(self) -> None:
        # Which snapshot wrote a row is not known any more.
        self.is_tracked = self.keeps_ids = False
        self.call("expire_snapshots", "older_than => TIMESTAMP '2100-01-01'", "retain_last => 1")


tables = []
kind = IcebergTable if sys.argv[2] == IcebergTable.format else Table
traces = int(sys.argv[3])
for argument in sys.argv[4:]:
    seed, _, steps = argument.partition("=")
    draw = random.Random(int(seed))
    late = not steps and draw.random() < 0.25
    table = kind(f"t{seed}", draw, late=late)
    tables.append(table)
    if late:
        table.append()
        draw.choice((table.update, table.optimize))()
        table.track()
    if steps:
        for step in steps.split(","):
            getattr(table, step)()
    else:
        table.run()

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

    told = []
    for table in tables:
        lines = {
            f"{part}:{at}": line
            for name in table.read
            for part in (home / name).glob("part-*.csv")
            for at, line in enumerate(part.read_text().splitlines(), 1)
        }
        places = sorted(lines)
        picked = table.draw.sample(places, min(len(places), traces))
        sources = {
            line: f"{home}/{line.rpartition('.')[0]}.txt:{line.rpartition('.')[2]}"
            for line in table.draw.sample(sorted(table.appended), traces // 2)
        }
        told.append(
            {
                "name": table.name,
                "steps": table.steps,
                "is_tracked": table.is_tracked,
                "keeps_ids": table.keeps_ids,
                "appended": table.appended,
                "lines": lines,
                "back": {place: asked(Direction.BACKWARD, place) for place in picked},
                "forward": {line: asked(Direction.FORWARD, at) for line, at in sources.items()},
            }
        )
(home / "tracked.json").write_text(json.dumps(told))
