"""Rows of a DataFrame that come to Python with their names: see :mod:`lineage_emitter.dataframes.naming`.

The name is one more column, the last. The program must not see it, so it is taken off where rows are
unpickled: the row that is made is the very one that PySpark makes of the DataFrame without the column.
"""

from __future__ import annotations

import io
import pickle
from array import array
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyspark.serializers import BatchedSerializer, CPickleSerializer, FramedSerializer

from lineage_core.contract.address import named_space, parse_space
from lineage_core.recipe.names import ROW_NAME
from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.worker.recorders import FLOWS_MAX, DenseRecorder
from lineage_emitter.worker.segment import Numbering

if TYPE_CHECKING:
    from lineage_emitter.worker.segment import Segment

_CONVERTER = ("pyspark.sql.types", "_create_row_inbound_converter")
"""What the JVM's pickles call to make a row of a type."""


_READ_BYTES = 1 << 17
"""As many as an unpickler reads ahead."""


class NamedRowBatch(list[Any]):
    """Rows, and the name of each as the DataFrame's column has it: a signed number."""

    names: array[int]


class _Unpickler(pickle.Unpickler):
    """Unpickles a batch of rows, and collects their names."""

    def __init__(self, pickled: bytes) -> None:
        # Of a reader without `peek` it would read sign by sign.
        reader = io.BufferedReader(io.BytesIO(pickled), _READ_BYTES)
        super().__init__(reader, encoding="bytes")
        self.names = array("q")
        self._makers: dict[int, Callable[..., Any]] = {}
        """By the identity of a type: the JVM asks again for each row, and a type lives as long as its batch."""

    def find_class(self, module: str, name: str) -> Any:
        converter = super().find_class(module, name)
        return self._naming(converter) if (module, name) == _CONVERTER else converter

    def _naming(self, stock: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def converter(kind: Any) -> Any:
            make = self._makers.get(id(kind))
            if make is None:
                make = self._makers[id(kind)] = self._maker(kind, stock)
            return make

        return converter

    def _maker(self, kind: Any, stock: Callable[[Any], Any]) -> Callable[..., Any]:
        # Rows within a row have types of their own, in which nothing is called so.
        if kind.names[-1:] != [ROW_NAME]:
            make: Callable[..., Any] = stock(kind)
            return make
        return _row_maker(type(kind)(kind.fields[:-1]), self.names.append)


def _row_maker(kind: Any, append_name: Callable[[int], None]) -> Callable[..., Any]:
    """What makes a row of a type of the values that the JVM sends, the last of which is its name."""
    make = kind.fromInternal
    if any(field.needConversion() for field in kind.fields):

        def converted(*values: Any) -> Any:
            append_name(values[-1])
            return make(values[:-1])

        return converted

    from pyspark.sql.types import Row

    new, names = tuple.__new__, kind.names

    def row(*values: Any) -> Any:
        # As `fromInternal` makes it, with fewer calls: that pays for the name.
        append_name(values[-1])
        new_row = new(Row, values[:-1])
        new_row.__fields__ = names
        return new_row

    return row


class _NamedPickles(FramedSerializer):
    """Reads batches of rows that have names."""

    def dumps(self, obj: Any) -> bytes:
        pickled: bytes = CPickleSerializer().dumps(obj)
        return pickled

    def loads(self, obj: bytes) -> NamedRowBatch:
        unpickler = _Unpickler(obj)
        batch = NamedRowBatch(unpickler.load())
        batch.names = unpickler.names
        return batch


class NamedRowsSerializer(BatchedSerializer):
    """Reads what PySpark reads of ``DataFrame.rdd``, from a DataFrame whose rows have names."""

    def __init__(self) -> None:
        pickles = _NamedPickles()
        BatchedSerializer.__init__(self, pickles)

    def load_stream(self, stream: Any) -> NamedRowStream:
        """The rows, not read before they are requested."""
        return NamedRowStream(self.serializer.load_stream(stream))


class NamedRowStream:
    """An iterator of rows. ``on_batch`` is called with each batch."""

    def __init__(self, batches: Iterator[NamedRowBatch]) -> None:
        self._batches = batches
        self._rows: Iterator[Any] = chain.from_iterable(batches)
        self.on_batch: Callable[[], None] = lambda: None
        self._batch = NamedRowBatch()
        self._first = 0
        """Ordinal of the batch's first row."""

    def __iter__(self) -> Iterator[Any]:
        return self._rows

    def __next__(self) -> Any:
        return next(self._rows)

    def numbered(self, segment: Segment, numbering: Numbering) -> Iterator[Any]:
        """The rows; before each, the numbering's cell is set to its ordinal. Their names are recorded batch by batch."""
        (space,) = numbering.spaces
        named = named_space(parse_space(space).name)
        recorder = DenseRecorder(segment, Numbering.of_space(named), parse_space(space).name, space)

        def origin() -> list[tuple[str, int, int]]:
            name = self._batch.names[numbering.cell[0] - self._first] % 2**64
            return [(named, name, name)]

        numbering.origin = origin
        return self._read(segment, numbering, recorder)

    def _read(
        self, segment: Segment, numbering: Numbering, recorder: DenseRecorder
    ) -> Iterator[Any]:
        cell, ordinal = numbering.cell, 0
        try:
            for batch in self._batches:
                self._batch, self._first = batch, ordinal
                self.on_batch()
                self._record_names(segment, recorder, batch)
                for row in batch:
                    cell[0] = ordinal
                    ordinal += 1
                    yield row
            numbering.exhausted = True
        finally:
            numbering.rows = ordinal

    @staticmethod
    def _record_names(segment: Segment, recorder: DenseRecorder, batch: NamedRowBatch) -> None:
        if len(batch.names) != len(batch):
            segment.fail(CaptureFailedError("rows came without their names"))
        for start in range(0, len(batch.names), FLOWS_MAX):
            recorder.buffer.frombytes(batch.names[start : start + FLOWS_MAX].tobytes())
            if len(recorder.buffer) >= FLOWS_MAX:
                segment.guard(recorder.flush)
