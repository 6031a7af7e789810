"""Rows of DataFrames that reach the program, and that something in it goes on with: arrays, say.

While somebody may ask for them (`lineage_core.answers`), an action that gives rows runs over rows with names
(:mod:`lineage_emitter.dataframes.naming`), in that one run. The program gets its rows without the names, and traces
begin at these, through a recipe that is recorded as that of ``DataFrame.rdd``.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lineage_core.answers import ANSWERS, Answer, LinkedRows, is_fixed
from lineage_core.contract.address import named_space
from lineage_core.contract.collected import CollectedRows
from lineage_core.recipe.names import ROW_NAME, TO_RDD
from lineage_emitter import scope
from lineage_emitter.dataframes import catalog, iceberg, topics
from lineage_emitter.dataframes.current_time import TIME_CALL
from lineage_emitter.dataframes.hooks import ActionCall, record_action
from lineage_emitter.dataframes.jvm import analysed_text, explicit_settings
from lineage_emitter.dataframes.naming import named_rows
from lineage_emitter.dataframes.outputs import Target
from lineage_emitter.dataframes.own_commits import OwnCommits
from lineage_emitter.dataframes.stream_frames import QUERY_ID
from lineage_emitter.driver.driver_sinks import DriverSink
from lineage_emitter.errors import TracingError
from lineage_emitter.failures import in_words
from lineage_emitter.session.nodes import Node
from lineage_emitter.worker.inband_addresses import AddressRanges
from lineage_emitter.worker.recorders import FLOWS_MAX, DenseRecorder
from lineage_emitter.worker.segment import Numbering

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lineage_emitter.scope import Operator
    from lineage_emitter.session.session import Session


def run_with_names(
    session: Session,
    running: Operator,
    stock: Callable[..., Any],
    frame: DataFrame,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
) -> Any:
    """Run an action that gives rows, over rows with names where they can have some, and keep its answer.

    Args:
        session: captures it.
        running: the action.
        stock: PySpark's own method.
        frame: what it was called on.
        arguments: by place.
        keywords: by name.

    Returns:
        What the action gives the program.
    """
    what, columns = scope.running_site(), tuple(frame.columns)
    try:
        action = _named_call(session, frame)
    except Exception as problem:
        given = stock(frame, *arguments, **keywords)
        _keep(given, _UnnamedRows(what, columns, in_words(problem)))
        return given
    given, names = without_names(stock(action.frame, *arguments, **keywords))
    if given is None or isinstance(given, tuple):
        # One row, or none: nobody asks for it.
        return given
    recipe_node = record_action(session, replace(running, name=TO_RDD), action, OwnCommits())
    if recipe_node is None:
        _keep(given, _UnnamedRows(what, columns, "its plan could not be recorded"))
    else:
        node = Node(recipe_node)
        _keep(given, _NamedRows(what, columns, session, running, node, names))
    return given


def _named_call(session: Session, frame: DataFrame) -> ActionCall:
    """The action over rows with names.

    Raises:
        Exception: its rows can't be named, or what it reads can't be told from outside of the action.
    """
    if session.set_aside.is_on:
        raise ValueError("rows that fail are set aside")
    if frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID) is not None:
        raise ValueError("it is an action within foreachBatch")
    if TIME_CALL.search(analysed_text(frame)):
        raise ValueError("its plan has the time at which it runs")
    settings = explicit_settings(frame.sparkSession)
    if iceberg.is_used(settings) or topics.read_now(frame):
        raise ValueError(
            "with tables of Iceberg, and with topics, rows are linked by DataFrame.rdd"
        )
    named = named_rows(frame)
    return ActionCall(named, Target("driver", TO_RDD), settings, catalog.listed(named))


def _keep(given: Any, answer: RowsOfFrame) -> None:
    """Keep an answer. What can't be kept can't be asked for; the program has it all the same."""
    with contextlib.suppress(Exception):
        if isinstance(given, list):
            ANSWERS.keep_list(given, answer)
        elif given is not None:
            answer.remember(given)
            ANSWERS.keep_object(given, answer)


def without_names(given: Any) -> tuple[Any, array[int]]:
    """An answer without its last column, and that column: the names of its rows.

    Args:
        given: a list of rows, a row, None, a DataFrame of pandas or a table of Arrow.
    """
    names = array("q")
    if given is None:
        return None, names
    if isinstance(given, tuple):
        return _rows_without_names([given], names)[0], names
    if isinstance(given, list):
        return _rows_without_names(given, names), names
    if hasattr(given, "remove_column"):
        names.frombytes(given.column(ROW_NAME).to_numpy().astype("int64").tobytes())
        return given.remove_column(given.num_columns - 1), names
    names.frombytes(given.pop(ROW_NAME).to_numpy("int64").tobytes())
    return given, names


def _rows_without_names(rows: Sequence[Any], names: array[int]) -> list[Any]:
    if not rows:
        return []
    kind, new = type(rows[0]), tuple.__new__
    fields = rows[0].__fields__[:-1]
    given = []
    for row in rows:
        names.append(row[-1])
        own = new(kind, row[:-1])
        own.__fields__ = fields
        given.append(own)
    return given


class RowsOfFrame(Answer):
    """Rows of a DataFrame that an action gave."""

    def __init__(self, what: str, columns: tuple[str, ...]) -> None:
        super().__init__(what, columns)
        self._state: FrameState | None = None

    def remember(self, given: Any) -> None:
        """Remember what is in a DataFrame of pandas; a table of Arrow is never written to."""
        if hasattr(given, "iloc"):
            self._state = FrameState(given)

    def has_changed(self, given: Any) -> bool:
        return self._state is not None and not self._state.is_of(given)

    def columns_in(self, given: Any, part: Any) -> Sequence[int] | None:
        if not isinstance(part, np.ndarray) or part.dtype.kind not in "biuf" or not part.size:
            return None
        is_pandas = hasattr(given, "iloc")
        if len(part) != len(given):
            return None
        places = range(len(self.columns or ()))
        if part.ndim == 2:
            is_all = is_pandas and len(set(given.dtypes)) == 1 and _is_memory_of(given, part)
            return places if is_all else None
        for place in places:
            column = given.iloc[:, place] if is_pandas else given.column(place)
            if _is_of_type(column, part.dtype) and _is_memory_of(column, part):
                return (place,)
        return None


def _is_of_type(column: Any, dtype: np.dtype[Any]) -> bool:
    """Whether ``to_numpy`` gives a column in a type without a copy, as far as can be said without it."""
    if not hasattr(column, "num_chunks"):
        return bool(column.dtype == dtype)
    names = {"float": "float32", "double": "float64", "halffloat": "float16"}
    name = str(column.type)
    return column.num_chunks == 1 and names.get(name, name) == dtype.name


def _is_memory_of(columns: Any, part: npt.NDArray[Any]) -> bool:
    """Whether an array is what ``to_numpy`` gave of columns, without a copy."""
    return _is_same_memory(columns.to_numpy(), part)


def _is_same_memory(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    return bool(
        one.__array_interface__["data"][0] == other.__array_interface__["data"][0]
        and (one.shape, one.strides, one.dtype) == (other.shape, other.strides, other.dtype)
    )


class FrameState:
    """What is in a DataFrame of pandas: its names and types, hashes of its numbers and texts, the very objects, and where columns lie.

    What a column was replaced by lies elsewhere, as what was there is held. A write in place that leaves equal values is not seen.
    """

    def __init__(self, frame: Any) -> None:
        self._types = _types_of(frame)
        self._hashes = _hashes_of(frame)
        self._objects = [column.to_numpy().copy() for column in _columns(frame, objects=True)]
        self._is_fixed = all(map(is_fixed, itertools.chain.from_iterable(self._objects)))
        self._memory = _memory_of(frame)

    def is_of(self, frame: Any) -> bool:
        """Whether the DataFrame is as it was."""
        if not self._is_fixed or _types_of(frame) != self._types:
            return False
        columns = [column.to_numpy() for column in _columns(frame, objects=True)]
        pairs = zip(columns, self._objects, strict=True)
        if not all(
            len(now) == len(before) and all(map(operator.is_, now, before)) for now, before in pairs
        ):
            return False
        return (
            all(map(_is_at, _memory_of(frame), self._memory)) and _hashes_of(frame) == self._hashes
        )


def _columns(frame: Any, *, objects: bool) -> list[Any]:
    """The columns of objects, or all others."""
    places = [
        place for place, kind in enumerate(frame.dtypes) if (kind == np.dtype(object)) is objects
    ]
    return [frame.iloc[:, place] for place in places]


def _types_of(frame: Any) -> object:
    return tuple(frame.columns), tuple(map(str, frame.dtypes))


def _hashes_of(frame: Any) -> list[bytes]:
    from pandas.util import hash_pandas_object

    columns = [frame.index.to_series(), *_columns(frame, objects=False)]
    return [hash_pandas_object(column, index=False).to_numpy().tobytes() for column in columns]


def _memory_of(frame: Any) -> list[npt.NDArray[Any] | None]:
    """The arrays of columns; None for one that is copied each time that it is asked for."""
    return [_own_array(frame.iloc[:, place]) for place in range(frame.shape[1])]


def _own_array(column: Any) -> npt.NDArray[Any] | None:
    if not isinstance(column.dtype, np.dtype):
        return None
    values: npt.NDArray[Any] = column.to_numpy()
    return values if _is_same_memory(column.to_numpy(), values) else None


def _is_at(now: npt.NDArray[Any] | None, before: npt.NDArray[Any] | None) -> bool:
    if now is None or before is None:
        return now is before
    return _is_same_memory(now, before)


class _UnnamedRows(RowsOfFrame):
    """Rows that can't be traced."""

    def __init__(self, what: str, columns: tuple[str, ...], reason: str) -> None:
        super().__init__(what, columns)
        self._reason = reason

    def link(self, positions: Sequence[int]) -> LinkedRows:
        raise TracingError(f"rows of {self.what} can't be traced: {self._reason}")


class _NamedRows(RowsOfFrame):
    """Rows with names.

    Args:
        what, columns: as of any answer.
        session: that captured the action.
        running: the action.
        recipe_node: the node whose recipe the rows are named by.
        names: of the rows, in their order.
    """

    def __init__(
        self,
        what: str,
        columns: tuple[str, ...],
        session: Session,
        running: Operator,
        recipe_node: Node,
        names: array[int],
    ) -> None:
        super().__init__(what, columns)
        self._session = session
        self._running = running
        self._recipe_node = recipe_node
        self._names = names
        self._lock = threading.Lock()
        self._source: Node | None = None

    def link(self, positions: Sequence[int]) -> LinkedRows:
        """Record the rows as items of a sink of their own, as records of ``DataFrame.rdd`` that were collected."""
        session = self._session
        if session.closed:
            raise TracingError(
                f"{session.app} does not capture any more: rows are linked before capture ends"
            )
        with self._lock, scope.resumed(self._running), ANSWERS.linking():
            if self._source is None:
                self._source = session.nodes.register("source", TO_RDD, alias="df.rdd")
                session.nodes.link(self._recipe_node, self._source)
            sink = session.nodes.register("sink", "collect", [self._source], alias="collect")
            with session.jobs.action("collect", sink, lambda: (0,)):
                source = self._source
                session.jobs.record_or_defer(lambda: self._record(source, sink, positions))
        rows = CollectedRows(session.app, sink.name, (len(positions),))
        return LinkedRows(rows, positions)

    def _record(self, source: Node, sink: Node, positions: Sequence[int]) -> None:
        driver_sink = DriverSink(self._session, sink)
        segment = driver_sink.segment
        space = segment.space(source.name)
        recorder = DenseRecorder(
            segment, Numbering.of_space(named_space(source.name)), source.name, space
        )
        for start in range(0, len(positions), FLOWS_MAX):
            names = array("q", [self._names[at] for at in positions[start : start + FLOWS_MAX]])
            recorder.buffer.frombytes(names.tobytes())
            segment.guard(recorder.flush)
        ranges = AddressRanges()
        ranges.add(0, space, 0)
        driver_sink.finish(ranges, range(len(positions)))
