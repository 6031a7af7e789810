"""Messages in any order, repeated, in any number of calls: the same lineage in the store."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_store.sqlite.ingest import ingest
from lineage_store.sqlite.store import SqliteStore
from tests.faults.test_ingest_killed import eventful
from tests.support.spool_builder import APP, Spool, contents

pytestmark = pytest.mark.property


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Spool:
    return eventful(tmp_path_factory.mktemp("made"))


def sorted_contents(store: SqliteStore) -> dict[str, object]:
    found = contents(store)
    for key in ("nodes", "links"):
        listed = found[key]
        assert isinstance(listed, list)
        found[key] = sorted(listed, key=repr)
    verdict = found["verdict"]
    assert isinstance(verdict, dict)
    verdict["reasons"] = sorted(verdict["reasons"])
    return found


@pytest.fixture(scope="module")
def expected(made: Spool, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("expected")
    shutil.copytree(made.folder, folder / APP)
    with SqliteStore(folder / "lineage.db") as store:
        ingest(store, folder / APP)
        return sorted_contents(store)


@settings(max_examples=60)
@given(data=st.data())
def test_any_order_stores_the_same(
    made: Spool, expected: dict[str, object], data: st.DataObject
) -> None:
    first, *lines, last = made.driver.read_bytes().splitlines(keepends=True)
    order = data.draw(st.permutations(lines))
    again = data.draw(st.lists(st.sampled_from(lines), max_size=8))
    sent = [first, *order, *again, last]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=4)))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / APP
        shutil.copytree(made.folder, folder)
        (folder / "driver.jsonl").write_bytes(b"")
        with SqliteStore(Path(temporary) / "lineage.db") as store:
            at = 0
            for cut in [*cuts, len(sent)]:
                with (folder / "driver.jsonl").open("ab") as stream:
                    stream.writelines(sent[at:cut])
                at = cut
                ingest(store, folder)
            assert sorted_contents(store) == expected
