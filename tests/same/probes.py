"""Functions of the user that note what they are given; they run in the workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark.accumulators import Accumulator, AccumulatorParam


class Sets(AccumulatorParam[set[Any]]):
    """Accumulates what was seen."""

    def zero(self, value: set[Any]) -> set[Any]:
        """Nothing."""
        return set()

    def addInPlace(self, value1: set[Any], value2: set[Any]) -> set[Any]:
        """Both."""
        value1 |= value2
        return value1


def kind(value: Any) -> str:
    """The type of an argument: iterators are alike, but what has a length or can be read again is told."""
    name = type(value).__name__
    if hasattr(value, "__next__"):
        return "iterator" + (" with a length" if hasattr(value, "__len__") else "")
    return f"{name} of {len(value)}" if hasattr(value, "__len__") else name


class Probe:
    """A function of the user that notes the types of its arguments and counts its calls."""

    def __init__(
        self, function: Callable[..., Any], kinds: Accumulator[set[Any]], calls: Accumulator[int]
    ) -> None:
        self.function, self.kinds, self.calls = function, kinds, calls

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        self.kinds.add({tuple(kind(one) for one in arguments)})
        self.calls.add(1)
        return self.function(*arguments)


def twice(value: Any) -> Any:
    return (value, value)


def is_odd(value: Any) -> bool:
    return bool(hash(value) % 2)


def some(value: Any) -> list[Any]:
    return [value] * (hash(value) % 3)


def number(value: Any) -> int:
    return value if isinstance(value, int) else len(str(value))


def group(value: Any) -> int:
    return number(value) % 3


def key_of(pair: Any) -> Any:
    return pair


def plus(a: Any, b: Any) -> Any:
    return a + b


def larger(a: Any, b: Any) -> Any:
    return max(a, b, key=str)


def append(values: list[Any], value: Any) -> list[Any]:
    return [*values, value]


def counted(records: Iterable[Any]) -> Iterator[Any]:
    """The records of a partition, and what a second look gives."""
    count = sum(1 for _ in records)
    yield count, [str(one) for one in records]


def counted_in(split: int, records: Iterable[Any]) -> Iterator[Any]:
    return iter([split, *counted(records)])


def nothing(_: Any) -> None:
    """Takes what it is given."""
