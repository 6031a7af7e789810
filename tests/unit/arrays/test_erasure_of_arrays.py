"""Rows of a person that made an array: what is to be erased goes on through its cells, and names what they went into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lineage.access import StoredAccess
from lineage_arrays import Recording
from lineage_arrays.saved import store_recording
from lineage_core.contract.block import BlockId
from lineage_core.contract.collected import CollectedRows
from lineage_core.contract.message import Link, Read, Split, Splits
from lineage_query.erasure.finding import SubjectQuery
from lineage_query.erasure.report import lines_of
from lineage_store.sqlite.ingest import ingest
from lineage_store.sqlite.store import SqliteStore
from tests.support.spool_builder import Spool
from tests.support.stored_lineage import flows

pytestmark = pytest.mark.unit
ROWS = ((1.0, 2.0), (3.0, 4.0), (5.0, 6.0))


class Collected:
    """The rows of `local-1`, as `rows_of` sees them."""

    def collectRows(self) -> tuple[CollectedRows, list[Any]]:
        return CollectedRows("local-1", "14", (len(ROWS),)), list(ROWS)


class Files:
    """Spark as far as `frame` needs it: it reads nothing."""

    def __init__(self) -> None:
        self.read = self

    def parquet(self, path: str) -> str:
        return path


def store_job(store: SqliteStore, folder: Path) -> None:
    """Store a job that read the people, a line each, and gave them to its program."""
    source = folder / "people.csv"
    source.write_text("".join(f"{one},{other}\n" for one, other in ROWS))
    read = source.stat()
    spool = Spool(folder / "spool", "local-1")
    spool.begin(1.0, "job")
    spool.node("0", "source", "textFile", path=str(source), partitions=1)
    spool.node("14", "sink", "rdd", partitions=1)
    split = Split(
        partition=0, path=f"file:{source}", start=0, length=read.st_size, file_size=read.st_size, mtime=read.st_mtime
    )  # fmt: skip
    spool.send(
        Splits(app="local-1", node="0", splits=(split,)), Link(app="local-1", src="0", dest="14")
    )
    block = flows(BlockId("14", 0, 0, 0), "0#0", "14#0", [([at], at) for at in range(3)], "local-1")
    reads = (Read(space="0#0", rows=3, exhausted=True),)
    spool.task("14", 0, 0, [block], rows=3, reads=reads)
    spool.job("14", n14=1)
    spool.end(blocks=1, tasks=1)
    ingest(store, spool.folder)


@pytest.fixture
def access(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/lineage.db"
    monkeypatch.setenv("LINEAGE_STORE", url)
    with SqliteStore(tmp_path / "lineage.db") as store:
        store_job(store, tmp_path)
        yield StoredAccess(store, url)


def model() -> str:
    recording = Recording()
    table: Any = recording.rows_of("features", Collected())
    # Row 1 of the file is made of the last row alone, row 2 of the middle one, row 0 of all.
    scores: Any = np.stack([table.sum(axis=0), table[2], table[1]], axis=0)
    recording.frame(Files(), "scores.parquet", scores)
    np.save("least.npy", table.min(axis=0))
    recording.output("middle", table[1])
    return store_recording(recording, "model")


def planned(access: StoredAccess, row: int) -> Any:
    query = SubjectQuery("people.csv", rows=(row,))
    return access.plan("erase", query)


def test_rows_go_through_arrays_to_rows_of_files(access: StoredAccess, tmp_path: Path) -> None:
    model()
    for row, expected in ((1, [0]), (2, [0, 2]), (3, [0, 1])):
        plan = planned(access, row)
        places = [one.place for one in plan.rows if one.place is not None]
        assert places == [f"{tmp_path}/scores.parquet#{at}" for at in expected]
        assert all(one.is_there for one in plan.rows if one.place is not None)
        assert not any("arrays" in gap.reason or "array-" in gap.reason for gap in plan.gaps)


def test_arrays_that_rows_went_into_are_named(access: StoredAccess) -> None:
    app = model()
    text = "\n".join(lines_of(planned(access, 2)))
    # Of a choice by values, all took part that were compared.
    assert f"least.npy, {app}" in text
    assert f"middle ({app})" in text
    assert "4 cells of arrays" in text
    # Of the last row there is nothing in it.
    assert "middle" not in "\n".join(planned(access, 3).own_remainders())


def test_nothing_is_clean_while_arrays_hold_values(access: StoredAccess) -> None:
    model()
    query = SubjectQuery("people.csv", rows=(2,))
    plan = access.plan("erase", query)
    verified = access.verify_erasure(plan.to_json(), query)
    assert not verified.clean
    assert any("cells of the array middle" in reason for reason in verified.unseen)
