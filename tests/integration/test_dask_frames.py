"""Dask's DataFrames: what rows of their results are traced to is what brute force says."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import dask
import pandas as pd
import pytest
from dask import dataframe as dd
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage import LineageApi, UnsupportedOperatorError, capture_dask
from lineage_core.contract.region import Region
from lineage_core.tracing.trace_result import Direction
from lineage_core.tracing.tracer import Tracer
from lineage_emitter.sdk import dask_frames
from lineage_store.url import open_store
from tests.support.job_runs import STORE, judged

pytestmark = pytest.mark.integration

Values = tuple[float | None, ...]
"""Columns k and v of a row."""
Traced = tuple[Values, frozenset[str]]
"""A row as brute force has it, and the rows of sources that it was made from."""
ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(-3, 3))), min_size=1, max_size=12
)


@pytest.fixture(autouse=True)
def own_process() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def frame(rows: list[tuple[int, int | None]], value: str, partitions: int) -> Any:
    table = pd.DataFrame(rows, columns=["k", value]).astype({"k": "int64", value: "float64"})
    return dd.from_pandas(table, npartitions=partitions)


def source_rows(node: str, rows: list[tuple[int, int | None]], table: Any) -> list[Traced]:
    """The rows of a source, each made from itself."""
    lengths = [len(part) for part in dask.compute(*table.to_delayed())]
    places = [f"{node}#{part}#{n}" for part, length in enumerate(lengths) for n in range(length)]
    return [
        ((float(k), None if v is None else float(v)), frozenset([place]))
        for (k, v), place in zip(rows, places, strict=True)
    ]


def summed(rows: list[Traced]) -> list[Traced]:
    groups: dict[float | None, list[Traced]] = {}
    for row in rows:
        groups.setdefault(row[0][0], []).append(row)
    return [
        (
            (key, float(sum(v or 0 for (_, v), _ in group))),
            frozenset().union(*(i for _, i in group)),
        )
        for key, group in groups.items()
    ]


def joined(rows: list[Traced], right: list[Traced]) -> list[Traced]:
    return [
        ((k, None if v is None or w is None else v + w), ids | others)
        for (k, v), ids in rows
        for (key, w), others in right
        if k == key
    ]


def outer(rows: list[Traced], right: list[Traced]) -> list[Traced]:
    keys, others = {k for (k, _), _ in rows}, {k for (k, _), _ in right}
    left_alone = [((k, None), ids) for (k, _), ids in rows if k not in others]
    right_alone = [((k, None), ids) for (k, _), ids in right if k not in keys]
    return joined(rows, right) + left_alone + right_alone


def with_sum(merged: Any) -> Any:
    return merged.assign(v=merged.v + merged.w).drop(columns="w")


Step = tuple[Callable[[Any, Any], Any], Callable[[list[Traced], list[Traced]], list[Traced]]]
STEPS: dict[str, Step] = {
    "filter": (
        lambda df, _: df[df.v > 0],
        lambda rows, _: [row for row in rows if (row[0][1] or 0) > 0],
    ),
    "assign": (
        lambda df, _: df.assign(v=(df.v * 2 + df.k).fillna(7)),
        lambda rows, _: [
            ((k, 7.0 if v is None else v * 2 + (k or 0)), ids) for (k, v), ids in rows
        ],
    ),
    "apply": (
        lambda df, _: df.assign(v=df.apply(lambda row: -row.v, axis=1, meta=("v", "float64"))),
        lambda rows, _: [((k, None if v is None else -v), ids) for (k, v), ids in rows],
    ),
    "dropna": (
        lambda df, _: df.dropna(),
        lambda rows, _: [row for row in rows if row[0][1] is not None],
    ),
    "group": (
        lambda df, _: df.groupby("k").v.sum().reset_index(),
        lambda rows, _: summed(rows),
    ),
    "group by specification": (
        lambda df, _: df.groupby("k", sort=False).agg({"v": "sum"}, split_out=2).reset_index(),
        lambda rows, _: summed(rows),
    ),
    "merge": (lambda df, right: with_sum(df.merge(right, on="k")), joined),
    "outer merge": (lambda df, right: with_sum(df.merge(right, on="k", how="outer")), outer),
    "index": (lambda df, _: df.reset_index(drop=True), lambda rows, _: rows),
}


def sources_of(folder: Path, app: str, rows: int) -> list[tuple[frozenset[str], bool]]:
    """Of each row of the result the rows of sources, and whether that is exact."""
    found = []
    with open_store(f"sqlite:///{folder / STORE}") as store:
        graph = store.graph(app)
        (sink,) = (node.node for node in graph.nodes() if node.node.startswith("compute-"))
        for row in range(rows):
            start = {f"{sink}#0": Region.from_positions([row])}
            answer = Tracer(graph).trace(Direction.BACKWARD, start)
            places = {
                f"{space}#{int(at)}"
                for node in answer.found.values()
                for space, region in node.spaces.items()
                for at in region.positions()
            }
            found.append((frozenset(places), answer.exact))
    return found


def run(folder: Path, program: Callable[[], Any], **options: Any) -> tuple[Any, Any]:
    """A result that was captured, and the rows that each of its rows is made from."""
    store = f"sqlite:///{folder / STORE}"
    with LineageApi("frames", store=store, spool=str(folder / "s")) as api, capture_dask(api):
        result = program().compute(**options)
    assert judged(folder, api.app).reasons == ()
    rows = len(result) if isinstance(result, pd.DataFrame | pd.Series) else 1
    return result, sources_of(folder, api.app, rows)


def values_of(result: Any) -> list[Values]:
    return [
        tuple(None if math.isnan(value) else float(value) for value in row)
        for row in result[["k", "v"]].itertuples(index=False)
    ]


@settings(max_examples=25, deadline=None)
@given(
    left=ROWS,
    right=ROWS,
    partitions=st.integers(1, 3),
    names=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4),
)
def test_rows_are_traced_as_brute_force_says(
    left: list[tuple[int, int | None]],
    right: list[tuple[int, int | None]],
    partitions: int,
    names: list[str],
) -> None:
    def program() -> Any:
        computed, other = frame(left, "v", partitions), frame(right, "w", partitions)
        for name in names:
            computed = STEPS[name][0](computed, other)
        return computed

    with tempfile.TemporaryDirectory() as name:
        result, found = run(Path(name), program)
    # Sources are numbered in the order in which the result needs them: rows say which is which.
    expected = []
    for first, second in (("FromPandas-0", "FromPandas-1"), ("FromPandas-1", "FromPandas-0")):
        rows = source_rows(first, left, frame(left, "v", partitions))
        others = source_rows(second, right, frame(right, "w", partitions))
        for name in names:
            rows = STEPS[name][1](rows, others)
        expected.append(Counter(rows))
    assert all(is_exact for _, is_exact in found)
    actual = zip(values_of(result), (ids for ids, _ in found), strict=True)
    assert Counter(actual) in expected


def table() -> Any:
    return frame([(n % 3, n) for n in range(9)], "v", 3)


def places(*rows: int) -> frozenset[str]:
    return frozenset(f"FromPandas-0#{row // 3}#{row % 3}" for row in rows)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda df: df.v.sum(), [(places(*range(9)), True)]),
        (lambda df: df.v.mean(), [(places(*range(9)), True)]),
        (lambda df: df.v.max(), [(places(*range(9)), False)]),
        (lambda df: df[df.v > 5].v.count(), [(places(6, 7, 8), True)]),
        (lambda df: df.sum(), [(places(*range(9)), True)] * 2),
        (lambda df: df.groupby("k").v.max(), [(places(n, n + 3, n + 6), False) for n in range(3)]),
        (lambda df: df.groupby("k").size(), [(places(n, n + 3, n + 6), True) for n in range(3)]),
        (
            lambda df: df.groupby("k").agg({"v": ["sum", "first"]}),
            [(places(n, n + 3, n + 6), False) for n in range(3)],
        ),
        (
            lambda df: df.map_partitions(lambda part: part.sort_values("v").head(1)),
            [(places(n, n + 1, n + 2), False) for n in (0, 3, 6)],
        ),
        (
            lambda df: df.groupby("k").v.nunique(),
            [(places(n, n + 3, n + 6), False) for n in range(3)],
        ),
        (lambda df: df.v[df.k == 1], [(places(n), True) for n in (1, 4, 7)]),
    ],
)
def test_results_are_those_of_plain_dask_and_traced(
    tmp_path: Path, program: Callable[[Any], Any], expected: Any
) -> None:
    plain = program(table()).compute()
    result, found = run(tmp_path, lambda: program(table()))
    assert found == expected
    assert type(result) is type(plain)
    if isinstance(plain, pd.DataFrame | pd.Series):
        assert result.equals(plain)
    else:
        assert result == plain


def run_once_each(part: pd.DataFrame, folder: str) -> pd.DataFrame:
    """Rows that are others each time; fails the first time."""
    if not part.empty:
        with (Path(folder) / f"runs of {part.v.min():g}").open("a") as runs:
            runs.write("x")
        if (Path(folder) / f"runs of {part.v.min():g}").stat().st_size == 1:
            raise ValueError(part)
    return part.sample(frac=0.67)


def test_a_task_that_is_tried_again_counts_once(tmp_path: Path) -> None:
    function = partial(run_once_each, folder=str(tmp_path))
    kept: list[Any] = []

    def program() -> Any:
        mapped = table().map_partitions(function, meta=table()._meta)
        return mapped[mapped.v >= 0]

    with dask.config.set(scheduler="synchronous"):
        # Dask's own scheduler tries nothing again: so the whole is.
        for _ in range(4):
            try:
                kept.append(run(tmp_path / str(len(kept)), program))
                break
            except ValueError:
                continue
    ((result, found),) = kept
    assert {(tmp_path / f"runs of {n}").stat().st_size for n in (0, 3, 6)} <= {2, 3, 4}
    for value, (ids, is_exact) in zip(result.v.astype(int), found, strict=True):
        first = value // 3 * 3
        assert (ids, is_exact) == (places(first, first + 1, first + 2), False)


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("CumSum", lambda df: df.v.cumsum().compute()),
        ("Tail", lambda df: df.tail(2)),
        ("SetIndex", lambda df: df.set_index("v", sorted=False).compute()),
        ("over several collections", lambda df: (df.v / df.v.sum()).compute()),
        ("over several collections", lambda df: df[df.v > 0].v.add(df.v).compute()),
        ("by other than names", lambda df: df.groupby(df.k + 1).v.sum().compute()),
        ("leftsemi", lambda df: df.merge(table(), on="k", how="leftsemi").compute()),
        ("persist", lambda df: df.persist()),
        ("DataFrame in other ways", lambda df: df.to_delayed()),
        ("dask.delayed of a DataFrame", dask.delayed(len)),
        ("dask.compute of DataFrame", lambda df: dask.compute([df])),
        ("Apply", lambda df: df.v.apply("sum", meta=("v", "f8")).compute()),
    ],
)
def test_what_is_not_captured_is_refused_by_name(
    tmp_path: Path, name: str, use: Callable[[Any], Any]
) -> None:
    store = f"sqlite:///{tmp_path / STORE}"
    with (
        LineageApi("frames", store=store, spool=str(tmp_path / "s")) as api,
        capture_dask(api),
        pytest.raises(UnsupportedOperatorError, match=name),
    ):
        use(table())


LATE = """
import sys
from lineage import LineageApi, capture_dask
import dask
from dask import bag

before = dask.base.compute
with LineageApi("late", app="late") as api, capture_dask(api), dask.config.set(scheduler="synchronous"):
    assert bag.from_sequence([1, 2, 3]).sum().compute() == 6
    assert "pandas" not in sys.modules and "dask.dataframe" not in sys.modules
    import pandas as pd
    from dask import dataframe as dd

    df = dd.from_pandas(pd.DataFrame({"v": range(6)}), npartitions=2)
    assert df[df.v > 3].compute().v.tolist() == [4, 5]
    try:
        df.persist()
    except Exception as refused:
        print(type(refused).__name__)
assert dask.base.compute is before
print(len(dd.from_pandas(pd.DataFrame({"v": range(6)}), npartitions=2).persist()))
"""


def test_a_program_that_loads_dataframes_late_is_captured(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATE],
        env=os.environ | {"LINEAGE_STORE": f"sqlite:///{tmp_path / STORE}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["UnsupportedOperatorError", "6"]
    assert judged(tmp_path, "late").reasons == ()
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        tracer = Tracer(store.graph("late"))
        for row in range(2):
            answer = tracer.trace(Direction.BACKWARD, {"compute-3#0": Region.from_positions([row])})
            (node,) = answer.found.values()
            assert answer.exact
            assert {space: list(at.positions()) for space, at in node.spaces.items()} == {
                "FromPandas-2#1": [1 + row]
            }


@pytest.mark.parametrize("wrong", ["unknown", "fewer", "more"])
def test_origins_that_do_not_fit_the_rows_count_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    rows_of = dask_frames.rows_of

    def rows_with_others(*packed: Any) -> Any:
        rows, origins = rows_of(*packed)
        if wrong == "unknown":
            return rows, ["?", *origins[1:]]
        return rows, origins[1:] if wrong == "fewer" else ["?", *origins]

    monkeypatch.setattr(dask_frames, "rows_of", rows_with_others)
    store = f"sqlite:///{tmp_path / STORE}"
    with LineageApi("wrong", store=store, spool=str(tmp_path / "s")) as api, capture_dask(api):
        table().compute()
    reasons = judged(tmp_path, api.app).reasons
    assert any("rows and their origins do not fit each other" in reason for reason in reasons)
