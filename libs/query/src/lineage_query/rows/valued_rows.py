"""Finds rows of files with given values in the files themselves, without a query or Spark.

It returns None if Spark may read the files differently because of options, types or texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from lineage_core.contract.block import U64
from lineage_core.recipe.names import TEXT_FORMATS
from lineage_query.rows.reader import ForbiddenRowsError, RowReader
from lineage_query.rows.typed_values import RequestedValue, UnsureError, requested_value
from lineage_store.paths import Bytes, RowsError, canonical, plain_path, split_scheme

if TYPE_CHECKING:
    from lineage_core.recipe.document import File, Output, Source

TEXT_BYTES_MAX = 64 << 20
"""Maximum size of all text files together: takes a few seconds. A query is faster for larger ones."""
HARMLESS = {
    "parquet": frozenset[str](),
    "orc": frozenset[str](),
    "csv": frozenset({"header", "sep", "delimiter", "nullvalue"}),
    "json": frozenset[str](),
    "text": frozenset[str](),
}
"""Options, by format, that this module supports; the base path of partition folders has no effect here."""
OF_FOLDERS = "basepath"
AS_EVER = {"multiline", "wholetext", "inferschema"}
"""Options without effect if false."""
_ODD_SIGNS = b'"\\\r\0'
"""Characters of quoting and escaping in CSV, which a simple split at separators does not handle."""
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_BOM = b"\xef\xbb\xbf"
_WHITE = bytes(range(33))
"""Lines of only these characters are not rows for readers of CSV and JSON."""


@dataclass(frozen=True)
class Files:
    """Files of one output or source, as rows of typed columns.

    ``columns``: names and types; those in the names of partition folders are not in the files. ``parted``: the partition
    columns, None if only the folders show them. ``settings``: of the job.
    """

    format: str
    root: str
    columns: Sequence[tuple[str, str]]
    options: Mapping[str, str]
    files: Sequence[File]
    settings: Mapping[str, str]
    parted: frozenset[str] | None = None

    @classmethod
    def of_output(
        cls, output: Output, columns: Sequence[tuple[str, str]], settings: Mapping[str, str]
    ) -> Files:
        """What a write left. Of tables it is not known which column of the file has which name: they have no format."""
        plain = output.kind == "files" and output.path is not None
        format_name = output.format if plain and output.format else ""
        return cls(format_name, output.path or "", columns, output.options, output.files, settings)

    @classmethod
    def of_source(cls, source: Source, settings: Mapping[str, str]) -> Files:
        """What a read saw."""
        root = source.paths[0] if len(source.paths) == 1 else ""
        partition_columns = replace(source, schema=source.partitions, partitions="").columns()
        # Texts of a fixed length are padded when they are read.
        format_name = "" if "__CHAR_VARCHAR" in source.schema else source.format
        return cls(
            format_name,
            root,
            source.columns(),
            source.options,
            source.files,
            settings,
            frozenset(name for name, _ in partition_columns),
        )


def positions_with(
    files: Files, values: Sequence[tuple[str, str | None]], reader: RowReader
) -> dict[int, U64] | None:
    """The positions (ascending) of rows with given values, by the file's index in ``files``.

    Positions are line indexes, from 0, in text files, else row indexes. The files must be in the state that the job
    read or wrote: the caller checks this before and after.

    Args:
        files: the files to search.
        values: columns and the texts of their values; None is NULL.
        reader: decides which files may be read.

    Returns:
        The rows; None if only a query can find them.

    Raises:
        ForbiddenRowsError: a file may not be read.
    """
    for file in files.files:
        if not reader.may_read(canonical(file.path)):
            raise ForbiddenRowsError(f"{plain_path(file.path)} may not be read here")
    try:
        _check_options(files)
        terms = _terms(files, values)
        rows_by_file = {
            at: _in_file(reader, files, file, terms) for at, file in enumerate(files.files)
        }
    except (UnsureError, pa.ArrowException, OSError, RowsError, ValueError, RecursionError):
        return None
    return {at: rows for at, rows in rows_by_file.items() if len(rows)}


def _check_options(files: Files) -> None:
    understood = HARMLESS.get(files.format)
    option_names = {
        name.lower()
        for name, value in files.options.items()
        if name.lower() not in AS_EVER or value.lower() != "false"
    } - {OF_FOLDERS}
    if understood is None or not option_names <= understood:
        raise UnsureError
    local = all(split_scheme(file.path)[0] == "file" for file in files.files)
    if not local or files.settings.get("spark.sql.parquet.binaryAsString", "false") != "false":
        raise UnsureError
    if files.format in TEXT_FORMATS and sum(file.size for file in files.files) > TEXT_BYTES_MAX:
        raise UnsureError


def _terms(files: Files, values: Sequence[tuple[str, str | None]]) -> dict[str, RequestedValue]:
    """What columns are to have, by their names."""
    terms: dict[str, RequestedValue] = {}
    for name, text in values:
        matching = [column for column in files.columns if column[0].lower() == name.lower()]
        # Leave a column that is named twice, or with different case, to the query.
        if len(matching) != 1 or matching[0][0] in terms:
            raise UnsureError
        column, kind = matching[0]
        terms[column] = requested_value(text, kind, files.settings)
    return terms


def _in_file(
    reader: RowReader, files: Files, file: File, terms: Mapping[str, RequestedValue]
) -> U64:
    path, folders = plain_path(file.path), _folders(files, file)
    within = {name: term for name, term in terms.items() if name not in folders}
    for name in terms.keys() & folders.keys():
        if not _has_folder(folders[name], terms[name]):
            return np.empty(0, np.uint64)
    with closing(reader.opened(path, packed=files.format not in TEXT_FORMATS)) as opened:
        if files.format not in TEXT_FORMATS:
            positions: U64 = reader.formats.read(f"{files.format} rows", opened.stream, within)
            return positions
        columns = [name for name, _ in files.columns if name not in folders]
        return _in_lines(files, opened, columns, within)


def _folders(files: Files, file: File) -> dict[str, str]:
    """The columns in the names of a file's folders."""
    path = canonical(file.path)
    below = path.removeprefix(canonical(files.root).rstrip("/") + "/") if files.root else path
    parts = [] if below == path else below.split("/")[:-1]
    values: dict[str, str] = {}
    for part in parts:
        name, mark, value = part.partition("=")
        if not mark or name in values:
            raise UnsureError
        values[name] = value
    expected_columns = {name for name, _ in files.columns} if files.parted is None else files.parted
    if values.keys() - expected_columns or (
        files.parted is not None and expected_columns - values.keys()
    ):
        raise UnsureError
    return values


def _has_folder(text: str, term: RequestedValue) -> bool:
    """Whether a folder's name has the value of a column."""
    text = unquote(text, errors="strict")
    # NULL and the empty text have one folder.
    if text == _NULL_FOLDER or term.value in {None, ""}:
        raise UnsureError
    if term.kind not in {"string", "date", "tinyint", "smallint", "int", "bigint"}:
        raise UnsureError
    return term.in_text(text)


def _in_lines(
    files: Files, opened: Bytes, columns: Sequence[str], terms: Mapping[str, RequestedValue]
) -> U64:
    parts, bytes_left = [], TEXT_BYTES_MAX + 1
    for block in opened.blocks():
        parts.append(block)
        bytes_left -= len(block)
        if bytes_left < 0:
            raise UnsureError
    content = b"".join(parts)
    if content.startswith(_BOM) or b"\r" in content:
        raise UnsureError
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if files.format == "text":
        ((_, term),) = terms.items()
        matches = [term.value is not None and line.decode() == term.value for line in lines]
    elif files.format == "json":
        matches = [bool(line.strip(_WHITE)) and _in_object(line, terms) for line in lines]
    else:
        matches = _in_csv(files, content, lines, columns, terms)
    return np.flatnonzero(np.array(matches, np.bool_)).astype(np.uint64)


def _in_csv(
    files: Files,
    content: bytes,
    lines: Sequence[bytes],
    columns: Sequence[str],
    terms: Mapping[str, RequestedValue],
) -> list[bool]:
    options = {name.lower(): value for name, value in files.options.items()}
    separator = options.get("sep", options.get("delimiter", ",")).encode()
    header = options.get("header", "false").lower()
    has_odd_signs = any(
        sign in content for sign in (_ODD_SIGNS[n : n + 1] for n in range(len(_ODD_SIGNS)))
    )
    if (
        has_odd_signs
        or len(separator) != 1
        or separator in _ODD_SIGNS
        or header not in {"true", "false"}
    ):
        raise UnsureError
    if separator.strip(_WHITE) == b"" and separator != b"\t":
        raise UnsureError
    terms_by_index = [(columns.index(name), term) for name, term in terms.items()]
    # Empty fields are NULL, whatever the null value option.
    null_text = options.get("nullvalue", "")
    matches, is_header = list[bool](), header == "true"
    for line in lines:
        fields = line.decode().split(separator.decode())
        if not line.strip(_WHITE):
            # A row of empty fields between tabs is no blank line to every reader.
            if line:
                raise UnsureError
            matches.append(False)
        elif is_header:
            is_header = False
            matches.append(False)
        elif len(fields) != len(columns):
            raise UnsureError
        else:
            texts = [
                ("" if fields[at] == null_text else fields[at], term) for at, term in terms_by_index
            ]
            matches.append(all(term.in_text(text) for text, term in texts))
    return matches


def _in_object(line: bytes, terms: Mapping[str, RequestedValue]) -> bool:
    record = json.loads(
        line.decode(),
        parse_float=Decimal,
        parse_constant=_refuse,
        object_pairs_hook=_each_once,
    )
    if not isinstance(record, dict):
        raise UnsureError
    names_as_written = {name.lower(): name for name in record}
    if len(names_as_written) != len(record):
        raise UnsureError
    if any(names_as_written.get(name.lower(), name) != name for name in terms):
        raise UnsureError
    return all(term.in_json(record.get(name)) for name, term in terms.items())


def _refuse(constant: str) -> Any:
    raise UnsureError(constant)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise UnsureError
    return record
