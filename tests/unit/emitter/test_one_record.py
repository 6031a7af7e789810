"""Which functions over a partition are proved to make each output from the record read last."""

# ruff: noqa: C408, F841, PLW0603, B006, B007, C416, C417, B023, UP028, PLW0108, DTZ007, SIM105
from __future__ import annotations

import functools
import itertools
import json
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import Row

from lineage_emitter.code.one_record import from_record_read_last
from lineage_emitter.code.values import is_plain
from tests.support.case_blind import CaseBlind

pytestmark = pytest.mark.unit

CARRIERS = {"AA": "American", "UA": "United"}
LISTS = {"a": [1]}
NUMBERS = [1, 2, 3]
HISTORY: list[Any] = []
later = 0
PATTERN = re.compile(r"(\d+),(\w+)")
COUNTER = itertools.count()


def __helper(line: str) -> str:
    return line


class Mangled:
    """The name of a function in it is another one."""

    @staticmethod
    def parse(it: Iterable[str]) -> Iterator[Any]:
        for line in it:
            yield __helper(line)


class Keeper:
    """What methods of it do is not known."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def parse(self, line: str) -> int:
        self.kept.append(line)
        return len(self.kept)


KEEPER = Keeper()


def fields(line: str) -> dict[str, Any]:
    number, name = line.split(",", 1)
    row = {"number": int(number), "name": name}
    row["carrier"] = CARRIERS.get(name, "?")
    return row


def keeping(line: str) -> int:
    HISTORY.append(line)
    return len(HISTORY)


def through(line: str) -> int:
    return keeping(line)


def with_default(line: str, seen: list[str] = []) -> int:
    seen.append(line)
    return len(seen)


def words(line: str) -> Iterator[str]:
    for word in line.split():
        if word:
            yield word.lower()


def even(n: int) -> bool:
    return n == 0 or odd(n - 1)


def odd(n: int) -> bool:
    return n != 0 and even(n - 1)


def even_kept(n: int) -> bool:
    return n == 0 or odd_kept(n - 1)


def odd_kept(n: int) -> bool:
    HISTORY.append(n)
    return n != 0 and even_kept(n - 1)


@functools.lru_cache
def cached(line: str) -> str:
    return line


def closing_over(table: dict[str, int]) -> Callable[[Iterable[str]], Iterator[Any]]:
    def parse(it: Iterable[str]) -> Iterator[Any]:
        for line in it:
            yield table.get(line, 0), line

    return parse


# -- proved ------------------------------------------------------------------------------------


def parser(it: Iterable[str]) -> Iterator[Any]:
    import json

    for line in it:
        try:
            parsed = json.loads(line)
        except ValueError:
            continue
        parsed["length"] = len(line)
        yield parsed


def with_helpers(it: Iterable[str]) -> Iterator[Any]:
    """Parse."""
    separator = ","
    for line in it:
        if not line.startswith("#"):
            row = fields(line)
            yield row["name"], f"{row['number']:03d}{separator}"


def by_pattern(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    for line in lines:
        match = PATTERN.match(line)
        if match is None:
            continue
        yield int(match.group(1)), match.group(2)


def many_outputs(it: Iterable[str]) -> Iterator[str]:
    for line in it:
        parts = line.split(",")
        parts.append("end")
        for word in sorted(parts, key=lambda word: (len(word), word)):
            yield word
        yield from words(line)
        yield from (word.upper() for word in parts if word)


def counting_within(it: Iterable[str]) -> Iterator[dict[str, int]]:
    for line in it:
        counts: dict[str, int] = {}
        total = 0
        for word in line.split():
            total += 1
            if word in counts:
                counts[word] += 1
            else:
                counts[word] = 1
        yield {**counts, "total": total}


def with_lists(it: Iterable[Any]) -> Iterator[Any]:
    columns = ["a", "b"]
    for row in it:
        yield dict(zip(columns, row, strict=False)), [part for part in row if part], row[0]


def of_rows(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        when = datetime.strptime(row.day, "%Y-%m-%d")
        yield Row(day=when.date(), total=max(row.a, row.b), name="-".join(str(x) for x in row))


def by_tables(it: Iterable[int]) -> Iterator[Any]:
    names = {"AA", "UA"}
    carriers = CARRIERS
    lists = LISTS["a"]
    american = CARRIERS["AA"]
    for number in it:
        yield american, number
        if NUMBERS[number % 2] in lists and carriers.get("AA") in names:
            yield max((x for x in NUMBERS[1:] if x), default=0), dict.fromkeys(NUMBERS)
        yield isinstance(number, int), sum((x for x in NUMBERS), 1)


def breaking(it: Iterable[int]) -> Iterator[int]:
    for number in it:
        if number < 0:
            break
        yield number


def returning_generator(it: Iterable[int]) -> Iterator[Any]:
    step = 2
    return (number * step for number in it if even(number))


def indexed(index: int, it: Iterable[int]) -> Iterator[Any]:
    for number in it:
        yield index, number


PROVED: dict[str, Any] = {
    "json": parser,
    "helpers": with_helpers,
    "pattern": by_pattern,
    "many outputs": many_outputs,
    "counts within a record": counting_within,
    "lists": with_lists,
    "rows": of_rows,
    "tables": by_tables,
    "break": breaking,
    "returned generator": returning_generator,
    "lambda": lambda it: (int(line) + 1 for line in it),
    "lambda with map": lambda it: map(fields, it),
    "map of a method": lambda it: map(str.upper, it),
    "map of a lambda": lambda it: map(lambda x: (x, 1), it),
    "filter": lambda it: filter(lambda x: x > 1, it),
    "nested": lambda it: (word for line in it for word in line.split()),
    "closure": closing_over({"a": 1}),
}


@pytest.mark.parametrize("name", PROVED)
def test_is_proved(name: str) -> None:
    assert from_record_read_last(PROVED[name]).reason == ""
    assert from_record_read_last(PROVED[name]).holds


def test_an_index_may_stand_before_the_records() -> None:
    assert from_record_read_last(indexed, 1).holds
    assert not from_record_read_last(indexed, 0).holds


# -- not proved --------------------------------------------------------------------------------


def running_total(it: Iterable[int]) -> Iterator[int]:
    total = 0
    for number in it:
        total += number
        yield total


def previous(it: Iterable[int]) -> Iterator[Any]:
    last = None
    for number in it:
        yield last, number
        last = number


def previous_by_branch(it: Iterable[int]) -> Iterator[Any]:
    for number in it:
        if number % 2:
            last = number
        yield last, number  # type: ignore[possibly-undefined]


def previous_in_inner_loop(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        for part in row:
            last = part
        yield last  # type: ignore[possibly-undefined]


def previous_by_exception(it: Iterable[str]) -> Iterator[Any]:
    for line in it:
        try:
            number = int(line)
        except ValueError:
            pass
        yield number  # type: ignore[possibly-undefined]


def deduplicated(it: Iterable[int]) -> Iterator[int]:
    seen: set[int] = set()
    for number in it:
        if number not in seen:
            seen.add(number)
            yield number


def deduplicated_by_literal(it: Iterable[int]) -> Iterator[int]:
    seen = {0}
    for number in it:
        if number not in seen:
            seen.add(number)
            yield number


def window(it: Iterable[int]) -> Iterator[Any]:
    buffer = [0]
    for number in it:
        buffer[0] = number
        yield list(buffer)


def buffered(it: Iterable[int]) -> Iterator[int]:
    yield from sorted(it)


def all_at_once(it: Iterable[int]) -> list[int]:
    return [number + 1 for number in it]


def all_kept(it: Iterable[int]) -> list[int]:
    out = []
    for number in it:
        out.append(number)
    return out


def behind(it: Iterable[int]) -> Iterator[int]:
    count = 0
    for number in it:
        yield number
    yield -1


def before(it: Iterable[int]) -> Iterator[int]:
    yield -1
    for number in it:
        yield number


def reading_ahead(it: Iterator[int]) -> Iterator[int]:
    for number in it:
        yield number + next(it, 0)


def by_next(it: Iterator[int]) -> Iterator[int]:
    header = next(it)
    for number in it:
        yield number - header


def looped_while(it: Iterator[int]) -> Iterator[int]:
    while True:
        yield next(it)


def alias(it: Iterator[int]) -> Iterator[int]:
    records = it
    for number in records:
        yield number


def numbered(it: Iterable[int]) -> Iterator[Any]:
    for index, number in enumerate(it):
        yield index, number


def global_history(it: Iterable[str]) -> Iterator[int]:
    for line in it:
        HISTORY.append(line)
        yield len(HISTORY)


def global_by_helper(it: Iterable[str]) -> Iterator[int]:
    for line in it:
        yield through(line)


def global_rebound(it: Iterable[str]) -> Iterator[Any]:
    global HISTORY
    for line in it:
        HISTORY = [*HISTORY, line]
        yield HISTORY


def by_default(it: Iterable[str]) -> Iterator[int]:
    for line in it:
        yield with_default(line)


def own_default(it: Iterable[str], seen: list[str] = []) -> Iterator[int]:
    for line in it:
        seen.append(line)
        yield len(seen)


def by_object(it: Iterable[str]) -> Iterator[int]:
    for line in it:
        yield KEEPER.parse(line)


def by_fresh_object(it: Iterable[str]) -> Iterator[int]:
    keeper = Keeper()
    for line in it:
        yield keeper.parse(line)


def by_cache(it: Iterable[str]) -> Iterator[str]:
    for line in it:
        yield cached(line)


def by_counter(it: Iterable[str]) -> Iterator[Any]:
    for line in it:
        yield next(COUNTER), line


def by_iterator(it: Iterable[str]) -> Iterator[Any]:
    numbers = iter([1, 2, 3])
    for line in it:
        yield next(numbers), line


def by_iterator_in_a_list(it: Iterable[str]) -> Iterator[Any]:
    numbers = [iter([1, 2, 3])]
    for line in it:
        yield next(numbers[0]), line


def by_iterator_read_elsewhere(it: Iterable[str]) -> Iterator[Any]:
    numbers = [iter([1, 2, 3])]
    for line in it:
        if [n for n in numbers[0]]:
            yield line


def by_list_inside(it: Iterable[str]) -> Iterator[Any]:
    table = {"seen": [0]}
    for line in it:
        table["seen"].append(1)
        yield len(table["seen"])


def by_alias_of_outer(it: Iterable[str]) -> Iterator[Any]:
    for line in it:
        kept = LISTS["a"]
        kept.append(1)
        yield len(kept)


def by_either(it: Iterable[str]) -> Iterator[Any]:
    for line in it:
        kept = [] or HISTORY
        kept.append(1)
        yield len(kept)


def by_wrapped_outer(it: Iterable[str]) -> Iterator[Any]:
    for line in it:
        kept = [HISTORY]
        kept[0].append(1)
        yield len(kept[0])


def changing_the_record(it: Iterable[list[int]]) -> Iterator[Any]:
    for row in it:
        row.append(1)
        yield len(row)


def changing_the_record_in_place(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        row += [1]
        yield len(row)


def changing_a_part(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        copied = dict(row)
        copied["a"].append(1)
        yield copied


def changing_a_part_in_place(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        copied = dict(row)
        copied["a"] += [1]
        yield copied


def by_kind_that_changes(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        here: Any = []
        for _ in range(2):
            here.append(1)
            here = row
        yield len(here)


def by_attribute(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        by_attribute.last = row  # type: ignore[attr-defined]
        yield row


def by_class(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        yield row.__class__.__base__


def by_frame(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        yield sys._getframe(0).f_locals


def by_eval(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        yield eval("HISTORY.append(row) or len(HISTORY)")


def by_late_lambda(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        yield map(lambda x: (x, row), [1])


def by_late_generator(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        yield (row for _ in range(2))


def by_nested_function(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:

        def inner() -> Any:
            return row

        yield inner()


def by_recursion(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        yield even_kept(row)


def by_with(it: Iterable[Any]) -> Iterator[Any]:
    with open("/dev/null") as log:
        for row in it:
            yield row


def by_hook(it: Iterable[str]) -> Iterator[Any]:
    for line in it:
        yield json.loads(line, object_hook=keeping)  # type: ignore[arg-type]


def by_substitution(it: Iterable[str]) -> Iterator[Any]:
    for line in it:
        yield PATTERN.sub(keeping, line)  # type: ignore[arg-type]


def by_exception_class(it: Iterable[str]) -> Iterator[Any]:
    for line in it:
        try:
            yield int(line)
        except KEEPER.parse(line):  # type: ignore[misc]
            yield 0


def by_walrus(it: Iterable[int]) -> Iterator[Any]:
    for number in it:
        if number and (last := number):
            pass
        yield last


def deleted(it: Iterable[int]) -> Iterator[Any]:
    for number in it:
        del HISTORY[:]
        yield number


def comprehension_of_the_same_name(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        if row:
            x = row
        yield [x for x in x]


def yielding_what_lives_on(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        yield HISTORY


def by_target_of_a_loop(it: Iterable[int]) -> Iterator[Any]:
    for number in it:
        if number == 1:
            last = number
        table: dict[int, int] = {}
        for table[last] in [0]:  # type: ignore[possibly-undefined]
            pass
        yield table


def by_target_of_a_comprehension(it: Iterable[int]) -> Iterator[Any]:
    for number in it:
        if number == 1:
            last = number
        table: dict[int, int] = {}
        read = [0 for table[last] in [0]]  # type: ignore[possibly-undefined]
        yield table


def by_annotation_alone(it: Iterable[int]) -> Iterator[Any]:
    for number in it:
        if number == 1:
            last = number
        last: int  # type: ignore[no-redef]
        yield last


def by_iterator_in_place_of_a_list(it: Iterable[int]) -> Iterator[Any]:
    numbers = [0]
    numbers = iter([1, 2, 3])  # type: ignore[assignment]
    for number in it:
        yield number in numbers


def by_iterator_in_place_of_a_list_by_branch(it: Iterable[int]) -> Iterator[Any]:
    numbers = [0]
    if CARRIERS:
        numbers = iter([1, 2, 3])  # type: ignore[assignment]
    for number in it:
        yield number in numbers


def by_name_of_an_iterator(it: Iterable[int]) -> Iterator[Any]:
    first = [0]
    first = iter([1, 2, 3])  # type: ignore[assignment]
    numbers = first
    for number in it:
        yield number in numbers


def by_iterator_or_a_table(it: Iterable[int]) -> Iterator[Any]:
    numbers = CARRIERS and iter([1, 2, 3])
    for number in it:
        yield number in numbers


def by_iterator_beside_a_list(it: Iterable[int]) -> Iterator[Any]:
    both = [LISTS, iter([1, 2, 3])]
    for number in it:
        yield number in both[1]


def by_copy_of_a_list(it: Iterable[int]) -> Iterator[Any]:
    seen = NUMBERS[:]
    for number in it:
        seen.append(number)
        yield len(seen)


def by_slice_of_a_list(it: Iterable[int]) -> Iterator[Any]:
    seen = NUMBERS[slice(0, 2)]
    for number in it:
        seen.append(number)
        yield len(seen)


def changing_the_record_by_its_type(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        list.append(row, 1)
        yield len(row)


def changing_the_record_by_either_type(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        (list if len(row) else set).append(row, 1)  # type: ignore[union-attr]
        yield len(row)


def changing_the_record_by_another_name(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        kind: Any = [] if row else list
        kind.append(row, 1)
        yield len(row)


def changing_a_part_by_repeating(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        copied = dict(row)
        copied["a"] *= 2
        yield copied


def by_name_of_a_comprehension(it: Iterable[int]) -> Any:
    return (later for x in it for later in ([x] if x == 1 else [later]))


def changing_by_name_of_a_comprehension(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        z: Any = []
        yield [z for a in [1, 2] for z in ([row] if a == 1 else [z.append(1)])]


def by_late_generator_in_a_dict(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        yield dict(late=(row for _ in range(2)))


def by_late_map_in_a_dict(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        yield dict(late=map(lambda x: (x, row), [1]))


def by_late_generator_of_two(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        yield max((row for _ in range(2)), (row for _ in range(2)), key=repr)


def by_late_default(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        yield max([], default=(row for _ in range(2)))


def by_map_of_a_late_generator(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        yield map(str, (row for _ in range(2)))


def by_map_of_a_late_map(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        yield map(str, map(lambda x: row, [1]))


def yielding_what_lives_on_by_name(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        kept: Any = HISTORY
        try:
            len(row)
        except TypeError as kept:
            continue
        yield kept


def yielding_what_lives_on_in_a_dict(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        yield dict(numbers=NUMBERS)


def yielding_what_lives_on_in_a_row(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        yield Row(NUMBERS)  # type: ignore[call-overload]


def yielding_what_lives_on_by_key(it: Iterable[Any]) -> Iterator[Any]:
    for row in it:
        yield dict.fromkeys(row, NUMBERS)


NOT_PROVED: dict[str, Any] = {
    name: function
    for name, function in list(globals().items())
    if isinstance(function, types.FunctionType)
    and function.__code__.co_varnames[:1] == ("it",)
    and function not in PROVED.values()
}
NOT_PROVED |= {
    "all at once by lambda": lambda it: [x for x in it],
    "sorted": lambda it: sorted(it),
    "built-in": list,
    "mangled": Mangled.parse,
    "enumerate": lambda it: enumerate(it),
    "zip": lambda it: zip(it, it, strict=False),
    "map of two": lambda it: map(lambda a, b: (a, b), it, it),
    "map of what keeps": lambda it: map(keeping, it),
    "generator of what keeps": lambda it: (keeping(x) for x in it),
    "inner use": lambda it: ([x, *it] for x in it),
    "index": lambda n, it: ((n, x) for x in it),
}


@pytest.mark.parametrize("name", NOT_PROVED)
def test_is_not_proved(name: str) -> None:
    proof = from_record_read_last(NOT_PROVED[name])
    assert not proof.holds
    assert proof.reason


def test_code_that_its_source_does_not_show() -> None:
    source = "def parse(it):\n    for line in it:\n        yield line\n"
    space: dict[str, Any] = {}
    exec(compile(source, "nowhere.py", "exec"), space)
    assert "source" in from_record_read_last(space["parse"]).reason


def test_a_source_that_changed_is_not_believed(tmp_path: Any) -> None:
    path = tmp_path / "job.py"
    path.write_text(
        "def parse(it):\n    t = 0\n    for n in it:\n        t += n\n        yield t\n"
    )
    space: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    path.write_text("def parse(it):\n    t = 0\n    for n in it:\n        t = n\n        yield t\n")
    assert "source" in from_record_read_last(space["parse"]).reason


def test_builtins_are_those_of_the_function(tmp_path: Any) -> None:
    path = tmp_path / "job.py"
    path.write_text("def parse(it):\n    for line in it:\n        yield len(line)\n")
    space: dict[str, Any] = {"__builtins__": {"len": KEEPER.parse}}
    exec(compile(path.read_text(), str(path), "exec"), space)
    assert not from_record_read_last(space["parse"]).holds


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ("a", True),
        ((1, [2.0, {"a": None}], {b"x"}), True),
        (Row(a=1, b="x"), True),
        (datetime(2026, 1, 1), True),  # noqa: DTZ001
        (CaseBlind("a"), False),
        ([("a", CaseBlind("b"))], False),
        ({"a": KEEPER}, False),
        ({CaseBlind("b"): 1}, False),
        (list(range(100_000)), False),
    ],
)
def test_plain_values(value: Any, plain: bool) -> None:
    assert is_plain(value) is plain


def test_a_value_that_holds_itself_is_not_plain() -> None:
    value: list[Any] = [1]
    value.append(value)
    assert not is_plain(value)
