"""``lineage archive`` and ``lineage compact``: applications into a lake, and its files merged."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from lineage.options import print_json
from lineage.spools import remove_spool
from lineage.terminal import echo
from lineage_core.errors import LineageError
from lineage_query.finding import find_application
from lineage_store.errors import StoreError
from lineage_store.lake.address import is_lake
from lineage_store.moving import Moved, move_application
from lineage_store.port import ApplicationRecord, GraphStore
from lineage_store.url import absolute_store, is_embedded, open_lake, open_store

_AGE: Final = re.compile(r"([0-9]{1,6})([hdw])")
_SECONDS: Final = {"h": 3_600, "d": 86_400, "w": 604_800}


class ArchiveError(LineageError):
    """Nothing can be archived as it is requested."""


def seconds_of(age: str) -> int:
    """Of an age such as ``36h``, ``30d`` or ``4w``.

    Raises:
        ArchiveError: it is none.
    """
    match = _AGE.fullmatch(age)
    if match is None:
        raise ArchiveError(f"{age!r} is no age; give hours, days or weeks, such as 36h, 30d or 4w")
    return int(match[1]) * _SECONDS[match[2]]


def archive(url: str, names: Sequence[str], older_than: str, lake: str, *, as_json: bool) -> None:
    """Move applications from a store into a lake, and print which.

    Raises:
        ArchiveError: it does not say which applications, or one still runs.
        StoreError: a store can't be read or written.
    """
    if bool(names) == bool(older_than):
        raise ArchiveError("give either applications, or --older-than AGE")
    if not is_lake(lake):
        raise StoreError(f"{lake} is no lake; give --to lake:PATH or lake:s3://BUCKET/FOLDER")
    if absolute_store(url) == absolute_store(lake):
        raise ArchiveError(f"{lake} is the store the applications are in")
    moved: list[Moved] = []
    with open_store(url) as source, open_lake(lake, create=True) as target:
        for app in _chosen(source, names, older_than):

            def end_spool(app: str = app) -> None:
                if is_embedded(url):
                    remove_spool(url, app)

            moved.append(move_application(source, target, app, copied=end_spool))
            if not as_json:
                contents = moved[-1].contents
                echo(
                    f"{app}: {contents.blocks:,} blocks, {contents.edges:,} edges and {contents.messages:,} messages "
                    f"are in {lake}, compared, and deleted from {url}"
                )
    if as_json:
        print_json([asdict(one) for one in moved])
    elif not moved:
        echo("no application is that old")


def _chosen(store: GraphStore, names: Sequence[str], older_than: str) -> list[str]:
    records = {record.app: record for record in store.applications()}
    if names:
        apps = list(dict.fromkeys(find_application(store, name) for name in names))
        for app in apps:
            if records[app].status == "running":
                raise ArchiveError(f"{app} still runs; it can be archived when it has ended")
        return apps
    latest = time.time() - seconds_of(older_than)
    return [
        app for app, record in reversed(records.items())
        if record.status != "running" and _last_known(record) < latest
    ]  # fmt: skip


def _last_known(record: ApplicationRecord) -> float:
    """When an application ended, or, where it never did, began."""
    return record.started_at if record.ended_at is None else record.ended_at


def compact_lake(url: str, kept_hours: int, *, as_json: bool) -> None:
    """Merge the files of a lake, and print what was done.

    Raises:
        StoreError: the store is no lake, or can't be written.
    """
    with open_lake(url) as lake:
        # It loads the table format.
        from lineage_store.lake.compacting import compact

        done = compact(lake, kept_hours)
    if as_json:
        print_json(asdict(done))
        return
    echo(
        f"{done.merged:,} files became {done.written:,} ({done.bytes_saved:,} bytes less); "
        f"{done.deleted:,} files that were not used for {kept_hours:,} hours are deleted"
    )
