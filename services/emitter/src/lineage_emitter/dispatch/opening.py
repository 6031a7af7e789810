"""Which way out the settings request; workers load no more of it than tasks need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lineage_core.contract.message import Message
    from lineage_emitter.dispatch.port import DriverDispatcher, TaskDispatcher
    from lineage_emitter.settings import Settings
    from lineage_emitter.worker.task_config import TaskConfig


def open_task(config: TaskConfig, name: str, partition: int) -> tuple[TaskDispatcher, int]:
    """The way out of a new run of a segment, and the number of the run in its task.

    ``name``: of the segment, its partition and its task attempt.

    Raises:
        OSError: the spool can't be written, or the run can't be distinguished from others.
    """
    if config.kafka is None:
        from lineage_emitter.dispatch.spool import TaskSpool

        return TaskSpool.create(config.blocks_dir, name)
    from lineage_emitter.dispatch import kafka

    return kafka.create(
        config.kafka, config.app, name, partition, config.blocks_dir, config.memory_bytes
    )


def open_driver(settings: Settings, app: str) -> DriverDispatcher:
    """The driver's way out, ready for messages.

    Raises:
        SettingsError: a setting can't be used.
        OSError: the spool can't be written.
        DeliveryError: Kafka can't be used, and ``on_error`` is ``fail``.
    """
    dispatcher: DriverDispatcher
    if settings.dispatcher == "kafka":
        from lineage_emitter.dispatch.driver_kafka import DriverKafka

        dispatcher = DriverKafka(settings, app)
    else:
        from lineage_emitter.dispatch.driver_spool import DriverSpool

        dispatcher = DriverSpool(settings.spool_folder(), app)
    dispatcher.open()
    return dispatcher


def store_messages(settings: Settings, app: str, messages: Sequence[Message]) -> None:
    """Store messages of an application whose dispatcher is closed, or never opened.

    Raises:
        Exception: that is not possible either.
    """
    if settings.dispatcher == "kafka":
        dispatcher = open_driver(settings, app)
        for message in messages:
            dispatcher.write(message)
        dispatcher.close()
        return
    from lineage_store.sqlite.store import SqliteStore

    store = SqliteStore(settings.store_file())
    store.write(app, messages)
    store.close()
