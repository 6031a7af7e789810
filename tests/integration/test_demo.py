"""The demo, and a program that traces itself, over the whole pipeline: traced from Neo4j."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.job_runs import run_program, write_job
from tests.support.pipeline import Pipeline, pipeline
from tests.support.servers import KafkaUnderTest, Neo4jUnderTest, RedisUnderTest

pytestmark = pytest.mark.integration

IN_PROGRAM = """
from operator import add
from pyspark import SparkConf, SparkContext
from lineage_emitter import LineageContext

conf = SparkConf().set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
with SparkContext("local[2]", "traced", conf=conf) as sc:
    lc = LineageContext(sc)
    words = lc.textFile("in.txt", 2).flatMap(str.split).map(lambda word: (word, 1))
    counts = words.reduceByKey(add, 2)
    c = counts.getLineage(timeout_s=120).filter(lambda kv: kv[0] == "c")
    rows = c.goBackAll()
    print(rows.exact, rows.gaps, rows.rows().collect(), c.replay().collect())
"""

DEMO = Path(__file__).resolve().parents[2] / "examples" / "flights" / "demo.py"


@pytest.mark.long
def test_its_traces_are_answered_from_neo4j(
    tmp_path: Path, kafka: KafkaUnderTest, redis_server: RedisUnderTest, neo4j: Neo4jUnderTest
) -> None:
    with pipeline(tmp_path / "pipeline", kafka, redis_server, neo4j) as whole:
        done = run_program(tmp_path, [sys.executable, str(DEMO), "work"], whole.settings)
        assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
        assert "from 9 rows of data/flights.csv" in done.stdout
        assert "$ lineage forward data/weather.csv:" in done.stdout
        (application,) = _applications(whole)
        assert whole.verdict(application).complete
        (tmp_path / "in.txt").write_text("a b c\nb c\nc a\nx\nlast c\n")
        job = write_job(tmp_path, IN_PROGRAM)
        done = run_program(tmp_path, [sys.executable, str(job)], whole.settings)
        assert done.returncode == 0, done.stderr[-2_000:]
        assert done.stdout.startswith("True () ['a b c', 'b c', 'c a', 'last c'] [")
        assert "('c', 4)" in done.stdout
    assert not (tmp_path / "work" / ".lineage" / "lineage.db").exists()


def _applications(whole: Pipeline) -> list[str]:
    with whole.store() as store:
        return [one.app for one in store.applications()]
