"""Traced items as text and as HTML for a notebook."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from lineage_core.terminal_text import plain

TEXT_MAX = 2_000
"""Characters of a record that are shown."""


@dataclass(frozen=True, slots=True)
class ItemGroup:
    """Items of one node: what they are, the first of them as (place, text), how many more."""

    heading: str
    rows: Sequence[tuple[str, str | None]]
    hidden: int


@dataclass(frozen=True, slots=True)
class Showing:
    """What is shown of traced items. ``reasons`` and ``gaps`` as those of the items."""

    groups: Sequence[ItemGroup]
    reasons: Sequence[str]
    gaps: Sequence[str]
    warnings: Sequence[str]


def record_text(record: object) -> str:
    """A record as it is shown: a text as it is, anything else as Python writes it."""
    return record if isinstance(record, str) else repr(record)


def shown_text(showing: Showing, width: int | None = None) -> str:
    """Lines as ``lineage back`` prints them, cut to ``width`` characters."""
    lines: list[str] = []
    for group in showing.groups:
        lines += ["", group.heading] if lines else [group.heading]
        lines += [_line(place, text, width) for place, text in group.rows]
        lines += [f"... and {group.hidden:,} more"] if group.hidden else []
    if not showing.groups:
        lines.append("no items")
    lines += [f"warning: {warning}" for warning in showing.warnings]
    lines += [f"superset: {reason}" for reason in showing.reasons] or ["exact"]
    lines += [f"incomplete: {gap}" for gap in showing.gaps]
    return "\n".join(lines) + "\n"


def print_text(showing: Showing) -> None:
    """Print the lines; to a terminal cut to its width, and without what could steer it."""
    if sys.stdout.isatty():
        text = shown_text(showing, shutil.get_terminal_size().columns)
        sys.stdout.write(plain(text, keep="\n\t"))
    else:
        sys.stdout.write(shown_text(showing, None))


def html_of(showing: Showing) -> str:
    """Tables without styles or scripts from elsewhere. All text is escaped."""
    parts = [_table(group) for group in showing.groups] or ["<p>no items</p>"]
    for word, lines in (
        ("warning", showing.warnings),
        ("superset", showing.reasons),
        ("incomplete", showing.gaps),
    ):
        parts += [f"<p><b>{word}</b>: {escape(line)}</p>" for line in lines]
    parts += [] if showing.reasons else ["<p>exact</p>"]
    return "<div>" + "".join(parts) + "</div>"


def _table(group: ItemGroup) -> str:
    rows = "".join(
        f'<tr><td style="text-align:left">{escape(place)}</td>'
        f'<td style="text-align:left"><code>{escape(_one_line(text or ""))}</code></td></tr>'
        for place, text in group.rows
    )
    more = f"<p>... and {group.hidden:,} more</p>" if group.hidden else ""
    heading = f'<caption style="text-align:left"><b>{escape(group.heading)}</b></caption>'
    return f"<table>{heading}<tbody>{rows}</tbody></table>{more}"


def _line(place: str, text: str | None, width: int | None) -> str:
    line = _one_line(place if text is None else f"{place}: {text}")
    return line if width is None or len(line) <= width else f"{line[: width - 1]}…"


def _one_line(text: str) -> str:
    cut = text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"
    return "\\n".join(cut.splitlines()) if "\n" in cut or "\r" in cut else cut
