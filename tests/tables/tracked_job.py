"""Tables of Delta Lake that track rows: jobs append to them, others change them and put their rows into other files, jobs read them.

Each row carries the line that made it, and how often it was changed. What traces say goes to tracked.json.
Usage: tracked_job.py STORE TRACES SEED[=STEP,STEP...]..., of each table that many rows back, and half as many forward
"""

import json
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
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
PROPERTIES = (
    {"delta.enableDeletionVectors": "true"},
    {"delta.enableDeletionVectors": "false"},
    {"delta.enableDeletionVectors": "false", "delta.columnMapping.mode": "name"},
    {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "id"},
)
TRACKED = {"delta.enableRowTracking": "true"}


@contextmanager
def captured() -> Iterator[LineageContext]:
    with LineageContext(spark.sparkContext, store=sys.argv[1], link=True) as lc:
        yield lc


class Table:
    """One table, and what was done to it."""

    def __init__(self, name: str, draw: random.Random, *, late: bool) -> None:
        self.name, self.draw = name, draw
        self.path = str(home / name)
        self.steps: list[str] = []
        self.appended: list[str] = []
        """The lines that jobs appended."""
        self.read: list[str] = []
        """The outputs of jobs that read it."""
        self.is_tracked = self.keeps_ids = not late
        """Whether rows kept their ids from the first version on; ``keeps_ids``: and all commits say so."""
        properties = draw.choice(PROPERTIES) | ({} if late else TRACKED)
        told = ",".join(f"'{key}' = '{value}'" for key, value in properties.items())
        spark.sql(
            f"CREATE TABLE delta.`{self.path}` (ids STRING, changes BIGINT) USING delta TBLPROPERTIES ({told})"
        )
        self.steps.append(told)

    def run(self) -> None:
        for _ in range(2):
            self.append()
        for _ in range(self.draw.randint(2, 3)):
            for step in self.draw.choices((*STEPS,), [*STEPS.values()], k=self.draw.randint(1, 2)):
                step(self)
            self.report()

    def append(self) -> None:
        name = f"{self.name}.{len(self.appended) // ROWS}"
        lines = [f"{name}.{at}" for at in range(1, ROWS + 1)]
        (home / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
        with captured() as lc:
            rows = lc.textFile(str(home / f"{name}.txt"), 1).map(lambda line: (line, 0))
            rows.toDF("ids string, changes bigint").write.format("delta").mode("append").save(
                self.path
            )
        self.appended += lines
        self.steps.append("append")

    def report(self) -> None:
        name = f"{self.name}-out{len(self.read)}"
        with captured():
            spark.read.format("delta").load(self.path).coalesce(1).write.csv(name)
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
        live = sorted(row.ids for row in spark.read.format("delta").load(self.path).collect())
        picked = self.draw.sample(live, min(len(live), 2))
        return ", ".join(f"'{ids}'" for ids in picked) or "''"

    def optimize(self) -> None:
        self.sql(f"OPTIMIZE delta.`{self.path}`")

    def update(self) -> None:
        self.sql(
            f"UPDATE delta.`{self.path}` SET changes = changes + 1 WHERE ids IN ({self.some()})"
        )

    def delete(self) -> None:
        self.sql(f"DELETE FROM delta.`{self.path}` WHERE ids IN ({self.some()})")

    def merge(self) -> None:
        some = self.some()
        new = f"{self.name}.new.{len(self.steps)}"
        source = f"(SELECT explode(array({some}, '{new}')) AS ids)"
        self.sql(
            f"MERGE INTO delta.`{self.path}` t USING {source} s ON t.ids = s.ids "
            "WHEN MATCHED THEN UPDATE SET changes = t.changes + 1 "
            "WHEN NOT MATCHED THEN INSERT (ids, changes) VALUES (s.ids, 0)"
        )

    def restore(self) -> None:
        history = spark.sql(f"DESCRIBE HISTORY delta.`{self.path}`").select("version").collect()
        version = self.draw.choice([row.version for row in history if row.version > 1] or [0])
        self.steps.append(f"restore {version}")
        spark.sql(f"RESTORE delta.`{self.path}` TO VERSION AS OF {version}")

    def add(self) -> None:
        new = f"{self.name}.new.{len(self.steps)}"
        self.steps.append(f"add {new}")
        rows = spark.range(1).select(
            F.lit(new).alias("ids"), F.lit(0).cast("bigint").alias("changes")
        )
        rows.write.format("delta").mode("append").save(self.path)

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
        rows.write.format("delta").mode("overwrite").option("replaceWhere", where).save(self.path)

    def track(self) -> None:
        told = ",".join(f"'{key}' = '{value}'" for key, value in TRACKED.items())
        self.steps.append("track")
        spark.sql(f"ALTER TABLE delta.`{self.path}` SET TBLPROPERTIES ({told})")


STEPS: dict[Callable[[Table], None], int] = {
    Table.optimize: 4, Table.update: 3, Table.delete: 3, Table.merge: 2, Table.append: 1, Table.add: 1, Table.replace: 1,
    Table.restore: 1,
}  # fmt: skip

tables = []
traces = int(sys.argv[2])
for argument in sys.argv[3:]:
    seed, _, steps = argument.partition("=")
    draw = random.Random(int(seed))
    late = not steps and draw.random() < 0.25
    table = Table(f"t{seed}", draw, late=late)
    tables.append(table)
    if late:
        table.append()
        draw.choice((Table.update, Table.optimize))(table)
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
