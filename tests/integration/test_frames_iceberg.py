"""Rows of Iceberg's tables, traced in the snapshot that the job read, by the real thing.

Where each row stands says Iceberg itself, when the job runs; which rows were used is known by their ids.
"""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from lineage_query.erasure.finding import SubjectQuery, matching_rows
from lineage_query.erasure.named_sources import with_folder
from lineage_query.rows.reader import RowReader
from lineage_query.rows.table_commits import EARLIER, commits_of
from lineage_store.paths import RowsError, canonical
from lineage_store.url import open_store
from tests.support.job_runs import STORE
from tests.support.versions import only_in
from tests.tables.ran import Ran

pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,
    only_in("Apache Iceberg", "4.1"),
]

CONF = """\
spark.sql.extensions org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.sql.catalog.local org.apache.iceberg.spark.SparkCatalog
spark.sql.catalog.local.type hadoop
spark.sql.catalog.local.warehouse {home}/warehouse
spark.sql.catalog.fresh org.apache.iceberg.spark.SparkCatalog
spark.sql.catalog.fresh.type hadoop
spark.sql.catalog.fresh.warehouse {home}/warehouse
spark.sql.catalog.fresh.cache-enabled false
"""

Places = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    made = Ran(tmp_path_factory.mktemp("iceberg"))
    made.run("iceberg_job.py", "iceberg", CONF)
    places: Places = json.loads((made.folder / "places.json").read_text())

    def place(name: str, key: object) -> str:
        return next(one for one, held in places[name].items() if held == key)

    home = str(made.folder)
    outputs = ("nothing", "filtered", "figures", "late", "both", "refs", "copied", "lost")
    questions = {name: (f"{home}/{name}", "true", "backward") for name in outputs}
    rows = {"row": ("totals", "Rome"), "appended": ("appended", 101), "side": ("side", 500)}
    rows |= {"replaced": ("replaced", "Rome"), "swapped": ("swapped", "x1")}
    rows |= {"marked row": ("kept", 4)}
    made.ask(
        {
            **questions,
            **{name: (place(*held), None, "backward") for name, held in rows.items()},
            "ran again": ("toArrow", "true", "backward"),
            "marked": (f"{home}/warehouse/db/kept", "true", "backward"),
            "forward": (place("appended", 101), None, "forward"),
        }
    )
    return made


def stand(ran: Ran, name: str, *ids: object) -> list[str]:
    """Where Iceberg said that rows stand, in order."""
    held: Places = json.loads((ran.folder / "places.json").read_text())
    return sorted(place for place, one in held[name].items() if one in ids)


def found(ran: Ran, name: str) -> list[str]:
    """Where an answer says that rows stand, in order."""
    answer = ran.answers[name]
    assert "error" not in answer, answer
    assert not answer["reasons"]
    return sorted(place for place, _ in answer["rows"])


def started(ran: Ran, name: str) -> object:
    """The output row that an answer is about."""
    ((_, text),) = ran.answers[name]["start"]
    return json.loads(text)


def test_iceberg_rows_of_the_snapshot_that_was_read(ran: Ran) -> None:
    assert started(ran, "row") == {"city": "Rome", "total": 9}
    assert found(ran, "row") == stand(ran, "orders", 1, 3, 5)
    assert "no row of the output" in ran.answers["nothing"]["error"]


def test_iceberg_rows_chosen_by_a_partition(ran: Ran) -> None:
    """Iceberg applies such a filter by itself."""
    assert found(ran, "filtered") == stand(ran, "orders", 3, 5)


def test_iceberg_table_that_is_read_and_written_by_one_write(ran: Ran) -> None:
    assert started(ran, "appended") == {"id": 101, "city": "Rome"}
    assert found(ran, "appended") == stand(ran, "orders", 1)


def test_iceberg_figures_of_its_metadata_are_traced_to_rows(ran: Ran) -> None:
    assert found(ran, "figures") == stand(ran, "appended", 0, 1, 2, 3, 4, 5, 101)


def test_iceberg_snapshot_is_the_one_that_the_action_took(ran: Ran) -> None:
    """A write takes the latest, whatever the frame was made over; a frame that has run keeps its own."""
    assert found(ran, "late") == stand(ran, "appended", 0, 1, 2, 3, 4, 5, 101)
    assert found(ran, "ran again") == stand(ran, "orders", 0, 1, 2, 3, 4, 5)


def test_iceberg_snapshots_that_are_named(ran: Ran) -> None:
    """By a tag, and a branch that was written."""
    first, more = stand(ran, "orders", 0, 1, 2, 3, 4, 5), stand(ran, "appended", 101)
    assert found(ran, "refs") == sorted([*first, *more, *stand(ran, "side", 500)])
    assert started(ran, "side") == {"id": 500, "city": "Bern"}


def test_iceberg_two_snapshots_of_a_table(ran: Ran) -> None:
    assert found(ran, "both") == sorted(
        [*stand(ran, "orders", 1, 3, 5), *stand(ran, "appended", 101)]
    )


def test_iceberg_rows_keep_their_places_where_others_are_deleted(ran: Ran) -> None:
    """Row 5 is deleted since, rows 0 and 3 were before; the columns were others then."""
    assert started(ran, "marked row") == {"id": 4, "new": "c4"}
    assert found(ran, "marked row") == stand(ran, "marked", 4)
    assert found(ran, "marked") == stand(ran, "marked", 4, 5, 6, 7)
    assert found(ran, "copied") == stand(ran, "copied", 6, 7)


def test_iceberg_table_that_is_replaced(ran: Ran) -> None:
    assert started(ran, "replaced") == {"city": "Rome", "best": 101}
    assert found(ran, "replaced") == stand(ran, "appended", 1, 3, 5, 101)


def test_iceberg_rows_of_columns_of_other_names_have_no_places(ran: Ran) -> None:
    assert "say by a condition which are meant" in ran.answers["swapped"]["error"]


def test_iceberg_snapshot_that_is_gone_is_said(ran: Ran) -> None:
    assert "is gone: where snapshots expire" in ran.answers["lost"]["error"]


def test_iceberg_rows_are_traced_forward_from_all_snapshots(ran: Ran) -> None:
    """The row was read in the snapshot that added it, and in that of a branch."""
    rows = [json.loads(text) for _, text in ran.answers["forward"]["rows"]]
    assert {"n": 7, "last": 101} in rows
    assert {"city": "Rome", "best": 101} in rows
    assert {"id": 1, "other": 101} in rows
    # In `late`, and in `refs` by way of the branch.
    assert rows.count({"id": 101, "city": "Rome"}) == 2
    assert {"city": "Rome", "total": 9} not in rows


def test_iceberg_reads_that_are_not_certain_are_named(ran: Ran) -> None:
    said = ran.unknown()
    assert "fresh.db.busy was written when the action ran" in said
    assert "local.db.orders is read with the option start-snapshot-id" in said
    assert said.count("DataFrameWriter") == 2, said


def test_iceberg_commits_that_no_known_write_made_are_told(ran: Ran) -> None:
    db = ran.folder / "warehouse/db"
    orders = str(db / "orders")
    latest, first = strange(orders)
    assert strange(orders, first) == (latest,)
    for table in ("orders", "totals", "kept", "best"):
        assert ran.gaps(str(db / table)) == ()
    assert ran.gaps(orders, first, latest) == (
        f"{orders}: of its snapshots, {latest}, {first} were not written by any known DataFrame",
    )
    (best,) = strange(str(db / "best"))
    (said,) = ran.gaps(str(db / "best"), best)
    assert f"of its snapshots, {best} was" in said
    # What expired before is not asked: the last one wrote all rows anew. Without it nobody can tell.
    broken = db / "broken"
    shutil.copytree(db / "orders", broken)
    (newest,) = broken.glob("metadata/v3.metadata.json")
    told = json.loads(newest.read_text())
    told["snapshots"] = [one for one in told["snapshots"] if str(one["snapshot-id"]) != first]
    for path in broken.glob("metadata/v*.metadata.json"):
        path.unlink()
    newest.write_text(json.dumps(told))
    (newest.parent / "version-hint.text").write_text("3")
    assert strange(str(broken), latest) == (EARLIER,)
    for odd in (b"{", b"[]", b'{"current-snapshot-id": 1, "snapshots": [{}]}', b"\xff"):
        newest.write_bytes(odd)
        with pytest.raises(RowsError):
            strange(str(broken))


def strange(table: str, *known: str) -> tuple[str, ...]:
    """The snapshots of a table that are not among the known ones."""
    return commits_of(RowReader(), table, dict.fromkeys(known, ())).foreign_versions


def test_rows_of_a_person_are_found_in_a_table_by_its_name(ran: Ran) -> None:
    with open_store(f"sqlite:///{ran.folder / STORE}") as store:
        query = SubjectQuery("db.orders", where="id = 3")
        named = with_folder(query, store, RowReader())
    assert canonical(named.source) == canonical(str(ran.folder / "warehouse" / "db" / "orders"))
    rows = {canonical(row.place) for row in matching_rows(named, RowReader()).rows}
    # In this snapshot and in later ones that rewrote the file.
    assert {canonical(place) for place in stand(ran, "orders", 3)} <= rows
