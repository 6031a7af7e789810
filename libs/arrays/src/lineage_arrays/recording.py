"""The way in for plain NumPy code: name the arrays that come from outside, compute, ask."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lineage_arrays.calls import operands
from lineage_arrays.cells import Cells
from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.files import array_name, read_arrays
from lineage_arrays.mappings import SamePositions
from lineage_arrays.querying import CellTrace, backward, forward
from lineage_arrays.traced import TracedArray
from lineage_arrays.workflow import ArrayFile, Input, Operand, Output, Workflow

EQUAL_BYTES = "a file with the bytes of one that was saved counts as its copy"


class Recording:
    """One run of ordinary NumPy code over named arrays.

    >>> recording = Recording()
    >>> image = recording.source("image.npy", np.arange(12.0).reshape(3, 4))
    >>> smooth = (image[:, 1:] + image[:, :-1]) / 2
    >>> recording.back(smooth, np.s_[1, 2]).cells["image.npy"].coordinates().tolist()
    [[1, 2], [1, 3]]
    """

    def __init__(self) -> None:
        self.flow = Workflow()
        self._sources: dict[str, Operand] = {}

    def source(self, name: str, array: npt.ArrayLike) -> TracedArray:
        """An array that comes from outside, under a name. Its values are copied: the program may write to its own.

        Raises:
            ArrayLineageError: the name is taken.
            UntracedError: a masked array, or one of objects.
        """
        if not name or name in self._sources:
            raise ArrayLineageError(
                f"{name!r} is empty, or taken: each source has a name of its own"
            )
        if any(True for _ in operands(array)):
            raise ArrayLineageError(f"{name!r} is traced: what it was made from would be lost")
        values = array if isinstance(array, np.ndarray) else np.asarray(array)
        return self._source(name, values.copy(order="K"))

    def _source(self, name: str, values: npt.NDArray[Any]) -> TracedArray:
        traced = TracedArray(self.flow, values, "source", [], name=name)
        self._sources[name] = Operand(self.flow, traced.node, traced.value)
        return traced

    def load(self, path: str | os.PathLike[str]) -> Any:
        """Read a file as ``np.load`` does, with lineage: its arrays are sources, under the names of the file.

        They are bound to the bytes that were read. What this recording saved before (``np.save``, ``np.savez``) keeps the lineage that it had.

        Args:
            path: of a ``.npy`` or ``.npz`` file.

        Returns:
            A traced array; of an ``.npz`` file a dictionary of them.

        Raises:
            OSError: the file can't be read.
            ArrayLineageError: it is no such file, or changed while it was read.
            UntracedError: it holds objects.
        """
        arrays, file = read_arrays(os.fspath(path))
        loaded = {
            member: self._loaded(os.fspath(path), values, replace(file, member=member))
            for member, values in arrays.items()
        }
        return loaded.get("", loaded)

    def _loaded(self, path: str, values: npt.NDArray[Any], file: ArrayFile) -> TracedArray:
        flow = self.flow
        same_bytes = [
            (output.file, output.node)
            for output in reversed(flow.outputs)
            if output.file is not None and output.file.holds_same(file)
        ]
        known = [node for other, node in same_bytes if file.is_same_file(other)]
        known += [flow.nodes[at] for at, other in flow.files_read.items() if other == file]
        if known or same_bytes:
            node, superset = (known[0], "") if known else (same_bytes[0][1], EQUAL_BYTES)
            through = SamePositions(values.shape, values.shape)
            inputs = [Input(Operand(flow, node, values), through, superset)]
            if superset:
                # It may as well come from outside.
                inputs.append(Input(self._read(path, values, file), through))
            return TracedArray(flow, values, "load", inputs)
        return self._read(path, values, file)

    def _read(self, path: str, values: npt.NDArray[Any], file: ArrayFile) -> TracedArray:
        """The array of a file as a source."""
        name = array_name(path, file.member)
        versions = sum(taken.partition(" (version ")[0] == name for taken in self._sources)
        traced = self._source(f"{name} (version {versions + 1})" if versions else name, values)
        self.flow.files_read[traced.node.number] = file
        return traced

    def output(self, name: str, array: TracedArray) -> None:
        """Give an array a name, under which its cells are asked for when the recording is stored (:func:`lineage_arrays.saved.store_recording`).

        An array that ``np.save`` writes has the name of its file.

        Raises:
            ArrayLineageError: the name is empty, or the array belongs to another recording.
        """
        self._check(array)
        if not name:
            raise ArrayLineageError("an output has a name")
        self.flow.outputs.append(Output(name, array.node))

    def back(self, array: TracedArray, where: Any = ..., *, choices: bool = False) -> CellTrace:
        """Which cells of the sources some cells of an array were made from.

        Args:
            array: of this recording.
            where: its cells: any index of NumPy, a mask, a region or cells; all of them.
            choices: where values chose among cells (a sort, a mask), all that took part and not the chosen ones alone.

        Raises:
            CellError: the array has no such cells.
            ArrayLineageError: the array belongs to another recording.
        """
        self._check(array)
        return backward(self.flow, array.node, Cells.of(array.shape, where), choices=choices)

    def forward(
        self, source: str, array: TracedArray, where: Any = ..., *, choices: bool = False
    ) -> CellTrace:
        """Which cells of an array some cells of a source went into.

        Args:
            source: the name of the source.
            array: of this recording.
            where: the source's cells, as in :meth:`back`.
            choices: as in :meth:`back`.

        Raises:
            CellError: the source has no such cells.
            ArrayLineageError: there is no such source, or the array was not made from it.
        """
        self._check(array)
        if source not in self._sources:
            raise ArrayLineageError(f"no source {source!r}: {', '.join(self._sources) or 'none'}")
        start = self._sources[source].node
        cells = Cells.of(start.shape, where)
        return forward(self.flow, start, cells, array.node, choices=choices)

    def _check(self, array: TracedArray) -> None:
        if array.flow is not self.flow:
            raise ArrayLineageError("the array belongs to another recording")
