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

from lineage_core.text_enum import StrEnum
from lineage_store.lake import file_writing
from lineage_store.triples import files, following, tracing, updating
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
nodes = st.dictionaries(st.integers(0, ITEMS), st.integers(0, 4))


@pytest.fixture(scope="module", autouse=True)
def _small_files() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "GROUP_ROWS", 3)
        patch.setattr(files, "FILE_ROWS", 7)
        patch.setattr(file_writing, "sync_files", lambda *_: None)
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


def item_name(item: int, *, is_text: bool) -> Any:
    """The item that a number of these tests stands for."""
    # Negative and far apart, and texts whose order is not that of the numbers.
    return f"é{item}" if is_text else (item - 3) * (1 << 40)


def _written(path: Path, triples: list[Triple], *, is_text: bool) -> Path:
    src, dst, op = zip(*triples, strict=True)
    ends = [[item_name(item, is_text=is_text) for item in end] for end in (src, dst)]
    pq.write_table(pa.table({"src": ends[0], "dst": ends[1], "op": list(op)}), path)
    return path


class Step(StrEnum):
    """What is done after an import."""

    LATER = "later"
    INDEX = "index"
    WHOLE = "whole"
    REMOVE = "remove"


steps = st.lists(
    st.tuples(
        st.one_of(some_triples, chains, stars),
        nodes,
        st.sampled_from([Step.INDEX, Step.INDEX, Step.INDEX, Step.LATER, Step.WHOLE, Step.REMOVE]),
    ),
    min_size=1,
    max_size=6,
)
Steps: TypeAlias = list[tuple[list[Triple], dict[int, int], Step]]
some_program = given(
    steps, st.booleans(), st.integers(1, 6), st.sampled_from([0, 0, updating.TAKEN_IN])
)


@settings(max_examples=examples(8), deadline=None)
@some_program
def test_all_methods_equal_a_search(
    program: Steps, is_text: bool, set_items: int, taken_in: int
) -> None:
    """``taken_in`` 0: each index but the first is a segment of its own."""
    _check_program(program, taken_in, is_text=is_text, set_items=set_items, most=4)


@pytest.mark.long
@settings(max_examples=examples(60), deadline=None)
@some_program
def test_all_methods_equal_a_search_after_many_programs(
    program: Steps, is_text: bool, set_items: int, taken_in: int
) -> None:
    _check_program(program, taken_in, is_text=is_text, set_items=set_items)


def _check_program(
    program: Steps, taken_in: int, *, is_text: bool, set_items: int, most: int = ITEMS + 1
) -> None:
    """``most``: items that are traced."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(updating, "TAKEN_IN", taken_in)
        store = TripleStore(f"lake:{folder}/lake", create=True)
        triples = imported(store, Path(folder), program, is_text=is_text, set_items=set_items)
        for item in sorted({end for triple in triples for end in triple[:2]})[-most:]:
            _compare(store, triples, item, is_text=is_text)


def imported(
    store: TripleStore, folder: Path, program: Steps, *, is_text: bool, set_items: int
) -> set[Triple]:
    """The triples of the data set after a program, indexed."""
    triples: set[Triple] = set()
    for at, (batch, node_of, step) in enumerate(program):
        path = _written(folder / f"{at}.parquet", batch, is_text=is_text)
        store.add("set", [path], _named(folder / f"{at}.nodes", node_of, is_text=is_text))
        triples |= set(batch)
        if step is Step.REMOVE:
            store.remove("set")
            triples.clear()
        elif step is not Step.LATER:
            counts = store.index("set", set_items=set_items, is_whole=step is Step.WHOLE)
            # Of a batch that is there already nothing waits.
            assert counts is None or counts.triples == len(triples)
    if triples:
        store.index("set", set_items=set_items)
    return triples


def _named(path: Path, node_of: dict[int, int], *, is_text: bool) -> list[Path]:
    if not node_of:
        return []
    items = [item_name(item, is_text=is_text) for item in node_of]
    pq.write_table(pa.table({"item": items, "node": list(node_of.values())}), path)
    return [path]


def component(triples: set[Triple], start: int) -> set[Triple]:
    """The triples that are connected with an item."""
    reached, former = {start}, set[int]()
    while reached != former:
        former = set(reached)
        for src, dst, _ in triples:
            if src in reached or dst in reached:
                reached |= {src, dst}
    return {triple for triple in triples if triple[0] in reached}


def _compare(store: TripleStore, triples: set[Triple], item: int, *, is_text: bool) -> None:
    for is_back in (True, False):
        expected = searched(triples, item, 1 if is_back else 0)
        named = sorted(
            (item_name(src, is_text=is_text), item_name(dst, is_text=is_text), op)
            for src, dst, op in expected
        )
        reached = {end for triple in named for end in triple[:2]}
        start = item_name(item, is_text=is_text)
        connected = len(component(triples, item))
        for method in Method:
            found = trace(store, "set", str(start), is_back=is_back, method=method)
            assert found.triples == named
            assert found.component_triples == connected
            assert found.items == sorted(reached - {start})
            assert bool(found.reason) is (method is Method.AUTO)
        for looked_at, step, dependencies, method in (
            (0, 0, 100, Method.AUTO),
            (0, 4_096, 100, Method.AUTO),
            (1 << 20, 0, 100, Method.AUTO),
            # Sets that depend on too many others.
            (0, 4_096, 0, Method.AUTO),
            (0, 4_096, 1, Method.CSPROV),
            (1 << 20, 0, 0, Method.CSPROV),
        ):
            # What is chosen where components are large: each of the three, and changed on the way.
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(tracing, "AUTO_ROWS", 0)
                patch.setattr(tracing, "SETS_LOOKED_AT", looked_at)
                patch.setattr(tracing, "MOST_DEPENDENCIES", dependencies)
                patch.setattr(following, "STEP_TRIPLES", step)
                found = trace(store, "set", str(start), is_back=is_back, method=method)
                assert found.triples == named
