"""CSV as RFC 4180 has it: UTF-8, a header, lines that end in CR LF.

Cells are the data as it is. One that begins with ``=``, ``+``, ``-`` or ``@`` is not changed, though a
spreadsheet may take it for a formula: import the columns as text there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import IO

from lineage_query.exports.tables import COLUMNS, TableBatch, encodable_text, yes

_QUOTED = re.compile(r'[",\r\n]')


def write_csv(batches: Iterable[TableBatch], facts: Mapping[str, str], stream: IO[bytes]) -> None:
    """Write the items of a trace; see :data:`lineage_query.exports.tables.COLUMNS`. CSV has no place for facts."""
    del facts
    stream.write(csv_lines([COLUMNS]))
    for batch in batches:
        of_node = (batch.role, batch.node, batch.name)
        rows = (
            (
                *(*of_node, item.address, item.location or "", item.text or ""),
                *(yes(exact), item.binding or "", batch.app),
            )
            for item, exact in zip(batch.items, batch.exact, strict=True)
        )
        stream.write(csv_lines([tuple(map(encodable_text, row)) for row in rows]))


def csv_lines(rows: list[tuple[str, ...]]) -> bytes:
    # By hand: the module csv of Python 3.10 refuses texts with U+0000.
    return "".join(f"{','.join(map(_cell, row))}\r\n" for row in rows).encode()


def _cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text
