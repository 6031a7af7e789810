"""What ``lineage watch`` prints: for people, or a line of JSON for each fact."""

from __future__ import annotations

import json
from typing import Any

import typer

from lineage.terminal import echo
from lineage_query.watching.loop import Event, Found, WatchLoop, document_of
from lineage_query.watching.reports import Report


class Printer:
    """Prints for people, or a line of JSON for each fact."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def event(self, event: Event) -> None:
        """What has happened."""
        if self._as_json:
            self._line(document_of(event))
        elif isinstance(event, str):
            echo(f"lineage: {event}", err=True)
        elif isinstance(event, Found):
            _print_sources(event)
        else:
            _print_report(event)

    def violations(self, loop: WatchLoop) -> None:
        """How many records broke a condition that all must fulfil, and how many were tested."""
        found = loop.violations()
        if self._as_json:
            self._line(found)
            return
        count = found["violations"]
        broken = "1 record" if count == 1 else f"{f'{count:,}' if count else 'no'} records"
        unseen = "" if found["sees_all"] else ", others were not seen"
        self.event(f"{broken} broke the condition; {found['tested']:,} were tested{unseen}")

    @staticmethod
    def _line(document: dict[str, Any]) -> None:
        echo(json.dumps(document, ensure_ascii=False))


def _print_report(report: Report) -> None:
    text = "(no value was kept)" if report.text is None else report.text
    taken = "" if report.seconds is None else f"{_duration_text(report.seconds)} with "
    place = f"{report.number}. {report.label}, partition {report.partition}"
    echo(f"{place}: {taken}{text}", bold=True)
    if report.may_buffer:
        buffered = "its function may have worked on records that it got before"
        echo(f"{report.number}. not sure: {buffered}", fg=typer.colors.YELLOW)


def _print_sources(found: Found) -> None:
    number, sources = found.report.number, found.sources
    for place, text in sources.rows():
        echo(f"{number}. from {place}" + ("" if text is None else f": {text}"))
    if sources.hidden:
        echo(f"{number}. ... and {sources.hidden:,} more rows")
    for reason in sources.reasons:
        echo(f"{number}. not exact: {reason}", fg=typer.colors.YELLOW)


def _duration_text(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"
