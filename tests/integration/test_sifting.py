"""The smallest set of rows from which a row still fails, where the test is pushed down into an aggregate and where failing rows share what they are made of.

Each set is held against brute force in plain Python: it fails, and does not without any one of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from benchmarks.frames_oracle import ParquetTables, recipe_of_frame
from lineage_core.recipe.document import Recipe
from lineage_core.tracing.trace_result import TraceError
from lineage_dataframes.trace import sifting
from lineage_dataframes.trace.pushed_down import PushedDown
from lineage_dataframes.trace.replay import Replayer, RequestedOutput
from lineage_dataframes.trace.sifting import Sifted, sift, traced_rows
from lineage_query.minimising import Part, PassingTestError, UnsteadyTestError
from lineage_query.overlaps import most_overlapping
from tests.oracle.budget import examples

pytestmark = pytest.mark.integration

Item = tuple[str, int]
"""Table and number of a row."""
Row = Mapping[str, Any]
LIMIT = 10


@dataclass(frozen=True)
class Program:
    """A query, the group `a` of it in plain Python (None: it is not there), and whether its test can be pushed down."""

    query: str
    group: Callable[[Sequence[tuple[str, int | None]], Sequence[str]], int | None]
    pushed: bool


def known(orders: Sequence[tuple[str, int | None]], places: Sequence[str]) -> list[int]:
    """The amounts of orders from `a`, each as often as there is a place `a`."""
    return [n for city, n in orders if city == "a" and n is not None for _ in places]


def here(orders: Sequence[tuple[str, int | None]]) -> list[int]:
    return known(orders, ["a"])


PROGRAMS = {
    "sum": Program(
        "SELECT city, sum(amount) v FROM orders GROUP BY city",
        lambda orders, _: sum(here(orders)) if here(orders) else None,
        True,
    ),
    "average": Program(
        "SELECT city, avg(amount) v, count(*) n FROM orders GROUP BY city",
        lambda orders, _: round(sum(here(orders)) / len(here(orders))) if here(orders) else None,
        True,
    ),
    "extreme": Program(
        "SELECT city, max(amount) FILTER (WHERE amount < 50) v FROM orders GROUP BY city",
        lambda orders, _: max((n for n in here(orders) if n < 50), default=None),
        True,
    ),
    "join": Program(
        "SELECT city, sum(amount) v FROM orders JOIN places ON city = name GROUP BY city",
        lambda orders, places: sum(known(orders, places)) if known(orders, places) else None,
        True,
    ),
    "computed": Program(
        "SELECT city, max(amount) - min(amount) v FROM orders GROUP BY city",
        lambda orders, _: max(here(orders)) - min(here(orders)) if here(orders) else None,
        False,
    ),
    "distinct": Program(
        "SELECT city, sum(DISTINCT amount) v FROM orders GROUP BY city",
        lambda orders, _: sum(set(here(orders))) if here(orders) else None,
        False,
    ),
    "outer join": Program(
        "SELECT city, sum(coalesce(amount, 0) + if(name IS NULL, 6, 0)) v FROM orders LEFT JOIN places ON city = name GROUP BY city",
        lambda orders, places: (
            sum((n or 0) + 6 * (not places) for c, n in orders if c == "a" for _ in places or [""])
            if any(city == "a" for city, _ in orders)
            else None
        ),
        False,
    ),
}


def too_much(row: Row) -> bool:
    """Fails where a value is above the limit, to the whole number: the last digits of an average are no matter."""
    return row["v"] is not None and round(row["v"]) > LIMIT


def tables_of(
    folder: Path, orders: Sequence[tuple[str, int | None]], places: Sequence[str]
) -> ParquetTables:
    cities, amounts = zip(*orders, strict=True)
    tables = {
        "orders": pa.table({"city": cities, "amount": pa.array(amounts, pa.int32())}),
        "places": pa.table({"name": pa.array(places, pa.string())}),
    }
    return ParquetTables.written(folder, tables, files=1)


def items_of(found: Sifted) -> set[Item]:
    return {
        (Path(path).parent.name, n)
        for (_, path), ordinals in found.rows.items()
        for n in ordinals.tolist()
    }


def requested(spark: SparkSession, recipe: Recipe, city: str = "a") -> Replayer:
    return Replayer(spark, recipe, RequestedOutput(where=f"city = '{city}'"))


def check_minimal(items: set[Item], fails: Callable[[Iterable[Item]], bool]) -> None:
    assert fails(items), items
    assert not any(fails(fewer) for fewer in combinations(items, len(items) - 1)), items


def check_program(
    spark: SparkSession,
    folder: Path,
    program: Program,
    orders: Sequence[tuple[str, int | None]],
    places: Sequence[str],
) -> str:
    def fails(items: Iterable[Item]) -> bool:
        chosen = set(items)
        value = program.group(
            [row for n, row in enumerate(orders) if ("orders", n) in chosen],
            [name for n, name in enumerate(places) if ("places", n) in chosen and name == "a"],
        )
        return value is not None and value > LIMIT

    tables_of(folder, orders, places).views(spark)
    recipe = recipe_of_frame(spark.sql(program.query))
    everything = [("orders", n) for n in range(len(orders))]
    everything += [("places", n) for n in range(len(places))]
    if program.group(orders, [name for name in places if name == "a"]) is None:
        return "no row"
    replayer = requested(spark, recipe)
    if not fails(everything):
        with pytest.raises(PassingTestError):
            sift(replayer, too_much)
        return "passes"
    found = sift(replayer, too_much)
    assert found.found.one_minimal
    check_minimal(items_of(found), fails)
    assert (found.pushed_down > 0) == program.pushed, found
    if program.pushed:
        # All; the set, if it is smaller; each row of it left out; the set again.
        assert found.found.runs <= len(items_of(found)) + 3, found
    return f"{len(items_of(found))} rows"


SMALL: list[tuple[str, int | None]] = [
    ("a", 3), ("b", 90), ("a", None), ("a", 4), ("a", 1), ("a", 5), ("b", 2), ("a", 30), ("a", -7),
]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["join", *(pytest.param(name, marks=pytest.mark.long) for name in PROGRAMS if name != "join")],
)
def test_sets_are_minimal_and_few_runs_are_needed(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    assert "rows" in check_program(spark, tmp_path, PROGRAMS[name], SMALL, ["c", "a"])


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_drawn_groups(spark: SparkSession, tmp_path: Path, name: str) -> None:
    amounts = st.none() | st.integers(-8, 16)
    order = st.tuples(st.sampled_from("aaab"), amounts)
    tally = list[str]()

    @settings(max_examples=examples(8), suppress_health_check=list(HealthCheck), deadline=None)
    @given(st.lists(order, min_size=1, max_size=9), st.lists(st.sampled_from("ab"), max_size=2))
    def check(orders: list[tuple[str, int | None]], places: list[str]) -> None:
        folder = tmp_path / str(len(tally))
        tally.append(check_program(spark, folder, PROGRAMS[name], orders, places))
        event(tally[-1])

    check()
    assert any("rows" in outcome for outcome in tally), tally


def wrong(part: Sequence[int]) -> Callable[..., PushedDown]:
    return lambda *_: PushedDown(Part(list(part), is_small=True), 1)


@pytest.mark.long
@pytest.mark.parametrize("part", [(), (0,), (0, 1, 2, 3)])
def test_a_wrong_part_costs_runs_alone(
    spark: SparkSession, tmp_path: Path, part: tuple[int, ...]
) -> None:
    """Whatever the pushed down test says, the set is minimal by runs of the plan."""
    tables_of(tmp_path, SMALL, ["a"]).views(spark)
    recipe = recipe_of_frame(spark.sql(PROGRAMS["join"].query))
    with patch.object(sifting, "push_down", wrong(part)):
        found = sift(requested(spark, recipe), too_much)

    def fails(items: Iterable[Item]) -> bool:
        orders = [SMALL[n] for name, n in items if name == "orders"]
        return sum(known(orders, ["a"] * (("places", 0) in set(items)))) > LIMIT

    check_minimal(items_of(found), fails)


@pytest.mark.long
def test_tests_that_are_unsteady_or_broken(spark: SparkSession, tmp_path: Path) -> None:
    tables_of(tmp_path, SMALL, ["a"]).views(spark)
    replayer = requested(spark, recipe_of_frame(spark.sql(PROGRAMS["sum"].query)))
    verdicts = iter([True])
    with pytest.raises(UnsteadyTestError):
        sift(replayer, lambda _: next(verdicts, False))

    def broken_on_a_part(row: Row) -> bool:
        if row["v"] == 30:
            raise TraceError("broken")
        return too_much(row)

    # The plan gives that row, too.
    with pytest.raises(TraceError, match="broken"):
        sift(replayer, broken_on_a_part)


@pytest.mark.long
def test_the_row_that_failing_rows_share_is_tried_first(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A document has a wrong name, and looks like all others: each of its words fails."""
    wrong_at = 37
    names = [f"d{n:02}" if n != wrong_at else "x37" for n in range(60)]
    texts = [f"w{n % 4} v{n // 4 % 4} u{n // 16}" for n in range(60)]
    ParquetTables.written(
        tmp_path, {"documents": pa.table({"name": names, "text": texts})}, files=1
    ).views(spark)
    words = "SELECT name, explode(split(text, ' ')) city FROM documents"
    frame = spark.sql(
        f"SELECT city, sort_array(collect_set(name)) names FROM ({words}) GROUP BY city"
    )
    recipe = recipe_of_frame(frame)

    def fails(row: Row) -> bool:
        return any(name.startswith("x") for name in row["names"])

    rows = [row for row in frame.orderBy("city").collect() if fails(row.asDict())]
    assert [row["city"] for row in rows] == texts[wrong_at].split()[::-1]
    traced = traced_rows(spark, recipe, [tuple(row) for row in rows], are_stored=False)
    city = rows[most_overlapping(traced)]["city"]
    replayer = requested(spark, recipe, city)
    shared, alone = sift(replayer, fails, overlap=traced), sift(replayer, fails)
    for found in (shared, alone):
        assert items_of(found) == {("documents", wrong_at)}
        assert found.found.one_minimal
        assert found.pushed_down == 0
    # All, the document that all three words share, none, and it again.
    assert shared.found.runs == 4 < alone.found.runs
    assert list(shared.sharing.values()) == [3]
    assert list(alone.sharing.values()) == [0]
