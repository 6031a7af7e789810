"""``python -m lineage_linker.topics``: makes the topics that are missing, then ends. May be repeated."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import structlog
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from lineage_core.errors import LineageError
from lineage_kafka.bootstrap import bootstrap_problem
from lineage_kafka.errors import kafka_problem
from lineage_kafka.settings import KafkaSettings
from lineage_kafka.topics import RECORD_BYTES_MAX
from lineage_linker.errors import BrokerUnavailableError
from lineage_linker.health import FIRST_PAUSE_S, LONGEST_PAUSE_S
from lineage_linker.settings import read_topic_settings
from lineage_service.logs import set_up_logs

EXIT_AWAY = 1
EXIT_SETTINGS = 2
ANSWER_S = 10.0

log = structlog.get_logger(__name__)


async def make_topics(settings: KafkaSettings, topics: Mapping[str, int], copies: int) -> list[str]:
    """Make the topics (with their partitions) that are not there yet; the names of those made.

    Raises:
        BrokerUnavailableError: Kafka does not answer, or refuses one.
        KafkaSettingsError: a file of a setting can't be read.
    """
    admin = AIOKafkaAdminClient(
        **settings.aiokafka_config(),
        client_id="lineage-topics",
        request_timeout_ms=int(ANSWER_S * 1000),
    )
    try:
        await admin.start()
        missing_topics = set(topics) - set(await admin.list_topics())
        config = {"max.message.bytes": str(RECORD_BYTES_MAX)}
        new_topics = [
            NewTopic(name, topics[name], copies, topic_configs=config)
            for name in sorted(missing_topics)
        ]
        answer = await admin.create_topics(new_topics) if new_topics else None
    except (KafkaError, OSError) as error:
        problem = await bootstrap_problem(settings, error, ANSWER_S)
        raise BrokerUnavailableError(problem) from error
    finally:
        with suppress(Exception):
            await admin.close()
    created = []
    for name, code, detail in () if answer is None else answer.topic_errors:
        kind = for_code(code)
        # Another one made it meanwhile.
        if kind is TopicAlreadyExistsError:
            continue
        if code:
            raise BrokerUnavailableError(
                f"topic {name} can't be made: {kafka_problem(kind(detail or ''))}"
            )
        created.append(name)
    return created


async def make_topics_when_available(
    settings: KafkaSettings, topics: Mapping[str, int], copies: int, wait_s: float
) -> list[str]:
    """The same, and wait for Kafka as long as that may take.

    Raises:
        BrokerUnavailableError: Kafka did not answer in time, or refused one all the time.
        KafkaSettingsError: a file of a setting can't be read.
    """
    deadline, pause = time.monotonic() + wait_s, FIRST_PAUSE_S
    while True:
        try:
            return await make_topics(settings, topics, copies)
        except BrokerUnavailableError as error:
            if time.monotonic() + pause > deadline:
                raise
            log.warning("kafka_unavailable", reason=str(error))
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m lineage_linker.topics",
        description="Make the topics of the pipeline that are missing; those that are there stay as they "
        "are. LINEAGE_KAFKA, LINEAGE_KAFKA_* and LINEAGE_TOPIC_PREFIX say where. May be repeated.",
    )
    parser.add_argument(
        "--partitions",
        type=int,
        default=4,
        help="of lineage-flow and lineage-edge: as many linkers can share the work (default: 4)",
    )
    parser.add_argument("--replication", type=int, default=1, help="copies of each (default: 1)")
    parser.add_argument(
        "--wait",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="wait so long for Kafka to answer (default: do not wait)",
    )
    options = parser.parse_args(arguments)
    set_up_logs("info", ("aiokafka",))
    try:
        settings = read_topic_settings()
        partitions = settings.topics.partitions(options.partitions)
        created = asyncio.run(
            make_topics_when_available(settings, partitions, options.replication, options.wait)
        )
    except LineageError as error:
        log.error("topics_failed", reason=str(error))
        return EXIT_AWAY if isinstance(error, BrokerUnavailableError) else EXIT_SETTINGS
    log.info("topics_are_there", topics=sorted(partitions), made=created)
    return 0


if __name__ == "__main__":
    sys.exit(main())
