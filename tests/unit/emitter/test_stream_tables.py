"""Which version of a table a batch read, by looks before it and after it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lineage_emitter.dataframes import delta
from lineage_emitter.dataframes.stream_tables import SeenVersions

PATH = "file:/places"


class Index:
    """A table's list of files, as Spark has it: what it was when the query was made."""

    version_at_analysis = 3

    def path(self) -> Index:
        return self

    def toString(self) -> str:
        return PATH

    def snapshotAtAnalysis(self) -> Index:
        return self

    def version(self) -> int:
        return self.version_at_analysis


class Rows:
    """A plan with columns."""

    def __init__(self, columns: str) -> None:
        self._columns = columns

    def schema(self) -> Rows:
        return self

    def json(self) -> str:
        return self._columns


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> SeenVersions:
    monkeypatch.setattr(
        delta, "rows_of_version", lambda _, path, version: Rows("old" if version < 6 else "new")
    )
    return SeenVersions([(Rows("old"), Index())])


def test_a_look_counts_for_batches_that_began_behind_it(
    seen: SeenVersions, monkeypatch: pytest.MonkeyPatch
) -> None:
    for now, version in ((10.0, 3), (20.0, 4), (30.0, 5)):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        monkeypatch.setattr(delta, "latest_of", lambda _, version=version: {PATH: version})
        assert seen.look() == {PATH: version}
    found = [seen.before(at) for at in (9.9, 10.0, 19.9, 20.0, 31.0)]
    assert found == [{}, {PATH: 3}, {PATH: 3}, {PATH: 4}, {PATH: 5}]


@pytest.mark.parametrize(
    ("before", "now", "is_known"),
    [
        ({PATH: 4}, {PATH: 4}, True),
        # It became another one meanwhile: which of them was read?
        ({PATH: 3}, {PATH: 4}, False),
        ({}, {PATH: 4}, False),
        ({PATH: 4}, {}, False),
        # The plan itself says it.
        ({PATH: 3}, {PATH: 3}, False),
        # Its columns are others now.
        ({PATH: 6}, {PATH: 6}, False),
    ],
)
def test_a_version_is_known_that_the_table_had_all_the_while(
    seen: SeenVersions, before: Any, now: Any, is_known: bool
) -> None:
    spark: Any = None
    assert bool(seen.changed(spark, before, now)) == is_known
