"""Topics of Kafka that streaming queries write: the offsets by which they grew while a batch ran.

Kafka does not say who wrote a record. What a batch wrote lies between the ends that the topic had before the batch began, and those that it
has when the batch is committed. Ends are looked up before the query begins, and behind each batch.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from lineage_core.recipe.document import Output
from lineage_core.recipe.names import KAFKA
from lineage_emitter.dataframes import topics
from lineage_emitter.dataframes.jvm import pairs_of
from lineage_emitter.dataframes.plan_text import compiled
from lineage_emitter.dataframes.stream_state import PLANS_CLASS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SINK = "KafkaSourceProvider$KafkaTable"
"""The class of sinks that write topics."""
LOOKS_KEPT = 100


@dataclass(slots=True)
class TopicSink:
    """A topic that a query writes. ``options``: of the writer, with secrets. ``id``: as of `topics.TopicWrite`.

    ``looks``: when each look at its ends was over, in unix seconds, and these.
    """

    options: Mapping[str, str]
    topic: str
    id: str
    looks: deque[tuple[float, Mapping[int, int]]] = field(
        default_factory=lambda: deque(maxlen=LOOKS_KEPT)
    )

    @classmethod
    def of(cls, spark: SparkSession, options: Mapping[str, str]) -> TopicSink | None:
        """The one that options of a writer name, looked at now; None: rows themselves say to which topics they go."""
        write = topics.TopicWrite.begun(spark, options)
        if write is None:
            return None
        sink = cls(options, write.topic, write.id)
        if write.before is not None:
            sink.looks.append((time.time(), write.before))
        return sink

    def written(self, spark: SparkSession, action: str, began_at: float | None) -> Output:
        """What a batch wrote that is committed. ``began_at``: a time before it did, in unix seconds; None: not known."""
        before = None
        if began_at is not None:
            looks = (ends for over, ends in reversed(self.looks) if over <= began_at)
            before = next(looks, None)
        write = topics.TopicWrite(spark, self.options, self.topic, self.id, before)
        after = topics.ends_of_written(spark, self.options, self.topic)
        if after is not None:
            self.looks.append((time.time(), after))
        return Output(
            kind="table",
            action=action,
            table=write.name,
            format=KAFKA,
            options=write.place,
            version=write.version_until(after),
        )


def sink_of_writer(writer: Any) -> TopicSink | None:
    """The topic that a writer of a stream (PySpark's object) would write, before its query begins; None: another sink, or not known."""
    if not topics.is_used(writer._spark):
        return None
    plans = compiled(PLANS_CLASS)
    try:
        if str(plans.field(writer._jwrite, "source")).lower() != KAFKA:
            return None
        return TopicSink.of(writer._spark, _by_name(plans.field(writer._jwrite, "extraOptions")))
    except (Py4JError, PySparkException):
        # The program's own call says what is wrong.
        return None


def options_of_query(execution: Any) -> dict[str, str]:
    """The options of the writer of a query which runs (Spark's object), with secrets."""
    return _by_name(compiled(PLANS_CLASS).field(execution, "extraOptions"))


def _by_name(options: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in pairs_of(options).items()}
