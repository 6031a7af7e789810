"""Dask on a cluster of worker processes: what its results are traced to is what brute force says."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
from dask import bag, delayed
from distributed import Client

from lineage import LineageApi, UnsupportedOperatorError, capture_dask
from lineage_core.contract.positions import text_position
from lineage_core.contract.region import Region
from lineage_core.tracing.trace_result import Direction
from lineage_core.tracing.tracer import Tracer
from lineage_store.url import open_store
from tests.support.dask_cluster import two_workers
from tests.support.job_runs import STORE, judged

pytestmark = pytest.mark.integration

Traced = tuple[Any, frozenset[int]]
"""A record as brute force has it: its value and the records of the source that it was made from."""


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with two_workers() as client:
        yield client


@pytest.fixture
def api(tmp_path: Path) -> Iterator[LineageApi]:
    with LineageApi(
        "dask", store=f"sqlite:///{tmp_path / STORE}", spool=str(tmp_path / "s")
    ) as api:
        yield api


def tripled(value: int) -> int:
    return 3 * value


def is_even(value: int) -> bool:
    return value % 2 == 0


def repeated(value: int) -> list[int]:
    return [value + n for n in range(value % 3)]


def remainder(value: int) -> int:
    return value % 4


def total_of_group(group: tuple[int, list[int]]) -> int:
    return group[0] + sum(group[1])


STEPS: dict[str, tuple[Callable[[Any], Any], Callable[[list[Traced]], list[Traced]]]] = {
    "map": (lambda b: b.map(tripled), lambda rows: [(tripled(v), ids) for v, ids in rows]),
    "filter": (lambda b: b.filter(is_even), lambda rows: [r for r in rows if is_even(r[0])]),
    "remove": (lambda b: b.remove(is_even), lambda rows: [r for r in rows if not is_even(r[0])]),
    "flatten": (
        lambda b: b.map(repeated).flatten(),
        lambda rows: [(n, ids) for v, ids in rows for n in repeated(v)],
    ),
    "groupby": (
        lambda b: b.groupby(remainder).map(total_of_group),
        lambda rows: [
            (key + sum(v for v, _ in group), frozenset().union(*(ids for _, ids in group)))
            for key in {remainder(v) for v, _ in rows}
            if (group := [r for r in rows if remainder(r[0]) == key])
        ],
    ),
}


def sources_of(folder: Path, app: str, sink: str, rows: int) -> list[tuple[frozenset[int], bool]]:
    """Of each row of a result the records of the source, by their place in it, and whether that is exact."""
    found = []
    with open_store(f"sqlite:///{folder / STORE}") as store:
        tracer = Tracer(store.graph(app))
        for row in range(rows):
            answer = tracer.trace(Direction.BACKWARD, {f"{sink}#0": Region.from_positions([row])})
            spaces = {
                int(space.partition("#")[2]): region
                for node in answer.found.values()
                for space, region in node.spaces.items()
            }
            places = {
                PARTITION * part + int(at) for part in spaces for at in spaces[part].positions()
            }
            found.append((frozenset(places), answer.exact))
    return found


PARTITION = 6
"""Records in a partition of the source."""


def source() -> Any:
    return bag.from_sequence(list(range(24)), partition_size=PARTITION)


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_bags_are_traced_as_brute_force_says(
    client: Client, api: LineageApi, tmp_path: Path, seed: int
) -> None:
    names = random.Random(seed).choices(sorted(STEPS), k=3)
    expected: list[Traced] = [(n, frozenset([n])) for n in range(24)]
    with capture_dask(api):
        computed = source()
        for name in names:
            computed = STEPS[name][0](computed)
            expected = STEPS[name][1](expected)
        values = computed.compute()
        plain_total = computed.sum().compute() if values else 0
    api.close()
    assert judged(tmp_path, api.app).reasons == ()
    found = sources_of(tmp_path, api.app, "compute-1", len(values))
    assert all(is_exact for _, is_exact in found)
    actual = [(value, ids) for value, (ids, _) in zip(values, found, strict=True)]
    assert sorted(actual, key=repr) == sorted(expected, key=repr)
    assert plain_total == sum(values)


@pytest.mark.parametrize(
    ("name", "exact"),
    [("sum", True), ("count", True), ("mean", True), ("std", True), ("max", False), ("any", False)],
)
def test_reductions_are_made_from_all_records(
    client: Client, api: LineageApi, tmp_path: Path, name: str, exact: bool
) -> None:
    plain = getattr(source(), name)().compute()
    with capture_dask(api):
        assert getattr(source(), name)().compute() == plain
    api.close()
    assert sources_of(tmp_path, api.app, "compute-1", 1) == [(frozenset(range(24)), exact)]


def test_frequencies_are_made_from_all_records_of_a_value(
    client: Client, api: LineageApi, tmp_path: Path
) -> None:
    plain = source().map(remainder).frequencies(split_every=2).compute()
    with capture_dask(api):
        counts = source().map(remainder).frequencies(split_every=2).compute()
    api.close()
    assert counts == plain == [(value, 6) for value in range(4)]
    assert sources_of(tmp_path, api.app, "compute-1", 4) == [
        (frozenset(range(value, 24, 4)), True) for value in range(4)
    ]


def test_a_function_over_partitions_gives_a_superset(
    client: Client, api: LineageApi, tmp_path: Path
) -> None:
    with capture_dask(api):
        assert source().map_partitions(sorted, reverse=True).compute()[0] == 5
    api.close()
    whole = [
        (frozenset(range(6 * part, 6 * part + 6)), False) for part in range(4) for _ in range(6)
    ]
    assert sources_of(tmp_path, api.app, "compute-1", 24) == whole


def failing_once(value: int, folder: str) -> int:
    marker = Path(folder) / f"tried {value}"
    if value % 7 == 0 and not marker.exists():
        marker.touch()
        raise ValueError(value)
    return value


def test_a_task_that_fails_and_is_tried_again_counts_once(
    client: Client, api: LineageApi, tmp_path: Path
) -> None:
    with capture_dask(api):
        assert source().map(failing_once, str(tmp_path)).compute(retries=5) == list(range(24))
    api.close()
    verdict = judged(tmp_path, api.app)
    assert (verdict.reasons, verdict.flows, verdict.tasks_expected) == ((), 24, 1)
    assert (tmp_path / "tried 21").exists()
    found = sources_of(tmp_path, api.app, "compute-1", 24)
    assert found == [(frozenset([n]), True) for n in range(24)]


def added(*values: int) -> int:
    return sum(values)


def test_delayed_calls_are_traced_to_the_calls_that_data_begins_with(
    client: Client, api: LineageApi, tmp_path: Path
) -> None:
    random_choice, made_from = random.Random(3), dict[str, frozenset[str]]()
    with capture_dask(api):
        calls = [delayed(added)(n, dask_key_name=f"leaf {n}") for n in range(4)]
        made_from |= {f"leaf {n}": frozenset([f"leaf {n}"]) for n in range(4)}
        for n in range(12):
            arguments = random_choice.sample(calls, 2)
            name = f"call {n}"
            calls.append(delayed(added)(*arguments, dask_key_name=name))
            made_from[name] = frozenset().union(*(made_from[a.key] for a in arguments))
        results = dask.compute(*calls[4:])
    assert len(results) == 12
    api.close()
    assert judged(tmp_path, api.app).reasons == ()
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        tracer = Tracer(store.graph(api.app))
        for n, call in enumerate(calls[4:]):
            start = {f"delayed-{n}#0": Region.from_positions([0])}
            answer = tracer.trace(Direction.BACKWARD, start)
            assert answer.exact
            positions = {
                int(at)
                for node in answer.found.values()
                for region in node.spaces.values()
                for at in region.positions()
            }
            assert positions == {
                text_position(f"delayed-{n}:{leaf}") for leaf in made_from[call.key]
            }


def test_what_is_not_captured_is_refused_by_name(client: Client, api: LineageApi) -> None:
    plain = source()
    with capture_dask(api):
        traced = source()
        refused: list[tuple[str, Callable[[], Any]]] = [
            ("Bag.distinct by a key", lambda: traced.distinct("v")),
            ("Bag.frequencies that", lambda: traced.frequencies(sort=True)),
            ("Bag.topk", lambda: traced.topk(3)),
            ("Bag.join", lambda: traced.join([1], is_even)),
            ("Bag.to_delayed", lambda: traced.to_delayed(optimize_graph=False)),
            ("Bag.map over several", lambda: traced.map(added, traced)),
            ("dask.bag.concat of", lambda: bag.concat([traced, plain])),
            ("dask.bag.core.bag_zip", lambda: bag.zip(traced, traced)),
            ("dask.bag.core.bag_map", lambda: bag.map(added, traced, traced)),
            ("dask.delayed of a bag", lambda: delayed(added)(traced)),
            ("dask.delayed of a bag", lambda: delayed(added)([traced])),
            ("dask.compute of Bag", lambda: dask.compute(plain)),
            ("dask.compute of TracedBag", lambda: dask.compute([traced])),
            ("Client.compute", lambda: client.compute(traced)),
            ("dask.persist of other", lambda: delayed(added)(1).persist()),
            ("dask.persist of other", lambda: client.persist(delayed(added)(1))),
        ]
        for name, use in refused:
            with pytest.raises(UnsupportedOperatorError, match=name):
                use()
        assert bag.concat([traced, traced]).map(tripled).take(2) == (0, 3)
        assert traced.persist().map(tripled).compute() == [3 * n for n in range(24)]
    assert plain.compute() == list(range(24))
