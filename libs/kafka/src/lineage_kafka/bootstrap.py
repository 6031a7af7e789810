"""Finds why a client of aiokafka can't connect, which its own error does not state."""

from __future__ import annotations

from contextlib import suppress

from aiokafka.conn import create_conn
from aiokafka.errors import KafkaError

from lineage_kafka.errors import kafka_problem
from lineage_kafka.settings import KafkaSettings


async def bootstrap_problem(settings: KafkaSettings, error: BaseException, limit_s: float) -> str:
    """The cause of aiokafka's "Unable to bootstrap": connects to the servers again, one after the other.

    Raises:
        KafkaSettingsError: a file of a setting can't be read.
    """
    config = settings.aiokafka_config()
    for server in config.pop("bootstrap_servers"):
        host, _, port = server.strip().rpartition(":")
        with suppress(ValueError):
            try:
                connection = await create_conn(
                    host.strip("[]"),
                    int(port),
                    request_timeout_ms=int(limit_s * 1000),
                    **config,
                )
            except (KafkaError, OSError) as cause:
                return kafka_problem(cause)
            connection.close()
    return kafka_problem(error)
