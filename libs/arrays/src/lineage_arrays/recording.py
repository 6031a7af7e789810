"""The way in for plain NumPy code: name the arrays that come from outside, compute, ask."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lineage_arrays.binding import bind_file, write_frame
from lineage_arrays.calls import operands
from lineage_arrays.cells import Cells
from lineage_arrays.collecting import Collected, answer_of, answered_values, collected_values
from lineage_arrays.constants import attributes, rows_in
from lineage_arrays.errors import ArrayLineageError, UntracedError
from lineage_arrays.files import read_arrays
from lineage_arrays.formats.names import array_name, grows, is_numpy, split_name
from lineage_arrays.indexing import read
from lineage_arrays.mappings import SamePositions
from lineage_arrays.operators.graph import decided_axes, default_of, run_operator
from lineage_arrays.operators.operator import Operator
from lineage_arrays.operators.strategies import Strategy
from lineage_arrays.querying import CellTrace, backward, forward
from lineage_arrays.traced import TracedArray
from lineage_arrays.workflow import ArrayFile, Input, Operand, Output, Workflow
from lineage_core.answers import ANSWERS
from lineage_core.errors import LineageError

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
        ANSWERS.want(self)
        self.flow = Workflow()
        self._sources: dict[str, Operand] = {}

    def source(self, name: str, array: npt.ArrayLike, *, apart: bool = False) -> TracedArray:
        """An array that comes from outside, under a name. Its values are copied: the program may write to its own.

        Where an action of a captured Spark has given the program rows before, these may be in it, and traces that come to it say so
        (`rows_of` links what an action gave). An array with the very memory of what ``toPandas`` or ``toArrow`` gave
        (``frame["x"].to_numpy()``) is linked to its rows.

        Args:
            name: of the source.
            array: its values.
            apart: nothing of what actions gave is in it. That is believed.

        Raises:
            ArrayLineageError: the name is taken.
            UntracedError: a masked array, or one of objects.
        """
        self._check_name(name)
        if any(True for _ in operands(array)):
            raise ArrayLineageError(f"{name!r} is traced: what it was made from would be lost")
        values = array if isinstance(array, np.ndarray) else np.asarray(array)
        answer = None if apart else answer_of(values)
        if answer is not None:
            # Where its rows can't be traced it is as any array after an action.
            with suppress(LineageError):
                return self._of_rows(name, answered_values(name, values, None, answer))
        may_hold = "" if apart else self.flow.rows_before
        return self._source(name, values.copy(order="K"), may_hold)

    def rows_of(
        self, name: str, collection: Any, columns: Sequence[str] | None = None
    ) -> TracedArray:
        """An array of rows that Spark gave, with their lineage: it is a source.

        Of a DataFrame or an RDD this is the action: what is along the array's first axis are the rows that it gave, in their order. What an action gave
        the program is taken as it is, if the recording was made before the action.

        Args:
            name: of the source.
            collection: one of

                - under `lineage run` a DataFrame, or an RDD of numbers, texts, or equally long lists of them; of a ``LineageContext``
                  such an RDD, or ``lc.rdd(frame)``;
                - the DataFrame of pandas that ``toPandas`` gave, unchanged, or the table that ``toArrow`` gave;
                - an array with the memory of one of their columns (``frame["x"].to_numpy()``, of numbers or truth values);
                - the list that ``collect``, ``take``, ``head`` or ``tail`` of a DataFrame gave, or ``collect``, ``top``, ``takeOrdered`` or ``takeSample``
                  of an RDD; or a list of some of its rows, in any order: the very tuples (rows are) or floating-point numbers that it gave.
            columns: of a DataFrame (or of ``lc.rdd(frame)``), those that become columns of the array, in this order; None: all.

        Raises:
            ArrayLineageError: the name is taken, nothing captures the collection, it is not what one action gave, or it has no such columns.
            UntracedError: the rows make no array of numbers, truth values or texts (NULL, times, texts beside numbers, other types), or whole
                numbers beside floating-point ones would be rounded.
            LineageError: capture has ended, or rows of the DataFrame can't be traced.
        """
        self._check_name(name)
        return self._of_rows(name, collected_values(name, collection, columns))

    def _of_rows(self, name: str, collected: Collected) -> TracedArray:
        traced = self._source(name, collected.values)
        self.flow.rows_collected[traced.node.number] = collected.rows
        if collected.taken is None:
            return traced
        values = traced.current[collected.taken]
        inputs = read(traced, collected.taken, values)
        return TracedArray(self.flow, values, "rows_of", inputs)

    def _check_name(self, name: str) -> None:
        if not name or name in self._sources:
            raise ArrayLineageError(
                f"{name!r} is empty, or taken: each source has a name of its own"
            )

    def _source(self, name: str, values: npt.NDArray[Any], may_hold: str = "") -> TracedArray:
        traced = TracedArray(self.flow, values, "source", [], name=name, may_hold=may_hold)
        self._sources[name] = Operand(self.flow, traced.node, traced.current)
        return traced

    def run(
        self, operator: Operator, *arrays: TracedArray, strategies: Sequence[Strategy] = ()
    ) -> TracedArray:
        """Run an operator over arrays of this recording.

        Args:
            operator: computes in `Operator.run`, and says what its output is made from.
            arrays: its operands.
            strategies: how its lineage is kept; by default by its mapping functions where it has some, else not at all: a trace runs it again.

        Raises:
            ArrayLineageError: an array belongs to another recording.
            ModeError: it does not support a strategy, or writes lineage that is not valid.
            UntracedError: an operand is no traced array.
        """
        for array in arrays:
            self._check(array)
        operands = tuple(Operand(self.flow, array.node, array.current) for array in arrays)
        ran = run_operator(operator, operands, strategies or default_of(operator))
        name = operator.name or type(operator).__name__
        axes = decided_axes(operator, ran.output)
        may_hold = rows_in(self.flow, attributes(operator))
        return TracedArray(
            self.flow,
            ran.output,
            name,
            ran.inputs,
            constants=True,
            decided_axes=axes,
            decided_width=True,
            may_hold=may_hold,
            entire_array=operator.entire_array,
        )

    def load(self, name: str | os.PathLike[str]) -> Any:
        """Read an array of a file, with lineage: it is a source, under the name of the file.

        It is bound to the bytes that were read, and has the coordinates that the library of the file's format gives it (NumPy,
        h5py, netCDF4, astropy.io.fits, Pillow, zarr). What this recording saved before (``np.save``, `saved`) keeps the lineage that it had.

        Args:
            name: the path of the file, and where it has several arrays the name of one: ``spectra.npz/flux``, ``data.h5/group/flux``,
                ``x.nc/flux``, ``image.fits[1]`` (the number of the unit), ``frames.tif/0``, ``cube.zarr/flux``.

        Returns:
            A traced array; of an ``.npz`` file without a name a dictionary of them.

        Raises:
            OSError: the file can't be read.
            ArrayLineageError: it is no such file, has no such array, changed while it was read, or the library is missing.
            UntracedError: it holds objects, or has its cells in other files.
        """
        path, one_of = split_name(os.fspath(name))
        loaded = {
            file.member: self._loaded(path, array.values, file)
            for array, file in read_arrays(os.fspath(name))
        }
        is_archive = not one_of and is_numpy(path) and "" not in loaded
        return loaded if is_archive else next(iter(loaded.values()))

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
        self._check_appended(path, file)
        return self._read(path, values, file)

    def _check_appended(self, path: str, file: ArrayFile) -> None:
        """See that an array of a file which this recording saved does not come back as one from outside: more was added to the file since."""
        for output in self.flow.outputs:
            saved = output.file
            if saved is None or not grows(file.path, file.member):
                continue
            if (saved.path, saved.member) == (file.path, file.member):
                raise ArrayLineageError(
                    f"{path} has been written to since {output.name} was saved: save it again before it is read, or go on with the array itself"
                )

    def _read(self, path: str, values: npt.NDArray[Any], file: ArrayFile) -> TracedArray:
        """The array of a file as a source."""
        name = array_name(path, file.member)
        versions = sum(taken.partition(" (version ")[0] == name for taken in self._sources)
        traced = self._source(f"{name} (version {versions + 1})" if versions else name, values)
        self.flow.files_read[traced.node.number] = file
        return traced

    def saved(self, name: str | os.PathLike[str], array: TracedArray) -> None:
        """Bind an array to the file that the program has written it to, by whatever library. The file is closed by now.

        It is read again: it must hold the array's values at the same coordinates. What is written to the file later makes another
        version of it: call this at the end. Files that ``np.save`` and its like write are bound without it.

        Args:
            name: of the array in the file, as for `load`.
            array: of this recording.

        Raises:
            OSError, UntracedError: as `load`.
            ArrayLineageError: as `load`; the file holds other values; or the array belongs to another recording.
        """
        self._check(array)
        bind_file(os.fspath(name), array)

    def frame(
        self,
        spark: Any,
        path: str | os.PathLike[str],
        array: TracedArray,
        columns: Sequence[str] | None = None,
    ) -> Any:
        """A DataFrame of an array: one row for each along its first axis. The array is written to a new file of Parquet, which Spark reads.

        Traces of rows go on by that file, so it must be there as long as they do; store the recording
        (:func:`lineage_arrays.saved.store_recording`), too.

        Args:
            spark: a ``SparkSession``; what it makes of the DataFrame is captured as all else.
            path: of the file, which ends in ``.parquet``, and is not there yet.
            array: of this recording, with one axis, or with two and several columns; of numbers, truth values, times or texts.
            columns: names of the columns; None: ``_1``, ``_2`` and so on.

        Returns:
            The DataFrame. Its rows have no order but by what they hold.

        Raises:
            OSError: the file is there, or can't be written.
            ArrayLineageError: there are not as many names as columns; the array belongs to another recording, or can't be rows.
        """
        self._check(array)
        target = write_frame(os.fspath(path), array, columns)
        return spark.read.parquet(Path(target).as_uri())

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

    def back(
        self,
        array: TracedArray,
        where: Any = ...,
        *,
        choices: bool = False,
        until: Mapping[str, TracedArray] | None = None,
    ) -> CellTrace:
        """Which cells of the sources some cells of an array were made from.

        Args:
            array: of this recording.
            where: its cells: any index of NumPy, a mask, a region or cells; all of them.
            choices: where values chose among cells (a sort, a mask), all that took part and not the chosen ones alone.
            until: arrays at which the trace ends as at sources, by names for the answer. What the trace says of itself is about
                the way from there.

        Raises:
            CellError: the array has no such cells.
            ArrayLineageError: the array, or one of ``until``, belongs to another recording, or has the name of a source.
        """
        ends = until or {}
        for one in (array, *ends.values()):
            self._check(one)
        if taken := sorted(self._sources.keys() & ends.keys()):
            raise ArrayLineageError(f"{', '.join(taken)}: a source has this name")
        trace = backward(
            self.flow,
            array.node,
            Cells.of(array.shape, where),
            choices=choices,
            until={end.node.number: name for name, end in ends.items()},
        )
        known = {**self._sources, **ends}
        values = {name: known[name].current for name in trace.cells if name in known}
        return replace(trace, values=values)

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
        trace = forward(self.flow, start, cells, array.node, choices=choices)
        return replace(trace, values=dict.fromkeys(trace.cells, array.current))

    def _check(self, array: Any) -> None:
        if not isinstance(array, TracedArray):
            left = f"; values left by {self.flow.leaks[-1]}" if self.flow.leaks else ""
            raise UntracedError(
                f"{type(array).__name__} is no traced array{left}",
                "of a DataArray of xarray give its .data, of a Dask array what compute() gives; for functions that take values out name what "
                "comes back by recording.source(name, array)",
            )
        if array.flow is not self.flow:
            raise ArrayLineageError("the array belongs to another recording")
