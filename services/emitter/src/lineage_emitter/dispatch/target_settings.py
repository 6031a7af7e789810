"""Where blocks go, as the settings say it. Of the driver alone: a task does without the settings' library."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lineage_emitter.dispatch.kafka_target import KafkaTarget
from lineage_kafka.settings import SECRETS

if TYPE_CHECKING:
    from lineage_emitter.settings import Settings


def target_of(settings: Settings) -> KafkaTarget:
    """Where blocks go, as far as the settings say it."""
    files: dict[str, str] = {}
    secrets: dict[str, str] = {}
    for field, name in SECRETS.items():
        path = getattr(settings, f"{field}_file")
        if path:
            files[name] = os.path.abspath(path)
        elif value := getattr(settings, field).get_secret_value():
            secrets[name] = value
    return KafkaTarget(
        config=settings.public_config(),
        flow=settings.topics.flow,
        timeout_s=settings.kafka_timeout_s,
        retry_s=settings.kafka_retry_s,
        secret_files=files,
        secrets=secrets,
    )
