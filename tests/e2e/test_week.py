"""A week of daily loads: rows are asked for in both directions, in both stores and over HTTP.

Files land, are appended to one output, audited by an RDD job and summed up anew each day; a load is run again, a file
comes late, and a report reads what other jobs wrote.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark import SparkContext

from lineage.access import Access, StoredAccess, open_access
from lineage_store.copying import copy_application
from lineage_store.neo4j.store import Neo4jStore
from lineage_store.url import open_store
from tests.hunt.claims import Finding
from tests.hunt.frame_kind import quick_session
from tests.hunt.loads import Loads
from tests.hunt.loads_claims import Answers
from tests.hunt.loads_kind import questions
from tests.support.api_server import serving
from tests.support.servers import Neo4jUnderTest
from tests.support.stores import empty_neo4j

pytestmark = [pytest.mark.e2e, pytest.mark.long]

DAYS = 7
RERUN, LATE, TWICE = 3, 4, 5
REPORTED = (3, 7)


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory, spark_context: SparkContext) -> Loads:
    """What seven days left."""
    folder = tmp_path_factory.mktemp("week")
    url = f"sqlite:///{folder}/lineage.db"
    loads = Loads(spark_context, quick_session(spark_context), folder, url)
    for day in range(1, DAYS + 1):
        _day(loads, day)
    return loads


def _day(loads: Loads, day: int) -> None:
    name = f"day-{day}.csv"
    loads.land(name, [("a", day), ("b", 0), ("c", 2), ("a", 1)][: 2 + day % 3])
    loads.append([name], "appended", 1, format="parquet", times=2 if day == TWICE else 1)
    if day == RERUN:
        loads.append([f"day-{day - 1}.csv"], "appended", 1, format="parquet", times=1)
    if day == LATE:
        loads.land("day-2-late.csv", [("b", 5), ("c", 0)])
        loads.append(["day-2-late.csv"], "appended", 1, format="parquet", times=1)
    loads.audit(name, 1)
    loads.overwrite(loads.inputs(), "clean", format="json")
    if day in REPORTED:
        loads.report("appended", "report", format="parquet")


@contextmanager
def _sqlite(week: Loads, _: pytest.FixtureRequest) -> Iterator[Access]:
    with open_access(week.url) as access:
        yield access


@contextmanager
def _served(week: Loads, _: pytest.FixtureRequest) -> Iterator[Access]:
    given = {"api_roots": str(week.folder), "spark_master": "local[2]", "api_query_s": 300}
    with (
        serving(week.url, api_rate="1000000/minute", **given) as address,
        open_access(address) as access,
    ):
        yield access


@contextmanager
def _neo4j(week: Loads, request: pytest.FixtureRequest) -> Iterator[Access]:
    neo4j: Neo4jUnderTest = request.getfixturevalue("neo4j")
    with empty_neo4j(neo4j) as store, open_store(week.url) as source:
        for record in reversed(source.applications()):
            copy_application(source, store, record.app)
        assert isinstance(store, Neo4jStore)
        yield StoredAccess(store, neo4j.uri)


WAYS = {"sqlite": _sqlite, "http": _served, "neo4j": _neo4j}


@pytest.mark.parametrize("way", WAYS)
def test_each_row_in_both_directions(week: Loads, way: str, request: pytest.FixtureRequest) -> None:
    finding = Finding(complete=True)
    with WAYS[way](week, request) as access:
        asked = questions(Answers(week, access, finding, strict=True))
        for ask in asked:
            ask()
    assert finding.faults == [], "\n".join(finding.faults)
    assert finding.rows == len(asked)


def test_the_week_leaves_what_it_is_asked_about(week: Loads) -> None:
    rows = week.written()
    outputs = {os.path.relpath(row.output, week.folder).partition("/")[0] for row in rows}
    assert outputs == {"appended", "audit", "clean", "report"}
    assert len({row.app for row in rows if Path(row.output).name == "appended"}) == DAYS + 2
