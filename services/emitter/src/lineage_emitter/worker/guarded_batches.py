"""Python functions of a DataFrame that get rows by Arrow, and go on without the rows they fail on.

``FailingRows.java`` writes two functions in the place of one, which Spark's worker calls in turn on each batch. :func:`guarded_values` gives a value for each
row, on rows that the function fails on any one: values of the others stay of the very type that they have. :func:`kept_flags` says which rows these are,
for a filter above, and reports them by the arguments of their calls, as Spark made texts of them.

A function of one row is called on each row once. A function of a batch that fails is called again on halves of it, until the rows are found that it
fails on alone, and then on all others together: these values are what it gives where the failing rows are not. Each row that it fails on must make it fail
in company of these others, too, and no other row may have the same arguments: else it is no function of rows, and its failure ends the task.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import BooleanType

from lineage_emitter.worker.guarded_function import Reports, loaded_chain, refused, reports_of
from lineage_emitter.worker.row_batches import Batches, NotSetAsideError

ROWS, PANDAS, ARROW = 101, 200, 250
"""Spark's numbers of functions that get rows by Arrow: each row as Python's values, batches as Series of pandas, and as arrays of Arrow."""

ACCUMULATOR = b"_deserialize_accumulator"
"""In the pickle of a function that adds to an accumulator: what it adds when it is called again would be there twice."""


NOT_OF_ROWS = "the function fails on rows together that it does not fail on alone"
NOT_IN_COMPANY = "the function fails on a row alone that it does not fail on together with others"
OTHER_ERRORS = (
    "the function fails on all rows, and otherwise than before: it may remember its calls"
)

SEARCH_S_MAX = 300.0
"""Seconds for which the failing rows of one batch are searched: nobody waits for a job that calls a slow function thousands of times."""


@dataclass
class Failures:
    """What a function failed on in the batch at work, by the row's place."""

    by_place: dict[int, Exception]


_of_task: dict[str, Failures] = {}
"""By function: its two parts are loaded in turn, by the one worker of the task."""


def guarded_values(
    kind: str, records_max: str, function: str, types: str, *chain: Any
) -> tuple[Callable[..., Any], Any]:
    """What a worker of Spark runs for a function, and its type.

    Args:
        kind: how it gets rows, by Spark's number.
        records_max: where it fails on more rows of one batch, that ends the task.
        function: its number in the plan.
        types: of its arguments, with ``|`` between.
        chain: as in `lineage_emitter.worker.guarded_function.guarded`.
    """
    functions, returns, pickles = loaded_chain(chain)
    failures = _of_task[function] = Failures({})
    if int(kind) == ROWS:
        return GuardedRows(functions, failures, int(records_max)), returns
    may_repeat = not any(ACCUMULATOR in pickled for pickled in pickles)
    batches = batches_of(int(kind), types)
    return GuardedBatches(functions, batches, failures, int(records_max), may_repeat), returns


def kept_flags(
    kind: str, reports: bytes, records_max: str, function: str, types: str
) -> tuple[Callable[..., Any], BooleanType]:
    """What a worker runs behind :func:`guarded_values`, and its type: False on rows that are set aside. Arguments as there and in `guarded`."""
    report, failures = reports_of(reports, records_max, function, types), _of_task[function]
    if int(kind) == ROWS:
        return RowFlags(report, failures), BooleanType()
    return BatchFlags(report, failures, batches_of(int(kind), types)), BooleanType()


def batches_of(kind: int, types: str) -> Batches:
    """Batches of columns of these types, with ``|`` between. ``kind``: how functions get them, by Spark's number."""
    # Workers of other functions need none of these packages.
    if kind == PANDAS:
        from lineage_emitter.worker.pandas_batches import PandasBatches

        return PandasBatches(types.split("|"))
    from lineage_emitter.worker.arrow_batches import ArrowBatches

    return ArrowBatches()


def too_many(records_max: int) -> str:
    """Why no more rows of a batch are set aside."""
    return f"it fails on more than {records_max:,} records, as many as LINEAGE_QUARANTINE allows"


# -- rows ------------------------------------------------------------------------------------------


class GuardedRows:
    """Functions of a row that get each other's values. All rows of a batch come in order, then all their flags."""

    def __init__(
        self, functions: list[Callable[..., Any]], failures: Failures, records_max: int
    ) -> None:
        self._first, *self._others = functions
        self._failures = failures
        self._records_max = records_max
        self._thread = threading.get_ident()
        self._places = itertools.count()

    def __call__(self, *values: Any) -> Any:
        place = next(self._places)
        try:
            value = self._first(*values)
            for function in self._others:
                value = function(value)
        except StopIteration:
            raise
        except Exception as problem:
            if threading.get_ident() != self._thread:
                refused(problem, "not set aside: rows come in several threads")
                raise
            if len(self._failures.by_place) >= self._records_max:
                refused(problem, f"not set aside: {too_many(self._records_max)}")
                raise
            self._failures.by_place[place] = problem
            return None
        return value


class RowFlags:
    """The flag of each row, by the texts of its arguments."""

    def __init__(self, reports: Reports, failures: Failures) -> None:
        self._reports = reports
        self._failures = failures
        self._places = itertools.count()

    def __call__(self, *texts: str | None) -> bool:
        problem = self._failures.by_place.pop(next(self._places), None)
        if problem is None:
            self._reports.check_passed(texts)
            return True
        if not self._reports.add_named(texts, problem):
            raise problem
        return False


# -- batches ---------------------------------------------------------------------------------------


class GuardedBatches:
    """Functions of a batch that get each other's values."""

    def __init__(
        self,
        functions: list[Callable[..., Any]],
        batches: Batches,
        failures: Failures,
        records_max: int,
        may_repeat: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._first, *self._others = functions
        self._batches = batches
        self._failures = failures
        self._records_max = records_max
        self._may_repeat = may_repeat
        self._clock = clock
        self._until = 0.0

    def __call__(self, *columns: Any) -> Any:
        self._failures.by_place = {}
        # It gets Spark's own, which it may be unable to change, or share with other functions, as without capture: the copies are for further calls.
        copies = self._batches.copied(columns)
        try:
            return self._called(columns)
        except StopIteration:
            raise
        except Exception as problem:
            try:
                return self._without_failing(copies, problem)
            except NotSetAsideError as why:
                refused(problem, f"not set aside: {why}")
            raise

    def _called(self, columns: Sequence[Any]) -> Any:
        values = self._first(*columns)
        for function in self._others:
            values = function(values)
        return values

    def _repeated(self, columns: Sequence[Any], places: Sequence[int]) -> Any:
        """What the function gives on some rows alone."""
        if self._clock() > self._until:
            raise NotSetAsideError(
                f"the rows that it fails on were not found within {SEARCH_S_MAX:g} seconds"
            )
        values = self._called(self._batches.taken(columns, places))
        if not self._batches.is_of(values, len(places)):
            raise NotSetAsideError("the function gives no value for each row")
        return values

    def _without_failing(self, columns: Sequence[Any], problem: Exception) -> Any:
        if not self._may_repeat:
            raise NotSetAsideError("the function adds to an accumulator")
        self._until = self._clock() + SEARCH_S_MAX
        length = len(columns[0])
        failures: dict[int, Exception] = {}
        for place, error in self._failing(columns, range(length), problem):
            failures[place] = error
            if len(failures) > self._records_max:
                raise NotSetAsideError(too_many(self._records_max))
        others = [place for place in range(length) if place not in failures]
        if not others:
            errors = {type(error) for error in failures.values()}
            if type(problem) not in errors:
                raise NotSetAsideError(OTHER_ERRORS)
            values = self._batches.empty(length)
        else:
            try:
                given = self._repeated(columns, others)
            except NotSetAsideError:
                raise
            except Exception as error:
                raise NotSetAsideError(NOT_OF_ROWS) from error
            at = {place: number for number, place in enumerate(others)}
            # What stands where it failed is read by nobody: one of its values changes no type.
            values = self._batches.spread(given, [at.get(place, 0) for place in range(length)])
        if others or length == 1:
            for place in failures:
                self._check_fails(columns, sorted((*others, place)))
        self._failures.by_place = failures
        return values

    def _check_fails(self, columns: Sequence[Any], places: Sequence[int]) -> None:
        """That the function fails on a row together with others on which it does not fail: they were in one batch."""
        try:
            self._repeated(columns, places)
        except NotSetAsideError:
            raise
        except Exception:
            return
        raise NotSetAsideError(NOT_IN_COMPANY)

    def _failing(
        self, columns: Sequence[Any], places: range, problem: Exception
    ) -> Iterator[tuple[int, Exception]]:
        """Of rows that the function fails on together, those that it fails on alone, each with its error."""
        if len(places) == 1:
            yield places[0], problem
            return
        middle = len(places) // 2
        is_found = False
        for half in (places[:middle], places[middle:]):
            if not half:
                continue
            try:
                self._repeated(columns, half)
            except NotSetAsideError:
                raise
            except Exception as error:
                is_found = True
                yield from self._failing(columns, half, error)
        if not is_found:
            raise NotSetAsideError(NOT_OF_ROWS)


class BatchFlags:
    """The flags of a batch, by columns of the texts of its arguments."""

    def __init__(self, reports: Reports, failures: Failures, batches: Batches) -> None:
        self._reports = reports
        self._failures = failures
        self._batches = batches

    def __call__(self, *texts: Any) -> Any:
        failures, self._failures.by_place = self._failures.by_place, {}
        kept = [True] * len(texts[0])
        if not failures and not self._reports.has_calls:
            return self._batches.flags(kept)
        arguments = list(zip(*map(self._batches.texts, texts), strict=True))
        for place, problem in failures.items():
            if not self._reports.add_named(arguments[place], problem):
                raise problem
            kept[place] = False
        for of_row, is_kept in zip(arguments, kept, strict=True):
            if is_kept:
                self._reports.check_passed(of_row)
        return self._batches.flags(kept)
