"""Finds the rows of a subject in a source: by a condition, by keys, or by their places."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lineage_core.errors import LineageError
from lineage_core.tracing.budget import TooMuchError, current_budget
from lineage_query.erasure.source_files import files_with_rows
from lineage_query.erasure.source_rows import (
    SourceForm,
    holds_several_rows,
    names_in,
    rows_with,
    several_rows,
    values_of,
)
from lineage_query.erasure.testing import RowTest
from lineage_query.rows.reader import RowReader
from lineage_store.paths import RowsError, canonical, plain_path

ROWS_MAX = 10_000
"""Maximum number of rows of a subject: as many as one trace passes from one application to others."""
FILES_MAX = 100_000
"""Maximum number of files of a source."""
SUBJECTS_MAX = 100_000
SUBJECTS_BYTES_MAX = 64 << 20
_PARTITION = re.compile(r"(?P<name>[^=/]+)=(?P<value>[^/]*)")


class SubjectError(LineageError):
    """Which rows are the subject's is not known, or not said."""


@dataclass(frozen=True, slots=True)
class Subjects:
    """Persons or things by keys: texts of values in some columns of the source."""

    columns: tuple[str, ...] = ()
    keys: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def read(cls, path: Path) -> Subjects:
        """Read a file of CSV with a header: the columns of the source that identify, and a subject a line.

        Raises:
            SubjectError: it is no such file.
            OSError: it can't be read.
        """
        if path.stat().st_size > SUBJECTS_BYTES_MAX:
            raise SubjectError(f"{path} has more than {SUBJECTS_BYTES_MAX >> 20} MiB")
        try:
            text = path.read_bytes().decode("utf-8-sig")
            lines = [
                line for line in csv.reader(io.StringIO(text, newline=""), strict=True) if line
            ]
        except (UnicodeDecodeError, csv.Error) as error:
            raise SubjectError(f"{path} is no file of CSV: {error}") from error
        header, keys = lines[:1], lines[1:]
        if not header or not keys or not all(header[0]):
            raise SubjectError(
                f"{path} needs a header with columns of the source, and a subject a line"
            )
        if len(keys) > SUBJECTS_MAX:
            raise SubjectError(f"{path} has more than {SUBJECTS_MAX:,} subjects")
        try:
            return cls.of(header[0], keys)
        except SubjectError as error:
            raise SubjectError(f"{path}: {error}") from error

    @classmethod
    def of(cls, columns: Sequence[str], keys: Sequence[Sequence[str]]) -> Subjects:
        """Subjects by keys, each once.

        Raises:
            SubjectError: a key has not one value for each column.
        """
        for key in keys:
            if len(key) != len(columns) or not all(key):
                raise SubjectError(f"{','.join(key)!r:.100} has not one value for each column")
        return cls(tuple(columns), tuple(dict.fromkeys(map(tuple, keys))))


@dataclass(frozen=True, slots=True)
class SubjectQuery:
    """Which rows of a source are the subject's.

    ``source``: a file or a folder. ``where``: a condition; ``rows``: lines from 1 (records of Parquet from 0) of one file;
    ``subjects``: keys. Exactly one of the three names the rows. ``form``: how the files are read. ``expected``: how many rows
    there are; ``identity``: columns in each of which all rows have the same value. A condition that several rows
    fulfil needs one of the two, for else the rows may be several persons'.
    """

    source: str
    where: str = ""
    rows: tuple[int, ...] = ()
    subjects: Subjects = field(default_factory=Subjects)
    form: SourceForm = field(default_factory=SourceForm)
    expected: int | None = None
    identity: tuple[str, ...] = ()

    def check(self) -> None:
        """Check that the query says which rows, in one way.

        Raises:
            SubjectError: it does not.
        """
        ways = bool(self.where), bool(self.rows), bool(self.subjects.keys)
        if sum(ways) != 1:
            raise SubjectError("name the rows by one of --where, --rows and --subjects")
        if len(self.rows) > ROWS_MAX:
            raise SubjectError(f"more than {ROWS_MAX:,} rows are named")
        if self.subjects.keys and self.identity:
            raise SubjectError("--subjects says what identifies; leave out --identity")


@dataclass(frozen=True, slots=True)
class SubjectRow:
    """A row of the subject. ``place``: as traces take it; ``values``: by column, as far as its text has them."""

    place: str
    text: str
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SubjectRows:
    """The rows that were found.

    ``files``: that were searched, by canonical path; ``searched``: how many rows they have. ``incomparable``: as of `RowTest`.
    ``not_found``: how many keys of ``subjects`` no row has. ``unreadable``: how many values that a test compares are not in UTF-8.
    """

    rows: tuple[SubjectRow, ...]
    files: tuple[str, ...]
    searched: int
    incomparable: Mapping[str, int] = field(default_factory=dict)
    not_found: int = 0
    unreadable: int = 0


def find_subject(query: SubjectQuery, reader: RowReader) -> SubjectRows:
    """Find the rows of a subject in the files as they are now.

    Raises:
        SubjectError: no row is the subject's, there are more than one trace takes, or whose they are is ambiguous.
        ConditionError: the condition is not understood, or the files have not its columns.
        RowsError: a file can't be read.
        BudgetError: it takes longer than the query may.
    """
    found = matching_rows(query, reader)
    if not found.rows:
        raise SubjectError(
            f"no row of {query.source} is the subject's ({found.searched:,} were read)"
        )
    _check_ambiguity(query, found)
    return found


def matching_rows(query: SubjectQuery, reader: RowReader) -> SubjectRows:
    """The rows that a query names, none or several, whoever's they are; raises as `find_subject`."""
    query.check()
    files = _files(query.source, reader)
    return _named(query, files, reader) if query.rows else _tested(query, files, reader)


def _files(source: str, reader: RowReader) -> list[str]:
    path = canonical(source)
    files = files_with_rows(reader, path) if reader.may_read(path) else []
    if not files and not reader.is_folder(source):
        raise RowsError(f"{source}: no such file or folder; a table is named by its folder")
    if not files:
        raise SubjectError(f"{source} has no files with rows")
    if len(files) > FILES_MAX:
        raise TooMuchError(f"{source} has {len(files):,} files", "name some of its folders")
    return files


def _named(query: SubjectQuery, files: Sequence[str], reader: RowReader) -> SubjectRows:
    if files != [canonical(query.source)]:
        raise SubjectError("--rows takes one file as --source")
    numbers = sorted(set(query.rows))
    rows = tuple(_rows_at(reader, files[0], query.form, numbers, query.source))
    return SubjectRows(rows, tuple(files), len(rows))


def _tested(query: SubjectQuery, files: Sequence[str], reader: RowReader) -> SubjectRows:
    root = canonical(query.source)
    rows: list[SubjectRow] = []
    searched, keys_found = 0, set[tuple[str, ...]]()
    test = RowTest.of(query.where, query.subjects.columns, query.subjects.keys)
    for path in files:
        current_budget().check()
        _refuse_partitions(test, root, path)
        matched = rows_with(reader, path, query.form, test)
        searched += matched.searched
        if len(rows) + len(matched.numbers) > ROWS_MAX:
            raise SubjectError(f"more than {ROWS_MAX:,} rows fulfil this: narrow it")
        name = query.source if len(files) == 1 and path == root else plain_path(path)
        rows += _rows_at(reader, path, query.form, matched.numbers, name)
    incomparable = test.incomparable
    if searched and query.where and not rows and searched in incomparable.values():
        columns = ", ".join(sorted(incomparable))
        raise SubjectError(
            f"{query.source} has values of another type than the condition's, or that are not in UTF-8, in {columns}"
        )
    lower = tuple(column.lower() for column in query.subjects.columns)
    for row in rows:
        by_name = {name.lower(): value for name, value in row.values}
        keys_found.add(tuple(by_name.get(column, "") for column in lower))
    not_found = len(set(query.subjects.keys) - keys_found)
    return SubjectRows(
        tuple(rows), tuple(files), searched, dict(incomparable), not_found, test.unreadable
    )


def _refuse_partitions(test: RowTest, root: str, path: str) -> None:
    """Refuse columns whose values are in the names of folders.

    Raises:
        SubjectError: a condition tests one.
    """
    for part in path.removeprefix(root).split("/")[:-1]:
        match = _PARTITION.fullmatch(part)
        if match and match["name"].lower() in {column.lower() for column in test.columns}:
            raise SubjectError(
                f"{match['name']} is a column in the names of folders: name its folder as --source instead"
            )


def _rows_at(
    reader: RowReader, path: str, form: SourceForm, numbers: Sequence[int], name: str
) -> Iterator[SubjectRow]:
    if not numbers:
        return
    is_packed = form.format_of(path) == "parquet"
    if min(numbers) < (0 if is_packed else 1):
        raise SubjectError(f"{name} has no row {min(numbers):,}")
    at = np.array(numbers, np.uint64)
    texts = reader.records(path, at) if is_packed else reader.lines(path, at, at)
    names: tuple[str, ...] | None = None
    for number, text in zip(numbers, texts, strict=True):
        if text is None:
            raise SubjectError(f"{name} has no row {number:,}")
        if form.format_of(path) in {"csv", "json"} and holds_several_rows(text):
            raise SubjectError(several_rows(f"{name}:{number}"))
        if names is None or form.format_of(path) in {"json", "parquet"}:
            names = names_in(reader, path, form, text)
        values = values_of(path, form, text, names)
        named = [pair for pair in zip(names, values, strict=False) if pair[1] is not None]
        yield SubjectRow(
            f"{name}#{number}" if is_packed else f"{name}:{number}",
            text,
            tuple((column, _text_of(value)) for column, value in named),
        )


def _text_of(value: Any) -> str:
    if isinstance(value, dict | list):
        # Without names of fields, as rows of outputs are compared.
        return json.dumps(value, ensure_ascii=False)
    return value if isinstance(value, str) else str(value)


def _check_ambiguity(query: SubjectQuery, found: SubjectRows) -> None:
    """Refuse rows that may be several subjects'.

    Raises:
        SubjectError: they may.
    """
    number = len(found.rows)
    if query.expected is not None and number != query.expected:
        raise SubjectError(f"{number:,} rows are the subject's, and not {query.expected:,}")
    for column in query.identity:
        identities = dict.fromkeys(
            {name.lower(): value for name, value in row.values}.get(column.lower())
            for row in found.rows
        )
        if None in identities:
            raise SubjectError(f"a row of the subject has no value in {column!r}")
        if len(identities) > 1:
            raise SubjectError(
                f"the {number:,} rows have {len(identities):,} values in {column!r}: several subjects"
            )
    if query.where and number > 1 and query.expected is None and not query.identity:
        raise SubjectError(
            f"{number:,} rows fulfil the condition, perhaps of several subjects: say --expect {number} where all are meant, or "
            "--identity COLUMN whose value must be the same in all"
        )
