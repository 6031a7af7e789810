"""Whether the records of an application can be watched while it runs, and which operators of RDDs it has for that."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from lineage_emitter.session.executors import are_local
from lineage_emitter.settings import Settings
from lineage_emitter.worker.values import ValueTexts
from lineage_emitter.worker.watched_run import WatchedOperator
from lineage_store.watch_folder import WatchableNode, WatchedJob

logger = logging.getLogger(__name__)

NO_FOLDER = "its executors are on other machines and send to Kafka: there is no folder that they share with who watches"


class Watched:
    """Of one application. A failure costs watches, never the job or its lineage."""

    def __init__(self, settings: Settings, app: str, folder: Path, master: str) -> None:
        """``folder``: of the application in the spool."""
        self._job: WatchedJob | None = None
        self._watches_records = settings.watch
        if not (settings.watch or settings.watch_frames):
            return
        is_apart = settings.dispatcher == "kafka" and not are_local(master)
        self._guard(lambda: self._open(folder, app, NO_FOLDER if is_apart else ""))

    def _open(self, folder: Path, app: str, refusal: str) -> None:
        self._job = WatchedJob(folder, app, refusal)

    def operator(self, facts: WatchableNode, texts: ValueTexts | None) -> WatchedOperator | None:
        """What lets an operator be watched; None: it can't be."""
        folder = self.folder
        if folder is None or not self._watches_records:
            return None
        return WatchedOperator(str(folder), facts, texts, self._add)

    @property
    def folder(self) -> Path | None:
        """By which it is watched; None: it is not."""
        return None if self._job is None or self._job.is_refused else self._job.folder

    def _add(self, facts: WatchableNode) -> None:
        job = self._job
        if job is not None:
            self._guard(lambda: job.add(facts))

    def close(self) -> None:
        """The end of the application."""
        job, self._job = self._job, None
        if job is not None:
            self._guard(job.close)

    @staticmethod
    def _guard(action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as problem:
            logger.warning("records can't be watched: %s", problem)
