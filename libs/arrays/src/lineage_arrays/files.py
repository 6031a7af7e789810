"""Files of arrays, bound to what was read and written: their bytes, not only their names."""

from __future__ import annotations

import inspect
import io
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lineage_arrays.calls import name_of, plain
from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.formats.decoding import Decoded, decoded
from lineage_arrays.formats.names import array_name, is_tree, split_name
from lineage_arrays.formats.trees import (
    TreeFile,
    decoded_tree,
    file_checksum,
    tree_checksum,
    tree_files,
)
from lineage_arrays.workflow import AnyArray, ArrayFile, Operand, Output, Workflow
from lineage_store.checksums import sha256_of
from lineage_store.paths import open_file

SAVING: Mapping[Callable[..., Any], str] = {
    np.save: ".npy",
    np.savez: ".npz",
    np.savez_compressed: ".npz",
}
"""Functions that write files of arrays, and how the names of these end."""
CLOCK_S = 2.0
"""Longest time for which a file system's clock may stand still: FAT has one of two seconds."""


@dataclass(frozen=True)
class _State:
    """The state of what lies at a path. No program can set ``changed_at`` back: the latest change of a file, in unix seconds."""

    size: int
    mtime: float
    changed_at: float
    files: tuple[tuple[object, ...], ...]


def read_arrays(name: str) -> list[tuple[Decoded, ArrayFile]]:
    """The array that a name means, as the library of the file's format gives it, and the file as it was read.

    Args:
        name: the file's path, with the array's name where it has several; of an ``.npz`` file without one all.

    Raises:
        OSError: the file can't be read.
        ArrayLineageError: it is no such file, has no such array, changed while it was read, or the library is missing.
        UntracedError: the array's cells are no values, or no checksum of the file binds them.
    """
    path, member = split_name(name)
    before = _state_of(path)
    checksum = checksum_of(path)
    arrays = [decoded_tree(path)] if is_folder(path) else _decoded_file(path, member)
    # Clocks of file systems stand still for milliseconds: of what has changed right now, they may not show another change.
    is_recent = time.time() - before.changed_at < CLOCK_S
    if _state_of(path) != before or (is_recent and checksum_of(path) != checksum):
        raise ArrayLineageError(f"{path} changed while it was read: read it again")
    file = ArrayFile(os.path.realpath(path), before.size, before.mtime, checksum)
    return [(one, replace(file, member=one.member)) for one in arrays]


def _decoded_file(path: str, member: str) -> list[Decoded]:
    with open_file(path) as file:
        return decoded(path, file, member)


def is_folder(path: str) -> bool:
    """Whether what lies at a path is an array in a folder of its own."""
    return is_tree(path) and os.path.isdir(path)


def version_at(path: str) -> tuple[int, float]:
    """Size and time of what lies at a path; of a folder the sum, and the latest.

    Raises:
        OSError, ArrayLineageError: there is nothing, or it can't be read.
    """
    state = _state_of(path)
    return state.size, state.mtime


def checksum_of(path: str) -> str:
    """The checksum of what lies at a path: of a file's bytes, or of all files of a folder.

    Raises:
        OSError, ArrayLineageError: it can't be read.
        BudgetError: the question that it is read for takes too long.
    """
    if is_folder(path):
        return tree_checksum(path)
    return file_checksum(path)


def _state_of(path: str) -> _State:
    if is_folder(path):
        files = tree_files(path)
    else:
        status = os.stat(path)
        files = (TreeFile.of("", status),)
    return _State(
        sum(file.size for file in files),
        max((file.mtime for file in files), default=0.0),
        max((file.changed_ns for file in files), default=0) / 1e9,
        tuple(files),
    )


def _described(path: str, content: bytes | memoryview, status: os.stat_result) -> ArrayFile:
    checksum = sha256_of([content])
    return ArrayFile(os.path.realpath(path), status.st_size, status.st_mtime, checksum)


def holds(decoded_array: Decoded, value: AnyArray) -> bool:
    """Whether an array that was read from a file is one that a program wrote there: cell by cell the same value, but for how numbers are stored.

    Numbers of fewer digits are those of the file's type; of a file that has whole numbers in place of values two values are
    the same where they are no further apart than those of two such numbers.
    """
    stored = decoded_array.values
    if stored.shape != value.shape:
        return False
    kinds = stored.dtype.kind + value.dtype.kind
    if not set(kinds) <= set("biufc"):
        return bool(np.array_equal(stored, value))
    if decoded_array.step:
        step = decoded_array.step * (1 + 1e-6)
        return bool(np.allclose(stored, value, rtol=1e-6, atol=step, equal_nan=True))
    if kinds in {"ff", "cc"}:
        with np.errstate(over="ignore", invalid="ignore"):
            value = value.astype(stored.dtype)
    return bool(np.array_equal(stored, value, equal_nan=set(kinds) <= set("fc")))


def save_arrays(
    flow: Workflow, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Do what a function of `SAVING` does, and record the traced arrays as outputs under the file's name.

    Values leave the workflow by it, too: a program may read them again without lineage.

    Raises:
        OSError: the file can't be written; then nothing is recorded.
    """
    flow.check_leak(name_of(function))
    words = inspect.signature(function).bind(*args, **kwargs)
    target = words.arguments["file"]
    if not isinstance(target, str | os.PathLike):
        flow.leak(name_of(function))
        function(*plain(args), **plain(kwargs))
        return
    path, ending = os.fsdecode(target), SAVING[function]
    path = path if path.endswith(ending) else path + ending
    if function is np.save:
        arrays = {"": words.arguments["arr"]}
    else:
        positional = words.arguments.get("args", ())
        arrays = {f"arr_{at}": array for at, array in enumerate(positional)}
        arrays |= words.arguments.get("kwds", {})
    buffer = io.BytesIO()
    words.arguments["file"] = buffer
    function(*plain(words.args), **plain(words.kwargs))
    content = buffer.getbuffer()
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        written = _described(path, content, os.fstat(file.fileno()))
    flow.leak(name_of(function))
    for member, array in arrays.items():
        if isinstance(array, Operand):
            file_of = ArrayFile(written.path, written.size, written.mtime, written.checksum, member)
            flow.outputs.append(Output(array_name(path, member), array.node, file_of))
