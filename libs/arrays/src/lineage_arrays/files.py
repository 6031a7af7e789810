"""Files of arrays, bound to what was read and written: their bytes, not only their names."""

from __future__ import annotations

import inspect
import io
import os
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lineage_arrays.calls import name_of, plain
from lineage_arrays.errors import ArrayLineageError, UntracedError
from lineage_arrays.workflow import AnyArray, ArrayFile, Operand, Output, Workflow
from lineage_store.checksums import sha256_of

SAVING: Mapping[Callable[..., Any], str] = {
    np.save: ".npy",
    np.savez: ".npz",
    np.savez_compressed: ".npz",
}
"""Functions that write files of arrays, and how the names of these end."""
SEVERAL = ".npz"
"""How the name of a file of several arrays ends; each of them is its ``PATH.npz/NAME``."""


def array_name(path: str, member: str) -> str:
    """How people call an array in a file."""
    return f"{path}/{member}" if member else path


def split_name(name: str) -> tuple[str, str]:
    """The path and the member of an array's name; the member is empty where the file has one array."""
    before, ending, member = name.rpartition(f"{SEVERAL}/")
    return (before + SEVERAL, member) if ending and member else (name, "")


def read_arrays(path: str) -> tuple[dict[str, AnyArray], ArrayFile]:
    """The arrays of a ``.npy`` or ``.npz`` file by their names in it, and the file as it was read.

    Raises:
        OSError: it can't be read.
        ArrayLineageError: it is no such file, or changed while it was read.
        UntracedError: it holds objects.
    """
    with open(path, "rb") as file:
        before = os.fstat(file.fileno())
        content = file.read()
        after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or len(
        content
    ) != after.st_size:
        raise ArrayLineageError(f"{path} changed while it was read: read it again")
    return _loaded(path, content), _described(path, content, after)


def _loaded(path: str, content: bytes) -> dict[str, AnyArray]:
    if not content.startswith((np.lib.format.MAGIC_PREFIX, b"PK")):
        raise ArrayLineageError(f"{path} is no .npy or .npz file")
    try:
        loaded = np.load(io.BytesIO(content), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        return {member: loaded[member] for member in loaded.files}
    except (ValueError, EOFError, KeyError, OSError, zipfile.BadZipFile) as error:
        if "allow_pickle" in str(error):
            raise UntracedError(
                f"{path} holds objects", "np.load it, and name its numbers by recording.source"
            ) from error
        raise ArrayLineageError(f"{path} can't be read: {error}") from error


def _described(path: str, content: bytes | memoryview, status: os.stat_result) -> ArrayFile:
    checksum = sha256_of([content])
    return ArrayFile(os.path.realpath(path), status.st_size, status.st_mtime, checksum)


def save_arrays(
    flow: Workflow, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Do what a function of `SAVING` does, and record the traced arrays as outputs under the file's name.

    Values leave the workflow by it, too: a program may read them again without lineage.

    Raises:
        OSError: the file can't be written; then nothing is recorded.
    """
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
