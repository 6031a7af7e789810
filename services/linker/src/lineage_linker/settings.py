"""Settings of the linker, from the environment: field ``x`` is ``LINEAGE_X``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from lineage_kafka.settings import KafkaSettings, settings_from_environment
from lineage_linker.errors import LinkerSettingsError
from lineage_linker.space_sizes import SPACE_PAIRS_MAX
from lineage_service.redis_settings import RedisSettings, RedisSettingsError

REDIS_ANSWER_S = 5.0
"""A longer silence is taken for absence; the command is tried again on a new connection."""


class LinkerSettings(BaseSettings, RedisSettings, KafkaSettings):
    """All settings of the linker."""

    model_config = SettingsConfigDict(env_prefix="LINEAGE_", extra="ignore", frozen=True)

    linker_group: str = Field(
        "lineage-linker",
        pattern=r"^[A-Za-z0-9._-]{1,200}$",
        description="consumer group; workers of one group share the partitions",
    )
    linker_http_host: str = Field(
        "127.0.0.1", description="address for /healthz, /readyz and /metrics"
    )
    linker_http_port: int = Field(9401, ge=0, le=65535, description="its port; 0: any free one")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least important events that are logged"
    )
    linker_batch: int = Field(
        256, ge=1, le=10_000, description="most records that are handled at a time"
    )
    linker_batch_bytes: int = Field(
        32 << 20, ge=1, description="bytes of records after which a batch is full"
    )
    linker_wait_s: float = Field(
        0.05, gt=0, le=10, description="seconds that a batch waits for more records"
    )
    linker_retention_s: int = Field(
        7 * 24 * 3600, ge=60, description="seconds for which state stays that is not complete"
    )
    linker_complete_s: int = Field(
        60, ge=1, description="seconds for which the state of a complete application stays"
    )
    linker_cache_bytes: int = Field(
        128 << 20, ge=0, description="bytes of join columns that are kept in memory"
    )
    linker_space_pairs: int = Field(
        SPACE_PAIRS_MAX,
        ge=1,
        description="pairs of a block that puts out into a space and one that reads it, beyond which its blocks are not "
        "linked; the application is then incomplete, and traces load all of these blocks",
    )
    linker_unsafe_s: float = Field(
        3.0,
        ge=0,
        le=60,
        description="seconds after which Redis before 7.2 has its writes on disk "
        "(appendfsync everysec); later versions are asked",
    )
    linker_unsafe_bytes: int = Field(
        64 << 20, ge=1, description="bytes of records that may wait for that"
    )
    linker_session_s: float = Field(
        10.0, ge=1, le=300, description="seconds after which a silent worker loses its partitions"
    )
    linker_stall_s: float = Field(
        60.0,
        ge=1,
        description="seconds for which records may lie unread by an idle worker before it begins anew",
    )

    def redis_client(self, *, answer_s: float = REDIS_ANSWER_S) -> Redis:
        """A client that tries once: its callers know how to go on.

        Raises:
            LinkerSettingsError: a secret's file can't be read.
        """
        try:
            arguments = self.redis_arguments()
        except RedisSettingsError as error:
            raise LinkerSettingsError(str(error)) from error
        return Redis.from_url(
            self.redis,
            socket_timeout=answer_s,
            socket_connect_timeout=answer_s,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
            **arguments,
        )


def read_settings() -> LinkerSettings:
    """Settings from the environment.

    Raises:
        LinkerSettingsError: one can't be used; no value is shown, for it may be a secret.
    """
    settings = read_topic_settings()
    if not settings.redis:
        raise LinkerSettingsError(
            "LINEAGE_REDIS is not set: give the address as redis://HOST:PORT/0"
        )
    return settings


def read_topic_settings() -> LinkerSettings:
    """The same for what needs Kafka alone.

    Raises:
        LinkerSettingsError: as above.
    """
    return settings_from_environment(LinkerSettings, LinkerSettingsError)
