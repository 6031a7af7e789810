"""``lineage send``: from the spool to Kafka, with progress when it takes long."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from lineage.options import EXIT_INCOMPLETE, print_json

if TYPE_CHECKING:
    from lineage_emitter.dispatch.sending import Progress, SendReport


def send_spool(spool: str, *, as_json: bool) -> None:
    """Send all that waits in a spool and say what was sent.

    Exits with 1 when something is left that could not be sent.

    Raises:
        SettingsError: no Kafka is named, or a setting can't be used.
        DeliveryError: Kafka is away; what it has not acknowledged is still there.
    """
    from lineage_emitter.dispatch.sending import send_all
    from lineage_emitter.settings import read_settings

    settings = read_settings(dispatcher="kafka", spool=spool or None)
    folder = settings.spool_folder()
    with _progress() as progress:
        reports = send_all(settings, folder, progress)
    if as_json:
        print_json([_report_json(report) for report in reports])
    elif not reports:
        typer.echo(f"nothing waits in {folder}")
    else:
        for report in reports:
            _say(report)
    if any(report.problems for report in reports):
        raise typer.Exit(EXIT_INCOMPLETE)


def _say(report: SendReport) -> None:
    typer.echo(f"{report.app}: sent {report.blocks:,} blocks, {report.messages:,} messages")
    if report.busy:
        typer.echo(f"  {report.busy} files are being written: send again later", err=True)
    for place, reason in report.problems.items():
        typer.echo(f"  {place}: {reason}", err=True)


def _report_json(report: SendReport) -> dict[str, Any]:
    return {
        "app": report.app,
        "blocks": report.blocks,
        "messages": report.messages,
        "bytes": report.bytes_done,
        "busy": report.busy,
        "problems": report.problems,
    }


@contextmanager
def _progress() -> Iterator[Progress | None]:
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("sending {task.description}"), BarColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(report: SendReport) -> None:
            bar.update(
                task,
                description=report.app,
                total=report.bytes_total or None,
                completed=report.bytes_done,
            )

        yield show
