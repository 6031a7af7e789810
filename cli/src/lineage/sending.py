"""``lineage send``: from the spool to Kafka, with progress when it takes long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from lineage.options import EXIT_INCOMPLETE, print_json
from lineage.progress import spool_progress
from lineage.terminal import echo

if TYPE_CHECKING:
    from lineage_emitter.dispatch.sending import SendReport


def send_spool(spool: str, *, as_json: bool) -> None:
    """Send all blocks in a spool, and print a summary.

    Exits with 1 when something is left that could not be sent.

    Raises:
        SettingsError: no Kafka is named, or a setting can't be used.
        DeliveryError: Kafka is away; what it has not acknowledged is still there.
    """
    from lineage_emitter.dispatch.sending import send_all
    from lineage_emitter.settings import read_settings

    settings = read_settings(dispatcher="kafka", spool=spool or None)
    folder = settings.spool_folder()
    with spool_progress("sending") as progress:
        reports = send_all(settings, folder, progress)
    if as_json:
        print_json([_report_json(report) for report in reports])
    elif not reports:
        echo(f"nothing waits in {folder}")
    else:
        for report in reports:
            _say(report)
    if any(report.problems for report in reports):
        raise typer.Exit(EXIT_INCOMPLETE)


def _say(report: SendReport) -> None:
    echo(f"{report.app}: sent {report.blocks:,} blocks, {report.messages:,} messages")
    if report.busy:
        echo(f"  {report.busy} files are being written: send again later", err=True)
    for place, reason in report.problems.items():
        echo(f"  {place}: {reason}", err=True)


def _report_json(report: SendReport) -> dict[str, Any]:
    return {
        "app": report.app,
        "blocks": report.blocks,
        "messages": report.messages,
        "bytes": report.bytes_done,
        "busy": report.busy,
        "problems": report.problems,
    }
