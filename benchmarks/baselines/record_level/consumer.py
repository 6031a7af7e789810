"""Events from Kafka into Neo4j, a node each, until SIGTERM.

    python -m benchmarks.baselines.record_level.consumer HOST:PORT TOPIC GROUP NEO4J_URI USER PASSWORD_FILE

Offsets are committed after the transaction that holds the nodes.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from threading import Event as Flag

import neo4j
from confluent_kafka import Consumer, KafkaException, Message

from benchmarks.baselines.record_level.events import decode
from benchmarks.baselines.record_level.graph import BATCH, Keyed, RecordGraph

WAIT_S = 0.5


def flows_of(messages: list[Message]) -> list[Keyed]:
    """What messages say.

    Raises:
        KafkaException: the broker reported an error instead of a message.
        EventError: a message is no event.
    """
    for message in messages:
        error = message.error()
        if error is not None:
            raise KafkaException(error)
    events = decode(message.value() or b"" for message in messages)
    keys = [(message.key() or b"").decode().partition("#") for message in messages]
    return [Keyed(event, app, node) for event, (app, _, node) in zip(events, keys, strict=True)]


def consume(consumer: Consumer, graph: RecordGraph, stop: Flag) -> None:
    """Load batch by batch."""
    while not stop.is_set():
        messages = consumer.consume(BATCH, WAIT_S)
        if messages:
            graph.load(flows_of(messages))
            consumer.commit(asynchronous=False)


def main() -> None:
    """Command line entry."""
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    bootstrap, topic, group, uri, user, password_file = sys.argv[1:]
    stop = Flag()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    auth = (user, Path(password_file).read_text(encoding="ascii").strip())
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    with neo4j.GraphDatabase.driver(uri, auth=auth) as driver:
        consumer.subscribe([topic])
        try:
            consume(consumer, RecordGraph(driver), stop)
        finally:
            consumer.close()


if __name__ == "__main__":
    main()
