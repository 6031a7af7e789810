"""A Python function of a DataFrame that goes on without the rows it fails on.

``FailingRows.java`` writes a call of :func:`guarded` as the code of the function. Its value is then NULL on rows that it fails on, and a struct of
one field on all others; a filter above leaves out the former. What failed is reported by an accumulator, of accepted tasks alone: the
arguments, by which a recipe says which rows were left out.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from pyspark import TaskContext
from pyspark.serializers import CPickleSerializer
from pyspark.sql.types import StructField, StructType, TimestampType

from lineage_emitter.failures import ERROR_CHARS_MAX, add_note, in_words
from lineage_emitter.worker.row_batches import NotSetAsideError

KEPT = "__lineage_kept"
"""The one field of what a guarded function gives."""

REPLACED = "\ufffd"
"""In a text, it may stand for bytes that are none: other rows may hold other ones."""

RUNNING = "lineage.sets.aside"
"""The local property of jobs whose rows are set aside: the id of who does so."""

ARGUMENT_BYTES_MAX = 4_096
"""Of the arguments of one call: beyond, the row ends its task."""

UNNAMED = (ValueError, OverflowError, OSError)
"""Arguments have no texts by which rows can be told."""

Arguments = tuple[str | None, ...]
"""As texts: of a time its microseconds since 1970, of all others as Spark reads a constant; None is NULL."""


def guarded(
    reports: bytes, records_max: str, function: str, types: str, *chain: Any
) -> tuple[Callable[..., Any], StructType]:
    """What a worker of Spark runs for a function, and its type.

    Args:
        reports: the pickled accumulator, with the id that jobs have of which it may be.
        records_max: as many failures of this function in one task are set aside, the next one ends the task.
        function: its number in the plan.
        types: of its arguments, with ``|`` between.
        chain: name, type and code of each function, the innermost first: the next one gets its value.
    """
    functions, returns, _ = loaded_chain(chain)
    report = reports_of(reports, records_max, function, types)
    convert = returns.toInternal if returns.needConversion() else None
    return GuardedFunction(functions, convert, report), KeptType([StructField(KEPT, returns)])


def loaded_chain(chain: tuple[Any, ...]) -> tuple[list[Callable[..., Any]], Any, list[bytes]]:
    """The functions of a chain, the type of what the last one gives, and their pickles. ``chain``: as in :func:`guarded`."""
    serializer = CPickleSerializer()
    functions: list[Callable[..., Any]] = []
    pickles: list[bytes] = []
    returns: Any = None
    for code in chain[2::3]:
        pickled, loaded = code, serializer.loads(code)
        if hasattr(loaded, "value"):
            # A long one is a broadcast variable.
            pickled, loaded = loaded.value, serializer.loads(loaded.value)
        called, returns = loaded
        functions.append(called)
        pickles.append(pickled)
    return functions, returns, pickles


def reports_of(reports: bytes, records_max: str, function: str, types: str) -> Reports:
    """What a function sets aside in this task. Arguments as in :func:`guarded`."""
    accumulator, owner = CPickleSerializer().loads(reports)
    names = types.split("|") if types else []
    return Reports(accumulator, owner, int(function), names, int(records_max))


class KeptType(StructType):
    """The type of what a guarded function gives: its value is converted by then, and may be so once only."""

    def needConversion(self) -> bool:
        """Spark's worker is to take values as they are."""
        return False


class Reports:
    """What one function set aside in one task."""

    def __init__(
        self, accumulator: Any, owner: str, function: int, types: list[str], records_max: int
    ) -> None:
        self._accumulator = accumulator
        self._owner = owner
        self._function = function
        self._types = types
        self._records_max = records_max
        self._records = 0
        self._by_call: dict[Arguments, dict[str, Any]] = {}

    def add(self, values: tuple[Any, ...], problem: Exception) -> bool:
        """Report a failure; False: it ends the task, as rows with these arguments can't be named or reported, or there were too many."""
        try:
            return self.add_named(self._named(values), problem)
        except UNNAMED as unnamed:
            return refused(problem, f"not set aside: {unnamed}")

    def _named(self, values: tuple[Any, ...]) -> Arguments:
        named = zip(values, self._types, strict=True)
        return tuple([internal_text(value, kind) for value, kind in named])

    @property
    def has_calls(self) -> bool:
        """Whether the function failed in this task."""
        return bool(self._by_call)

    def check_passed(self, arguments: Arguments) -> None:
        """Take a call that did not fail.

        Raises:
            NotSetAsideError: another one with the same arguments did, and its row was set aside: a recipe could not tell the two rows.
        """
        call = self._by_call.get(arguments)
        if call is not None:
            raise NotSetAsideError(
                "a Python function failed on a row, and not on another row with the same arguments: "
                f"its rows can't be set aside, run without LINEAGE_QUARANTINE. It failed with {call['error']}"
            )

    def check_passed_values(self, values: tuple[Any, ...]) -> None:
        """`check_passed`, by the values of arguments."""
        with suppress(*UNNAMED):
            self.check_passed(self._named(values))

    def add_named(self, arguments: Arguments, problem: Exception, records: int = 1) -> bool:
        """`add`, by the texts of arguments; ``records``: of which the function failed."""
        context = TaskContext.get()
        if context is not None and context.getLocalProperty(RUNNING) != self._owner:
            return refused(problem, "not set aside: the job is of no recorded action that does so")
        if self._records + records > self._records_max:
            allows = "as many as" if records == 1 else f"and failed on {records:,}: more than"
            return refused(
                problem,
                f"the function had set aside {self._records:,} records of the task, {allows} LINEAGE_QUARANTINE allows",
            )
        size = sum(len(text.encode("utf-8")) for text in arguments if text is not None)
        if size > ARGUMENT_BYTES_MAX:
            return refused(problem, f"not set aside: its arguments have {size:,} bytes")
        self._records += records
        call = self._by_call.get(arguments)
        if call is None:
            call = {
                "function": self._function,
                "arguments": arguments,
                "error": in_words(problem, ERROR_CHARS_MAX),
                "stage": -1 if context is None else context.stageId(),
                "partition": -1 if context is None else context.partitionId(),
                "records": 0,
            }
            self._by_call[arguments] = call
            self._accumulator.add([call])
        # It is sent when the task has ended.
        call["records"] += records
        return True


def refused(problem: Exception, why: str) -> bool:
    """Have a failure that ends its task say why; False."""
    add_note(problem, why)
    return False


class GuardedFunction:
    """Functions that get each other's values, with what is to be done where one of them fails.

    ``convert``: gives a value as Spark's worker would have it behind the function, and fails on one that is none of its type.
    """

    def __init__(
        self,
        functions: list[Callable[..., Any]],
        convert: Callable[[Any], Any] | None,
        reports: Reports,
    ) -> None:
        self._first, *self._others = functions
        self._convert = convert
        self._reports = reports

    def __call__(self, *values: Any, **named: Any) -> tuple[Any] | None:
        try:
            value = self._first(*values, **named)
            for function in self._others:
                value = function(value)
            if self._convert is not None:
                value = self._convert(value)
        except StopIteration:
            raise
        except Exception as problem:
            if not self._reports.add((*values, *named.values()), problem):
                raise
            return None
        if self._reports.has_calls:
            self._reports.check_passed_values((*values, *named.values()))
        return (value,)


def internal_text(value: Any, kind: str) -> str | None:
    """The text of a value that a function got (`Arguments`).

    Raises:
        ValueError: rows can't be told by it.
    """
    if value is None:
        return None
    writer = _WRITERS.get(kind)
    if writer is not None:
        return writer(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | decimal.Decimal):
        return str(value)
    raise ValueError(f"a {type(value).__name__} can't be named as {kind}")


def _double(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _text(value: str) -> str:
    if REPLACED in value:
        raise ValueError("its text may be read from bytes that are none")
    return value


def _micros(value: datetime.datetime) -> str:
    micros = round(value.replace(microsecond=0).timestamp()) * 1_000_000 + value.microsecond
    again = TimestampType().fromInternal(micros)
    if (again, again.fold) != (value, value.fold):
        raise ValueError("its time can't be told from another one")
    return str(micros)


_WRITERS: Mapping[str, Callable[[Any], str]] = {
    "float": _double,
    "double": _double,
    "string": _text,
    "date": datetime.date.isoformat,
    "timestamp": _micros,
}
