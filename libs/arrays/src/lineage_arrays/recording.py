"""The way in for plain NumPy code: name the arrays that come from outside, compute, ask."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lineage_arrays.calls import operands
from lineage_arrays.cells import Cells
from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.querying import CellTrace, backward, forward
from lineage_arrays.traced import TracedArray
from lineage_arrays.workflow import Operand, Workflow


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
        traced = TracedArray(self.flow, values.copy(order="K"), "source", [], name=name)
        self._sources[name] = Operand(self.flow, traced.node, traced.value)
        return traced

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
