"""Checks once, before a job begins, that Kafka has the topics and that they accept what capture will send."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lineage_emitter.dispatch.outbox import error_text
from lineage_emitter.errors import DeliveryError
from lineage_kafka.errors import kafka_problem
from lineage_kafka.topics import RECORD_BYTES_MAX

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

logger = logging.getLogger(__name__)

LIMIT = "max.message.bytes"
CAUSES = 3
"""Errors that a message holds."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic's partitions and the largest record that it takes, in bytes."""

    partitions: int
    record_bytes: int


def check_topics(
    config: Mapping[str, str], names: Iterable[str], timeout_s: float
) -> dict[str, TopicFacts]:
    """Facts by topic; a topic that is missing is created, where the broker lets us.

    Raises:
        DeliveryError: Kafka does not answer within ``timeout_s``, or a topic is missing.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    names = list(names)
    # "Timed out" alone would not say that, for instance, the password is wrong.
    errors: list[str] = []
    client_config: dict[str, Any] = {"client.id": "lineage-emitter", "log_level": 0, **config}
    client_config["error_cb"] = lambda error: errors.append(error.str())
    try:
        client = AdminClient(client_config)
    except (KafkaException, ValueError) as problem:
        raise DeliveryError(kafka_problem(error_text(problem))) from problem
    # Closed here: freed by a collection on one of its own threads, it would end the process.
    with client as admin:
        try:
            facts = _find_or_create(admin, names, timeout_s)
        except (KafkaException, ValueError) as problem:
            # Callbacks run in poll alone; the cause comes first, "all brokers are down" last.
            admin.poll(0)
            causes = "; ".join(list(dict.fromkeys([error_text(problem), *errors]))[:CAUSES])
            raise DeliveryError(kafka_problem(causes)) from problem
    for name in names:
        if facts[name].record_bytes < RECORD_BYTES_MAX:
            logger.warning(
                "topic %s takes records of up to %d bytes, larger blocks of lineage will wait in the "
                "spool; set its %s to %d (kafka-configs --alter --entity-type topics --entity-name "
                "%s --add-config %s=%d)",
                *(name, facts[name].record_bytes, LIMIT, RECORD_BYTES_MAX),
                *(name, LIMIT, RECORD_BYTES_MAX),
            )
    return facts


def _find_or_create(
    admin: AdminClient, names: list[str], timeout_s: float
) -> dict[str, TopicFacts]:
    facts = _describe(admin, names, timeout_s)
    missing = [name for name in names if name not in facts]
    if missing:
        _create(admin, missing, timeout_s)
    deadline = time.monotonic() + timeout_s
    # Brokers learn of a new topic one by one.
    while missing := [name for name in missing if name not in facts]:
        if time.monotonic() > deadline:
            raise DeliveryError(f"topic {missing[0]} was created and is not to be seen")
        facts |= _describe(admin, missing, timeout_s)
    return facts


def _describe(admin: AdminClient, names: list[str], timeout_s: float) -> dict[str, TopicFacts]:
    from confluent_kafka import KafkaError, KafkaException, TopicCollection
    from confluent_kafka.admin._config import ConfigResource
    from confluent_kafka.admin._resource import ResourceType

    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    topics = admin.describe_topics(TopicCollection(names), request_timeout=timeout_s)
    limits = admin.describe_configs(resources, request_timeout=timeout_s)
    bytes_max = {resource.name: _limit(future) for resource, future in limits.items()}
    facts = {}
    for name, future in topics.items():
        try:
            facts[name] = TopicFacts(len(future.result().partitions), bytes_max[name])
        except KafkaException as problem:
            if problem.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    return facts


def _limit(settings: Future[Any]) -> int:
    """What the topic says; who may write to it need not be allowed to request its settings."""
    from confluent_kafka import KafkaException

    try:
        return int(settings.result()[LIMIT].value)
    except (KafkaException, KeyError, TypeError, ValueError):
        return RECORD_BYTES_MAX


def _create(admin: AdminClient, names: list[str], timeout_s: float) -> None:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.cimpl import NewTopic

    # -1: as many partitions and replicas as the broker's own default.
    config = {LIMIT: str(RECORD_BYTES_MAX)}
    new_topics = [
        NewTopic(name, num_partitions=-1, replication_factor=-1, config=config) for name in names
    ]
    creations = admin.create_topics(
        new_topics, operation_timeout=timeout_s, request_timeout=timeout_s
    )
    for name, creation in creations.items():
        try:
            creation.result()
        except KafkaException as problem:
            if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise DeliveryError(
                    f"topic {name} does not exist and can't be created ({error_text(problem)}); create it "
                    f"with {LIMIT}={RECORD_BYTES_MAX}"
                ) from problem
