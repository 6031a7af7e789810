"""Executors of a session: checked before its first job, where they are not the driver's own environment."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from lineage_emitter.errors import CaptureFailedError, UnfitExecutorsError
from lineage_emitter.session.executors import are_like_driver, check_executors

if TYPE_CHECKING:
    from pyspark import SparkContext

    from lineage_emitter.sdk.api import LineageApi
    from lineage_emitter.session.problems import Problems
    from lineage_emitter.settings import Settings
    from lineage_emitter.worker.task_config import TaskConfig

logger = logging.getLogger(__name__)


class ExecutorCheck:
    """Whether executors can run captured functions. Thread-safe.

    ``is_closed``: whether capture has ended. ``end``: ends it, for good.
    """

    def __init__(
        self,
        sc: SparkContext,
        api: LineageApi,
        problems: Problems,
        settings: Settings,
        config: TaskConfig,
        *,
        is_closed: Callable[[], bool],
        end: Callable[[], None],
    ) -> None:
        self._sc = sc
        self._api = api
        self._problems = problems
        self._settings = settings
        self._config = config
        self._is_closed = is_closed
        self._end = end
        self.unfit = False
        """Whether executors have turned out not to be able to run captured functions."""
        self.checked = are_like_driver(sc)
        """Whether that is known."""
        self._check_lock = threading.Lock()

    def check_before_job(self) -> None:
        """Before the first job: end capture where executors can't run captured functions.

        It waits for executors, as the job would.

        Raises:
            CaptureFailedError: they can't, and ``on_error`` is ``fail``.
        """
        with self._check_lock:
            if self.checked or self._is_closed():
                return
            self.checked = True
            try:
                self._problems.guard("look at the executors", self._check_executors)
            except UnfitExecutorsError as problem:
                self._give_up(problem)

    def _give_up(self, problem: UnfitExecutorsError) -> None:
        self.unfit = True
        logger.warning("no lineage is captured: %s", problem)
        self._problems.guard("note it", lambda: self._api.unknown("capture", str(problem)))
        self._end()
        if self._settings.on_error == "fail":
            raise CaptureFailedError(f"capture can't begin: {problem}") from problem

    def _check_executors(self) -> None:
        folder = self._api.dispatcher.blocks_dir
        facts = check_executors(self._sc, folder)
        if facts.capture:
            # Their tasks would fail where they load captured functions.
            raise UnfitExecutorsError(f"executors can't load it: {facts.capture}")
        if facts.code:
            raise UnfitExecutorsError(
                f"{facts.code}: install the driver's there, or pack it anew (lineage bundle)"
            )
        if self._config.kafka is None and facts.folder:
            raise CaptureFailedError(
                f"spool {folder}: {facts.folder}; set spark.lineage.spool (LINEAGE_SPOOL) to a "
                "folder that the driver and all executors share (executors of another user: one whose "
                "group both are of, chmod g+ws FOLDER)"
            )
        if self._config.kafka is not None and facts.kafka:
            logger.warning("executors leave lineage in the spool: %s", facts.kafka)
        if self._config.kafka is not None and facts.folder:
            logger.warning(
                "what Kafka does not take stays on the disks of executors: spool %s: %s",
                *(folder, facts.folder),
            )
