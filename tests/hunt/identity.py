"""Sources whose rows hold an id of their own: the source's file (or name) and the number of the row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.oracle.model import RECORD_BYTES, Source


def numbered(source: Source) -> Source:
    """The source with an id in each of its rows."""
    match source.kind:
        case "list":
            rows = tuple(_numbered_row(source.name, n, row) for n, row in enumerate(source.rows))
            return replace(source, rows=rows)
        case "whole":
            files = tuple((name, f"{name}:0 ".encode() + text) for name, text in source.files)
        case "bytes":
            files = tuple((name, _records(len(content))) for name, content in source.files)
        case _:
            files = tuple((name, _lines(name, content)) for name, content in source.files)
    return replace(source, files=files)


def id_of_line(line: str) -> str:
    """The id in a line, or in a file as a whole."""
    return line.partition(" ")[0]


def id_of_record(file: str, record: bytes) -> str:
    """The id of a record of bytes: its number is all that it holds."""
    return f"{file}:{int.from_bytes(record, 'big')}"


def id_of_row(row: Any) -> str:
    """The id in a row of a list."""
    return row[1][0] if isinstance(row, tuple) else id_of_line(row)


def _numbered_row(name: str, number: int, row: Any) -> Any:
    if isinstance(row, tuple) and len(row) == 2:
        return row[0], (f"{name}:{number}", row[1])
    return f"{name}:{number} {row}"


def _records(size: int) -> bytes:
    count = size // RECORD_BYTES
    return b"".join(number.to_bytes(RECORD_BYTES, "big") for number in range(count))


def _lines(name: str, content: bytes) -> bytes:
    lines = content.decode().split("\n")
    last = lines.pop()
    texts = [f"{name}:{n} {line}\n" for n, line in enumerate(lines)]
    if last:
        texts.append(f"{name}:{len(lines)} {last}")
    return "".join(texts).encode()
