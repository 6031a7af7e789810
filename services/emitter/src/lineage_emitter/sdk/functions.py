"""Functions and generators of plain Python that report their lineage: what ``LineageApi.traced`` makes of them."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from lineage_emitter.errors import CaptureFailedError

if TYPE_CHECKING:
    from lineage_emitter.sdk.api import LineageApi
    from lineage_emitter.sdk.task_capture import TaskCapture

UNPROVED_REASON = "what a generator keeps is found out by an analysis that needs PySpark (the extra spark), which is not installed"
Function = TypeVar("Function", bound=Callable[..., Any])
Names = Callable[[Any], str | None]
"""Names a record; None: the value is no record."""
Keeps = Literal["proof", "nothing", "since yield"]
LIST_REASON = "a generator that is given a collection may use any record of it"


def _proof(function: Callable[..., Any]) -> tuple[bool, str]:
    """Whether the code of a generator proves that it makes each result of the record read last, and why not."""
    try:
        # Its analysis knows PySpark's rows, and so loads PySpark: not with the API.
        analysis = import_module("lineage_emitter.code.one_record")
    except ModuleNotFoundError:
        return False, UNPROVED_REASON
    proof = analysis.from_record_read_last(function)
    return proof.holds, proof.reason


class TracedFunction:
    """One function, with a task for each thread that calls it."""

    def __init__(
        self, api: LineageApi, node: str, function: Callable[..., Any], name_of: Names, keeps: Keeps
    ) -> None:
        self._api = api
        self._node = node
        self._function = function
        self._name_of = name_of
        self._keeps = keeps
        self._reason = ""
        self._is_proved = False
        if keeps == "proof" and inspect.isgeneratorfunction(function):
            self._is_proved, self._reason = _proof(function)
            self._keeps = "nothing" if self._is_proved else "proof"
        self._local = threading.local()
        self._partitions = count()
        self._tags = count()
        self._tasks: list[TaskCapture] = []
        self._lock = threading.Lock()

    def call(self, *args: Any, **options: Any) -> Any:
        """Call the function; its result is made from the records among its arguments."""
        result = self._function(*args, **options)
        try:
            names = list(self._names_of((*args, *options.values())))
            if isinstance(result, Iterator):
                raise CaptureFailedError("a function gives an iterator: write it as a generator")
            output = self._name_of(result)
            if output is not None:
                task, tag = self._task(), next(self._tags)
                for name in names:
                    task.add_input(name, tag)
                task.add_output(output, tag, reset=True)
        except Exception as problem:
            self._give_up(problem)
        return result

    def _names_of(self, values: Iterable[Any]) -> Iterator[str]:
        """Names of the records among values, and among the members of collections."""
        for value in values:
            if isinstance(value, Iterator):
                raise CaptureFailedError("a function takes an iterator: write it as a generator")
            if (name := self._name_of(value)) is not None:
                yield name
            elif isinstance(value, list | tuple | set | frozenset | dict):
                members = value.values() if isinstance(value, dict) else value
                yield from (
                    name for member in members if (name := self._name_of(member)) is not None
                )

    def generate(self, *args: Any, **options: Any) -> Generator[Any, Any, Any]:
        """Run the generator over the records of its first argument."""
        tag, is_read_in_turn = next(self._tags), False
        if args and self._are_records(args[0]):
            is_read_in_turn = self._is_proved or isinstance(args[0], Iterator)
            self._refuse_others((*args[1:], *options.values()))
            records = self._records(tag, args[0], is_read_in_turn=is_read_in_turn)
            args = (records, *args[1:])
        else:
            self._add_arguments(tag, (*args, *options.values()))
        generator = self._function(*args, **options)
        step = functools.partial(next, generator)
        while True:
            try:
                output = step()
            except StopIteration as stop:
                return stop.value
            self._add_output(tag, output, reset=is_read_in_turn and self._keeps == "since yield")
            try:
                sent = yield output
            except GeneratorExit:
                generator.close()
                raise
            except BaseException as problem:
                step = functools.partial(generator.throw, problem)
            else:
                if sent is not None:
                    self.give_up("values are sent to a generator")
                step = functools.partial(generator.send, sent)

    def _add_output(self, tag: int, output: Any, *, reset: bool) -> None:
        try:
            name = self._name_of(output)
            if name is None:
                raise CaptureFailedError("an output has no name")
            self._task().add_output(name, tag, reset=reset)
        except Exception as problem:
            self._give_up(problem)

    @property
    def keeps_nothing(self) -> bool:
        """Whether an output is made from the record read last."""
        return self._keeps == "nothing"

    def close(self) -> None:
        """Commit what all threads captured."""
        for task in self._tasks:
            task.commit()

    def _are_records(self, value: Any) -> bool:
        """Whether a generator reads records from its first argument: else that may be a record itself."""
        try:
            return isinstance(value, Iterable) and self._name_of(value) is None
        except Exception as problem:
            self._give_up(problem)
            return False

    def _add_arguments(self, tag: int, values: Iterable[Any]) -> None:
        try:
            for name in list(self._names_of(values)):
                self._task().add_input(name, tag)
        except Exception as problem:
            self._give_up(problem)

    def _refuse_others(self, values: Iterable[Any]) -> None:
        try:
            if list(self._names_of(values)):
                raise CaptureFailedError("a generator takes records in its first argument alone")
        except Exception as problem:
            self._give_up(problem)

    def _records(self, tag: int, records: Any, *, is_read_in_turn: bool) -> Any:
        if is_read_in_turn:
            return _Reading(self, tag, iter(records))
        # It can be measured, indexed and read again: a declaration does not hold.
        try:
            self._superset(LIST_REASON)
        except Exception as problem:
            self._give_up(problem)
        for record in records:
            self.add_input(tag, record, reset=False)
        return records

    def add_input(self, tag: int, record: Any, *, reset: bool) -> None:
        """A record that a generator reads."""
        try:
            task = self._task()
            if self._keeps == "proof":
                self._superset(self._reason)
            name = self._name_of(record)
            if name is None:
                raise CaptureFailedError("a record has no name")
            task.add_input(name, tag, reset=reset)
        except Exception as problem:
            self._give_up(problem)

    def _superset(self, reason: str) -> None:
        self._task().superset_reason = reason

    def give_up(self, reason: str) -> None:
        """Capture can't follow the function."""
        self._give_up(CaptureFailedError(reason))

    def _give_up(self, problem: Exception) -> None:
        try:
            task = self._task()
        except Exception as second:
            self._api.problem(f"a task of {self._node}", second)
        else:
            task.end_capture(problem)

    def _task(self) -> TaskCapture:
        task: TaskCapture | None = getattr(self._local, "task", None)
        if task is None:
            with self._lock:
                task = self._api.open_capture(self._node, next(self._partitions))
                self._tasks.append(task)
            self._local.task = task
        return task


class _Reading:
    """Records as a generator reads them."""

    def __init__(self, function: TracedFunction, tag: int, records: Iterator[Any]) -> None:
        self._function = function
        self._tag = tag
        self._records = records

    def __iter__(self) -> _Reading:
        return self

    def __next__(self) -> Any:
        record = next(self._records)
        self._function.add_input(self._tag, record, reset=self._function.keeps_nothing)
        return record

    def __getattr__(self, name: str) -> Any:
        self._function.give_up(f"records are read by .{name}")
        return getattr(self._records, name)


def traced(
    api: LineageApi, node: str, function: Function, name_of: Names, keeps: Keeps
) -> tuple[Function, TracedFunction]:
    """A function that reports its lineage, and what commits it.

    Raises:
        TypeError: it is a coroutine or an asynchronous generator.
    """
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError("asynchronous functions are not traced: their calls run in turns")
    captured = TracedFunction(api, node, function, name_of, keeps)
    target = captured.generate if inspect.isgeneratorfunction(function) else captured.call

    @functools.wraps(function)
    def wrapper(*args: Any, **options: Any) -> Any:
        return target(*args, **options)

    return cast("Function", wrapper), captured
