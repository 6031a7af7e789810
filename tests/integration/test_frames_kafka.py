"""Recipes of DataFrames over Kafka, linker and writer into Neo4j: the same as through the spool."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from lineage_core.recipe.document import Recipe
from lineage_store.port import GraphStore
from lineage_store.url import open_store
from tests.support.job_runs import STORE, run_captured, write_job
from tests.support.pipeline import COMPLETE_LIMIT_S, POLL_S, Pipeline, pipeline
from tests.support.servers import KafkaUnderTest, Neo4jUnderTest, RedisUnderTest

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

JOB = """
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
lines = spark.read.text("in.txt")
lines.groupBy("value").count().write.parquet("out")
print(spark.read.parquet("out").count())
"""


def shown(store: GraphStore, app: str) -> tuple[object, ...]:
    """The graph and its recipes, without what differs between two runs: file names and times."""
    graph = store.graph(app)
    recipes = {}
    for node in graph.nodes():
        text = graph.recipe(node.node)
        if text is not None:
            recipe = Recipe.from_json(text)
            kinds = [type(one).__name__ for one in recipe.plan]
            files = [len(source.files) for source in recipe.sources]
            recipes[node.node] = (kinds, files, len(recipe.output.files), recipe.site)
    nodes = [(node.node, node.kind, node.op, node.alias, node.call_site) for node in graph.nodes()]
    written = {node[0]: len(graph.sink_files(node[0])) for node in nodes}
    splits = {node[0]: len(graph.splits(node[0])) for node in nodes}
    return nodes, sorted((one.src, one.dest) for one in graph.links()), recipes, written, splits


def until(whole: Pipeline, look: Callable[[GraphStore], Any]) -> Any:
    """What is found in the store, once there is something."""
    deadline = time.monotonic() + COMPLETE_LIMIT_S
    while True:
        with whole.store() as store:
            found = look(store)
        if found:
            return found
        if time.monotonic() > deadline:
            whole.fail("nothing came")
        time.sleep(POLL_S)


def test_recipes_over_the_whole_pipeline(
    tmp_path: Path, kafka: KafkaUnderTest, redis_server: RedisUnderTest, neo4j: Neo4jUnderTest
) -> None:
    for name in ("spool", "kafka"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "in.txt").write_text("a\nb\na\n")
        write_job(tmp_path / name, JOB)
    plain = run_captured(tmp_path / "spool", "job.py")
    assert (plain.returncode, plain.stdout) == (0, "2\n"), plain.stderr
    with open_store(f"sqlite:///{tmp_path / 'spool' / STORE}") as store:
        expected = shown(store, store.application_ids()[0])
    with pipeline(tmp_path / "pipeline", kafka, redis_server, neo4j) as whole:
        sent = run_captured(tmp_path / "kafka", "job.py", env=whole.settings)
        assert (sent.returncode, sent.stdout) == (0, "2\n"), sent.stderr
        app = until(whole, lambda store: next(iter(store.application_ids()), ""))
        verdict = whole.complete(app)
        assert (verdict.recipes_expected, verdict.recipes_received) == (2, 2)
        with whole.store() as loaded:
            assert shown(loaded, app) == expected
        # A recipe that is none is a dead letter, and the verdict tells of it.
        broken = {"v": 1, "type": "recipe", "app": app, "node": "1", "recipe": "[]"}
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        producer.produce(whole.topics.node, json.dumps(broken).encode(), app.encode())
        producer.flush(60)
        letters = until(whole, lambda store: store.messages(app, "dead_letter"))
        assert "not a JSON object" in letters[0].reason
        assert not whole.verdict(app).complete
