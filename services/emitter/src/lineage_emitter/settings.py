"""Settings of capture, in one place.

Order of precedence: arguments, ``spark.lineage.*`` in the Spark configuration, ``LINEAGE_*`` in
the environment, defaults. ``docs/reference/settings.md`` has the table.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from lineage_core.contract.limits import SET_ASIDE_MAX
from lineage_core.environment.shown_address import shown_address
from lineage_emitter.errors import SettingsError
from lineage_kafka.settings import KafkaSettings
from lineage_openlineage.settings import OpenLineageSettings
from lineage_store.errors import StoreError
from lineage_store.lake.address import is_lake, staging_file
from lineage_store.run_notes import PLAN_VARIABLE
from lineage_store.tiers.address import hot_part

SPARK_PREFIX = "spark.lineage."
PUBLISHED_DETAILED = "spark.rdd.lineage.detailed"
"""The key that the published design gave detailed mode."""
DEFAULT_STORE = "sqlite:///.lineage/lineage.db"
DEFAULT_SPOOL = ".lineage/spool"
SQLITE_PREFIX = "sqlite:///"


class Settings(BaseSettings, KafkaSettings, OpenLineageSettings):
    """What a user can set. Field ``x_y`` is ``LINEAGE_X_Y`` and ``spark.lineage.x.y``."""

    model_config = SettingsConfigDict(env_prefix="LINEAGE_", extra="forbid", frozen=True)

    enabled: bool = Field(True, description="false switches capture off: the job runs as it is")
    dispatcher: Literal["spool", "kafka"] = Field(
        "spool", description="how lineage leaves the job: spool (a folder) or kafka"
    )
    store: str = Field(
        DEFAULT_STORE,
        description="where the lineage goes: sqlite:///PATH or lake:URL; with kafka whatever the writer fills",
    )
    spool: str = Field(
        "",
        description="folder for blocks on their way, and for what Kafka does not take; default: "
        "`spool` beside the store's file, or .lineage/spool",
    )
    on_error: Literal["continue", "fail"] = Field(
        "continue",
        description="what happens to the job when lineage can't be captured or delivered",
    )
    unsupported: Literal["refuse", "continue"] = Field(
        "refuse",
        description="operators without lineage: an error, or go on and mark that part unknown "
        "(`lineage run` goes on)",
    )
    memory_mb: int = Field(
        32, ge=1, le=4096, description="bound of capture's buffers in each Python worker, in MiB"
    )
    heartbeat_s: float = Field(10.0, gt=0, description="seconds between signs of life")
    link: bool = Field(True, description="link and store while the job runs and after each action")
    checksums: bool = Field(
        True,
        description="take checksums of files on local disks that RDDs, programs of other engines, Dask and MapReduce read and write, by which copies of them are found",
    )

    quarantine: int = Field(
        0,
        ge=0,
        le=SET_ASIDE_MAX,
        description="records of one task (of DataFrames: of one function in a task) that are set aside, with their lineage, where a function fails on them; "
        "the next failure ends the task as ever; 0 sets none aside",
    )
    repair: str = Field(
        "",
        description="module:function that gets a record of an RDD on which a function fails, and the error, and gives the record to be tried in its place, or None "
        "for none; with quarantine, whose bound counts these records, too",
    )

    watch: bool = Field(
        False,
        description="records of RDDs can be watched while the job runs (`lineage watch`)",
    )
    watch_frames: bool = Field(
        False,
        description="rows of DataFrames' operators can be watched while the job runs, and their tasks and Python functions timed (`lineage watch`)",
    )

    detailed: bool = Field(
        False,
        description="items and values at every operator, not just per stage "
        "(spark.rdd.lineage.detailed works, too)",
    )
    values: bool = Field(True, description="in detailed mode: keep what records look like")
    value_encoder: str = Field(
        "repr", description="text of a record: repr, json or module:function (record to text)"
    )
    value_length: int = Field(
        200, ge=1, le=32_768, description="characters kept of a record's text; a cut is marked"
    )
    redact: str = Field(
        "",
        description="module:function that gives what to show instead of a record; it runs before "
        "anything leaves the worker",
    )
    granularity: Literal["row", "key"] = Field(
        "row",
        description="joins: an output row from the very rows that made it, or (cheaper where keys "
        "have many rows) from all rows of its key",
    )
    rules: str = Field(
        "",
        description="what single nodes show, and which records are captured: a file (TOML, JSON) "
        "or JSON itself",
    )

    secret_words: str = Field(
        "",
        pattern=r"^([A-Za-z0-9]+(\s*,\s*[A-Za-z0-9]+)*)?$",
        description="further words, with commas: arguments of the program whose name holds one are secret, "
        "as with password or token, and are kept as ***",
    )

    rows_mb: int = Field(
        32,
        ge=0,
        description="MiB of rows that are kept of each DataFrame made of an RDD, so that traces "
        "cross there; 0 keeps none",
    )
    rows_folder: str = Field(
        "",
        description="folder for these rows, one that the driver, all executors and whoever traces "
        "share; default: `rows` beside the store's file (with kafka none are kept)",
    )

    kafka_timeout_s: float = Field(
        5.0, gt=0, le=300, description="what Kafka has not acknowledged by then goes to the spool"
    )
    kafka_retry_s: float = Field(
        30.0, ge=0, description="seconds until a Kafka that was away is tried again"
    )

    @property
    def links_in_driver(self) -> bool:
        """Whether this program links and stores: what goes to Kafka is linked elsewhere."""
        return self.link and self.dispatcher == "spool"

    def spool_folder(self) -> Path:
        """The absolute spool folder.

        Raises:
            SettingsError: the store is none that can be written from here.
        """
        if self.spool:
            return Path(self.spool.removeprefix("file://")).absolute()
        if self.dispatcher == "kafka" and not self.store.startswith(SQLITE_PREFIX):
            return Path(DEFAULT_SPOOL).absolute()
        return self.store_file().parent / "spool"

    def row_folder(self) -> Path | None:
        """The absolute folder for rows of RDDs that DataFrames are made of; None: there is none."""
        if self.rows_folder:
            return Path(self.rows_folder.removeprefix("file://")).absolute()
        return self.store_file().parent / "rows" if self.dispatcher == "spool" else None

    def query_folder(self) -> Path | None:
        """The absolute folder for notes of runs of streaming queries; None: there is none."""
        return self.store_file().parent / "queries" if self.dispatcher == "spool" else None

    def store_file(self) -> Path:
        """The absolute path of the embedded store: of a lake that where applications wait until they have ended.

        Raises:
            SettingsError: the store is none that can be written from here.
        """
        try:
            if is_lake(self.store):
                return staging_file(self.store)
            store = hot_part(self.store)
        except StoreError as error:
            raise SettingsError(str(error)) from error
        if not store.startswith(SQLITE_PREFIX) or store == SQLITE_PREFIX:
            raise SettingsError(
                f"store {shown_address(self.store)!r}: capture writes to an embedded store or a lake; give sqlite:///PATH or lake:PATH"
            )
        return Path(store.removeprefix(SQLITE_PREFIX)).expanduser().absolute()


def read_settings(spark_conf: Mapping[str, str] | None = None, **arguments: Any) -> Settings:
    """Settings from arguments, the Spark configuration and the environment.

    Raises:
        SettingsError: a value can't be used, or an argument or ``spark.lineage.*`` key is not known.
    """
    fields: dict[str, Any] = {}
    if PLAN_VARIABLE in os.environ:
        # A rerun is stored apart, whatever the program sets.
        spark_conf, arguments = None, {}
    for key, value in (spark_conf or {}).items():
        if key.startswith(SPARK_PREFIX):
            fields[setting_of(key)] = value
        elif key == PUBLISHED_DETAILED:
            fields.setdefault("detailed", value)
    for name, value in arguments.items():
        if value is not None:
            fields[_field(name, name)] = value
    try:
        settings = Settings(**fields)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        setting_name = ".".join(map(str, first["loc"]))
        # Not shown as the cause: it shows what was given, which may be a secret.
        raise SettingsError(f"setting {setting_name}: {first['msg']}") from None
    if settings.enabled and settings.dispatcher == "spool":
        settings.store_file()
    if settings.enabled and settings.dispatcher == "kafka" and not settings.kafka:
        raise SettingsError("dispatcher kafka: give kafka (LINEAGE_KAFKA) as HOST:PORT")
    return settings


def setting_of(key: str) -> str:
    """The setting that a key ``spark.lineage.*`` is of.

    Raises:
        SettingsError: it is of none.
    """
    return _field(key.removeprefix(SPARK_PREFIX).replace(".", "_"), key)


def _field(name: str, requested_name: str) -> str:
    if name in Settings.model_fields:
        return name
    prefix = SPARK_PREFIX if requested_name.startswith(SPARK_PREFIX) else ""
    names_text = ", ".join(prefix + _spelled(field, prefix) for field in setting_names())
    raise SettingsError(f"{requested_name} is not a setting; known: {names_text}")


def setting_names() -> list[str]:
    """All settings: capture's own first, then those that it shares with others."""
    shared = [*KafkaSettings.model_fields, *OpenLineageSettings.model_fields]
    return [name for name in Settings.model_fields if name not in shared] + shared


def _spelled(field: str, prefix: str) -> str:
    return field.replace("_", ".") if prefix else field
