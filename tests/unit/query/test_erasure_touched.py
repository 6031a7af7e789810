"""Files of which just the time is another: their rows are there as far as that is known, and never called gone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lineage_query.engine import QueryEngine
from lineage_query.erasure.finding import SubjectQuery
from lineage_query.erasure.plan import Plan, make_plan
from lineage_query.erasure.row_list import rows_of
from lineage_query.erasure.verified import Verified
from lineage_query.erasure.verifying import Verifying
from lineage_query.rows.reader import RowReader
from lineage_store.sqlite.store import SqliteStore
from tests.oracle.erasure import FORM
from tests.oracle.erasure_applying import place_beside
from tests.oracle.erasure_chains import World, world_of_four_rows

pytestmark = pytest.mark.unit
LATER_S = 2_000_000_000


@pytest.fixture(params=["checksum", "texts", "nothing"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    """A copy of a source of four rows, with what its rows can be compared by: ``known``."""
    with SqliteStore(tmp_path / "lineage.db") as store:
        yield world_of_four_rows(
            tmp_path, store, "copy", texts=request.param == "texts", checksums=request.param == "checksum"
        )  # fmt: skip


def output_of(world: World) -> Path:
    (path,) = world.datasets[2].files
    return path


def query_of(world: World) -> SubjectQuery:
    return SubjectQuery(str(world.datasets[0].path), where="token = 'r3x'", form=FORM)


def plan_of(world: World) -> Plan:
    reader = RowReader()
    return make_plan(
        "erase", query_of(world), world.store, reader, QueryEngine(world.store, reader)
    )


def verified(world: World, plan: Plan) -> Verified:
    reader = RowReader()
    return Verifying(
        plan.to_json(), query_of(world), world.store, reader, QueryEngine(world.store, reader),
        place_beside(world.folder), lambda: plan_of(world),
    ).verify()  # fmt: skip


def test_a_row_of_a_file_that_was_only_touched_is_there(world: World) -> None:
    before = plan_of(world)
    os.utime(output_of(world), (LATER_S, LATER_S))
    plan = plan_of(world)
    (row,) = plan.rows
    assert row.place == before.rows[0].place
    is_known = world.texts or world.checksums
    assert (row.is_there, row.status) == ((True, "touched") if is_known else (False, "unknown"))
    assert [listed["there"] for listed in rows_of(plan.to_json())] == [is_known]
    assert row.kind == ("carries" if is_known else "unknown")
    assert bool(plan.unseen) is not is_known
    assert any("just the time is another" in line for line in plan.not_removed) is not is_known
    left = verified(world, plan)
    assert any(entry.where.startswith(f"{output_of(world)}") for entry in left.left)


def test_another_row_of_the_same_length_is_not_taken_for_it(world: World) -> None:
    path = output_of(world)
    path.write_text(path.read_text().replace("r3x", "r9x"))
    os.utime(path, (LATER_S, LATER_S))
    (row,) = plan_of(world).rows
    assert not row.is_there
    assert row.status == ("changed" if world.checksums else "unknown")


def test_a_row_that_moved_within_its_file_is_not_called_gone(world: World) -> None:
    path = output_of(world)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(reversed(lines)))
    os.utime(path, (LATER_S, LATER_S))
    plan = plan_of(world)
    assert not plan.rows[0].is_there
    # Reading finds it, wherever it is now.
    assert any(entry.kind == "text" for entry in verified(world, plan).left)
