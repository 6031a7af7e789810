"""Origins of rows in columns: each step gives what sets of addresses give."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.sdk import dask_batches, dask_keys, dask_rows
from lineage_emitter.sdk.dask_rows import Origins, joined, joined_rows, numbered, origins_of

pytestmark = pytest.mark.property

Ids = list[frozenset[str]]
addresses = st.builds("{}#{}".format, st.sampled_from(["a#0", "a#1", "b#7"]), st.integers(0, 30))
far = st.builds("c#{}#{}".format, st.integers(0, 3), st.integers(0, 2**40 - 2))
sets_of_addresses = st.lists(st.frozensets(addresses | far, max_size=5), max_size=8)


def single(space: str, positions: list[int]) -> Origins:
    return Origins((space,), np.array(positions, np.uint64))


@st.composite
def origins(draw: st.DrawFn) -> tuple[Origins, Ids]:
    """Origins, and the same as sets: rows of batches, perhaps some of them, perhaps united."""
    if draw(st.booleans()):
        space, positions = draw(st.sampled_from(["a#0", "b#7"])), draw(st.lists(st.integers(0, 30)))
        made, ids = single(space, positions), [frozenset([f"{space}#{at}"]) for at in positions]
    else:
        ids = draw(sets_of_addresses)
        made = origins_of(ids)
    for _ in range(draw(st.integers(0, 2))):
        if not ids:
            break
        places = draw(st.lists(st.integers(0, len(ids) - 1), max_size=12))
        if draw(st.booleans()):
            made, ids = made.take(np.array(places, np.int64)), [ids[at] for at in places]
        else:
            group = [draw(st.integers(0, 3)) for _ in ids]
            made, ids = made.grouped(np.array(group, np.int64), 4), united(ids, group, 4)
    return made, ids


def united(ids: Ids, group: list[int], groups: int) -> Ids:
    return [
        frozenset[str]().union(*(of_row for of_row, at in zip(ids, group, strict=True) if at == n))
        for n in range(groups)
    ]


@given(st.lists(origins(), max_size=4), st.data())
def test_rows_that_are_joined_and_united_have_the_addresses_of_all(
    parts: list[tuple[Origins, Ids]], data: st.DataObject
) -> None:
    whole, ids = joined([made for made, _ in parts]), [row for _, part in parts for row in part]
    assert len(whole) == len(ids)
    assert list(whole.ids()) == ids
    assert list(whole.together().ids()) == [frozenset[str]().union(*ids)]
    group = [data.draw(st.integers(0, 5)) for _ in ids]
    assert list(whole.grouped(np.array(group, np.int64), 6).ids()) == united(ids, group, 6)


@given(st.lists(origins(), max_size=3), st.integers(1, 6), st.integers(1, 4))
def test_flows_are_the_addresses_of_the_rows(
    parts: list[tuple[Origins, Ids]], expanded: int, runs_max: int
) -> None:
    whole = joined([made for made, _ in parts])
    expected = {(n, address) for n, row in enumerate(whole.ids()) for address in row}
    flows: Counter[tuple[int, str]] = Counter()
    with (
        patch.object(dask_rows, "ITEMS_EXPANDED", expanded),
        patch("lineage_emitter.worker.recorders.RUNS_MAX", runs_max),
    ):
        for flow in whole.flows():
            last = flow.in_first if flow.in_last is None else flow.in_last
            ptr = np.arange(len(flow.out) + 1) if flow.in_ptr is None else flow.in_ptr
            assert len(ptr) == len(flow.out) + 1
            assert ptr[-1] == len(flow.in_first) == len(last)
            assert int(np.diff(ptr).max()) <= runs_max
            for n, out in enumerate(flow.out.tolist()):
                runs = range(int(ptr[n]), int(ptr[n + 1]))
                for low, high in ((int(flow.in_first[at]), int(last[at])) for at in runs):
                    flows.update((out, f"{flow.in_space}#{at}") for at in range(low, high + 1))
    assert flows == Counter(expected)
    empty = [n for n, row in enumerate(whole.ids()) if not row]
    assert whole.without_items().tolist() == empty


@given(
    st.lists(st.lists(st.lists(st.sampled_from([0, 1, 1.0, True, "a", None]), max_size=6))),
    st.integers(1, 5),
    st.integers(1, 9),
)
def test_counts_are_those_of_each_value_with_all_records_that_hold_it(
    partitions: list[list[list[object]]], batch: int, pending: int
) -> None:
    counts: dict[object, int] = {}
    ids: dict[object, set[str]] = {}
    for n, partition in enumerate(partitions):
        for at, record in enumerate(partition):
            for value in record:
                counts[value] = counts.get(value, 0) + 1
                ids.setdefault(value, set()).add(f"s#{n}#{at}")
    with (
        patch.object(dask_rows, "BATCH_RECORDS", batch),
        patch.object(dask_keys, "ROWS_PENDING", pending),
    ):
        parts = [
            dask_keys.counted(dask_batches.spread_out(numbered(f"s#{n}", partition)))
            for n, partition in enumerate(partitions)
        ]
        whole = dask_keys.counted_together(parts)
    assert list(map(repr, whole.values)) == list(map(repr, counts.items()))
    assert list(whole.origins.ids()) == [frozenset(ids[value]) for value in counts]


def ending(value: int) -> int:
    if value == 4:
        raise StopIteration
    return value


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_a_function_that_stops_ends_the_partition_as_without_capture(batch: int) -> None:
    with patch.object(dask_rows, "BATCH_RECORDS", batch):
        rows = joined_rows(dask_batches.mapped(ending, (), {}, numbered("s#0", range(9))))
    assert rows.values == [0, 1, 2, 3]
    assert list(rows.origins.ids()) == [frozenset([f"s#0#{n}"]) for n in range(4)]


@pytest.mark.parametrize("batch", [1, 3, 4, 100])
@pytest.mark.parametrize("keep", [True, False])
def test_a_predicate_that_stops_ends_the_partition_as_without_capture(
    batch: int, keep: bool
) -> None:
    with patch.object(dask_rows, "BATCH_RECORDS", batch):
        rows = joined_rows(dask_batches.chosen(ending, numbered("s#0", range(9)), keep=keep))
    chosen = [1, 2, 3] if keep else [0]
    assert rows.values == chosen
    assert list(rows.origins.ids()) == [frozenset([f"s#0#{n}"]) for n in chosen]


@given(st.lists(st.integers(0, 9)), st.integers(1, 4))
def test_records_that_are_chosen_keep_their_places(values: list[int], batch: int) -> None:
    with patch.object(dask_rows, "BATCH_RECORDS", batch):
        rows = joined_rows(
            dask_batches.chosen(lambda value: value % 3, numbered("s#0", values), keep=False)
        )
    expected = [(value, f"s#0#{n}") for n, value in enumerate(values) if value % 3 == 0]
    assert rows.values == [value for value, _ in expected]
    assert list(rows.origins.ids()) == [frozenset([address]) for _, address in expected]


def test_positions_that_no_item_can_name_are_refused() -> None:
    with pytest.raises(CaptureFailedError, match="are not captured"):
        origins_of([frozenset([f"a#0#{dask_rows.POSITIONS_MAX}"])])
    with (
        patch.object(dask_rows, "POSITIONS_MAX", 3),
        pytest.raises(CaptureFailedError, match="more than 3 records"),
    ):
        list(numbered("a#0", range(4)))


def test_a_record_goes_through_all_functions_before_the_next_one_goes_through_the_first() -> None:
    told: list[tuple[str, int]] = []

    def tell(name: str, value: int) -> int:
        told.append((name, value))
        return value

    rows = dask_batches.mapped(
        lambda value: tell("first", value), (), {}, numbered("s#0", range(3))
    )
    rows = dask_batches.chosen(lambda value: tell("chosen", value) != 1, rows, keep=True)
    rows = dask_batches.mapped(lambda value: iter([tell("made", value)] * 2), (), {}, rows)
    rows = dask_batches.mapped(
        lambda value: tell("last", value), (), {}, dask_batches.spread_out(rows)
    )
    whole = joined_rows(rows)
    assert whole.values == [0, 0, 2, 2]
    assert list(whole.origins.ids()) == [frozenset([f"s#0#{n}"]) for n in (0, 0, 2, 2)]
    assert told == [
        *(("first", 0), ("chosen", 0), ("made", 0), ("last", 0), ("last", 0)),
        *(("first", 1), ("chosen", 1)),
        *(("first", 2), ("chosen", 2), ("made", 2), ("last", 2), ("last", 2)),
    ]


def test_iterators_are_handed_on_as_they_are() -> None:
    rows = dask_batches.mapped(iter, (), {}, numbered("s#0", ["ab", "cd"]))
    assert joined_rows(dask_batches.mapped(next, (), {}, rows)).values == ["a", "c"]
    rows = dask_batches.mapped(iter, (), {}, numbered("s#0", ["ab"]))
    assert joined_rows(rows).values == [["a", "b"]]
