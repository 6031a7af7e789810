"""Rows of ORC files by their place in the file."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from pyarrow import orc

from lineage_core.contract.block import U64
from lineage_core.tracing.budget import current_budget
from lineage_query.rows.typed_values import RequestedValue, UnsureError, places_where

AT_ONCE_BYTES_MAX = 64 << 20
"""Of a file of ORC that is read at once. A query reads one of larger parts, where it is confined."""


def rows_with(file: IO[bytes], terms: Mapping[str, RequestedValue]) -> U64:
    """Rows (from 0, ascending) whose columns have the given values.

    Raises:
        UnsureError: Spark may find others.
        OSError, pa.ArrowException: the file can't be read.
        BudgetError: as :meth:`lineage_core.tracing.budget.Budget.check`.
    """
    if any(term.kind == "timestamp" for term in terms.values()):
        raise UnsureError
    positions, begin = [np.empty(0, np.uint64)], 0
    opened = orc.ORCFile(_SomeAtOnce(file))
    if not set(terms) <= set(opened.schema.names) or any("." in name for name in terms):
        raise UnsureError
    for stripe in range(opened.nstripes):
        current_budget().check()
        batch = opened.read_stripe(stripe, columns=list(terms))
        masks = [term.in_arrow(batch.column(name)) for name, term in terms.items()]
        positions.append(places_where(masks, batch.num_rows) + np.uint64(begin))
        begin += batch.num_rows
    return np.concatenate(positions)


class _SomeAtOnce:
    """A file of which no more is read at once than fits."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        """As a file's.

        Raises:
            OSError: it is more.
        """
        if not 0 <= size <= AT_ONCE_BYTES_MAX:
            raise OSError(errno.EFBIG, f"a part has more than {AT_ONCE_BYTES_MAX >> 20} MiB")
        return self._file.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
