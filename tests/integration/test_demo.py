"""The demo over the whole pipeline: emitted to Kafka, linked, and traced from Neo4j."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.job_runs import run_program
from tests.pipeline import Pipeline, pipeline
from tests.servers import KafkaUnderTest, Neo4jUnderTest, RedisUnderTest

pytestmark = pytest.mark.integration

DEMO = Path(__file__).resolve().parents[2] / "examples" / "flights" / "demo.py"


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
    assert not (tmp_path / "work" / ".lineage" / "lineage.db").exists()


def _applications(whole: Pipeline) -> list[str]:
    with whole.store() as store:
        return [one.app for one in store.applications()]
