"""Rows of a DataFrame that come with their names, as Spark's JVM pickles them."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.serializers import CPickleSerializer
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from lineage_core.recipe.names import ROW_NAME
from lineage_emitter.worker import named_rows
from lineage_emitter.worker.named_rows import NamedRowBatch, NamedRowsSerializer

pytestmark = pytest.mark.unit

PLAIN = StructType([StructField("n", IntegerType()), StructField("s", StringType())])
NAMED = StructType([*PLAIN.fields, StructField(ROW_NAME, IntegerType())])
ROWS = [(number, f"text {number}") for number in range(5)]


def pickled(kind: StructType, rows: Sequence[tuple[Any, ...]]) -> bytes:
    """A batch as Spark pickles it: what makes rows and their type once, and a call of both for each row."""
    converter, kept = struct.pack("<I", 100_000), struct.pack("<I", 100_001)
    first = b"cpyspark.sql.types\n_create_row_inbound_converter\nr" + converter
    first += pickle.dumps(kind, 2)[2:-1] + b"r" + kept
    parts = [b"\x80\x02]("]
    for place, row in enumerate(rows):
        parts.append(first if place == 0 else b"j" + converter + b"j" + kept)
        values = b"".join(pickle.dumps(value, 2)[2:-1] for value in row)
        parts.append(b"\x85R(" + values + b"tR")
    return b"".join((*parts, b"e."))


def test_rows_are_those_of_plain_pyspark_and_a_type_is_made_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    makers = []
    stock = named_rows._row_maker

    def noted(kind: Any, note: Any) -> Any:
        makers.append(kind)
        return stock(kind, note)

    monkeypatch.setattr(named_rows, "_row_maker", noted)
    named = pickled(NAMED, [(*row, -number) for number, row in enumerate(ROWS)])
    batch = NamedRowsSerializer().serializer.loads(named)
    plain = CPickleSerializer().loads(pickled(PLAIN, ROWS))
    assert isinstance(batch, NamedRowBatch)
    assert (list(batch), list(batch.names)) == (plain, [-number for number in range(5)])
    assert [(type(row), row.__fields__) for row in batch] == [
        (type(row), row.__fields__) for row in plain
    ]
    assert makers == [PLAIN]
