"""Functions of generated programs: deterministic, named, and blind to how equal values look.

``1``, ``1.0`` and ``True`` are one key to Spark; which of them a group shows depends on the order
of arrival. So every function here looks at ``canonical(x)`` only: equal values, equal results.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any

Element = Any
"""None, bool, int, float, str, bytes or a tuple of these."""

KEYS_FLOAT: tuple[Element, ...] = (-1, -2, -1.0, 0.0, -0.0, 0.5, 2**61 - 1, True, 3.0, 1e18)
KEYS_MIXED: tuple[Element, ...] = (
    None,
    -1,
    -2,
    "",
    "a",
    "é",
    (),
    (1, "b"),
    (1.0, "b"),
    (None,),
    1.5,
    True,
    1,
    ((0, -1), None),
)


def canonical(x: Element) -> Element:
    """The one form that stands for all values equal to ``x``."""
    if isinstance(x, (tuple, list)):
        return tuple(canonical(part) for part in x)
    if isinstance(x, bool):
        return int(x)
    if isinstance(x, float) and x.is_integer():
        return int(x)
    return x


def render(x: Element) -> str:
    """The text of a row: strings as they are, everything else as Python writes it."""
    return x if isinstance(x, str) else repr(canonical(x))


def order_key(x: Element) -> str:
    """A total order over all values; equal values, equal keys."""
    return repr(canonical(x))


def mark(x: Element) -> int:
    """A number that depends on the value alone, the same in every process."""
    return zlib.crc32(order_key(x).encode("utf-8", "surrogatepass"))


def integer(x: Element) -> int:
    """``x`` as an integer; what is none gets a small one."""
    form = canonical(x)
    return form if isinstance(form, int) else mark(x) % 97 - 48


def named(file: tuple[str, str]) -> Element:
    """A file as a whole, by its name alone: its folder is another one in each run."""
    return (file[0].rpartition("/")[2], file[1])


# map, keyBy, groupBy, sortBy ------------------------------------------------------------------


def tag(x: Element) -> Element:
    return ("t", x)


def compact(x: Element) -> Element:
    return mark(x) % 1009


def text_of(x: Element) -> Element:
    return render(x)[:12]


def small_int(x: Element) -> Element:
    return mark(x) % 7 - 3


def one_of_two(x: Element) -> Element:
    return mark(x) % 2


def mostly_one(x: Element) -> Element:
    return "rare" if mark(x) % 8 == 0 else "often"


def float_key(x: Element) -> Element:
    return KEYS_FLOAT[mark(x) % len(KEYS_FLOAT)]


def mixed_key(x: Element) -> Element:
    return KEYS_MIXED[mark(x) % len(KEYS_MIXED)]


def pair_small(x: Element) -> Element:
    return (small_int(x), x)


def pair_float(x: Element) -> Element:
    return (float_key(x), x)


def pair_mixed(x: Element) -> Element:
    return (mixed_key(x), x)


def pair_skewed(x: Element) -> Element:
    return (mostly_one(x), x)


def pair_self(x: Element) -> Element:
    return (x, 1)


# filter ---------------------------------------------------------------------------------------


def two_of_three(x: Element) -> bool:
    return mark(x) % 3 != 0


def few(x: Element) -> bool:
    return mark(x) % 5 == 0


def nothing(x: Element) -> bool:
    return False


def not_empty(x: Element) -> bool:
    return x not in ("", (), None)


# flatMap, flatMapValues -----------------------------------------------------------------------


def up_to_two(x: Element) -> list[Element]:
    return [x] * (mark(x) % 3)


def words(x: Element) -> list[str]:
    return render(x).split()


def numbered(x: Element) -> Iterator[Element]:
    for i in range(mark(x) % 4):
        yield (i, x)


def first_characters(x: Element) -> str:
    return render(x)[:3]


# mapPartitions and mapPartitionsWithIndex -----------------------------------------------------


def each(rows: Iterable[Element]) -> Iterator[Element]:
    for x in rows:
        yield ("e", x)


def running(rows: Iterable[Element]) -> Iterator[Element]:
    total = 0
    for x in rows:
        total += integer(x)
        yield total


def total(rows: Iterable[Element]) -> list[Element]:
    return [sum(integer(x) for x in rows)]


def each_with_index(index: int, rows: Iterable[Element]) -> Iterator[Element]:
    for x in rows:
        yield (index, x)


def total_with_index(index: int, rows: Iterable[Element]) -> list[Element]:
    return [(index, sum(integer(x) for x in rows))]


# reduceByKey, foldByKey, aggregateByKey, combineByKey, reduce ----------------------------------


def add(a: Element, b: Element) -> Element:
    return integer(a) + integer(b)


def larger(a: Element, b: Element) -> Element:
    return a if order_key(a) >= order_key(b) else b


def count_in(seen: tuple[int, int], x: Element) -> tuple[int, int]:
    return (seen[0] + 1, seen[1] + integer(x))


def add_counts(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return (a[0] + b[0], a[1] + b[1])


def start_list(x: Element) -> list[Element]:
    return [x]


def append(seen: list[Element], x: Element) -> list[Element]:
    seen.append(x)
    return seen


def extend(a: list[Element], b: list[Element]) -> list[Element]:
    a.extend(b)
    return a


# Groups come in any order: these make one value of them ----------------------------------------


def in_order(rows: Iterable[Element]) -> tuple[Element, ...]:
    return tuple(sorted(rows, key=order_key))


def groups_in_order(groups: Iterable[Iterable[Element]]) -> tuple[Element, ...]:
    return tuple(in_order(group) for group in groups)
