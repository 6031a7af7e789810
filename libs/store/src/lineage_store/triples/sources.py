"""Reads triples and nodes of items from files, some rows at a time: Parquet, CSV, PROV-JSON and events of OpenLineage."""

from __future__ import annotations

import hashlib
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from csv import Error as CsvError
from csv import reader as csv_reader
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from lineage_store.errors import StoreError
from lineage_store.lake.arrow import array_of_texts, pc, scalar_of
from lineage_store.triples.files import Columns
from lineage_store.triples.openlineage_source import openlineage_triples
from lineage_store.triples.prov_source import prov_triples

BATCH_ROWS: Final = 1 << 18
BATCH_CHARACTERS: Final = 256 << 20
"""Of triples of JSON that are written together: a column of texts has at most 2 GiB."""
BLOCK_BYTES: Final = 16 << 20

TRIPLE: Final = ("src", "dst", "op")
NODE: Final = ("item", "node")
ITEM: Final = ("item",)
JSON: Final = {
    ".json": prov_triples,
    ".jsonl": openlineage_triples,
    ".ndjson": openlineage_triples,
}
"""What reads the triples of a file, by the end of its name."""
MOST_OF_JSON: Final = 10_000_000
"""Triples of a document: an activity that used and generated many entities gives their product."""


def digest_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal.

    Raises:
        StoreError: it can't be read.
    """
    try:
        with path.open("rb") as stream:
            digest = hashlib.sha256()
            while block := stream.read(1 << 20):
                digest.update(block)
            return digest.hexdigest()
    except OSError as error:
        raise StoreError(f"can't read {path}: {error}") from error


def read_rows(path: Path, names: Sequence[str]) -> Iterator[Columns]:
    """Rows of a file, as columns of the table of triples that wait.

    Items are integers or texts, in CSV texts; the last column of ``names`` becomes texts.

    Args:
        path: a file of CSV (`.csv`, `.tsv`), PROV-JSON (`.json`) or events of OpenLineage (`.jsonl`, `.ndjson`), else of Parquet.
        names: `TRIPLE` or `NODE`.

    Raises:
        StoreError: it can't be read, a column is missing, or a value is null, empty, or of another type.
    """
    row = 0
    with _as_errors(path):
        for batch in _batches(path, names):
            columns = {}
            for name in names:
                is_label = name == names[-1]
                values = (_label if is_label else _items)(batch.column(name))
                _refuse_missing(path, name, values, row, is_item=not is_label)
                columns[_column_of(name, values, is_label)] = values
            if (
                len({values.type for name, values in columns.items() if name[:3] in {"src", "dst"}})
                > 1
            ):
                raise StoreError(f"{path}: src and dst are of different types")
            yield columns
            row += batch.num_rows
    if not row:
        raise StoreError(f"{path} has no {'triples' if path.suffix.lower() in JSON else 'rows'}")


def read_items(path: Path, most: int) -> pa.Array[Any]:
    """The column `item` of a file of CSV or Parquet: integers, or texts.

    Args:
        path: the file.
        most: rows that it may have.

    Raises:
        StoreError: it can't be read, has more or no rows, or a value is null, empty, or of another type.
    """
    if path.suffix.lower() in JSON:
        raise StoreError(f"{path}: items are given as Parquet or CSV")
    parts: list[Any] = []
    count = 0
    with _as_errors(path):
        for batch in _batches(path, ITEM):
            values = _items(batch.column("item"))
            _refuse_missing(path, "item", values, count, is_item=True)
            count += len(values)
            if count > most:
                raise StoreError(f"{path} has more than {most:,} items; ask in several questions")
            parts.append(values)
    if not count:
        raise StoreError(f"{path} has no rows")
    return pa.concat_arrays(parts)


def _column_of(name: str, values: Any, is_label: bool) -> str:
    if is_label or values.type == pa.string():
        return f"{name}_text"
    return name if name == "item" else f"{name}_item"


def _batches(path: Path, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    triples = JSON.get(path.suffix.lower())
    if triples is not None:
        if tuple(names) != TRIPLE:
            raise StoreError(f"{path}: nodes are given as Parquet or CSV")
        yield from _bounded_batches(path, triples(path))
        return
    if path.suffix.lower() in {".csv", ".tsv"}:
        yield from _csv_batches(path, names)
        return
    with _parquet(path) as parquet:
        _check_names(path, names, parquet.schema_arrow.names)
        yield from parquet.iter_batches(BATCH_ROWS, columns=list(names), use_threads=False)


def _csv_batches(path: Path, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with csv.open_csv(
        path,
        read_options=csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
        # Values may have line ends in them: else none could where a block ends.
        parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            include_columns=list(names), column_types=dict.fromkeys(names, pa.string())
        ),
    ) as reader:
        # Of two columns with one name it takes the first.
        _check_names(path, names, _header_of(path, delimiter))
        yield from reader


def _header_of(path: Path, delimiter: str) -> list[str]:
    """The names of columns of a file of CSV, as PyArrow reads them."""
    with path.open("rb") as stream:
        begin = stream.read(BLOCK_BYTES).removeprefix(BOM_UTF8).decode(errors="replace")
    try:
        # Lines may end with CR alone, as PyArrow has it.
        lines = StringIO(begin, newline="")
        return next((row for row in csv_reader(lines, delimiter=delimiter) if row), [])
    except CsvError as error:
        raise StoreError(f"can't read the header of {path}: {error}") from error


def _check_names(path: Path, names: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse a file that lacks a column, or has two of its name."""
    count = Counter(columns)
    for name in names:
        if not count[name]:
            raise StoreError(f"{path} has no column {name!r}; it needs {', '.join(names)}")
        if count[name] > 1:
            raise StoreError(f"{path} has {count[name]:,} columns {name!r}")


def _parquet(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        known = ", ".join((".csv", ".tsv", *JSON))
        raise StoreError(
            f"can't read {path} as Parquet, as files are read whose names end in none of {known}: {error}"
        ) from error


def _bounded_batches(
    path: Path, triples: Iterator[tuple[str, str, str]]
) -> Iterator[pa.RecordBatch]:
    count = 0
    while rows := _next_rows(triples):
        count += len(rows)
        if count > MOST_OF_JSON:
            raise StoreError(
                f"{path} gives more than {MOST_OF_JSON:,} triples; give it in several files"
            )
        yield pa.RecordBatch.from_arrays(
            [array_of_texts(column) for column in zip(*rows, strict=True)], list(TRIPLE)
        )


def _next_rows(triples: Iterator[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """The next triples, few enough to be held as text beside each other: a short document may give long names very often."""
    rows = []
    length = 0
    for triple in islice(triples, BATCH_ROWS):
        rows.append(triple)
        length += sum(map(len, triple))
        if length >= BATCH_CHARACTERS:
            break
    return rows


def _items(column: Any) -> Any:
    """Items as integers or texts.

    An unsigned integer that is too large is refused by the cast.
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_integer(kind):
        return column.cast(pa.int64())
    if _is_text(kind):
        return _as_texts(column)
    raise StoreError(f"items are integers or texts, and not {kind}")


def _is_text(kind: Any) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _label(column: Any) -> Any:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (_is_text(kind) or pa.types.is_integer(kind)):
        raise StoreError(f"ops and nodes are integers or texts, and not {kind}")
    return _as_texts(column)


def _as_texts(column: Any) -> Any:
    """Integers or texts as texts; files of Parquet may have others than of UTF-8, which Arrow does not look at.

    Raises:
        ArrowInvalid: it has such.
    """
    texts = column.cast(pa.string())
    texts.validate(full=True)
    return texts


def _refuse_missing(path: Path, name: str, values: Any, row: int, *, is_item: bool) -> None:
    missing = pc.is_null(values)
    if is_item and values.type == pa.string():
        missing = pc.or_(missing, pc.fill_null(pc.equal(values, scalar_of("")), scalar_of(False)))
    at = pc.index(missing, scalar_of(True)).as_py()
    if at >= 0:
        raise StoreError(f"{path}: row {row + at + 1:,} has no {name}")


@contextmanager
def _as_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"can't read {path}: {error}") from error
