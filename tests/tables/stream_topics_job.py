"""Streaming queries over topics of Kafka, and what traces of their rows say.

Each row that a query writes names the records that it was made of: this is what the traces are held against. What the test needs goes
to streams.json.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage.access import StoredAccess
from lineage_core.tracing.trace_result import Direction
from lineage_emitter.attaching import attach, detach
from lineage_query.trace_query import TraceQuery
from lineage_store.url import open_store

STORE, SERVERS = sys.argv[1:]
ORDERS, RETURNS = "orders.of-streams", "returns.of-streams"
REACHED = {"kafka.bootstrap.servers": SERVERS, "kafka.client.id": "not-to-be-recorded"}
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
home = Path.cwd()
admin = AdminClient({"bootstrap.servers": SERVERS})
producer = Producer({"bootstrap.servers": SERVERS})
said: dict[str, Any] = {"back": {}, "forward": {}}


def create(topic: str) -> None:
    # The records are of long ago, and Kafka removes them when it likes if it may.
    kept = NewTopic(topic, 2, 1, config={"retention.ms": "-1"})
    for created in admin.create_topics([kept]).values():
        created.result()


def produce(topic: str, numbers: range) -> None:
    for number in numbers:
        producer.produce(
            topic,
            f"{number}",
            partition=number % 3 % 2,
            timestamp=1_700_000_000_000 + number * 1000,
        )
    producer.flush(60)


def stream(topics: str, **options: str) -> DataFrame:
    read = spark.readStream.format("kafka").options(**REACHED, subscribe=topics, **options)
    records = read.option("startingOffsets", "earliest").load()
    return records.selectExpr(
        "CAST(CAST(value AS string) AS int) AS number",
        "concat(topic, '[', partition, ']@', offset) AS origin",
        "timestamp",
    )


def run(name: str, frame: DataFrame, **options: Any) -> None:
    writer = frame.writeStream.option("checkpointLocation", str(home / "checkpoints" / name))
    if "each" in options:
        writer = writer.foreachBatch(options["each"])
    else:
        writer = writer.format("json").option("path", str(home / name))
    writer.trigger(availableNow=True).start().awaitTermination()


def each(frame: DataFrame, _: int) -> None:
    frame.persist()
    frame.where("number % 2 = 0").drop("timestamp").write.mode("append").json(str(home / "each"))
    frame.unpersist()


def ask(direction: Direction, place: str) -> dict[str, Any]:
    with open_store(STORE) as store:
        try:
            answer = StoredAccess(store, STORE).ask(TraceQuery(direction, (place,)))
        except Exception as problem:
            return {"refused": str(problem)}
    items = [str(item.location) for group in answer.groups for item in group.items]
    found = sorted(item.removeprefix(f"kafka://{SERVERS}/") for item in items)
    texts = [item.text for group in answer.groups for item in group.items]
    return {"found": found, "exact": answer.exact, "warnings": answer.warnings, "texts": texts}


def rows(name: str) -> list[tuple[str, Any]]:
    return [
        (f"{path}:{line}", json.loads(text))
        for path in sorted((home / name).glob("part-*"))
        for line, text in enumerate(path.read_text().splitlines(), start=1)
    ]


create(ORDERS)
create(RETURNS)
produce(ORDERS, range(20))
produce(RETURNS, range(100, 104))
said["app"] = attach(spark, store=STORE, link=True).app
plain = stream(ORDERS, maxOffsetsPerTrigger="9")
run("plain", plain.where("number <> 3").drop("timestamp"))
# A later run of the same query reads what has come since.
produce(ORDERS, range(20, 23))
run("plain", plain.where("number <> 3").drop("timestamp"))
both = stream(f"{ORDERS},{RETURNS}").drop("timestamp")
run("both", both.where("number > 10").withColumn("twice", F.explode(F.array(F.lit(1), F.lit(2)))))
run("each", plain, each=each)
late = plain.withWatermark("timestamp", "1 second")
windows = late.groupBy(F.window("timestamp", "5 seconds")).agg(F.collect_list("origin").alias("of"))
run("windows", windows)
batch = spark.read.format("kafka").options(**REACHED, subscribe=ORDERS).load()
origin = batch.selectExpr("concat(topic, '[', partition, ']@', offset) AS origin")
origin.write.json(str(home / "batch"))
detach(spark)

for name in ("plain", "both", "each", "windows", "batch"):
    said[name] = rows(name)
    some = said[name][:1] if name != "plain" else said[name][:: len(said[name]) // 2]
    said["back"][name] = [(row, ask(Direction.BACKWARD, place)) for place, row in some]
place = f"{ORDERS}[0]@8"
said["forward"][place] = ask(Direction.FORWARD, place)
said["missing"] = ask(Direction.FORWARD, f"{ORDERS}[0]@999")

# Records that are gone, and a topic that is another under the same name and offsets.
places = {row["number"]: place for place, row in rows("plain")}
first, last = places[0], places[22]
admin.delete_records([TopicPartition(ORDERS, 0, 2)])[TopicPartition(ORDERS, 0, 2)].result()
said["gone"] = [ask(Direction.BACKWARD, first), ask(Direction.BACKWARD, last)]
for deleted in admin.delete_topics([ORDERS]).values():
    deleted.result()
said["deleted"] = ask(Direction.BACKWARD, last)
for tries_left in reversed(range(100)):
    try:
        create(ORDERS)
        break
    except KafkaException:  # the topic is removed by and by
        if not tries_left:
            raise
        time.sleep(0.1)
produce(ORDERS, range(23))
said["remade"] = ask(Direction.BACKWARD, last)
(home / "streams.json").write_text(json.dumps(said))
