"""Applications that wait beside a lake until they have ended: an embedded store links their blocks, and is emptied into the lake."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lineage_core.contract.message import End
from lineage_core.environment.private_files import folder_named
from lineage_store.errors import DamagedError, StoreError
from lineage_store.moving import ChangedError, Moved, move_application
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import captured_into, open_embedded, open_lake, store_path


@dataclass(frozen=True, slots=True)
class Waiting:
    """An application that is not moved yet, and why."""

    reason: str


def move_staged(
    url: str, spool: Path, over: Collection[str] = ()
) -> Iterator[tuple[str, Moved | Waiting]]:
    """Move the applications that have ended into a lake, one by one.

    Args:
        url: the lake.
        spool: where their blocks come from.
        over: applications whose programs are over, whether they say so or not.

    Raises:
        StoreError: a store can't be read or written; or some could not be moved, unlike the others, which are moved by then.
    """
    if not store_path(captured_into(url)).exists():
        return
    left: list[StoreError] = []
    with open_embedded(captured_into(url)) as store:
        for app in store.application_ids():
            folder = Path(folder_named(spool, app))
            try:
                # Another process may move it at this moment.
                with suppress(KeyError):
                    yield app, _hand_over(store, url, app, folder, is_over=app in over)
            except (ChangedError, DamagedError) as error:
                # Of this one alone: those behind it would never be moved.
                left.append(error)
    if left:
        raise left[0] if len(left) == 1 else StoreError("; ".join(map(str, left)))


def hand_over(url: str, folder: Path) -> None:
    """Move one application that has ended into a lake; ``folder``: its own in the spool.

    Raises:
        StoreError: a store can't be read or written.
    """
    with open_embedded(captured_into(url)) as store:
        for app in store.application_ids():
            if Path(folder_named(folder.parent, app)) == folder:
                with suppress(KeyError):
                    _hand_over(store, url, app, folder, is_over=False)


def _hand_over(
    store: SqliteStore, url: str, app: str, folder: Path, *, is_over: bool
) -> Moved | Waiting:
    has_ended = any(isinstance(message, End) for message in store.messages(app, "end"))
    if not has_ended and not is_over and folder.exists():
        return Waiting("it has not ended, as far as its spool says")
    # Blocks that could not be read stay in the spool of an application that has ended, and may be mended.
    is_kept = has_ended and folder.exists()

    def end_spool() -> None:
        if not is_kept and os.path.isdir(folder):
            shutil.rmtree(folder, ignore_errors=True)

    with open_lake(url, create=True) as lake:
        return move_application(store, lake, app, deletes=not is_kept, copied=end_spool)
