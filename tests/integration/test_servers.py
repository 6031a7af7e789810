"""The servers that other tests lean on do what those expect of them."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from neo4j.exceptions import ClientError
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import TimeoutError
from redis.retry import Retry

from lineage_kafka.topics import RECORD_BYTES_MAX, Topics
from tests.support.servers import KafkaUnderTest, Neo4jUnderTest, RedisUnderTest
from tests.support.writer_process import wait_until

pytestmark = pytest.mark.integration


def produce(kafka: KafkaUnderTest, topic: str, values: list[bytes]) -> None:
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            # Retries keep the order.
            "enable.idempotence": True,
            "message.max.bytes": RECORD_BYTES_MAX,
            "message.timeout.ms": 60_000,
        }
    )
    failures: list[str] = []
    for value in values:
        producer.produce(
            topic,
            value,
            partition=0,
            on_delivery=lambda error, _: failures.append(str(error)) if error else None,
        )
    assert producer.flush(90) == 0
    assert failures == []


def consume(kafka: KafkaUnderTest, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "test",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": RECORD_BYTES_MAX,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        records = consumer.consume(count, timeout=60)
        assert [record.error() for record in records] == [None] * count
        return [record.value() or b"" for record in records]
    finally:
        consumer.close()


def test_kafka_keeps_what_it_acknowledged_when_killed(
    kafka: KafkaUnderTest, kafka_topics: Topics
) -> None:
    bootstrap = kafka.bootstrap
    block = bytes(RECORD_BYTES_MAX - 1_024)
    produce(kafka, kafka_topics.flow, [b"one", block])
    with kafka.down():
        pass
    assert kafka.bootstrap == bootstrap
    produce(kafka, kafka_topics.flow, [b"two"])
    assert consume(kafka, kafka_topics.flow, 3) == [b"one", block, b"two"]
    metadata = kafka.admin().list_topics(timeout=30).topics
    assert {name: len(metadata[name].partitions) for name in kafka_topics.all()} == {
        kafka_topics.flow: 4,
        kafka_topics.edge: 4,
        kafka_topics.node: 1,
        kafka_topics.dead_letter: 1,
    }


def test_redis_keeps_what_is_in_its_file_when_killed(redis_server: RedisUnderTest) -> None:
    redis_server.clear()
    with redis_server.client() as client:
        client.set("key", "value")
        # While a disk is slow Redis acknowledges before it has written (for two seconds at most).
        wait_until(
            lambda: client.info("persistence")["aof_buffer_length"] == 0, "it is in Redis' file"
        )
    with redis_server.down():
        pass
    with redis_server.client() as client:
        assert client.get("key") == b"value"
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    redis_server.clear()
    with redis_server.client() as client:
        assert client.dbsize() == 0


def test_a_paused_server_answers_later(redis_server: RedisUnderTest) -> None:
    redis_server.clear()
    with redis_server.client() as client:
        client.set("key", "value")
    impatient = Redis.from_url(redis_server.url, socket_timeout=0.2, retry=Retry(NoBackoff(), 0))
    with impatient, redis_server.paused(), pytest.raises(TimeoutError):
        impatient.get("key")
    with redis_server.client() as client:
        assert client.get("key") == b"value"


@pytest.mark.long
def test_neo4j_keeps_what_it_acknowledged_when_killed(neo4j: Neo4jUnderTest) -> None:
    neo4j.clear()
    with neo4j.driver() as driver:
        driver.execute_query("CREATE CONSTRAINT one FOR (n:N) REQUIRE n.id IS UNIQUE")
        driver.execute_query("CREATE (:N {id: 1})-[:R]->(:N {id: 2})")
    with neo4j.down():
        pass
    with neo4j.driver() as driver:
        assert driver.execute_query("MATCH (n:N) RETURN count(n) AS n").records[0]["n"] == 2
        with pytest.raises(ClientError):
            driver.execute_query("CREATE (:N {id: 1})")
    neo4j.clear()
    with neo4j.driver() as driver:
        driver.execute_query("CREATE (:N {id: 1}), (:N {id: 1})")
    neo4j.clear()
