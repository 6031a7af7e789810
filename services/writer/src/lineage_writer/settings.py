"""Settings of the writer: ``LINEAGE_*`` in the environment. docs/reference/settings.md has the table."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from lineage_kafka.settings import KafkaSettings, settings_from_environment
from lineage_kafka.topics import RECORD_BYTES_MAX
from lineage_openlineage.errors import OpenLineageError
from lineage_openlineage.sending import read_endpoint
from lineage_openlineage.settings import OpenLineageSettings
from lineage_store.lake.address import is_lake
from lineage_writer.errors import SettingsError

NO_STORE: Final = (
    "LINEAGE_STORE is not set: give Neo4j's as neo4j://HOST:PORT, or a lake's as lake:PLACE"
)
OF_LAKE: Final[dict[str, Any]] = {
    "writer_batch_bytes": 32 << 20,
    "writer_batch_rows": 100_000,
    "writer_batch_wait_s": 1.0,
}
"""Defaults for a lake, whose commits are files: fewer and larger ones."""


class WriterSettings(BaseSettings, KafkaSettings, OpenLineageSettings):
    """What an operator can set, besides what others read, too."""

    model_config = SettingsConfigDict(env_prefix="LINEAGE_", extra="ignore", frozen=True)

    store: str = Field(
        "", description="where the lineage goes: neo4j://HOST:PORT (neo4j+s: TLS) or lake:PLACE"
    )
    writer_group: str = Field(
        "lineage-writer", min_length=1, description="consumer group that shares the work"
    )
    writer_http_host: str = Field(
        "127.0.0.1", description="address that /healthz, /readyz and /metrics listen on"
    )
    writer_http_port: int = Field(9402, ge=0, le=65535, description="their port; 0: any free one")
    writer_batch_bytes: int = Field(
        8 << 20,
        ge=1,
        le=256 << 20,
        description="bytes of records of one transaction, about; for a lake 33554432",
    )
    writer_batch_rows: int = Field(
        10_000,
        ge=1,
        description="blocks, edges and messages of one transaction, about; for a lake 100000",
    )
    writer_batch_wait_s: float = Field(
        0.05, ge=0, le=60, description="seconds that a batch waits for more records; for a lake 1.0"
    )
    writer_parallel: int = Field(
        2, ge=1, le=64, description="transactions at once, each of another partition"
    )
    writer_fetch_bytes: int = Field(
        4 << 20, ge=1, description="bytes read ahead from each partition"
    )
    writer_record_bytes: int = Field(
        RECORD_BYTES_MAX, ge=1, description="longest record that is read; longer: a dead letter"
    )
    writer_session_s: float = Field(
        10.0, ge=1, description="seconds of silence after which Kafka gives partitions to others"
    )
    writer_stop_s: float = Field(
        5.0, gt=0, description="seconds to finish on SIGTERM before the rest is rolled back"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least important events that are logged"
    )

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_store(cls, given: dict[str, Any]) -> dict[str, Any]:
        return {**OF_LAKE, **given} if is_lake(str(given.get("store", ""))) else given


def read_settings() -> WriterSettings:
    """Settings from the environment.

    Raises:
        SettingsError: one is missing or can't be used.
    """
    settings = settings_from_environment(WriterSettings, SettingsError)
    if not settings.store:
        raise SettingsError(NO_STORE)
    if is_lake(settings.store) and settings.tells_openlineage:
        raise SettingsError(
            "LINEAGE_OPENLINEAGE_*: a writer publishes from Neo4j alone, not from a lake; unset them, or use "
            "`lineage openlineage`"
        )
    if settings.openlineage_url:
        try:
            read_endpoint(settings.openlineage_url)
        except OpenLineageError as error:
            raise SettingsError(f"LINEAGE_OPENLINEAGE_URL: {error}") from error
    return settings
