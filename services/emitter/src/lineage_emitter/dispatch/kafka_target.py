"""What a task must know to send to Kafka: small, picklable, made by the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lineage_kafka.topics import RECORD_BYTES_MAX


@dataclass(frozen=True)
class KafkaTarget:
    """Where blocks go.

    ``config``: properties of librdkafka without secrets. ``secret_files``: property by property the
    file that holds it, read where the client is made; ``secrets``: those that are not in files.
    ``partitions`` of topic ``flow``, 0 when Kafka was away as the driver asked. ``record_bytes``:
    the largest record that the topic takes. ``timeout_s``: what is not acknowledged by then goes to
    the spool; ``retry_s``: after that Kafka is left alone for so long.
    """

    config: Mapping[str, str]
    flow: str
    partitions: int = 0
    record_bytes: int = RECORD_BYTES_MAX
    timeout_s: float = 5.0
    retry_s: float = 30.0
    secret_files: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    def client_config(self) -> dict[str, str]:
        """Properties of librdkafka with the secrets.

        Raises:
            OSError: a secret's file can't be read.
        """
        config = dict(self.config) | dict(self.secrets)
        for name, path in self.secret_files.items():
            with open(path, encoding="utf-8") as file:
                config[name] = file.read().rstrip("\r\n")
        return config
