"""Rows and tasks ranked by the outputs that they went into: as brute force counts over witnesses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage.access import StoredAccess, open_access
from lineage_core.tracing.budget import Budget, TimeUpError, use_budget
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query.answers import Answer, Group, Item
from lineage_query.rows.reader import RowReader
from lineage_query.snapshot import ApplicationCache
from lineage_query.suspects import ranking
from lineage_query.suspects.query import NoBadRowsError, SuspectsQuery
from lineage_query.suspects.ranking import Labels, TooManyInputsError, rank_suspects
from lineage_query.suspects.spectrum import FORMULAS, Formula, Spectrum
from lineage_query.trace import Trace
from lineage_query.trace_query import TraceQuery
from tests.support.stored_lineage import LINES, WORDS, store_run

pytestmark = pytest.mark.unit
OUT = [f"write#0#{n}" for n in range(len(WORDS))]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoredAccess]:
    folder = tmp_path_factory.mktemp("suspects")
    url = f"sqlite:///{folder}/lineage.db"
    store_run(url, folder)
    with open_access(url) as access:
        assert isinstance(access, StoredAccess)
        yield access


@pytest.fixture(scope="module")
def witnesses(stored: StoredAccess) -> dict[str, frozenset[str]]:
    """The inputs of each output, by single traces."""
    return {
        place: frozenset(
            item.address
            for group in stored.ask(TraceQuery(Direction.BACKWARD, (place,))).groups
            for item in group.items
        )
        for place in OUT
    }


@settings(max_examples=25)
@given(
    st.sets(st.integers(0, len(WORDS) - 1), min_size=1),
    st.sets(st.integers(0, len(WORDS) - 1)),
    st.sampled_from(FORMULAS),
)
def test_rows_are_ranked_as_brute_force_counts(
    stored: StoredAccess,
    witnesses: dict[str, frozenset[str]],
    bad: set[int],
    good: set[int],
    formula: Formula,
) -> None:
    bad_places = tuple(OUT[n] for n in sorted(bad))
    good_places = tuple(OUT[n] for n in sorted(good - bad))
    found = stored.suspects(SuspectsQuery(bad_places, good_places, None, 1_000, formula))
    inputs = frozenset[str]().union(*(witnesses[place] for place in bad_places))
    spectra = {
        row: Spectrum(
            sum(row in witnesses[place] for place in bad_places),
            sum(row in witnesses[place] for place in good_places),
            len(bad_places),
            len(good_places),
        )
        for row in inputs
    }
    suspects = {row: each for row, each in spectra.items() if each.is_suspect}
    assert (found.total, found.suspected) == (len(spectra), len(suspects))
    assert {row.item.address for row in found.items} == suspects.keys()
    for row in found.items:
        spectrum = suspects[row.item.address]
        assert (row.outputs, row.good_outputs) == (spectrum.bad, spectrum.good)
        keys = [other.key(formula) for other in suspects.values()]
        own = spectrum.key(formula)
        assert row.place.rank == 1 + sum(key > own for key in keys)
        assert row.place.tied == keys.count(own)
    assert [row.place.rank for row in found.items] == sorted(row.place.rank for row in found.items)
    assert (found.exact, found.complete) == (True, True)


def test_texts_are_those_of_the_rows(stored: StoredAccess) -> None:
    found = stored.suspects(SuspectsQuery((OUT[0],), (OUT[1],)))
    assert {row.item.text for row in found.items} <= set(LINES)
    assert all(row.item.text for row in found.items)


def test_tasks_on_the_way_are_ranked(stored: StoredAccess) -> None:
    found = stored.suspects(SuspectsQuery((OUT[0],)))
    assert found.tasks
    assert all(task.outputs == 1 for task in found.tasks)
    assert found.tasks[0].reasons(1, 0)[0] == "on the way to 1 of 1 bad outputs"
    assert stored.suspects(SuspectsQuery((OUT[0],), with_tasks=False)).tasks == ()


def test_an_output_is_not_bad_and_good(stored: StoredAccess) -> None:
    with pytest.raises(TraceError, match="is named as bad and as good"):
        stored.suspects(SuspectsQuery((OUT[0],), (OUT[1], OUT[0])))


def test_good_rows_alone_are_refused(stored: StoredAccess) -> None:
    with pytest.raises(NoBadRowsError, match="name a bad row"):
        stored.suspects(SuspectsQuery((), (OUT[1],)))


@contextmanager
def inputs_max(monkeypatch: pytest.MonkeyPatch, most: int) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(ranking, "RANKED_MAX", most)
        yield


def test_inputs_are_bounded(stored: StoredAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    with inputs_max(monkeypatch, 1), pytest.raises(TooManyInputsError):
        stored.suspects(SuspectsQuery(tuple(OUT)))


def test_no_time_gives_no_part_of_an_answer(stored: StoredAccess) -> None:
    with use_budget(Budget(seconds=-1.0)), pytest.raises(TimeUpError):
        stored.suspects(SuspectsQuery())


def test_the_health_of_an_application_needs_no_rows(stored: StoredAccess, tmp_path: Path) -> None:
    found = stored.suspects(SuspectsQuery())
    assert (found.app, found.items, found.requested_places) == ("app-1", (), ())
    assert found.complete


def of_dataframe(place: str, rows: list[int], *, count: int | None = None) -> Trace:
    """The trace of a row of a DataFrame, as a recomputation gives it."""
    items = tuple(Item(f"in.csv#{row}", f"in.csv:{row + 2}", f"row {row}") for row in rows)
    start = Group("9", "9", "parquet", "out", 1, (Item("9", None, place),))
    group = Group("7", "7", "csv", "in.csv", len(rows) if count is None else count, items)
    answer = Answer(
        "app-1", Direction.BACKWARD, (place,), (start,), True, (), (group,), (), False, True
    )
    return Trace(TraceQuery(Direction.BACKWARD, (place,)), recomputed=answer)


def test_rows_of_dataframes_are_ranked_by_their_answers(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lineage.db"
    store_run(url, tmp_path)
    bad = [of_dataframe("out#k=1", [0, 1, 2]), of_dataframe("out#k=2", [1, 2])]
    good = [of_dataframe("out#k=3", [2, 3])]
    with open_access(url) as access:
        assert isinstance(access, StoredAccess)
        opened = ApplicationCache(access.store, RowReader()).open("app-1")
        found = rank_suspects(opened, Labels.of(bad, good), 10, with_tasks=False)
        assert [(row.item.text, row.outputs, row.good_outputs) for row in found.items] == [
            ("row 1", 2, 0),
            ("row 0", 1, 0),
        ]
        # Row 2 went into all outputs, row 3 into no bad one.
        assert (found.total, found.suspected, found.exact, found.complete) == (3, 2, True, True)
        cut = Labels.of([of_dataframe("out#k=1", [0], count=2)])
        with pytest.raises(TooManyInputsError, match="more than are listed"):
            rank_suspects(opened, cut, 10, with_tasks=False)
