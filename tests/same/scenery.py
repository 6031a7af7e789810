"""The files that all calls read."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet


def write_shared(folder: Path) -> None:
    """Write them into a new folder."""
    folder.mkdir()
    lines = [f"line {n} of {n % 3}" for n in range(9)]
    (folder / "lines.txt").write_text("".join(f"{line}\n" for line in lines))
    (folder / "texts").mkdir()
    (folder / "binary").mkdir()
    for n in range(3):
        (folder / "texts" / f"{n}.txt").write_text(f"text {n}\nand more\n")
    (folder / "binary" / "one.bin").write_bytes(bytes(range(16)))
    (folder / "binary" / "two.bin").write_bytes(bytes(range(8)))
    (folder / "module.py").write_text("VALUE = 1\n")
    rows = pa.table(
        {
            "id": pa.array(range(8), pa.int64()),
            "k": pa.array([n % 3 for n in range(8)], pa.int64()),
            "text": [None if n == 5 else f"t{n % 4}" for n in range(8)],
            "x": [n * 0.5 for n in range(7)] + [None],
        }
    )
    pa.parquet.write_table(rows, folder / "rows.parquet")
    pa.orc.write_table(rows, str(folder / "rows.orc"))
    pa.csv.write_csv(rows, folder / "rows.csv")
    (folder / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
    _sequence_files(folder)


def _sequence_files(folder: Path) -> None:
    """Records as `saveAsPickleFile` and `saveAsSequenceFile` write them."""
    pickled = _byte_arrays([pickle.dumps(one, 2) for one in ([1, 2, 3], ["a", "b"])])
    batches = [(b"", len(pickled).to_bytes(4, "big") + pickled)]
    texts = [(b"\1" + key, b"\1" + value) for key, value in ((b"a", b"1"), (b"b", b"2"))]
    for name, kinds, pairs in (
        ("pickled", ("NullWritable", "BytesWritable"), batches),
        ("sequence", ("Text", "Text"), texts),
    ):
        (folder / name).mkdir()
        (folder / name / "part-00000").write_bytes(_sequence_file(kinds, pairs))


def _sequence_file(kinds: tuple[str, str], pairs: list[tuple[bytes, bytes]]) -> bytes:
    """Hadoop's SequenceFile, version 6, neither compressed nor in blocks."""
    classes = [f"org.apache.hadoop.io.{kind}".encode() for kind in kinds]
    header = b"".join(bytes([len(name)]) + name for name in classes)
    parts = [b"SEQ\x06", header, b"\0\0", b"\0\0\0\0", bytes(range(16))]
    for key, value in pairs:
        size = (len(key) + len(value)).to_bytes(4, "big")
        parts += [size, len(key).to_bytes(4, "big"), key, value]
    return b"".join(parts)


def _byte_arrays(arrays: list[bytes]) -> bytes:
    """As Java serialises a ``byte[][]``: the class of its elements is described once, then referred to."""
    outer = b"\x72\0\x03[[B\x4b\xfd\x19\x15\x67\x67\xdb\x37\x02\0\0\x78\x70"
    inner = b"\x72\0\x02[B\xac\xf3\x17\xf8\x06\x08\x54\xe0\x02\0\0\x78\x70"
    parts = [b"\xac\xed\0\x05\x75", outer, len(arrays).to_bytes(4, "big")]
    for number, one in enumerate(arrays):
        parts += [b"\x75", b"\x71\0\x7e\0\x02" if number else inner]
        parts += [len(one).to_bytes(4, "big"), one]
    return b"".join(parts)
