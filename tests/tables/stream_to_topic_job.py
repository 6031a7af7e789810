"""Streaming queries and jobs that write a topic of Kafka: tests run it with lineage, in a folder of its own.

Others write to the topic, too: while a batch or a write runs, and before and behind it.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from lineage_emitter.dataframes.topic_sinks import TopicSink
from lineage_emitter.dataframes.topics import TopicWrite

SERVERS, TOPIC, COUNTS = sys.argv[1:]
REACHED = {"kafka.bootstrap.servers": SERVERS, "topic": TOPIC}
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
producer = Producer({"bootstrap.servers": SERVERS})
SCHEMA = "name string, text string, n int"


def others(*values: str) -> None:
    for value in values:
        producer.produce(TOPIC, value, key="k")
    producer.flush(60)


def meddled(stock: Callable[..., Any], *values: str) -> Any:
    """What looks at the topic before rows are written; others write to it right behind."""

    def look(*arguments: Any) -> Any:
        found = stock(*arguments)
        others(*values)
        return found

    return look


def arrive(number: int, *rows: tuple[str | None, str, int]) -> None:
    """A file of rows."""
    lines = [json.dumps({"name": name, "text": text, "n": n}) for name, text, n in rows]
    Path(f"{number}.json").write_text("".join(f"{line}\n" for line in lines))
    os.utime(f"{number}.json", (1_700_000_000 + number,) * 2)
    os.rename(f"{number}.json", f"in/{number}.json")


def records(rows: DataFrame) -> DataFrame:
    return rows.where("n > 0").selectExpr("name AS key", "upper(text) AS value")


def run() -> None:
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json("in")
    writer = records(rows).writeStream.format("kafka").options(**REACHED)
    writer = writer.option("checkpointLocation", "checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def count(mode: str) -> None:
    """Groups over all batches, in an output mode in which each batch gives some of them."""
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json("counted")
    groups = rows.groupBy("name").count()
    groups = groups.selectExpr("name AS key", f"concat('{mode} ', count) AS value")
    writer = (
        groups.writeStream.outputMode(mode).format("kafka").options(**REACHED | {"topic": COUNTS})
    )
    writer = writer.option("checkpointLocation", f"checkpoints/{mode}")
    writer.trigger(availableNow=True).start().awaitTermination()


Path("in").mkdir()
others("BEFORE")
arrive(0, ("k", "one", 1), ("k", "left out", 0), ("k", "copied", 1))
arrive(1, ("k", "two", 1), ("k", "twice", 1), ("k", "twice", 1), (None, "", 1))
# A batch of no rows.
arrive(2, ("k", "left out", 0))
look = TopicSink.of
TopicSink.of = meddled(look, "COPIED", "NOBODY")  # type: ignore[method-assign]
run()
TopicSink.of = look  # type: ignore[method-assign]
others("BETWEEN", "THREE")
arrive(3, ("k", "three", 1))
run()
# As after a crash between the batch and its commit.
for name in ("3", ".3.crc"):
    os.remove(f"checkpoint/commits/{name}")
run()
write = TopicWrite.begun
TopicWrite.begun = meddled(write, "SAME")  # type: ignore[method-assign]
Path("jobs").mkdir()
Path("jobs/0.json").write_text(
    '{"name":"k","text":"four","n":1}\n{"name":"k","text":"same","n":1}\n'
)
records(spark.read.schema(SCHEMA).json("jobs")).write.format("kafka").options(**REACHED).save()
TopicWrite.begun = write  # type: ignore[method-assign]
others("BEHIND")
# Of its own files: the rows of the others become records once.
shutil.copytree("in", "counted")
count("update")
count("complete")
spark.stop()
