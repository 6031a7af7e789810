"""The experiment of faulty actors: its ground truth, and what its figures say."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.faulty_actors import ACTORS, LAST, Job, is_first, measured, percentile_ranks
from benchmarks.report.faults import ranks
from benchmarks.report.rows import Row
from lineage.access import StoredAccess, open_access
from lineage_core.tracing.trace_result import Direction
from lineage_query.suspects.answer import Rank, Suspects, SuspectTask
from lineage_query.trace_query import TraceQuery

pytestmark = pytest.mark.unit
FAULTY = frozenset({("map-a", 0), ("map-c", 3)})


def found(*places: tuple[str, int, int, int]) -> Suspects:
    """Suspects of these tasks: node, partition, rank and how many share it."""
    tasks = tuple(
        SuspectTask(node, node, partition, "", 1, 0, (), Rank(rank, tied, 1.0))
        for node, partition, rank, tied in places
    )
    return Suspects("join", (), (), 0, True, (), True, False, (), tasks=tasks)


def test_percentile_ranks_share_the_places_of_equals() -> None:
    both = found(("map-a", 0, 1, 1), ("map-c", 3, 2, 2), ("join-1", 1, 2, 2))
    first, second = 100.0, 100 * (1 - 1.5 / (ACTORS - 1))
    assert sorted(percentile_ranks(both, FAULTY)) == pytest.approx([second, first])
    unlisted = 100 * (1 - (1 + (ACTORS - 2) / 2) / (ACTORS - 1))
    assert sorted(percentile_ranks(found(("map-a", 0, 1, 1)), FAULTY)) == pytest.approx(
        [unlisted, first]
    )


def test_the_first_rank_counts_where_no_other_actor_shares_it() -> None:
    assert is_first(found(("map-a", 0, 1, 2), ("map-c", 3, 1, 2)), FAULTY)
    assert not is_first(found(("map-a", 0, 1, 2), ("join-1", 1, 1, 2)), FAULTY)
    assert not is_first(found(), FAULTY)


def test_bad_rows_are_those_that_faulty_mappers_made(tmp_path: Path) -> None:
    """A row is bad just where its trace comes by a record that went wrong: one in ten of a faulty mapper's."""
    job = Job(random.Random(3), 2, FAULTY)
    url = f"sqlite:///{tmp_path}/lineage.db"
    job.run(url)
    assert job.bad
    assert job.good
    with open_access(url) as access:
        assert isinstance(access, StoredAccess)
        for is_bad, rows in ((True, job.bad[:8]), (False, job.good[:8])):
            for place in rows:
                assert place.startswith(LAST)
                answer = access.ask(TraceQuery(Direction.BACKWARD, (place,), app="join"))
                inputs = {item.address for group in answer.groups for item in group.items}
                assert len(inputs) == 4
                wrong = {f"{node[-1]}#{n}#{at}" for node, n in FAULTY for at in range(0, 60, 10)}
                assert bool(inputs & wrong) == is_bad


def test_with_bad_and_good_rows_a_faulty_mapper_comes_first() -> None:
    figures = measured(5, 1, 1)
    assert figures["20 bad and 20 good"]["first"] == "1/1"
    row = Row(
        {
            "benchmark": "faulty-actors",
            "actors": ACTORS,
            "trials": 1,
            "magnitudes": {"5": figures},
            "provenance": {"commit": "abc", "command": "python -m benchmarks.faulty_actors"},
        }
    )
    assert "| 5 | " in ranks([row])
