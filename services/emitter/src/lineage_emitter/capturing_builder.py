"""A builder of Spark sessions that are captured from their first action on."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from lineage_emitter.attaching import attach

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Self


class CapturingBuilder:
    """PySpark's own builder, whose session is attached when it is there."""

    def __init__(self, own: Any, settings: dict[str, Any]) -> None:
        self._own = own
        self._settings = settings

    def getOrCreate(self) -> SparkSession:
        """Start a session, or take the one that runs, and capture what it does from then on.

        Returns:
            PySpark's own session.

        Raises:
            ConnectSessionError: The builder is one of Spark Connect.
            SettingsError: A setting can't be used.
            CaptureFailedError: Capture can't begin, and the setting `on_error` is `fail`.
        """
        spark: SparkSession = self._own.getOrCreate()
        attach(spark, **self._settings)
        return spark

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._own, name)
        if not callable(attribute):
            return attribute

        @functools.wraps(attribute)
        def method(*arguments: Any, **named: Any) -> Any | Self:
            result = attribute(*arguments, **named)
            return self if result is self._own else result

        return method


def builder(own: SparkSession.Builder, **settings: Any) -> CapturingBuilder:
    """Make a builder whose session is captured: `lineage.builder(SparkSession.builder).getOrCreate()`.

    It sets nothing of its own in the session's configuration: packages, listeners and all else stay what the program says.

    Args:
        own: PySpark's builder, with whatever has been set.
        **settings: Settings of capture, as :func:`attach` takes them.

    Returns:
        A builder with the methods of PySpark's.
    """
    return CapturingBuilder(own, settings)
