"""What a Spark task needs to know to capture: small, picklable, made by the driver's session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator

    from lineage_emitter.dispatch.kafka_target import KafkaTarget


@dataclass(frozen=True)
class TaskConfig:
    """Travels inside every captured function.

    ``markers`` is the accumulator that takes a task's end marker to the driver.
    ``memory_bytes`` bounds what capture buffers in one worker before blocks are written early.
    ``kafka``: where blocks go; None: to files in ``blocks_dir``.
    """

    app: str
    blocks_dir: str
    markers: Accumulator[list[dict[str, Any]]]
    memory_bytes: int
    fail_job: bool
    kafka: KafkaTarget | None = None
