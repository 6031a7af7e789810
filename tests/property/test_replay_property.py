"""Replays of drawn DataFrame programs give what plain Spark gives over the same rows.

For every program (`tests.oracle.frames_programs`) and rows that are left out of its tables:

- a replay that reads all other rows gives just the rows of the plain program over tables without these rows;
- where `lineage_dataframes.rewrite.locality` says that witnesses are enough, the plan over what is left of them makes from the
  requested row's identity just what the plan over all other rows makes of it;
- the plan over the witnesses alone gives the requested row with the very values of the job's;
- and of its steps the sources give just the witnesses, each in its place, and the last one the requested row.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from benchmarks.frames_oracle import recipe_of_frame, same_rows
from lineage_core.recipe.plan import Scan
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.trace.held_rows import SourceRows
from lineage_dataframes.trace.plan_steps import steps_of
from lineage_dataframes.trace.replay import (
    OutputRow,
    Replayer,
    RequestedOutput,
    without,
)
from tests.oracle.budget import examples
from tests.oracle.frames_programs import Program, programs
from tests.oracle.frames_relations import Item
from tests.property.test_frames_property import Written, home, rounded, spark

pytestmark = pytest.mark.property
__all__ = ["home", "spark"]

REFUSED_MAX = 0.25
"""Part of the examples that may be refused; else the test would pass by refusing."""


def source_rows(written: Written, replayer: Replayer, items: list[Item]) -> SourceRows:
    """Rows of tables as a replay names them: in each reading of their tables."""
    rows: dict[tuple[int, str], list[int]] = {}
    for item in items:
        ((path, ordinals),) = written.place(item).items()
        for number, source in enumerate(replayer.recipe.sources):
            if any(file.path == path for file in source.files):
                rows.setdefault((number, path), []).extend(ordinals)
    return {place: np.array(sorted(ordinals), np.uint64) for place, ordinals in rows.items()}


def counted(rows: list[OutputRow]) -> Counter[tuple[str, ...]]:
    return Counter(rounded((*row.values, *row.identity)) for row in rows)


def check_steps(replayer: Replayer) -> None:
    steps = steps_of(replayer, 1_000)
    assert not any(step.refused for step in steps), steps
    assert [tuple(row) for row in steps[-1].rows] == [row.values for row in replayer.requested]
    for step, node in zip(steps, replayer.recipe.plan, strict=True):
        assert all(before < step.number for before in step.inputs), step
        if isinstance(node, Scan) and step is not steps[-1]:
            witnesses = {
                (path, ordinal)
                for (source, path), ordinals in replayer.witnesses.items()
                for ordinal in ordinals.tolist()
                if source == node.source
            }
            assert set(step.places) == witnesses, step
            assert step.count == len(step.places) == len(witnesses), step


def check_replays(
    spark: SparkSession, home: Path, program: Program, place: int, dropped: list[int]
) -> str:
    with tempfile.TemporaryDirectory(dir=home) as folder:
        written = Written(spark, program.tables, Path(folder) / "tables")
        frame = spark.sql(program.relation.sql)
        output = [tuple(row) for row in frame.collect()]
        recipe = recipe_of_frame(frame)
        row = output[place % len(output)]
        items = sorted(
            (name, n) for name, table in written.tables.items() for n in range(len(table.rows))
        )
        left_out = sorted({items[n % len(items)] for n in dropped})
        written.only(frozenset(items) - set(left_out), Path(folder) / "rest")
        plain = [tuple(row) for row in spark.sql(program.relation.sql).collect()]
        written.view({})
        try:
            replayer = Replayer(spark, recipe, RequestedOutput(rows=(row,)))
            excluded = source_rows(written, replayer, left_out)
            whole = Replayer(spark, recipe, RequestedOutput())
            assert same_rows(plain, [row.values for row in whole.all_rows_without(excluded)]), (
                "the plan without rows is not the program without rows"
            )
            alone = replayer.replay({})
            replayed = replayer.replay(excluded) if excluded else alone
        except RefusedError as problem:
            return f"refused: {problem}"
        if alone.reproduced:
            check_steps(replayer)
        after = [tuple(one.after) for one in replayed.rows if one.after is not None]
        added = [*after, *replayed.new]
        assert not Counter(map(rounded, added)) - Counter(map(rounded, plain)), (added, plain)
        if replayed.reads_all_rows or not excluded:
            return "whole" if replayed.reads_all_rows else "nothing left out"
        remaining, _ = without(replayer.witnesses, excluded)
        alone_rows = counted(replayer.outcome(remaining))
        assert alone_rows == counted(replayer.outcome(excluded, others=True)), alone_rows
        assert all(one.state in {"same", "nearly the same"} for one in alone.rows), alone
        return "witnesses"


def test_replays_give_what_plain_spark_gives(spark: SparkSession, home: Path) -> None:
    tally: Counter[str] = Counter()

    @settings(max_examples=examples(2), suppress_health_check=list(HealthCheck))
    @given(programs(), st.integers(0, 50), st.lists(st.integers(0, 50), max_size=3))
    def check(program: Program, place: int, dropped: list[int]) -> None:
        assume(program.relation.rows)
        outcome = check_replays(spark, home, program, place, dropped)
        tally[outcome.partition(":")[0]] += 1
        event(outcome[:100])

    check()
    assert tally["refused"] <= REFUSED_MAX * tally.total(), tally
    assert min(tally["witnesses"], tally["whole"]) > 0, tally
