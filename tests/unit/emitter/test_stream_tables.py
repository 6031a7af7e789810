"""Which version of a table a batch read, by looks before it and after it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lineage_emitter.dataframes import delta
from lineage_emitter.dataframes.delta import TableVersion
from lineage_emitter.dataframes.stream_tables import SeenVersions
from lineage_emitter.pyspark_parts import WITH_DELTA

PATH = "file:/places"


def table(number: int, table_id: str = "first") -> dict[str, TableVersion]:
    """A table in a version."""
    return {PATH: TableVersion(number, table_id)}


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

    def metadata(self) -> Index:
        return self

    def id(self) -> str:
        return "first"


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
        delta,
        "rows_of_version",
        lambda _, path, version: Rows("old" if version.number < 6 else "new"),
    )
    return SeenVersions([(Rows("old"), Index())])


def test_a_look_counts_for_batches_that_began_behind_it(
    seen: SeenVersions, monkeypatch: pytest.MonkeyPatch
) -> None:
    for now, version in ((10.0, 3), (20.0, 4), (30.0, 5)):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        monkeypatch.setattr(delta, "latest_of", lambda _, version=version: table(version))
        assert seen.look() == table(version)
    found = [seen.before(at) for at in (9.9, 10.0, 19.9, 20.0, 31.0)]
    assert found == [{}, table(3), table(3), table(4), table(5)]


@pytest.mark.parametrize(
    ("before", "now", "is_known"),
    [
        (table(4), table(4), True),
        # It became another one meanwhile: which of them was read?
        (table(3), table(4), False),
        ({}, table(4), False),
        (table(4), {}, False),
        # The plan itself says it.
        (table(3), table(3), False),
        # It was removed and made anew, with as many versions: as another one it has been all the while, or not.
        (table(3, "second"), table(3, "second"), True),
        (table(4, "first"), table(4, "second"), False),
        # Its columns are others now.
        (table(6), table(6), False),
    ],
)
def test_a_version_is_known_that_the_table_had_all_the_while(
    seen: SeenVersions, before: Any, now: Any, is_known: bool
) -> None:
    spark: Any = None
    assert bool(seen.changed(spark, before, now)) == is_known
    # A frame that is kept in memory has the rows of another version.
    assert not seen.changed(spark, before, now, lambda: True)


class Relation:
    """What reads the latest version of a table."""

    def location(self) -> Relation:
        return self

    def getClass(self) -> Relation:
        return self

    def getName(self) -> str:
        return f"{delta.PACKAGE}files.TahoeLogFileIndex"

    def partitionFilters(self) -> Filters:
        return Filters()

    def isTimeTravelQuery(self) -> bool:
        return False

    def path(self) -> Index:
        return Index()

    def snapshotAtAnalysis(self) -> Index:
        return Index()


class Filters(list[str]):
    """None."""

    def isEmpty(self) -> bool:
        return True


@pytest.mark.skipif(not WITH_DELTA, reason="tables of Delta Lake are not traced in this Spark")
def test_a_table_of_as_many_versions_is_not_taken_for_the_one_that_was_read() -> None:
    spark: Any = None
    with pytest.raises(delta.UnknownVersionError, match="removed and made anew"):
        delta.source(spark, Relation(), table(3, "second"))
    with pytest.raises(delta.UnknownVersionError, match=r"had version 3 when .* and 4 after"):
        delta.source(spark, Relation(), table(4))
