"""Operators of captured DataFrames that choose rows: rows that carry their place say what they are made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import dask
import pandas as pd
import pytest
from dask import dataframe as dd
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_emitter.errors import UnsupportedOperatorError
from lineage_emitter.sdk.dask_frame_lines import RowNumbers
from lineage_emitter.sdk.dask_frames import FrameTracing, rows_of
from lineage_emitter.sdk.dask_refusals import refuse_frame

pytestmark = pytest.mark.property

Values = list[tuple[int, float | None]]
VALUES = st.lists(
    st.tuples(st.integers(0, 3), st.one_of(st.none(), st.floats(-3, 3))), min_size=1, max_size=9
)


def source(node: str, values: Values, partitions: int, index: list[int] | None = None) -> Any:
    """A DataFrame whose column ``place`` says where each row is."""
    table = pd.DataFrame(values, columns=["k", "v"], index=index).astype({"v": "float64"})
    unnamed = dd.from_pandas(table, npartitions=partitions, sort=False)
    lengths = [len(part) for part in dask.compute(*unnamed.to_delayed(), scheduler="synchronous")]
    table["place"] = [
        f"{node}#{part}#{n}" for part, length in enumerate(lengths) for n in range(length)
    ]
    return dd.from_pandas(table, npartitions=partitions, sort=False)


def computed(collection: Any, nodes: dict[str, str]) -> tuple[Any, list[str], set[str]]:
    """The rows of a collection, the places that each was made from, and why these may be too many."""
    tracing = FrameTracing(lambda expr: RowNumbers(nodes[expr._name]), refuse_frame)
    (packed,) = dask.compute(tracing.packed(collection), scheduler="synchronous")
    return (*rows_of(packed), tracing.reasons)


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "filter": lambda df, _: df[df.k > 0],
    "loc": lambda df, _: df.loc[df.v > 0],
    "loc by a function": lambda df, _: df.loc[lambda part: part.k < 3],
    "loc with columns": lambda df, _: df.loc[df.k != 1, ["place", "v", "k"]],
    "query": lambda df, _: df.query("v > @low or k == 2", local_dict={"low": 0.5}),
    "query by labels": lambda df, _: df.query("index < 5"),
    "where": lambda df, _: df.assign(v=df.v.where(df.k > 1, -1)),
    "where of rows": lambda df, _: df.where(df.k > 0, -5).assign(place=df.place),
    "mask": lambda df, _: df.assign(v=df.v.mask(df.v < 0, df.k)),
    "head": lambda df, _: df.head(4, npartitions=-1, compute=False),
    "head of a partition": lambda df, _: df.head(2, compute=False),
    "concat": lambda df, other: dd.concat([df, other]),
    "concat of parts": lambda df, other: dd.concat([other[other.k > 1], df, df.loc[df.v < 1]]),
    "concat in other order": lambda df, other: dd.concat(
        [df, other[["v", "place", "k"]]], join="inner"
    ),
    "interleaved": lambda df, other: dd.concat([df, other], interleave_partitions=True),
    "index": lambda df, _: df.reset_index(drop=True),
    "dropna": lambda df, _: df.dropna(),
}


CHAINS = (
    ("loc", "concat", "query", "head"),
    ("where of rows", "interleaved", "loc with columns", "head of a partition"),
    ("mask", "concat in other order", "where", "loc by a function"),
)


@pytest.mark.filterwarnings("ignore:Insufficient elements")
@pytest.mark.parametrize("names", CHAINS)
def test_rows_of_some_programs_are_made_from_themselves(names: Sequence[str]) -> None:
    values: Values = [(n % 4, None if n == 5 else n / 2 - 1) for n in range(8)]
    check(values, values[::-1], 3, names)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Insufficient elements")
@settings(max_examples=60, deadline=None)
@given(
    values=VALUES,
    others=VALUES,
    partitions=st.integers(1, 3),
    names=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4),
)
def test_rows_are_those_of_plain_dask_and_made_from_themselves(
    values: Values, others: Values, partitions: int, names: list[str]
) -> None:
    check(values, others, partitions, names)


def check(values: Values, others: Values, partitions: int, names: Sequence[str]) -> None:
    left, right = source("left", values, partitions), source("right", others, 2)
    nodes = {left.expr._name: "left", right.expr._name: "right"}
    program = left
    for name in names:
        program = STEPS[name](program, right)
    (plain,) = dask.compute(program, scheduler="synchronous")
    rows, places, reasons = computed(program, nodes)
    pd.testing.assert_frame_equal(rows, plain)
    assert places == plain.place.tolist()
    assert not reasons


def table() -> Any:
    return source("s", [(n % 3, float(n)) for n in range(9)], 3)


@pytest.mark.parametrize(
    "use",
    [
        lambda df: df.v.loc[df.k == 1],
        lambda df: df.loc[df.k == 1, "v"],
        lambda df: df.v.head(2, compute=False),
        lambda df: df.v.where(df.k > 0),
        lambda df: df[df.v > 4].v.head(3, npartitions=3, compute=False),
    ],
)
def test_series_are_traced_as_their_rows(use: Callable[[Any], Any]) -> None:
    df = table()
    (plain, frame) = dask.compute(use(df), df, scheduler="synchronous")
    rows, places, reasons = computed(use(df), {df.expr._name: "s"})
    pd.testing.assert_series_equal(rows, plain)
    assert places == frame.place.loc[plain.index].tolist()
    assert not reasons


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("Where by a function", lambda df: df.where(lambda part: part.v > part.v.mean())),
        ("Mask by a function", lambda df: df.v.mask(df.v > 3, lambda part: part.max())),
        ("over several collections", lambda df: df.v.where(df.v > df.v.mean())),
        ("concat of DataFrames", lambda df: dd.concat([df, df[["v", "k"]]])),
        ("concat of DataFrames", lambda df: dd.concat([df, df.rename(columns=str.upper)], axis=1)),
        ("concat of DataFrames", lambda df: dd.concat([df.v, df.v])),
        ("LocSlice", lambda df: df.loc[2:5]),
    ],
)
def test_what_may_use_other_rows_is_refused(name: str, use: Callable[[Any], Any]) -> None:
    df = table()
    with pytest.raises(UnsupportedOperatorError, match=f"{name}.*compute the DataFrame before"):
        computed(use(df), {df.expr._name: "s"})
