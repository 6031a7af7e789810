"""``lineage expire``: applications that are older than they are to be kept are removed from wherever they are."""

from __future__ import annotations

from collections.abc import Sequence

from lineage.ages import has_age, older_than
from lineage.json_values import json_value
from lineage.linking import link_left
from lineage.options import print_json
from lineage.spools import remove_files
from lineage.terminal import echo
from lineage_store.materialised import delete_application, whose_rows
from lineage_store.port import ApplicationRecord
from lineage_store.url import open_store


def expire(url: str, age: str, *, dry_run: bool, as_json: bool) -> None:
    """Remove the applications of a store that ended so long ago, the oldest first, and print which.

    Applications that run are kept, however long ago they began, and those of which it is not known when. Each is removed by itself: the next call goes on where one was
    interrupted. ``dry_run``: remove nothing.

    Raises:
        AgeError: the text is no age.
        StoreError: the store can't be read or written.
    """
    link_left(url)
    expired: list[ApplicationRecord] = []
    with open_store(url) as store:
        records = store.applications()
        ids = [record.app for record in records]
        # Materialised lineage goes with the application that it is of, and stays with it.
        own = [record for record in records if not whose_rows(record.app, ids)]
        old = older_than(own, age)
        ageless = [record.app for record in own if not has_age(record)]
        running = [record for record in old if record.status == "running"]
        for record in old:
            if record.status == "running":
                continue
            if not dry_run:
                for removed in delete_application(store, record.app):
                    remove_files(url, removed)
            expired.append(record)
            if not as_json:
                echo(_line(record, dry_run=dry_run))
    if as_json:
        print_json(_report(expired, running, ageless, dry_run=dry_run))
        return
    for app in ageless:
        echo(
            f"{app}: when it began and ended is not known: it is kept (`lineage rm {app}` removes it)",
            err=True,
        )
    for record in running:
        echo(f"{record.app} still runs: it is kept", err=True)
    if not old:
        echo("no application is that old")


def _line(record: ApplicationRecord, *, dry_run: bool) -> str:
    done = "would be removed" if dry_run else "removed"
    return f"{record.app} ({record.name}): {record.flows:,} flows, {done}"


def _report(
    expired: Sequence[ApplicationRecord],
    running: Sequence[ApplicationRecord],
    ageless: Sequence[str],
    *,
    dry_run: bool,
) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "removed": json_value(list[ApplicationRecord], list(expired)),
        "running": json_value(list[ApplicationRecord], list(running)),
        "without_age": list(ageless),
    }
