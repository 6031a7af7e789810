"""Links and stores in the driver's process, in the background, while the program goes on."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_emitter.settings import Settings
from lineage_store.lake.address import is_lake

if TYPE_CHECKING:
    from lineage_store.sqlite.ingest import Progress

logger = logging.getLogger(__name__)


def _load_libraries() -> None:
    """Load what the ingest needs while the program starts, not after its first action."""
    import pyarrow.compute  # noqa: F401

    import lineage_store.sqlite.ingest
    import lineage_store.sqlite.store  # noqa: F401


class BackgroundLinker:
    """Runs the embedded ingest whenever it is woken; one at a time."""

    def __init__(self, settings: Settings, spool_app_folder: Path) -> None:
        self._settings = settings
        self._folder = spool_app_folder
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        if settings.links_in_driver:
            # Now: when the program's main thread has ended, none can be started any more.
            self._thread = threading.Thread(target=self._run, name="lineage-linker", daemon=True)
            self._thread.start()

    def wake(self) -> None:
        """Link what has been committed since."""
        self._wake.set()

    def close(self) -> None:
        """Link what is left and stop.

        Raises:
            Exception: what the last pass raised; what is not linked stays in the spool.
        """
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        if self._settings.links_in_driver:
            self._pass()

    def publish(self) -> None:
        """Publish the application to OpenLineage, where settings request it; it never raises."""
        if not (self._settings.links_in_driver and self._settings.tells_openlineage):
            return
        app = self._folder.name
        try:
            from lineage_openlineage.publishing import publish_events
            from lineage_store.sqlite.store import SqliteStore

            with SqliteStore(self._settings.store_file()) as store:
                if publish_events(store, app, self._settings) is None:
                    logger.warning(
                        "no OpenLineage events were sent for %s: it is not all linked", app
                    )
        except Exception as problem:
            logger.warning(
                "no OpenLineage events were sent for %s: %s; `lineage openlineage %s` sends them",
                app,
                problem,
                app,
            )

    def hand_over(self) -> None:
        """Move the application, which has ended, into the lake, where the store is one; it never raises."""
        if not (self._settings.links_in_driver and is_lake(self._settings.store)):
            return
        try:
            from lineage_store.staging import hand_over

            hand_over(self._settings.store, self._folder)
        except Exception as problem:
            logger.warning(
                "the lineage of %s waits in %s: %s; `lineage link` moves it into the lake",
                self._folder.name,
                self._settings.store_file(),
                problem,
            )

    def catch_up(self, progress: Progress | None = None) -> None:
        """Link all that is in the spool now, here; what the thread links is waited for.

        Raises:
            StoreError: the store can't be written.
            OSError: the spool can't be read.
        """
        self._pass(progress)

    def _run(self) -> None:
        try:
            _load_libraries()
            while not self._closing:
                self._wake.wait()
                self._wake.clear()
                if not self._closing:
                    self._pass()
        except Exception:
            logger.exception("linking stopped; `lineage link` goes on from here")

    def _pass(self, progress: Progress | None = None) -> None:
        from lineage_store.sqlite.ingest import ingest
        from lineage_store.sqlite.store import SqliteStore

        store = SqliteStore(self._settings.store_file())
        try:
            ingest(store, self._folder, progress=progress)
        finally:
            store.close()
