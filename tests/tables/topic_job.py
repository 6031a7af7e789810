"""Jobs of DataFrames, one after another, over one topic of Kafka, and what traces through all of them say.

What the test needs goes to topics.json: what each job recorded, the rows of the topic with their offsets, which rows each reader read, and
traces of some rows: each value says which job wrote it, and in which line of its source it stood.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from lineage.access import StoredAccess
from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageContext
from lineage_emitter.attaching import attach, detach
from lineage_query.trace_query import TraceQuery
from lineage_store.url import open_store

STORE, SERVERS, TOPIC = sys.argv[1:]
REACHED = {"kafka.bootstrap.servers": SERVERS, "kafka.client.id": "not-to-be-recorded"}
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
home = Path.cwd()
apps: dict[str, str] = {}


def begin(name: str) -> LineageContext:
    lc = LineageContext(spark.sparkContext, store=STORE, link=True)
    assert lc.session is not None
    apps[name] = lc.session.app
    return lc


def write(name: str, acks: str = "all", *, named_by_rows: bool = False) -> None:
    """A job that writes the lines of a file of its own."""
    (home / f"{name}.csv").write_text("".join(f"{name} {number}\n" for number in range(3)))
    with begin(name):
        lines = spark.read.schema("value string").csv(str(home / f"{name}.csv"))
        of_kafka = {**REACHED, "topic": TOPIC, "kafka.acks": acks}
        if named_by_rows:
            lines = lines.selectExpr("value", f"'{of_kafka.pop('topic')}' AS topic")
        lines.write.format("kafka").options(**of_kafka).save()


def topic(**options: str) -> DataFrame:
    of_kafka = {**REACHED, "subscribe": TOPIC, **options}
    frame = spark.read.format("kafka").options(**of_kafka).load()
    return frame.selectExpr("CAST(value AS string) AS value", "partition", "offset")


def read(name: str, frame: Callable[[], DataFrame]) -> None:
    with begin(name):
        frame().write.csv(str(home / name))


def rows_of(frame: DataFrame) -> list[tuple[str, int, int]]:
    return sorted(map(tuple, frame.collect()), key=str)


def meddled() -> DataFrame:
    """Another program writes to the topic while the frame is read."""

    def meddle(value: str) -> str:
        # Workers import it: its class can't be sent to them.
        import confluent_kafka

        producer = confluent_kafka.Producer({"bootstrap.servers": SERVERS})
        for number in range(20):
            producer.produce(TOPIC, f"nobody {number}")
        producer.flush(60)
        return value

    spark.udf.register("meddle", meddle)
    return topic().selectExpr("meddle(value) AS value", "partition", "offset")


write("writer1")
read("first", topic)
ends = {str(number): 0 for number in range(2)}
for _, number, offset in rows_of(topic()):
    ends[str(number)] = max(ends[str(number)], offset + 1)
write("writer2")
write("hasty", acks="1")
write("rows", named_by_rows=True)
read("second", lambda: topic(startingOffsets=json.dumps({TOPIC: ends})))
cached = topic().cache()
cached.count()
read("cached", lambda: cached)
cached.unpersist()
read("meddled", meddled)
apps["streamed"] = attach(spark, store=STORE, link=True).app
stream = spark.readStream.format("kafka").options(**REACHED, subscribe=TOPIC)
rows = stream.option("startingOffsets", "earliest").load()
columns = rows.selectExpr("CAST(value AS string) AS value", "partition", "offset")
writer = columns.writeStream.format("csv").option("path", str(home / "streamed"))
writer = writer.option("checkpointLocation", str(home / "checkpoint"))
writer.trigger(availableNow=True).start().awaitTermination()
detach(spark)
schema = "value string, partition int, offset bigint"
read_rows = {
    name: rows_of(spark.read.schema(schema).csv(str(home / name)))
    for name in ("first", "second", "cached", "meddled", "streamed")
}
with open_store(STORE) as store:
    access = StoredAccess(store, STORE)
    forward = {}
    for name in ("writer1", "writer2", "hasty"):
        answer = access.ask(TraceQuery(Direction.FORWARD, (f"{home}/{name}.csv:1",), all_jobs=True))
        gaps = [(gap.app, gap.reason) for gap in answer.not_queried]
        forward[name] = {"complete": answer.complete, "refused": gaps}
    part = min(path for path in (home / "first").glob("part-*") if path.stat().st_size)
    try:
        access.ask(TraceQuery(Direction.BACKWARD, (f"{part}:1",), all_jobs=True))
        refusal = ""
    except Exception as problem:
        refusal = str(problem)
    # Traces of records read the topic from here on.
    os.environ |= {"LINEAGE_TOPICS_SERVERS": SERVERS, "LINEAGE_TRACING_NETWORK": "true"}

    def ask(direction: Direction, place: str) -> dict[str, object]:
        answer = access.ask(TraceQuery(direction, (place,), all_jobs=True))
        found = [(item.location, item.text) for group in answer.groups for item in group.items]
        gaps = [(gap.app, gap.reason) for gap in answer.not_queried]
        claims = {"exact": answer.exact, "complete": answer.complete}
        return {"found": sorted(found, key=str), "refused": gaps, **claims}

    def traced(name: str, value: str) -> dict[str, object]:
        """The trace back of a row that a job wrote, by its value."""
        places = [
            f"{path}:{line}"
            for path in sorted((home / name).glob("part-*"))
            for line, text in enumerate(path.read_text().splitlines(), 1)
            if text.startswith(f"{value},")
        ]
        return ask(Direction.BACKWARD, places[0])

    backs = [("first", "writer1 1"), ("second", "writer2 1"), ("second", "rows 0")]
    backs += [("streamed", "nobody 7")]
    through = {
        "back": {f"{name}/{value}": traced(name, value) for name, value in backs},
        "forward": {"writer1": ask(Direction.FORWARD, f"{home}/writer1.csv:2")},
    }
    uses = [
        (run.app, run.wrote, run.use.table_versions)
        for run in access.dataset_runs(f"kafka://{SERVERS}", TOPIC).items
    ]
    of_any = [run.app for run in access.dataset_runs(f"kafka://{SERVERS}", "*").items]
(home / "topics.json").write_text(
    json.dumps(
        {
            "apps": apps,
            "topic": rows_of(topic()),
            "read": read_rows,
            "forward": forward,
            "refusal": refusal,
            "uses": uses,
            "of_any": of_any,
            "through": through,
        }
    )
)
