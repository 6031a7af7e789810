"""What traces found, as text and as HTML for notebooks."""

from __future__ import annotations

import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from lineage_core.html_parts import block, code, heading, mime_bundle, note, table
from lineage_core.terminal_text import plain

TEXT_MAX = 2_000
"""Characters of a record that are shown."""
ITEMS_SHOWN = 20
"""Default number of items shown of each node."""


@dataclass(frozen=True, slots=True)
class ItemGroup:
    """Items of one node: a heading, the first items as (place, text), the number of further ones, and notes about them."""

    heading: str
    rows: Sequence[tuple[str, str | None]]
    hidden: int
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Showing:
    """Traced items as displayed. ``reasons`` and ``gaps`` as those of the items; ``is_trace``: false of what is no trace, and so neither exact nor a superset."""

    groups: Sequence[ItemGroup]
    reasons: Sequence[str]
    gaps: Sequence[str]
    warnings: Sequence[str]
    is_trace: bool = True


def record_text(record: object) -> str:
    """A record as it is shown: a text as it is, anything else as Python writes it."""
    return record if isinstance(record, str) else repr(record)


def rows_text(count: int) -> str:
    """How many rows, in words."""
    return "1 row" if count == 1 else f"{count:,} rows"


def names_text(names: Sequence[str], most: int) -> str:
    """The first names, and how many there are beside them."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def shown_text(showing: Showing, width: int | None = None) -> str:
    """Lines as ``lineage back`` prints them, cut to ``width`` characters."""
    lines: list[str] = []
    for group in showing.groups:
        lines += ["", group.heading] if lines else [group.heading]
        lines += [_line(place, text, width) for place, text in group.rows]
        lines += [f"... and {group.hidden:,} more"] if group.hidden else []
        lines += group.notes
    if not showing.groups:
        lines.append("no items")
    lines += [f"warning: {warning}" for warning in showing.warnings]
    if showing.is_trace:
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
    """The same as HTML (see :mod:`lineage_core.html_parts`)."""
    parts = [part for group in showing.groups for part in _group_parts(group)]
    parts += [] if showing.groups else [note("no items")]
    parts += [note("warning", warning, "doubtful") for warning in showing.warnings]
    if showing.is_trace:
        parts += [note("superset", reason, "doubtful") for reason in showing.reasons] or [
            note("exact", tone="good")
        ]
    parts += [note("incomplete", gap, "bad") for gap in showing.gaps]
    return block(parts)


class NotebookDisplay(ABC):
    """What shows itself in notebooks as a table, and in those without HTML as text."""

    __slots__ = ()

    @abstractmethod
    def _showing(self, limit: int) -> Showing:
        """The first ``limit`` items of each node."""

    def show(self, n: int = ITEMS_SHOWN) -> None:
        """Print the first ``n`` items of each node, as ``lineage back`` prints them."""
        print_text(self._showing(n))

    def _repr_html_(self) -> str:
        return html_of(self._showing(ITEMS_SHOWN))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        showing = self._showing(ITEMS_SHOWN)
        return mime_bundle(html_of(showing), shown_text(showing))


def _group_parts(group: ItemGroup) -> list[str]:
    rows = [
        (code(place), "" if text is None else code(_single_line(text)))
        for place, text in group.rows
    ]
    more = [note(f"... and {group.hidden:,} more")] if group.hidden else []
    return [heading(group.heading), table((), rows), *more, *map(note, group.notes)]


def _line(place: str, text: str | None, width: int | None) -> str:
    line = _single_line(place if text is None else f"{place}: {text}")
    return line if width is None or len(line) <= width else f"{line[: width - 1]}…"


def _single_line(text: str) -> str:
    cut = text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"
    return "\\n".join(cut.splitlines()) if "\n" in cut or "\r" in cut else cut
