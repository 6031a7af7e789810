"""Reads the columns of rows of files as they are now: lines of CSV, JSON and text, rows of Parquet."""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO
from typing import IO, Any

import numpy as np

from lineage_core.tracing.budget import current_budget
from lineage_query.conditions import ConditionError
from lineage_query.erasure.testing import RowTest
from lineage_query.rows.formats import is_parquet
from lineage_query.rows.reader import RowReader
from lineage_store.paths import RowsError

FORMATS = ("csv", "json", "text", "parquet")
SEPARATORS = {".csv": ",", ".tsv": "\t"}
JSON_ENDINGS = (".json", ".jsonl", ".ndjson")
MARKUP_ENDINGS = (".xml", ".html", ".xhtml", ".yaml", ".yml", ".toml", ".ini")
PACKED_ENDINGS = (".gz", ".bz2", ".zst", ".snappy", ".lz4", ".deflate")
TEXT_COLUMN = "value"
"""The one column of a text file."""
ROWS_AT_ONCE = 10_000
LINE_BYTES_MAX = 16 << 20
RECORDS_AT_ONCE = 10_000
"""A longer line is refused: it would be held in memory."""
_BOM = b"\xef\xbb\xbf"
_RETURN = re.compile(rb"\r(?!\n|\Z)")
"""A carriage return that ends a row, and no line. That at the end is of a line whose newline was taken off."""


@dataclass(frozen=True, slots=True)
class SourceForm:
    """How files are read. ``format``: one of `FORMATS`; empty: by the name of each file. ``columns``: of CSV without a header."""

    format: str = ""
    separator: str = ""
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.format not in {"", *FORMATS}:
            raise ConditionError(
                f"--format is one of {', '.join(FORMATS)}, not {self.format!r:.40}"
            )
        if len(self.separator) > 1 or self.separator in {'"', "\\", "\n", "\r"}:
            raise ConditionError("--separator is one sign, and no quote, backslash or line end")

    def format_of(self, path: str) -> str:
        """The format of a file.

        Raises:
            ConditionError: it is one that is not read here.
        """
        if self.format:
            return self.format
        if is_parquet(path):
            return "parquet"
        name = _unpacked(path)
        if name.endswith((".orc", ".avro", ".xml")):
            raise ConditionError(f"{path}: rows are found in {', '.join(FORMATS)} alone")
        if is_csv(path):
            return "csv"
        return "json" if name.endswith(JSON_ENDINGS) else "csv" if self.columns else "text"

    def separator_of(self, path: str) -> str:
        """What stands between the values of a file of CSV."""
        ending = next((end for end in SEPARATORS if _unpacked(path).endswith(end)), ".csv")
        return self.separator or SEPARATORS[ending]


def is_csv(path: str) -> bool:
    """Whether a file is one of CSV by its name."""
    return _unpacked(path).endswith(tuple(SEPARATORS))


def is_json(path: str) -> bool:
    """Whether a file is one of JSON by its name."""
    return _unpacked(path).endswith(JSON_ENDINGS)


def is_of_markup(path: str) -> bool:
    """Whether a file is by its name of a format whose records go over several lines."""
    return _unpacked(path).endswith(MARKUP_ENDINGS)


def _unpacked(path: str) -> str:
    name = path.lower()
    return next((name[: -len(end)] for end in PACKED_ENDINGS if name.endswith(end)), name)


@dataclass(slots=True)
class MatchedRows:
    """Rows of a file that a test chose. ``numbers``: lines from 1, or rows of Parquet from 0. ``searched``: of how many."""

    numbers: list[int]
    searched: int = 0


def rows_with(reader: RowReader, path: str, form: SourceForm, test: RowTest) -> MatchedRows:
    """The rows of a file that a test chooses.

    Raises:
        ConditionError: the file has not the columns, or is written in a way that is not read here.
        RowsError: the file is gone, can't be read, or changes while it is read.
        BudgetError: it takes longer than the query may.
    """
    state = reader.state(path)
    if state is None:
        raise RowsError(f"{path}: no such file")
    with closing(reader.opened(path)) as source:
        if form.format_of(path) == "parquet":
            matched = _of_parquet(reader, source.stream, path, test)
        else:
            rows = _RowsOfLines(path)
            matched = _of_lines(rows.chunks(_chunks(source.blocks(), path)), path, form, test)
            matched.numbers = rows.lines_of(matched.numbers)
    if reader.state(path) != state:
        raise RowsError(f"{path} is being written")
    return matched


def all_rows(reader: RowReader, path: str) -> Iterator[tuple[int, str]]:
    """All rows of a file with their texts: lines from 1, or rows of Parquet from 0.

    Raises:
        RowsError: the file is gone, can't be read, or is of a format that is not read here.
    """
    if is_parquet(path):
        for first in itertools.count(0, RECORDS_AT_ONCE):
            numbers = np.arange(first, first + RECORDS_AT_ONCE, dtype=np.uint64)
            for number, text in enumerate(reader.records(path, numbers), first):
                if text is None:
                    return
                yield number, text
    with closing(reader.opened(path)) as source:
        for line, text in enumerate(_lines(_chunks(source.blocks(), path)), 1):
            if "\0" in text:
                raise RowsError(f"{path} is no text, and of a format that is not read here")
            yield line, text


def values_of(path: str, form: SourceForm, text: str, names: Sequence[str]) -> tuple[Any, ...]:
    """The values of a row by its text. ``names``: of its columns, for CSV.

    Raises:
        ConditionError: its text is no row of that format.
    """
    match form.format_of(path):
        case "csv":
            return tuple(_split(text, form.separator_of(path), path, 0))
        case "text":
            return (text,)
        case _:
            document = json.loads(text)
            return tuple(document.get(name) for name in names)


def names_in(reader: RowReader, path: str, form: SourceForm, text: str) -> tuple[str, ...]:
    """The names of the columns of a file; ``text``: of one of its rows, for formats whose rows name them."""
    match form.format_of(path):
        case "csv":
            if form.columns:
                return form.columns
            with closing(reader.opened(path)) as source:
                lines = _lines(_RowsOfLines(path).chunks(_chunks(source.blocks(), path)))
                return tuple(_split(next(lines, ""), form.separator_of(path), path, 1))
        case "text":
            return (TEXT_COLUMN,)
        case _:
            return tuple(json.loads(text))


def _of_lines(chunks: Iterator[bytes], path: str, form: SourceForm, test: RowTest) -> MatchedRows:
    matched = MatchedRows([])
    rows: Iterator[tuple[int, Sequence[Any]]]
    match form.format_of(path):
        case "csv":
            rows = _csv_rows(chunks, path, form, test)
        case "json":
            rows = _json_rows(_lines(chunks), path, test)
        case _:
            test.places_in([TEXT_COLUMN], path)
            rows = (
                (number, [line] * len(test.columns))
                for number, line in enumerate(_lines(chunks), 1)
            )
    # Reading a block of the file checks the budget.
    searched = 0
    for number, row in rows:
        searched += 1
        if test(row):
            matched.numbers.append(number)
    matched.searched = searched
    return matched


def _csv_rows(
    chunks: Iterator[bytes], path: str, form: SourceForm, test: RowTest
) -> Iterator[tuple[int, Sequence[str | None]]]:
    separator, number = form.separator_of(path), 1
    names: Sequence[str] = form.columns
    for chunk in chunks:
        lines = chunk
        if not names:
            header, end, lines = chunk.partition(b"\n")
            (line,) = _texts(header)
            names, number = _names(line, separator, path, test), 2
            if not end:
                continue
        places = test.places_in(names, path)
        rows = plain_rows(lines, separator, len(names), places)
        if rows is None:
            yield from enumerate(_split_rows(lines, separator, places, path, number), number)
        else:
            yield from enumerate(rows, number)
        number += lines.count(b"\n") + 1


def _names(header: str, separator: str, path: str, test: RowTest) -> Sequence[str]:
    names = _split(header, separator, path, 1)
    try:
        test.places_in(names, path)
    except ConditionError as error:
        raise ConditionError(
            f"{error}: those of its first line; --columns names them where it has none"
        ) from None
    return names


def plain_rows(
    lines: bytes, separator: str, width: int, places: Sequence[int]
) -> list[tuple[str, ...]] | None:
    """Some columns of lines without quotes, all of one width; None where the lines are not of that kind.

    It takes a third of the time of :func:`_split_rows`, which reads the same of any lines.
    """
    if not places or b'"' in lines or b"\r" in lines or not separator.isascii():
        return None
    # An empty line is no row of empty texts.
    if b"\n\n" in lines or lines[:1] == b"\n" or lines[-1:] in {b"", b"\n"}:
        return None
    from pyarrow import csv as arrow_csv
    from pyarrow import lib, string

    names = [str(at) for at in range(width)]
    needed = [names[at] for at in places]
    try:
        table = arrow_csv.read_csv(
            BytesIO(lines),
            arrow_csv.ReadOptions(use_threads=False, block_size=len(lines) + 1, column_names=names),
            arrow_csv.ParseOptions(
                delimiter=separator, quote_char=False, double_quote=False, ignore_empty_lines=False
            ),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, string()), include_columns=list(set(needed))
            ),
        )
    except lib.ArrowInvalid:
        return None
    if table.num_rows != lines.count(b"\n") + 1:
        return None
    return list(zip(*(table.column(name).to_pylist() for name in needed), strict=True))


def _split_rows(
    lines: bytes, separator: str, places: Sequence[int], path: str, first: int
) -> Iterator[list[str | None]]:
    needed = max(places, default=-1) + 1
    for number, line in enumerate(_texts(lines), first):
        if '"' in line:
            fields = _split(line, separator, path, number)
        else:
            fields = line.split(separator, needed)
        yield [fields[at] if at < len(fields) else None for at in places]


def _split(line: str, separator: str, path: str, number: int) -> list[str]:
    """The fields of a line of CSV.

    Raises:
        ConditionError: readers differ in what it means, or its record goes on in the next line.
    """
    if '\\"' in line or line.count('"') % 2:
        raise ConditionError(
            f"{path}:{number} has a quote that is escaped, or a record that goes on in the next line: which rows fulfil a "
            "condition is not known here; --rows names lines"
        )
    return next(csv.reader([line], delimiter=separator), [])


def _json_rows(lines: Iterator[str], path: str, test: RowTest) -> Iterator[tuple[int, list[Any]]]:
    exact = {column.lower(): column for column in test.columns}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise ConditionError(f"{path}:{number} is no JSON object: --rows names lines")
        values: dict[str, Any] = {}
        for name, value in document.items():
            lower = name.lower()
            if lower in exact and lower in values:
                raise ConditionError(f"{path}:{number} has several columns {name!r:.100}")
            values[lower] = value
        yield number, [values.get(column) for column in exact]


def _of_parquet(reader: RowReader, stream: IO[bytes], path: str, test: RowTest) -> MatchedRows:
    import pyarrow as pa

    where = test.where.source if test.where else ""
    keys = sorted(test.keys)
    try:
        numbers, searched, incomparable = reader.formats.read(
            "parquet where",
            stream,
            path,
            where,
            list(test.key_columns),
            [list(key) for key in keys],
        )
    except (OSError, pa.ArrowException) as error:
        raise RowsError(f"{path}: {error}") from error
    for column, count in incomparable.items():
        test.incomparable[column] = test.incomparable.get(column, 0) + count
    return MatchedRows(list(numbers), searched)


def parquet_rows_where(
    file: IO[bytes],
    path: str,
    where: str,
    key_columns: Sequence[str],
    keys: Sequence[Sequence[str]],
) -> tuple[list[int], int, dict[str, int]]:
    """The rows of a Parquet file that a condition and keys choose; as plain values, for a process of its own.

    Returns:
        Their numbers from 0, how many rows there are, and the test's ``incomparable``.

    Raises:
        ConditionError: as `RowTest`.
        OSError, pa.ArrowException: the file can't be read.
    """
    from lineage_query.rows.parquet_rows import open_parquet

    test = RowTest.of(where, key_columns, keys)
    opened = open_parquet(file)
    names = opened.schema_arrow.names
    columns = [names[at] for at in test.places_in(names, path)]
    if any("." in name for name in columns):
        raise ConditionError(f"{path}: a column with a dot in its name may be a nested one")
    numbers: list[int] = []
    begin = 0
    for batch in opened.iter_batches(ROWS_AT_ONCE, columns=columns):
        current_budget().check()
        values = [batch.column(name).to_pylist() for name in columns]
        rows = zip(*values, strict=True) if values else ((),) * len(batch)
        numbers += [begin + at for at, row in enumerate(rows) if test(row)]
        begin += len(batch)
    return numbers, begin, test.incomparable


def _chunks(blocks: Iterator[bytes], path: str) -> Iterator[bytes]:
    """Whole lines at once, without the end of the last one."""
    held, is_first = b"", True
    for block in blocks:
        whole, end, rest = block.rpartition(b"\n")
        if end:
            whole = held + whole
            yield whole.removeprefix(_BOM) if is_first else whole
            held, is_first = rest, False
        else:
            held += block
        if len(held) > LINE_BYTES_MAX:
            raise RowsError(f"{path} has a line of more than {LINE_BYTES_MAX >> 20} MiB")
    if held:
        yield held.removeprefix(_BOM) if is_first else held


class _RowsOfLines:
    """Rows as Spark and pandas have them: a carriage return without a newline ends one, too, so a line may hold several."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._several: list[tuple[int, int]] = []
        """The first and the last row of each line that holds several; rows from 1."""

    def chunks(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Lines as chunks in which each row is one."""
        row = 1
        for chunk in chunks:
            if chunk.count(b"\r") == chunk.count(b"\r\n") + chunk.endswith(b"\r"):
                row += chunk.count(b"\n") + 1
                yield chunk
                continue
            for line in chunk.split(b"\n"):
                returns = line.removesuffix(b"\r").count(b"\r")
                if returns:
                    self._several.append((row, row + returns))
                row += returns + 1
            yield _RETURN.sub(b"\n", chunk)

    def lines_of(self, rows: Sequence[int]) -> list[int]:
        """The lines of some rows, which ascend.

        Raises:
            ConditionError: another row stands in the line of one, which no place tells from it.
        """
        if not self._several:
            return list(rows)
        lines, more, chosen = list[int](), 0, set(rows)
        several = deque(self._several)
        for row in rows:
            while several and several[0][1] < row:
                first, last = several.popleft()
                more += last - first
            line = row - more
            if several and several[0][0] <= row:
                line = several[0][0] - more
                if not chosen.issuperset(range(several[0][0], several[0][1] + 1)):
                    raise ConditionError(several_rows(f"{self._path}:{line}"))
            if lines[-1:] != [line]:
                lines.append(line)
        return lines


def several_rows(place: str) -> str:
    """Why the row that is meant can't be named."""
    return (
        f"{place} holds a carriage return, at which Spark ends a row: no place tells its rows from each other; "
        "write the file with a newline behind each row, and run the jobs again"
    )


def holds_several_rows(line: str) -> bool:
    """Whether readers take a line for several rows."""
    return "\r" in line.removesuffix("\r")


def _lines(chunks: Iterator[bytes]) -> Iterator[str]:
    """Lines as ``grep -n`` counts them, without their ends."""
    for chunk in chunks:
        yield from _texts(chunk)


def _texts(lines: bytes) -> list[str]:
    texts = lines.decode("utf-8", "replace").split("\n")
    return [text.removesuffix("\r") for text in texts] if b"\r" in lines else texts
