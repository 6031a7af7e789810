"""Files of the table of triples: what their names say, and how they are written."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lineage_store.errors import StoreError
from lineage_store.lake.arrow import array_of, array_of_texts
from lineage_store.lake.file_names import folder_of
from lineage_store.lake.file_writing import put_file
from lineage_store.lake.table import LakeFile, LakeTable
from lineage_store.triples.columns import COLUMNS, REPEATING, TEXT, Part

FILE_ROWS: Final = 1 << 22
GROUP_ROWS: Final = 1 << 14
"""Rows of a row group: a look-up reads all of it, and a footer names each."""
LEVEL: Final = 3

Numbers: TypeAlias = npt.NDArray[np.signedinteger[Any]]
"""Integers of 64 bits, or of 32 where all fit."""
Columns: TypeAlias = dict[str, Any]
"""Arrays of one length by the name of their column: of NumPy where they are numbers, else of Arrow."""


@dataclass(frozen=True, slots=True)
class PartFile:
    """A file of a data set. ``first`` and ``last``: the bounds of the column that orders it; 0 where that is a text.

    ``digest``: of the source that its rows come from; in the index ``-`` and the number of the segment, without it for the first.
    """

    file: LakeFile
    part: Part
    digest: str
    first: int
    last: int

    @classmethod
    def of(cls, file: LakeFile) -> PartFile:
        """A file by what its name says.

        Raises:
            StoreError: the name is none of ours.
        """
        try:
            part, digest, first, last, _, _ = file.path.rpartition("/")[2].split(".")
            return cls(file, Part(part), digest, int(first), int(last))
        except ValueError as error:
            raise StoreError(f"{file.path} is no file of triples") from error

    @property
    def segment(self) -> int:
        """The segment of the index that a file is of, from 0."""
        return int(self.digest[1:] or 0)


def segment_name(segment: int) -> str:
    """What stands for the digest of a source in files of a segment."""
    return f"-{segment or ''}"


class PartWriter:
    """Writes rows of a data set into files that no version of the table holds yet: ``files``."""

    def __init__(self, table: LakeTable, key: str) -> None:
        self._table = table
        self._key = key
        self.files: list[LakeFile] = []

    def write(self, part: Part, columns: Mapping[str, Any], digest: str = "-") -> None:
        """Write rows.

        Args:
            part: which part they are of; those of the index are in the order of its first column.
            columns: arrays of one length by name, those of the part or some of them.
            digest: of the source that they come from.

        Raises:
            StoreUnavailableError: the storage can't be written.
        """
        kinds = COLUMNS[part]
        names = [name for name in kinds if name in columns]
        for at in range(0, len(columns[names[0]]), FILE_ROWS):
            some = pa.table(
                {name: _as_arrow(columns[name][at : at + FILE_ROWS], kinds[name]) for name in names}
            )
            first, last = _bounds(some)
            named = f"{folder_of(self._key)}/{part}.{digest}.{first}.{last}.{uuid.uuid4().hex}"
            sink = pa.BufferOutputStream()
            with _writer(sink, some) as writer:
                writer.write_table(some, row_group_size=GROUP_ROWS)
            self.files.append(
                put_file(self._table, self._key, sink.getvalue(), partial(_path_of, named))
            )


def _path_of(named: str, footer: str) -> str:
    return f"{named}-{footer}.parquet"


def _as_arrow(values: Any, kind: pa.DataType) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    return array_of_texts(values) if kind == TEXT else array_of(np.asarray(values, np.int64))


def _bounds(rows: pa.Table) -> tuple[int, int]:
    ordering = rows.column(0)
    if ordering.type == TEXT:
        return 0, 0
    return ordering[0].as_py(), ordering[-1].as_py()


def _writer(stream: Any, rows: pa.Table) -> pq.ParquetWriter:
    names = rows.schema.names
    repeating: Any = [name for name in names if name in REPEATING]
    packed = [
        name for name in names if name not in REPEATING and rows.schema.field(name).type != TEXT
    ]
    return pq.ParquetWriter(
        stream,
        rows.schema,
        compression="zstd",
        compression_level=LEVEL,
        use_dictionary=repeating,
        column_encoding=dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
        write_statistics=names[:1],
        write_page_checksum=True,
    )


def spans(low: Numbers, high: Numbers) -> Numbers:
    """The numbers from each of ``low`` up to, but not with, that of ``high``."""
    lengths = high - low
    total = int(lengths.sum())
    before = np.cumsum(lengths) - lengths
    return np.asarray(np.arange(total, dtype=np.int64) + np.repeat(low - before, lengths))
