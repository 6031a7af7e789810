"""Questions of many items of triples: files of items, and items of either type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_core.tracing.budget import TooMuchError
from lineage_store.errors import StoreError, TriplesNotFoundError
from lineage_store.triples import files, following, numbering, tracing
from lineage_store.triples.data_sets import TripleStore
from lineage_store.triples.sources import read_items
from lineage_store.triples.tracing import Method, trace_items

pytestmark = pytest.mark.unit


def stored(folder: Path, ends: list[tuple[Any, Any]], *more: list[tuple[Any, Any]]) -> TripleStore:
    store = TripleStore(f"lake:{folder}/lake", create=True)
    for at, batch in enumerate([ends, *more]):
        src, dst = zip(*batch, strict=True)
        path = folder / f"{at}.parquet"
        pq.write_table(pa.table({"src": src, "dst": dst, "op": ["x"] * len(src)}), path)
        store.add("set", [path])
        store.index("set")
    return store


def test_items_of_several_components_are_traced_by_one_question(tmp_path: Path) -> None:
    store = stored(tmp_path, [(1, 2), (2, 3), (7, 8), (20, 21)], [(3, 4), (5, 4), (8, 8)])
    for method in Method:
        found = trace_items(store, "set", pa.array([8, 4, 2, 8]), is_back=True, method=method)
        assert (found.asked, found.items) == ([2, 4, 8], [1, 3, 5, 7])
        ends = [(src, dst) for src, dst, _ in found.triples]
        assert ends == [(1, 2), (2, 3), (3, 4), (5, 4), (7, 8), (8, 8)]
        assert found.component_triples == 6


def _chain_in_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TripleStore:
    """299 triples in a row, in ten sets of 30 items, and row groups of ten triples."""
    monkeypatch.setattr(files, "GROUP_ROWS", 10)
    chain, nodes = tmp_path / "chain.parquet", tmp_path / "nodes.parquet"
    items = list(range(300))
    pq.write_table(pa.table({"src": items[:-1], "dst": items[1:], "op": ["x"] * 299}), chain)
    pq.write_table(pa.table({"item": items, "node": [str(item // 30) for item in items]}), nodes)
    store = TripleStore(f"lake:{tmp_path}/lake", create=True)
    store.add("set", [chain], [nodes])
    store.index("set", set_items=30)
    return store


def _set(monkeypatch: pytest.MonkeyPatch, settings: dict[str, int]) -> None:
    for name, value in settings.items():
        monkeypatch.setattr(following if name == "STEP_TRIPLES" else tracing, name, value)


@pytest.mark.parametrize(
    ("settings", "method", "reason"),
    [
        ({}, Method.CCPROV, "as its component has 299 triples in all"),
        ({"AUTO_ROWS": 0, "STEP_TRIPLES": 0}, Method.RQ, "as rq took 60 steps; ccprov would read 299 triples"),
        ({"AUTO_ROWS": 0}, Method.CCPROV, "as rq took 1 steps and was not over; ccprov would read 299 triples"),
        ({"AUTO_ROWS": 0, "SETS_LOOKED_AT": 0}, Method.CSPROV, "and was not over; ccprov would read 299 triples, csprov would read "),
        ({"AUTO_ROWS": 0, "SETS_LOOKED_AT": 0, "MOST_TRIPLES": 0}, Method.RQ, "as rq took 60 steps; ccprov"),
    ],
)  # fmt: skip
def test_the_method_is_chosen_by_what_each_would_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, int],
    method: Method,
    reason: str,
) -> None:
    store = _chain_in_sets(tmp_path, monkeypatch)
    _set(monkeypatch, settings)
    found = trace_items(store, "set", pa.array([59]), is_back=True)
    assert found.items == [*range(59)]
    assert found.method is method
    assert reason in found.reason
    if method is Method.CSPROV:
        assert found.read.triples < 150


@pytest.mark.parametrize(
    ("settings", "method", "reason"),
    [
        ({}, Method.CCPROV, "its component has 299 triples in all"),
        ({"AUTO_ROWS": 0, "STEP_TRIPLES": 0}, Method.RQ, "rq took 60 steps; ccprov would read 299 triples"),
        ({"AUTO_ROWS": 0, "SETS_LOOKED_AT": 0}, Method.CCPROV, "rq took 1 steps and was not over; ccprov would read 299 triples"),
        ({"AUTO_ROWS": 0, "SETS_LOOKED_AT": 0, "MOST_TRIPLES": 298}, Method.RQ, "rq took 60 steps; ccprov would read 299 triples"),
    ],
)  # fmt: skip
def test_sets_that_depend_on_too_many_others_are_given_up(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, int],
    method: Method,
    reason: str,
) -> None:
    store = _chain_in_sets(tmp_path, monkeypatch)
    asked = pa.array([59])
    by_sets = trace_items(store, "set", asked, is_back=True, method=Method.CSPROV)
    assert (by_sets.method, by_sets.reason) == (Method.CSPROV, "")
    # The set of the item depends on one other.
    _set(monkeypatch, settings | {"MOST_DEPENDENCIES": 0})
    found = trace_items(store, "set", asked, is_back=True, method=Method.CSPROV)
    assert (found.items, found.triples) == (by_sets.items, by_sets.triples)
    assert found.method is method
    assert found.reason == (
        f"as connected sets depend on each other more than 0 times, and {reason}"
    )
    # By itself nothing goes that way.
    chosen = trace_items(store, "set", asked, is_back=True)
    assert (chosen.items, chosen.method) == (by_sets.items, method)
    assert chosen.reason == f"as {reason}"


def test_what_is_too_much_has_a_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = _chain_in_sets(tmp_path, monkeypatch)
    _set(monkeypatch, {"MOST_TRIPLES": 50})
    for method in (Method.CCPROV, Method.CSPROV):
        with pytest.raises(TooMuchError, match=r"more than 50: .*--method auto.*--engine spark"):
            trace_items(store, "set", pa.array([299]), is_back=True, method=method)
    _set(monkeypatch, {"MOST_ANSWERED": 1})
    with pytest.raises(TooMuchError, match=r"has 2 items, more than 1: .*--engine spark"):
        trace_items(store, "set", pa.array([1, 2]), is_back=True)


def test_texts_stand_for_integers_in_their_one_form(tmp_path: Path) -> None:
    store = stored(tmp_path, [(-1, 2), (10, 11)])
    assert trace_items(store, "set", pa.array(["2", "11", "2"]), is_back=True).items == [-1, 10]
    for text in ("02", "2 ", "", "two", str(1 << 63), "3"):
        with pytest.raises(TriplesNotFoundError, match="has no item"):
            trace_items(store, "set", pa.array(["2", text]), is_back=True)


def test_items_that_are_missing_are_named(tmp_path: Path) -> None:
    store = stored(tmp_path, [("a", "b")])
    asked = pa.array(["b", *"cdefg"])
    with pytest.raises(TriplesNotFoundError, match="no items 'c', 'd', 'e' and 2 others"):
        trace_items(store, "set", asked, is_back=True)
    with pytest.raises(StoreError, match="are texts, and those that are asked for are integers"):
        trace_items(store, "set", pa.array([1]), is_back=True)


def test_texts_with_one_key_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbering, "text_key", len)
    store = stored(tmp_path, [("a", "b"), ("c", "d")])
    assert trace_items(store, "set", pa.array(["d"]), is_back=True).items == ["c"]
    with pytest.raises(TriplesNotFoundError, match="'e'"):
        trace_items(store, "set", pa.array(["b", "e"]), is_back=True)


def test_files_of_items(tmp_path: Path) -> None:
    text, table = tmp_path / "a.csv", tmp_path / "a.parquet"
    text.write_text("note,item\nx,007\ny,a b\n")
    assert read_items(text, 2).to_pylist() == ["007", "a b"]
    pq.write_table(pa.table({"item": pa.array([3, 4], pa.uint8())}), table)
    assert read_items(table, 2).to_pylist() == [3, 4]
    with pytest.raises(StoreError, match="more than 1 items"):
        read_items(table, 1)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1, None]), "row 2 has no item"),
        (pa.array(["a", ""]), "row 2 has no item"),
        (pa.array([], pa.int64()), "has no rows"),
        (pa.array([0.5]), "integers or texts"),
    ],
)
def test_files_of_items_that_are_refused(tmp_path: Path, column: Any, message: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"item": column}), path)
    with pytest.raises(StoreError, match=message):
        read_items(path, 10)
    pq.write_table(pa.table({"other": column}), path)
    with pytest.raises(StoreError, match="no column 'item'"):
        read_items(path, 10)
    with pytest.raises(StoreError, match="Parquet or CSV"):
        read_items(tmp_path / "a.json", 10)
