"""The few Arrow kernels on columns of text that encoding uses, with types.

The stubs of pyarrow lack the overloads of these kernels. pyarrow is imported on first use: it is
slow to import, and not every process that imports the codec encodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lineage_core.contract.block import I64, U64
from lineage_core.contract.digits import Mask

if TYPE_CHECKING:
    import pyarrow as pa


def _arrow() -> tuple[Any, Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pa, pc


@cache
def _pool() -> Any:
    """The system's allocator: Arrow's own keeps some 30 MB for itself in every Spark worker."""
    lib, _ = _arrow()
    return lib.system_memory_pool()


def _number_array(numbers: U64 | I64 | npt.NDArray[np.int32]) -> Any:
    """Numbers as an Arrow array, without a copy.

    ``pa.array`` would import pandas to see whether it was given a Series: a second in every worker.
    """
    lib, _ = _arrow()
    kind = lib.from_numpy_dtype(numbers.dtype)
    buffer = lib.py_buffer(np.ascontiguousarray(numbers))
    return lib.Array.from_buffers(kind, len(numbers), [None, buffer])


def _text_scalar(text: str) -> Any:
    """A text as an Arrow scalar, by way of an array for the reason in :func:`_number_array`."""
    lib, _ = _arrow()
    content = text.encode()
    offsets = lib.py_buffer(np.array([0, len(content)], dtype=np.int32))
    return lib.StringArray.from_buffers(1, offsets, lib.py_buffer(content))[0]


def _mask_array(mask: Mask) -> Any:
    lib, _ = _arrow()
    buffer = lib.py_buffer(np.packbits(mask, bitorder="little"))
    return lib.Array.from_buffers(lib.bool_(), len(mask), [None, buffer])


def text_column(texts: Sequence[str | None]) -> pa.StringArray | None:
    """A column of texts; None when they are too long together for one column (2 GiB)."""
    lib, _ = _arrow()
    plain = _ascii_column(texts)
    if plain is not None:
        return plain
    encoded = [b"" if text is None else text.encode() for text in texts]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        return None
    valid = None
    if None in texts:
        is_present: Mask = np.array([text is not None for text in texts], dtype=np.bool_)
        valid = lib.py_buffer(np.packbits(is_present, bitorder="little"))
    column: pa.StringArray = lib.StringArray.from_buffers(
        len(encoded),
        lib.py_buffer(offsets.astype(np.int32)),
        lib.py_buffer(b"".join(encoded)),
        valid,
    )
    return column


def _ascii_column(texts: Sequence[str | None]) -> pa.StringArray | None:
    """A column of texts that are all there and all ASCII, which is quick; else None."""
    lib, _ = _arrow()
    try:
        content = "".join(texts)  # type: ignore[arg-type]
    except TypeError:
        return None
    if not content.isascii() or len(content) > np.iinfo(np.int32).max:
        return None
    offsets = np.zeros(len(texts) + 1, dtype=np.int32)
    np.cumsum(np.fromiter(map(len, texts), np.int32, len(texts)), out=offsets[1:])  # type: ignore[arg-type]
    column: pa.StringArray = lib.StringArray.from_buffers(
        len(texts), lib.py_buffer(offsets), lib.py_buffer(content.encode("ascii"))
    )
    return column


def split_last(texts: pa.StringArray, mark: str) -> tuple[pa.StringArray, pa.StringArray]:
    """The parts before and after the last ``mark`` of each text; each text has one."""
    _, kernels = _arrow()
    parts = kernels.split_pattern(texts, mark, max_splits=1, reverse=True, memory_pool=_pool())
    if len(parts.values) != 2 * len(texts):
        raise ValueError(f"a text without {mark!r}")
    even = np.arange(0, 2 * len(texts), 2)
    return parts.values.take(_number_array(even)), parts.values.take(_number_array(even + 1))


def encode_dictionary(texts: pa.StringArray) -> tuple[I64, list[str]]:
    """Texts as numbers (int64, one each) of a list that holds each of them once."""
    return _encoded(texts)


def encode_bytes(content: bytes, bounds: I64) -> tuple[I64, list[bytes]]:
    """Pieces of bytes, one behind the other, as numbers (int64, one each) of a list that holds each of them once.

    ``bounds``: where each piece begins, and where the last one ends.
    """
    lib, _ = _arrow()
    buffers = [None, lib.py_buffer(np.ascontiguousarray(bounds)), lib.py_buffer(content)]
    return _encoded(lib.Array.from_buffers(lib.large_binary(), len(bounds) - 1, buffers))


def _encoded(column: Any) -> tuple[I64, Any]:
    _, kernels = _arrow()
    coded = kernels.dictionary_encode(column, memory_pool=_pool())
    codes = np.frombuffer(coded.indices.buffers()[1], np.int32)[: len(column)].astype(np.int64)
    return codes, coded.dictionary.to_pylist()


def to_integers(texts: pa.StringArray) -> U64:
    """The whole numbers that texts are.

    Raises:
        ValueError: a text is not a number, or does not fit 64 bits.
    """
    lib, kernels = _arrow()
    numbers = kernels.cast(texts, lib.uint64(), memory_pool=_pool())
    integers: U64 = np.frombuffer(numbers.buffers()[1], np.uint64)[: len(texts)]
    return integers


def decimal_texts(numbers: U64) -> pa.StringArray:
    """Numbers in decimal."""
    lib, kernels = _arrow()
    texts: pa.StringArray = kernels.cast(_number_array(numbers), lib.string(), memory_pool=_pool())
    return texts


def join_columns(*parts: str | pa.StringArray) -> pa.StringArray:
    """The parts joined row by row; a plain text is the same in each row."""
    _, kernels = _arrow()
    columns = [_text_scalar(part) if isinstance(part, str) else part for part in parts]
    joined: pa.StringArray = kernels.binary_join_element_wise(
        *columns, _text_scalar(""), memory_pool=_pool()
    )
    return joined


def join_groups(texts: pa.StringArray, pointer: I64, separator: str) -> pa.StringArray:
    """Texts ``pointer[i]`` to ``pointer[i + 1]`` (exclusive) joined, for each ``i``."""
    lib, kernels = _arrow()
    groups = lib.ListArray.from_arrays(_number_array(pointer.astype(np.int32)), texts)
    joined: pa.StringArray = kernels.binary_join(
        groups, _text_scalar(separator), memory_pool=_pool()
    )
    return joined


def replace_rows(texts: pa.StringArray, mask: Mask, replacements: pa.StringArray) -> pa.StringArray:
    """``texts`` with the rows under the mask replaced by those given, in order."""
    _, kernels = _arrow()
    replaced: pa.StringArray = kernels.replace_with_mask(
        texts, _mask_array(mask), replacements, memory_pool=_pool()
    )
    return replaced


def take_rows(texts: pa.StringArray, rows: I64) -> pa.StringArray:
    """The texts of some rows."""
    row_texts: pa.StringArray = texts.take(_number_array(rows))
    return row_texts


def concatenate(parts: Sequence[pa.StringArray]) -> pa.StringArray:
    """Columns on top of one another."""
    lib, _ = _arrow()
    column: pa.StringArray = lib.concat_arrays(parts, memory_pool=_pool())
    return column


def matches(texts: pa.StringArray, pattern: str) -> Mask:
    """Which of the texts a pattern of RE2 is found in; each text is there."""
    _, kernels = _arrow()
    bits = kernels.match_substring_regex(texts, pattern, memory_pool=_pool()).buffers()[1]
    found: Mask = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[
        : len(texts)
    ].astype(np.bool_)
    return found


def quote_cells(texts: pa.StringArray) -> pa.StringArray:
    """CSV cells: quoted where RFC 4180 needs it or where empty, and nothing for a null."""
    _, kernels = _arrow()
    content = utf8_of(texts)
    empty = _lengths(texts) == 0
    marked = any(mark in content for mark in (b'"', b",", b"\r", b"\n"))
    if marked or empty.any():
        # As masks: a plain number among the arguments would import pandas, as pa.array does.
        special = _mask_array(empty)
        if marked:
            special = kernels.or_(special, kernels.match_substring_regex(texts, '[",\r\n]'))
        doubled = kernels.replace_substring(texts, '"', '""') if b'"' in content else texts
        texts = kernels.if_else(special, join_columns('"', doubled, '"'), texts)
    if not texts.null_count:
        return texts
    cells: pa.StringArray = kernels.fill_null(texts, _text_scalar(""))
    return cells


def _lengths(texts: pa.StringArray) -> npt.NDArray[np.int32]:
    """Bytes of each text."""
    buffers: Any = texts.buffers()
    offsets = np.frombuffer(buffers[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return np.diff(offsets)


def utf8_of(texts: pa.StringArray, before: bytes = b"", cut: int = 0) -> bytes:
    """All texts joined, in UTF-8, behind other bytes and without the last ``cut`` ones."""
    buffers: Any = texts.buffers()
    offsets = np.frombuffer(buffers[1], np.int32)[texts.offset :]
    content = memoryview(buffers[2])[int(offsets[0]) : int(offsets[len(texts)]) - cut]
    return b"".join((before, content))
