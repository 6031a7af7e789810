"""Reads files for values of a subject: in rows, in the names of columns, and in the names of folders."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from lineage_core.tracing.budget import current_budget
from lineage_query.erasure.erased_texts import Words
from lineage_query.erasure.kinds import holds_all, holds_unreadable, words_of
from lineage_query.erasure.source_rows import all_rows, is_csv, is_json, is_of_markup
from lineage_query.rows.cut_texts import is_cut
from lineage_query.rows.reader import RowReader
from lineage_store.paths import plain_path

_BETWEEN = ("",)
"""Stands between words of different texts: no value goes from one into the other."""
RECORD_LINES_MAX = 1_000
"""Lines of one record of CSV that are read as one."""
_QUOTE_WITHIN = re.compile(r'\\"(?![,;|\t]|$)')
"""A quote that Spark has escaped; others may end a value with a backslash before it."""


@dataclass
class FileSearch:
    """Reads one file. ``looked_for``: words of values that stand together in a row of the subject, and why they are looked for.

    ``add``: takes the place and the reason of what has them; ``unseen``: takes what could not be looked at.
    """

    reader: RowReader
    path: str
    looked_for: Mapping[Words, str]
    add: Callable[[str, str], None]
    unseen: Callable[[str], None]
    rows_read: int = 0
    _names: set[tuple[str, ...]] = field(default_factory=set)

    def run(self) -> None:
        """Read it.

        Raises:
            RowsError: it is gone, can't be read, or is of a format that is not read here.
        """
        shown, of_folders = plain_path(self.path), words_of_folders(self.path)
        for number, text in self._records(shown):
            if is_cut(text):
                self.unseen(f"{shown}: row {number:,} is too long to be read to its end")
            if holds_unreadable(text):
                self.unseen(f"{shown}: it is not all in UTF-8, and was not read for the values")
            words = (*words_of(text), *_BETWEEN, *of_folders)
            for key, why in self.looked_for.items():
                if holds_all(words, key):
                    self.add(f"{shown}, row {number:,}", why)
                    break
            self._look_at_names(shown, text)

    def _records(self, shown: str) -> Iterator[tuple[int, str]]:
        """The rows with their numbers, and records of CSV that go over several lines as one."""
        # One word stands in one line.
        has_several = any(sum(map(len, key)) > 1 for key in self.looked_for)
        is_joined = has_several and is_csv(self.path)
        is_parted = has_several and is_of_markup(self.path)
        may_be_parted = has_several and is_json(self.path)
        lines: list[str] = []
        is_open = [False, False]
        number = 0
        for number, text in all_rows(self.reader, self.path):
            self.rows_read += 1
            if not self.rows_read % 1_000:
                current_budget().check()
            is_parted = is_parted or (may_be_parted and not _is_whole_json(text))
            if is_joined:
                lines.append(text)
                is_open = [
                    one != other for one, other in zip(is_open, _odd_quotes(text), strict=True)
                ]
                if any(is_open) and len(lines) < RECORD_LINES_MAX:
                    continue
                if any(is_open):
                    self.unseen(
                        f"{shown}: line {number:,} is of a record of more than {RECORD_LINES_MAX:,} lines, if its quotes are none of a text"
                    )
                    is_open = [False, False]
                yield number, "\n".join(lines)
                lines = []
            else:
                yield number, text
        if lines:
            yield number, "\n".join(lines)
        if is_parted:
            self.unseen(
                f"{shown}: its records go over several lines: values that stand together in one are not found"
            )

    def _look_at_names(self, shown: str, text: str) -> None:
        """Names of columns: those of a table that was turned (`pivot`) are values of rows."""
        names = tuple(names_in_json(text))
        if not names or names in self._names:
            return
        self._names.add(names)
        words = tuple(word for name in names for word in (*words_of(name), *_BETWEEN))
        if any(holds_all(words, key) for key in self.looked_for):
            self.add(f"{shown}, names of columns", "values that identify stand in them")


def words_of_folders(path: str) -> tuple[str, ...]:
    """Words of the values of columns that are in the names of folders (``city=S%C3%A3o``)."""
    values = (part.partition("=")[2] for part in path.split("/")[:-1] if "=" in part)
    return tuple(word for value in values for word in (*words_of(unquote(value)), *_BETWEEN))


def names_in_json(text: str) -> Iterator[str]:
    """The names in an object of JSON; none in other texts."""
    if not text.startswith("{"):
        return
    try:
        yield from _names_in(json.loads(text))
    except (ValueError, RecursionError):
        return


def _names_in(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for name, inner in value.items():
                yield name
                yield from _names_in(inner)
        case list():
            for inner in value:
                yield from _names_in(inner)
        case _:
            return


def _is_whole_json(line: str) -> bool:
    try:
        json.loads(line)
    except RecursionError:
        return True
    except ValueError:
        return not line.strip()
    return True


def _odd_quotes(line: str) -> tuple[bool, bool]:
    """Whether a value goes on in the next line, or one of the line before ends in this one: where quotes are doubled, and where they are escaped."""
    line = _QUOTE_WITHIN.sub("", line)
    return bool(line.count('"') % 2), bool(line.replace('\\"', "").count('"') % 2)
