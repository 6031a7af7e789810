"""Traces of triples by Spark equal a breadth-first search in memory, whatever is imported, in which order and by which method."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage_dataframes.triples import joining, tracing
from lineage_dataframes.triples.tracing import SparkTrace, trace_to_table
from lineage_store.lake import file_writing
from lineage_store.triples import files, updating
from lineage_store.triples import tracing as embedded
from lineage_store.triples.data_sets import TripleStore
from lineage_store.triples.tracing import Method, trace_items
from tests.oracle.budget import examples
from tests.property.test_triples_property import (
    ITEMS,
    Step,
    Steps,
    Triple,
    imported,
    item_name,
    searched,
    steps,
)

pytestmark = [pytest.mark.property, pytest.mark.integration]


@pytest.fixture(scope="module", autouse=True)
def _small_files() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "GROUP_ROWS", 3)
        patch.setattr(files, "FILE_ROWS", 7)
        patch.setattr(file_writing, "sync_files", lambda *_: None)
        patch.setattr(updating, "TAKEN_IN", 0)
        # Both kinds of joins, filters that hold more than the ranges, and pieces that are merged.
        patch.setattr(joining, "BROADCAST_ROWS", 4)
        patch.setattr(tracing, "MOST_RANGES", 2)
        patch.setattr(joining, "MOST_PIECES", 3)
        # What the driver finds is named by it, or by joins.
        patch.setattr(tracing, "LOOKED_UP", 4)
        patch.setattr(tracing, "NAMED_HERE", 4)
        yield


questions = st.tuples(
    st.sets(st.integers(0, ITEMS), min_size=1, max_size=5),
    st.booleans(),
    st.sampled_from([Method.RQ, Method.CCPROV, Method.CSPROV, Method.AUTO]),
    st.sampled_from([0, 0, 0, 6, 1_000]),
    # With the bound small sets are given up, by sets and by itself.
    st.sampled_from([0, 2, 1_000]),
)
some_program = given(
    steps, st.booleans(), st.integers(1, 6), st.lists(questions, min_size=1, max_size=2)
)
Question = tuple[set[int], bool, Method, int, int]


def test_a_table_equals_a_search(spark_context: SparkContext) -> None:
    """A cycle, a loop and a chain through three segments, and items of two components."""
    program: Steps = [
        ([(0, 1, "a"), (1, 5, "a"), (9, 10, "b")], {0: 0, 1: 0, 5: 1}, Step.INDEX),
        ([(5, 6, "b"), (6, 6, "a"), (13, 14, "a")], {}, Step.INDEX),
        ([(6, 1, "b"), (12, 13, "b"), (7, 6, "a")], {}, Step.INDEX),
    ]
    questions: list[Question] = [
        ({5, 14}, True, Method.AUTO, 0, 0),
        ({12}, False, Method.RQ, 1_000, 0),
        ({14}, True, Method.CSPROV, 1_000, 0),
    ]
    traces = _check(spark_context, program, questions, is_text=True, set_items=2)
    given_up = "connected sets depend on each other more than 0 times"
    assert [(trace.method, trace.reason) for trace in traces] == [
        (
            Method.CCPROV,
            f"as the question or its answer has not at most 0 triples, and {given_up}",
        ),
        (Method.RQ, ""),
        (Method.RQ, f"as {given_up}, and the answer has at most 4 triples"),
    ]


@pytest.mark.long
@settings(max_examples=examples(40), deadline=None)
@some_program
def test_a_table_equals_a_search_after_any_program(
    spark_context: SparkContext,
    program: Steps,
    is_text: bool,
    set_items: int,
    asked: list[Question],
) -> None:
    _check(spark_context, program, asked, is_text=is_text, set_items=set_items)


def _check(
    context: SparkContext, program: Steps, asked: list[Question], *, is_text: bool, set_items: int
) -> list[SparkTrace]:
    """What each question took."""
    traces = []
    with tempfile.TemporaryDirectory() as folder:
        store = TripleStore(f"lake:{folder}/la ke[x]", create=True)
        triples = imported(store, Path(folder), program, is_text=is_text, set_items=set_items)
        there = {end for triple in triples for end in triple[:2]}
        for at, (items, is_back, method, driver_triples, dependencies) in enumerate(asked):
            # An item that is not there stands for one that is.
            chosen = {item if item in there else min(there, default=item) for item in items}
            if not triples:
                continue
            names = [item_name(item, is_text=is_text) for item in chosen]
            column = pa.array(names, pa.string() if is_text else pa.int64())
            to = f"{folder}/answer {at}"
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(embedded, "MOST_DEPENDENCIES", dependencies)
                counts = trace_to_table(
                    SparkSession(context), store, "set", column, to,
                    is_back=is_back, method=method, driver_triples=driver_triples,
                )  # fmt: skip
            expected = _expected(triples, chosen, is_back=is_back, is_text=is_text)
            assert table_of(to) == expected
            reached = {end for triple in expected for end in triple[:2]} - set(names)
            assert (counts.asked, counts.items, counts.triples) == (
                len(chosen),
                len(reached),
                len(expected),
            )
            here = trace_items(store, "set", column, is_back=is_back, method=method)
            assert here.triples == expected
            assert here.asked == sorted(names)
            assert here.items == sorted(reached)
            traces.append(counts)
    return traces


def _expected(
    triples: set[Triple], items: set[int], *, is_back: bool, is_text: bool
) -> list[tuple[Any, Any, str]]:
    found = set().union(*(searched(triples, item, 1 if is_back else 0) for item in items))
    return sorted(
        (item_name(src, is_text=is_text), item_name(dst, is_text=is_text), op)
        for src, dst, op in found
    )


def table_of(folder: str) -> list[tuple[Any, Any, str]]:
    """The rows of a table of triples, in order."""
    table = pq.read_table(folder)
    assert table.column_names == ["src", "dst", "op"]
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))
