"""Which rule holds for the lineage of a function over a partition, and how it is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, Final, TypeVar

from pyspark import RDD

from lineage_emitter.code.one_record import from_record_read_last

Function = TypeVar("Function", bound=Callable[..., Any])

PROVED: Final = "each output is made from the record read last: proved from the function's code"
DECLARED: Final = "each output is made from the record read last: declared by lineage_emitter.exact"
_MARK: Final = "__lineage_exact__"
_OF_MAP_PARTITIONS: Final = [
    part for part in RDD.mapPartitions.__code__.co_consts if isinstance(part, CodeType)
]
"""What PySpark makes of the function that ``mapPartitions`` is given."""
_STREAMS: Final = "pyspark.streaming.dstream"
_OF_STREAMS: Final = {
    f"DStream.{name}.<locals>.func": name for name in ("map", "flatMap", "filter", "mapPartitions")
}
"""What streams of RDDs make of the function that they are given; a checkpoint gives these back as other objects of the same names."""


@dataclass(frozen=True, slots=True)
class PartitionRule:
    """``holds``: each output is made from the record read last. ``reason``: how that is known, or why not.

    ``not_apart``: why the function may do something else where it is called on each record by itself; empty: it does the same.
    """

    holds: bool
    reason: str
    is_declared: bool = False
    not_apart: str = ""


def exact(function: Function) -> Function:
    """Declare that a function over a partition makes each output from the record that it read last.

    Lineage then pairs each output with that record, and says so. A function that keeps records for
    later outputs (a running total, a window, a set of what was seen) must not be declared: its
    lineage would lack witnesses.

    Args:
        function: what ``mapPartitions`` or ``mapPartitionsWithIndex`` is given.

    Returns:
        The same function, marked.

    Raises:
        TypeError: it takes no attributes (a built-in function): wrap it in a function of your own.
    """
    try:
        setattr(function, _MARK, _mark_of(function))
    except AttributeError as problem:
        raise TypeError(
            f"{function!r} can't be marked as exact: wrap it in a function of your own"
        ) from problem
    return function


def _mark_of(function: object) -> object:
    """What a mark is of. ``functools.wraps`` copies it to a function of other code: there it says nothing."""
    return function if isinstance(function, type) else getattr(function, "__code__", type(function))


def one_record_rule(function: Callable[[int, Any], Any]) -> PartitionRule:
    """The rule for what ``mapPartitionsWithIndex`` is given, by the user or by ``mapPartitions``."""
    user_function, index = _user_function(function)
    if getattr(user_function, _MARK, None) in (_mark_of(user_function), type(user_function)):
        return PartitionRule(True, DECLARED, is_declared=True, not_apart=DECLARED)
    proof = from_record_read_last(user_function, index)
    if not proof.holds:
        return PartitionRule(False, proof.reason, not_apart=proof.reason)
    return PartitionRule(True, PROVED, not_apart=proof.not_apart)


def still_holds(function: Callable[[int, Any], Any], *, apart: bool) -> bool:
    """Whether the rule holds when an action sends a function to the workers: what its names stand for may be others by then.

    ``apart``: the function is called on each record by itself there.
    """
    rule = one_record_rule(function)
    return rule.holds and not (apart and rule.not_apart)


def stream_operator(function: object) -> str:
    """The operator of a stream of RDDs, one that works record by record, that a function over a partition is of; empty: none.

    PySpark's streams give ``mapPartitionsWithIndex`` functions that read their records one by one.
    """
    name = _of_stream(function)
    if name == "mapPartitions":
        name = _of_stream(_given(function))
    return "" if name == "mapPartitions" else name


def _of_stream(function: object) -> str:
    if not isinstance(function, FunctionType) or function.__module__ != _STREAMS:
        return ""
    return _OF_STREAMS.get(function.__qualname__, "")


def _given(function: FunctionType | Any) -> object:
    """The function that one of PySpark's was made of; None: there is none."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    return cells["f"].cell_contents if "f" in cells else None


def _user_function(function: object) -> tuple[object, int]:
    """The user's own function, and how many parameters stand before its records."""
    if isinstance(function, FunctionType) and (
        function.__code__ in _OF_MAP_PARTITIONS or _of_stream(function) == "mapPartitions"
    ):
        given = _given(function)
        if given is not None:
            return given, 0
    return function, 1
