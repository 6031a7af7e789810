"""`lineage doctor` beside real servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis import Redis

from lineage.doctor import examine
from lineage_kafka.topics import Topics
from tests.support.servers import KafkaUnderTest, RedisUnderTest

pytestmark = pytest.mark.integration


@pytest.mark.long
def test_servers_are_asked_for_what_the_pipeline_needs(
    kafka: KafkaUnderTest,
    redis_server: RedisUnderTest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics = Topics("doctor-")
    monkeypatch.setenv("LINEAGE_KAFKA", kafka.bootstrap)
    monkeypatch.setenv("LINEAGE_TOPIC_PREFIX", topics.prefix)
    monkeypatch.setenv("LINEAGE_REDIS", redis_server.url)

    def found() -> dict[str, tuple[str, str]]:
        findings = examine(f"sqlite:///{tmp_path}/lineage.db")
        return {one.part: (one.state, one.detail) for one in findings}

    state, said = found()["kafka"]
    assert (state, topics.flow in said) == ("problem", True)
    kafka.create_topics(1, topics.prefix)
    assert found()["kafka"][0] == "ok"
    kafka.delete_topics(topics.prefix)
    with Redis.from_url(redis_server.url, decode_responses=True) as client:
        policy = client.config_get("maxmemory-policy")["maxmemory-policy"]
        try:
            for chosen, state in (("allkeys-lru", "problem"), ("noeviction", "ok")):
                client.config_set("maxmemory-policy", chosen)
                assert found()["redis"][0] == state
        finally:
            client.config_set("maxmemory-policy", policy)
