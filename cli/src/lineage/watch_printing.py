"""What ``lineage watch`` prints: for people, or a line of JSON for each fact."""

from __future__ import annotations

import json
from typing import Any

import typer

from lineage.terminal import echo
from lineage_query.watching.latency import TaskReads, TaskTime
from lineage_query.watching.loop import Event, Found, WatchLoop, document_of
from lineage_query.watching.reports import Report

TASKS_SHOWN = 10


class Printer:
    """Prints for people, or a line of JSON for each fact."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._slowest: dict[int, list[Report]] = {}
        """Of tasks, by their numbers: for people, tasks are printed at the end, ranked."""
        self._sources: dict[int, Found] = {}

    def event(self, event: Event) -> None:
        """What has happened."""
        if self._as_json:
            self._line(document_of(event))
        elif isinstance(event, str):
            echo(f"lineage: {event}", err=True)
        elif isinstance(event, TaskTime):
            self._slowest[event.number] = []
        elif isinstance(event, TaskReads):
            # It is printed at the end, with its task.
            return
        elif isinstance(event, Found):
            self._print_sources(event)
        elif event.task is None:
            _print_report(event)
        else:
            self._slowest[event.task].append(event)

    def _print_sources(self, found: Found) -> None:
        if found.report.task is None:
            _print_sources(found)
        else:
            self._sources[found.report.number] = found

    def times(self, loop: WatchLoop) -> None:
        """Tasks by the time of their function, the slowest records of each below it."""
        ranked = loop.ranked_times()
        if self._as_json:
            self._line({"tasks": [task.to_json() for task in ranked]})
            return
        for rank, task in enumerate(ranked[:TASKS_SHOWN], 1):
            echo(f"{rank}. {task.time.label}, {task.text}", bold=True)
            for part in loop.reads_of(task.time):
                echo(f"{rank}. reads {part}")
            for report in self._slowest.get(task.time.number, ()):
                _print_report(report)
                if report.number in self._sources:
                    _print_sources(self._sources[report.number])
        self._print_rest(len(ranked))

    @staticmethod
    def _print_rest(tasks: int) -> None:
        if not tasks:
            echo("lineage: no task has ended whose records were timed", err=True)
        elif tasks > TASKS_SHOWN:
            echo(f"... and {tasks - TASKS_SHOWN:,} more tasks (--json has them all)")

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
        what = "" if sources.place else "not exact: "
        echo(f"{number}. {what}{reason}", fg=typer.colors.YELLOW)


def _duration_text(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"
