"""Streaming queries over topics of Kafka, and what following their records says.

Each row that a query writes names the records that it was made of: this is what is told of each record held against. What the test needs
goes to followed.json. With the argument ``few``, some queries and records.
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

from lineage_core.errors import LineageError
from lineage_dataframes.trace.followed_rows import target_of
from lineage_dataframes.trace.following import RowTracing
from lineage_emitter.attaching import attach, detach
from lineage_query.follow_events import Done, Event, Gap, Late, Made, Read
from lineage_query.followed import parse_followed
from lineage_query.following import Follow
from lineage_query.message_feed import KINDS
from lineage_query.rows.reader import RowReader
from lineage_store.url import open_store

STORE, SERVERS, AMOUNT = sys.argv[1:]
IS_ALL = AMOUNT == "all"
ORDERS, MARKED = "orders.followed", "marked.followed"
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
home = Path.cwd()
admin = AdminClient({"bootstrap.servers": SERVERS})
said: dict[str, Any] = {"queries": {}, "rows": {}, "followed": {}}


def create(topic: str) -> None:
    # The records are of long ago, and Kafka removes them when it likes if it may.
    kept = NewTopic(topic, 2, 1, config={"retention.ms": "-1"})
    for created in admin.create_topics([kept]).values():
        created.result()


def produce(topic: str, seconds: list[int], **options: str) -> None:
    producer = Producer({"bootstrap.servers": SERVERS, **options})
    if options:
        producer.init_transactions()
        producer.begin_transaction()
    for second in seconds:
        at = 1_700_000_000_000 + second * 1000
        producer.produce(topic, f"{second}", partition=second % 3 % 2, timestamp=at)
    if options:
        producer.commit_transaction()
    producer.flush(60)


def stream(topic: str, starting: str = "earliest", most: int = 6) -> DataFrame:
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", SERVERS)
    read = read.option("subscribe", topic).option("startingOffsets", starting)
    return read.option("maxOffsetsPerTrigger", str(most)).load().selectExpr(
        "CAST(CAST(value AS string) AS int) AS number",
        "concat(topic, '[', partition, ']@', offset) AS origin",
        "timestamp",
    )  # fmt: skip


def run(name: str, frame: DataFrame) -> None:
    writer = frame.writeStream.option("checkpointLocation", str(home / "checkpoints" / name))
    query = writer.format("json").option("path", str(home / name)).trigger(availableNow=True)
    running = query.start()
    running.awaitTermination()
    said["queries"][str(running.id)] = name


def follow(place: str) -> dict[str, Any]:
    """What is said of a record once all has ended."""
    try:
        target = target_of(parse_followed(place), lambda work: work(spark))
        note = target.look()
    except LineageError as problem:
        return {"refused": str(problem)}
    followed = Follow(target.followed, RowTracing(lambda: spark, RowReader(None), target.place))
    events: list[Event[Any]] = []
    with open_store(STORE) as store:
        for message in store.messages(said["app"], *KINDS):
            events += followed.take(message)
    names = said["queries"]
    made = [event for event in events if isinstance(event, Made)]
    return {
        "note": note,
        "rows": [
            [names[event.batch.query], json.loads(row.text), row.place is not None, not event.rows.reasons]
            for event in made
            for row in event.rows.rows
        ],
        "read": sorted(names[event.batch.query] for event in events if isinstance(event, Read)),
        "late": [names[event.batch.query] for event in events if isinstance(event, Late)],
        "gaps": {names[event.query]: event.reason for event in events if isinstance(event, Gap)},
        "done": {names[event.query]: event.reason for event in events if isinstance(event, Done)},
        "open": {names[query]: reason for query, reason in followed.open_reasons().items()},
    }  # fmt: skip


def rows(name: str) -> list[Any]:
    files = sorted((home / name).glob("part-*"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def run_more() -> None:
    """Run the same queries again, which read what has come since, and others."""
    produce(ORDERS, [*range(14, 20), 1, 40, 60])
    run("plain", plain)
    run("latest", stream(ORDERS, "latest").drop("timestamp"))
    run("twice", plain.union(stream(ORDERS).drop("timestamp")))
    create(MARKED)
    produce(MARKED, [0, 3], **{"transactional.id": "marked"})
    run("marked", stream(MARKED).drop("timestamp"))


def follow_what_is_not_there() -> None:
    said["full"] = follow(f"kafka://{SERVERS}/{places[0]}")
    said["mark"] = follow(f"{MARKED}[0]@2")
    said["refused"] = [
        follow("none.followed[0]@0"),
        follow(f"{ORDERS}[7]@0"),
        follow(f"kafka://elsewhere:1/{ORDERS}[0]@0"),
    ]
    admin.delete_records([TopicPartition(ORDERS, 0, 2)])[TopicPartition(ORDERS, 0, 2)].result()
    said["gone"] = follow(f"{ORDERS}[0]@1")
    record = target_of(parse_followed(f"{ORDERS}[0]@3"), lambda work: work(spark))
    for deleted in admin.delete_topics([ORDERS]).values():
        deleted.result()
    for tries_left in reversed(range(100)):
        try:
            create(ORDERS)
            break
        except KafkaException:  # the topic is removed by and by
            if not tries_left:
                raise
            time.sleep(0.1)
    produce(ORDERS, list(range(14)))
    try:
        record.look()
    except LineageError as problem:
        said["remade"] = str(problem)
    # The queries have read the records of another topic, which had the name and the same offsets.
    said["other"] = follow(f"{ORDERS}[0]@3")


create(ORDERS)
produce(ORDERS, list(range(14)))
said["app"] = attach(spark, store=STORE, link=True).app
plain = stream(ORDERS, most=6 if IS_ALL else 20).where("number <> 3").drop("timestamp")
run("plain", plain)
if IS_ALL:
    run("latest", stream(ORDERS, "latest").drop("timestamp"))
    run_more()
else:
    # That of second 1 is late by then.
    produce(ORDERS, [1, 40])
late = stream(ORDERS).withWatermark("timestamp", "1 second")
windows = late.groupBy(F.window("timestamp", "2 seconds")).agg(F.collect_list("origin").alias("of"))
run("windows", windows.select(F.col("window.start").cast("long").alias("second"), "of"))
detach(spark)

for name in said["queries"].values():
    said["rows"][name] = rows(name)
places = {number: f"{ORDERS}[{number % 3 % 2}]@{offset}" for number, offset in ((0, 0), (3, 2))}
# The second record of second 1 is the late one.
places[1] = f"{ORDERS}[1]@{7 if IS_ALL else 5}"
if IS_ALL:
    places |= {row["number"]: row["origin"] for row in rows("twice") if row["number"] in {15, 60}}
for number in sorted(places):
    said["followed"][places[number]] = follow(places[number])
said["late"] = places[1]
said["absent"] = follow(f"{ORDERS}[0]@999")
if IS_ALL:
    follow_what_is_not_there()
(home / "followed.json").write_text(json.dumps(said))
