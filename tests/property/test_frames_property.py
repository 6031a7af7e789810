"""Traces of drawn DataFrame programs say just what an interpreter of annotated rows says.

For every program (`tests.oracle.frames_programs`):

- the recipe, carried as text, gives the program's rows, and so does the interpreter;
- a trace back of a row names no fewer witnesses than the interpreter's least, and where it says that it is
  exact, no more than its most (the two differ only where the optimiser may leave out what no result needs);
- a trace forward of a source row gives the output rows whose witnesses hold it, with the same bounds;
- the program, run on the witnesses alone, gives the row, where that must hold.

It must hold (`Relation.stable`) when rows that are added to or taken from the rest of the sources can't take
the row away: for whatever is made of scans by row-wise steps, joins, semi joins, unions and intersections; for
groups and windows over such monotone steps (fewer rows in, a part of the rows out); for the left row of an
anti join, EXCEPT or outer join whose other side is monotone; for the first rows of an order of monotone ones.
It need not for groups over groups over joins (a group that has lost rows may join the one that is asked
for), for groups over outer and anti joins (rows that had a match lose it), for OFFSET, and for windows that
count from the end or by neighbours.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType, _parse_datatype_string

from benchmarks.frames_oracle import rebuild, recipe_of_frame, same_rows, same_value
from lineage_core.recipe.document import Recipe
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.sources.witnesses import Witnesses
from lineage_dataframes.trace.backward import trace_backward
from lineage_dataframes.trace.forward import trace_forward
from tests.oracle.budget import examples
from tests.oracle.frames_programs import Program, Table, programs
from tests.oracle.frames_relations import Bounds, Item, joined

pytestmark = pytest.mark.property

FILES = 2
ROWS_TRACED = 2
REFUSED_MAX = 0.1
"""Part of the examples that may be refused; else the test would pass by refusing."""


@pytest.fixture(scope="module")
def spark(spark_context: SparkContext) -> SparkSession:
    session = SparkSession(spark_context).newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    return session


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A folder on the quickest disk there is."""
    quick = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=quick if quick.is_dir() else tmp_path) as folder:
        yield Path(folder)


class Written:
    """Tables of a program as files, and views of all their rows or of some."""

    def __init__(self, spark: SparkSession, tables: tuple[Table, ...], home: Path) -> None:
        self.spark = spark
        self.tables = {one.name: one for one in tables}
        self.home = home
        self.sizes = {one.name: -(-len(one.rows) // FILES) for one in tables}
        for table in tables:
            size = self.sizes[table.name]
            for n in range(FILES):
                rows = table.rows[n * size : (n + 1) * size]
                self._write(table, list(rows), home / table.name / f"part-{n}.parquet")
        self.view({})

    def _schema(self, table: Table) -> StructType:
        schema = _parse_datatype_string(
            ", ".join(f"{one.name} {one.kind}" for one in table.columns)
        )
        assert isinstance(schema, StructType)
        return schema

    def _write(self, table: Table, rows: list[tuple[Any, ...]], path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        schema = to_arrow_schema(self._schema(table))
        named = [dict(zip(schema.names, row, strict=True)) for row in rows]
        pq.write_table(pa.Table.from_pylist(named, schema=schema), path)

    def view(self, folders: dict[str, Path]) -> None:
        for name, table in self.tables.items():
            read = self.spark.read.schema(self._schema(table))
            read.parquet(str(folders.get(name, self.home / name))).createOrReplaceTempView(name)

    def only(self, items: frozenset[Item], scratch: Path) -> None:
        """Views of some rows alone."""
        folders = {}
        for name, table in self.tables.items():
            rows = [row for n, row in enumerate(table.rows) if (name, n) in items]
            folders[name] = scratch / name
            self._write(table, rows, scratch / name / "part-0.parquet")
        self.view(folders)

    def items(self, found: Witnesses) -> frozenset[Item]:
        """The witnesses as rows of tables."""
        items = set()
        for (_, uri), ordinals in found.rows.items():
            path = Path(uri.removeprefix("file:"))
            before = int(path.stem.removeprefix("part-")) * self.sizes[path.parent.name]
            items |= {(path.parent.name, before + n) for n in ordinals.tolist()}
        return frozenset(items)

    def place(self, item: Item) -> dict[str, list[int]]:
        """A row as `trace_forward` names it."""
        name, row = item
        size = self.sizes[name]
        return {f"file:{self.home}/{name}/part-{row // size}.parquet": [row % size]}


def bounds_of(program: Program, row: tuple[Any, ...]) -> tuple[Bounds, int]:
    """The interpreter's witnesses of the rows that have these values, and how many there are."""
    held = [one for one in program.relation.rows if same_value(one.values, row)]
    return joined(one.total for one in held), len(held)


def check_back(
    written: Written, program: Program, recipe: Recipe, row: tuple[Any, ...], scratch: Path
) -> None:
    found = trace_backward(written.spark, recipe, [row])
    items = written.items(found)
    bounds, many = bounds_of(program, row)
    assert found.matched >= many
    assert bounds.must <= items, ("too few", row, bounds.must - items)
    apart = [one for one in found.reasons if "output rows have these values" not in one]
    assert apart or items <= bounds.may, ("too many", row, items - bounds.may)
    event("exact" if found.exact else "superset")
    if program.relation.stable:
        event("run on the witnesses alone")
        written.only(items, scratch)
        again = written.spark.sql(program.relation.sql).collect()
        written.view({})
        assert any(same_value(tuple(one), row) for one in again), ("not given again", row, again)


def check_forward(written: Written, program: Program, recipe: Recipe, item: Item) -> None:
    """The rows that were made from a source row: at least these, at most those."""
    place = written.place(item)
    if not set(place) <= {file.path for source in recipe.sources for file in source.files}:
        return
    found = trace_forward(written.spark, recipe, place)
    least, most = (
        Counter(rounded(one.values) for one in program.relation.rows if item in held(one.total))
        for held in (lambda bounds: bounds.must, lambda bounds: bounds.may)
    )
    rows = Counter(rounded(one) for one in found.rows)
    assert least <= rows, ("forward gives too few", item, least - rows)
    assert found.reasons or rows <= most, ("forward gives too many", item, rows - most)


def rounded(row: tuple[Any, ...]) -> tuple[str, ...]:
    """A row so that equal ones are equal: NaN, zeros of both signs, sums in any order."""
    return tuple(f"{one + 0.0:.9g}" if isinstance(one, float) else repr(one) for one in row)


def check_program(
    spark: SparkSession, home: Path, program: Program, places: list[int]
) -> str | None:
    """Check rows of a program; why a trace was refused, if one was."""
    with tempfile.TemporaryDirectory(dir=home) as folder:
        written = Written(spark, program.tables, Path(folder) / "tables")
        frame = spark.sql(program.relation.sql)
        output = [tuple(row) for row in frame.collect()]
        wanted = [one.values for one in program.relation.rows]
        assert same_rows(output, wanted), ("the interpreter gives other rows", output, wanted)
        recipe = recipe_of_frame(frame)
        assert same_rows(output, rebuild(spark, recipe))
        try:
            for n in {place % len(output) for place in places}:
                check_back(written, program, recipe, output[n], Path(folder) / str(n))
            items = sorted(
                (name, n) for name, table in written.tables.items() for n in range(len(table.rows))
            )
            check_forward(written, program, recipe, items[places[0] % len(items)])
        except RefusedError as problem:
            return str(problem)
    return None


def test_traces_say_what_the_interpreter_says(spark: SparkSession, home: Path) -> None:
    tally: Counter[str] = Counter()

    @settings(max_examples=examples(10), suppress_health_check=list(HealthCheck))
    @given(programs(), st.lists(st.integers(0, 50), min_size=ROWS_TRACED, max_size=ROWS_TRACED))
    def check(program: Program, places: list[int]) -> None:
        assume(program.relation.rows)
        refused = check_program(spark, home, program, places)
        tally["refused" if refused else "traced"] += 1
        event(f"refused: {refused}"[:100] if refused else "traced")

    check()
    assert tally["refused"] <= REFUSED_MAX * tally.total(), tally
