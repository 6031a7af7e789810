"""CSV as RFC 4180 has it: UTF-8, a header, lines that end in CR LF.

Cells are the data as it is. One that begins with ``=``, ``+``, ``-`` or ``@`` is not changed, though a
spreadsheet may take it for a formula: whoever opens the file there imports its columns as text.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import IO

from lineage_store.exports.options import Options
from lineage_store.exports.tables import COLUMNS, Batch, batches, whole_text, yes
from lineage_store.traced import Traced


def write_csv(traced: Traced, stream: IO[bytes], options: Options) -> Mapping[str, None]:
    """Write the items of a trace; see :data:`lineage_store.exports.tables.COLUMNS`."""
    composer = traced.composer()
    write_batches(batches(traced, composer, options), stream)
    return composer.warnings


def write_batches(of: Iterable[Batch], stream: IO[bytes]) -> None:
    """Write items of any kind of trace."""
    stream.write(_lines([COLUMNS]))
    for batch in of:
        of_node = (batch.role, batch.node, batch.name)
        rows = (
            (*of_node, item.address, item.location or "", item.text or "", yes(exact))
            for item, exact in zip(batch.items, batch.exact, strict=True)
        )
        stream.write(_lines([tuple(map(whole_text, row)) for row in rows]))


def _lines(rows: list[tuple[str, ...]]) -> bytes:
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows(rows)
    return buffer.getvalue().encode()
