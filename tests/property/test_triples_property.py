"""All methods of tracing triples equal a breadth-first search in memory, whatever is imported and in which order."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_store.triples import files
from lineage_store.triples.data_sets import TripleStore
from lineage_store.triples.tracing import Method, trace
from tests.oracle.budget import examples

pytestmark = pytest.mark.property

Triple: TypeAlias = tuple[int, int, str]

ITEMS = 14
some_triples = st.lists(
    st.tuples(st.integers(0, ITEMS), st.integers(0, ITEMS), st.sampled_from("ab")),
    min_size=1,
    max_size=25,
)
chains = st.integers(1, ITEMS).map(lambda n: [(at, at + 1, "a") for at in range(n)])
stars = st.integers(1, ITEMS).map(lambda n: [(at, ITEMS, "b") for at in range(n)])
imports = st.lists(st.one_of(some_triples, chains, stars), min_size=1, max_size=3)
nodes = st.dictionaries(st.integers(0, ITEMS), st.integers(0, 4))


@pytest.fixture(scope="module", autouse=True)
def _small_files() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "GROUP_ROWS", 3)
        patch.setattr(files, "FILE_ROWS", 7)
        yield


def searched(triples: set[Triple], start: int, near: int) -> set[Triple]:
    """The triples on the way from an item: ``near`` is the place of the end that is known."""
    found: set[Triple] = set()
    waiting, seen = [start], {start}
    while waiting:
        item = waiting.pop()
        for triple in triples:
            if triple[near] == item:
                found.add(triple)
                far = triple[1 - near]
                assert isinstance(far, int)
                if far not in seen:
                    seen.add(far)
                    waiting.append(far)
    return found


def _name(item: int, *, is_text: bool) -> Any:
    # Negative and far apart, and texts whose order is not that of the numbers.
    return f"é{item}" if is_text else (item - 3) * (1 << 40)


def _written(path: Path, triples: list[Triple], *, is_text: bool) -> Path:
    src, dst, op = zip(*triples, strict=True)
    ends = [[_name(item, is_text=is_text) for item in end] for end in (src, dst)]
    pq.write_table(pa.table({"src": ends[0], "dst": ends[1], "op": list(op)}), path)
    return path


@settings(max_examples=examples(12), deadline=None)
@given(imports, nodes, st.booleans(), st.integers(1, 6), st.booleans())
def test_all_methods_equal_a_search(
    batches: list[list[Triple]],
    node_of: dict[int, int],
    is_text: bool,
    set_items: int,
    is_indexed_between: bool,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = TripleStore(f"lake:{folder}/lake", create=True)
        path = Path(folder, "nodes.parquet")
        if node_of:
            items = [_name(item, is_text=is_text) for item in node_of]
            pq.write_table(pa.table({"item": items, "node": list(node_of.values())}), path)
        for at, batch in enumerate(batches):
            path_of_batch = _written(Path(folder, f"{at}.parquet"), batch, is_text=is_text)
            store.add("set", [path_of_batch], [path] if node_of else [])
            if is_indexed_between:
                store.index("set", set_items=set_items)
        if not is_indexed_between:
            store.index("set", set_items=set_items)
        triples = {triple for batch in batches for triple in batch}
        for item in {end for triple in triples for end in triple[:2]}:
            _compare(store, triples, item, is_text=is_text)


def _compare(store: TripleStore, triples: set[Triple], item: int, *, is_text: bool) -> None:
    for is_back in (True, False):
        expected = searched(triples, item, 1 if is_back else 0)
        named = sorted(
            (_name(src, is_text=is_text), _name(dst, is_text=is_text), op)
            for src, dst, op in expected
        )
        reached = {end for triple in named for end in triple[:2]}
        start = _name(item, is_text=is_text)
        for method in Method:
            found = trace(store, "set", str(start), is_back=is_back, method=method)
            assert found.triples == named
            assert found.items == sorted(reached - {start})
