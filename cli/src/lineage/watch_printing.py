"""What ``lineage watch`` prints: for people, or a line of JSON for each fact."""

from __future__ import annotations

import json
from typing import Any

import typer

from lineage.terminal import echo
from lineage.watch_reports import Report
from lineage.watch_sources import Sources


class Printer:
    """Prints for people, or a line of JSON for each fact."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def report(self, report: Report) -> None:
        """A record that was watched for."""
        if self._as_json:
            self._line(report.to_json())
            return
        text = "(no value was kept)" if report.text is None else report.text
        taken = "" if report.seconds is None else f"{_duration_text(report.seconds)} with "
        place = f"{report.number}. {report.label}, partition {report.partition}"
        echo(f"{place}: {taken}{text}", bold=True)
        if report.may_buffer:
            buffered = "its function may have worked on records that it got before"
            echo(f"{report.number}. not sure: {buffered}", fg=typer.colors.YELLOW)

    def sources(self, report: Report, sources: Sources) -> None:
        """What a record was made from."""
        if self._as_json:
            self._line({"record": report.number} | sources.to_json())
            return
        for place, text in sources.rows():
            echo(f"{report.number}. from {place}" + ("" if text is None else f": {text}"))
        if sources.hidden:
            echo(f"{report.number}. ... and {sources.hidden:,} more rows")
        for reason in sources.reasons:
            echo(f"{report.number}. not exact: {reason}", fg=typer.colors.YELLOW)

    def note(self, text: str) -> None:
        """What is no record."""
        if self._as_json:
            self._line({"note": text})
        else:
            echo(f"lineage: {text}", err=True)

    def violations(self, count: int, tested: int, *, sees_all: bool) -> None:
        """How many records broke a condition that all must fulfil, and how many were tested."""
        if self._as_json:
            self._line({"violations": count, "tested": tested, "sees_all": sees_all})
            return
        broken = "1 record" if count == 1 else f"{f'{count:,}' if count else 'no'} records"
        unseen = "" if sees_all else ", others were not seen"
        self.note(f"{broken} broke the condition; {tested:,} were tested{unseen}")

    @staticmethod
    def _line(document: dict[str, Any]) -> None:
        echo(json.dumps(document, ensure_ascii=False))


def _duration_text(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"
