"""``lineage link``: from the spool into the store, with progress when it takes long."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from lineage.openlineage_events import tell_linked
from lineage.options import print_json
from lineage.progress import spool_progress
from lineage.terminal import echo
from lineage_store.lake.address import is_lake
from lineage_store.sqlite.ingest import IngestReport, ingest, ingest_all
from lineage_store.staging import Waiting, move_staged
from lineage_store.url import captured_into, is_embedded, open_embedded, spool_of


def link_spool(url: str, spool: str, *, as_json: bool) -> None:
    """Link the blocks in the spool, and print a summary."""
    reports = link_all(url, spool_of(url, spool))
    if is_lake(url):
        fill_lake(url, spool_of(url, spool))
    if as_json:
        print_json([_report_json(report) for report in reports])
        return
    if not reports:
        echo("nothing to link: all that was captured is in the store")
    for report in reports:
        if report.app:
            echo(
                f"{report.app}: {report.tasks} tasks, {report.blocks:,} blocks, "
                f"{report.flows:,} flows, {report.edges:,} edges"
            )
        for place, reason in report.problems.items():
            echo(f"  {place}: {reason}", err=True)


def link_all(url: str, spool: Path) -> list[IngestReport]:
    """Link every application of a spool; shows progress on a terminal.

    Raises:
        StoreError: the store can't be written.
    """
    if not spool.is_dir():
        return []
    with (
        open_embedded(captured_into(url), create=True) as store,
        spool_progress("linking") as progress,
    ):
        reports_of_all = ingest_all(store, spool, progress=progress)
        reports = [report for report in reports_of_all if report.app or report.problems]
        for report in reports:
            if report.app:
                tell_linked(store, report.app)
    return reports


def link_left(url: str) -> None:
    """Link what is in the spool of an embedded store: whether an application runs is known after that, and what is removed with it is all of it.

    Raises:
        StoreError: the store can't be written.
    """
    if is_embedded(url):
        link_all(url, spool_of(url))


def link_folders(url: str, folders: Iterable[Path]) -> None:
    """Link what is left in the spool of some applications.

    Raises:
        StoreError: the store can't be written.
    """
    spools = [folder for folder in folders if folder.is_dir()]
    if spools:
        with (
            open_embedded(captured_into(url), create=True) as store,
            spool_progress("linking") as progress,
        ):
            for folder in spools:
                app = ingest(store, folder, progress=progress).app
                if app:
                    tell_linked(store, app)


def fill_lake(url: str, spool: Path, *, over: Collection[str] = ()) -> None:
    """Move applications into the lake that wait for it; says of those that wait on why. ``over``: those whose programs are over.

    Raises:
        StoreError: a store can't be read or written.
    """
    for app, outcome in move_staged(url, spool, over):
        if isinstance(outcome, Waiting):
            echo(f"lineage: {app} waits in {captured_into(url)}: {outcome.reason}", err=True)


def _report_json(report: IngestReport) -> dict[str, object]:
    return {
        "app": report.app,
        "messages": report.messages,
        "tasks": report.tasks,
        "blocks": report.blocks,
        "flows": report.flows,
        "associations": report.associations,
        "edges": report.edges,
        "problems": report.problems,
    }
