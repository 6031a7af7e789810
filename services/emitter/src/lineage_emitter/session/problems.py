"""What goes wrong with capture: it never breaks the job, unless the user wants it to."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from lineage_emitter.errors import CaptureFailedError, UnfitExecutorsError
from lineage_emitter.failures import in_words

if TYPE_CHECKING:
    from lineage_emitter.sdk.api import LineageApi
    from lineage_emitter.settings import Settings

logger = logging.getLogger(__name__)
LINKING = "link the lineage"


class Problems:
    """What went wrong in a session, and what is done about it. Thread-safe."""

    def __init__(self, api: LineageApi, settings: Settings) -> None:
        self._api = api
        self._settings = settings
        self.first = ""
        """What went wrong first."""
        self.lost = ""
        """The first of it that no later linking can make good."""
        self.quiet: threading.Thread | None = None
        """The thread that nothing is raised in."""

    def guard(self, activity: str, action: Callable[[], None]) -> None:
        """Do something of capture's, which never breaks the job, unless the user wants it to.

        Raises:
            CaptureFailedError: it failed, and ``on_error`` is ``fail``.
        """
        try:
            action()
        except UnfitExecutorsError:
            raise
        except Exception as problem:
            reason = f"could not {activity}: {in_words(problem)}"
            if activity != LINKING:
                self.lost = self.lost or reason
            if not self.first:
                self.first = reason
                logger.warning("lineage is incomplete: %s", self.first)
                with contextlib.suppress(Exception):
                    self._api.unknown("capture", self.first[:500])
            if self._settings.on_error == "fail" and threading.current_thread() is not self.quiet:
                raise CaptureFailedError(self.first) from problem

    def record_task_problem(self, reason: str) -> None:
        """A task says why its lineage is incomplete."""
        if not self.first:
            self.first = reason
            logger.warning("lineage of a task is incomplete: %s", reason)

    def check(self) -> None:
        """Fail the program where capture has failed, if it is to.

        Raises:
            CaptureFailedError: capture has failed, and ``on_error`` is ``fail``.
        """
        if self.first and self._settings.on_error == "fail":
            raise CaptureFailedError(self.first)
