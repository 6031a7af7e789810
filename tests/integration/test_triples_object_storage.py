"""Triples on object storage: a server that stands in for S3 counts what is asked of it, and refuses; answers are those of a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pyarrow import fs

from lineage_query_api.errors import ProblemError
from lineage_query_api.served_triples import ServedTriples
from lineage_store.errors import DamagedError
from lineage_store.lake import opening
from lineage_store.triples import files, reading
from lineage_store.triples.columns import Part
from lineage_store.triples.data_sets import TripleStore
from lineage_store.triples.tracing import Method, TripleTrace, trace
from tests.support.object_storage import BUCKET, Fault, ObjectStorage, object_storage
from tests.support.triple_files import written

pytestmark = pytest.mark.integration

ITEMS = 400
TRACED = "140"


@pytest.fixture(scope="module")
def storage() -> Iterator[ObjectStorage]:
    with object_storage() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.settings.items():
            patch.setenv(name, value)
        patch.setattr(files, "GROUP_ROWS", 16)
        yield server


def filled(url: str, folder: Path) -> TripleStore:
    """A tree whose items are named at random, and a segment that goes on from it."""
    draw = np.random.default_rng(4)
    name = draw.permutation(ITEMS)
    src, dst = name[draw.integers(0, np.arange(1, ITEMS))], name[1:]
    tree = written(folder / "tree.parquet", src=src, dst=dst, op=["x"] * len(src))
    more = written(folder / "more.parquet", src=[int(name[-1]), 7], dst=[ITEMS, 9], op=["y", "y"])
    store = TripleStore(url, create=True)
    for path in (tree, more):
        store.add("set", [path])
        store.index("set")
    return store


@pytest.fixture(scope="module")
def url(storage: ObjectStorage, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A lake on object storage that has the data set."""
    address = f"lake:s3://{BUCKET}/{tmp_path_factory.mktemp('far').name}/lake"
    filled(address, tmp_path_factory.mktemp("sources"))
    return address


@pytest.fixture(scope="module")
def near(storage: ObjectStorage, tmp_path_factory: pytest.TempPathFactory) -> TripleStore:
    """The same in a folder of this machine."""
    return filled(f"lake:{tmp_path_factory.mktemp('near')}/lake", tmp_path_factory.mktemp("near"))


def put(store: TripleStore, path: str, data: bytes) -> None:
    """Write a file of a table."""
    with store.table.files.open_output_stream(path, buffer_size=len(data) + 1) as stream:
        stream.write(data)


def same(found: TripleTrace, expected: TripleTrace) -> bool:
    """Whether two answers have the same triples, of which they have some, and were found by reading as many row groups."""
    return (
        bool(expected.triples)
        and (found.items, found.triples) == (expected.items, expected.triples)
        and (found.read.groups, found.read.triples) == (expected.read.groups, expected.read.triples)
    )


@pytest.mark.parametrize("method", list(Method))
def test_small_files_are_read_by_one_request_each(
    storage: ObjectStorage, url: str, near: TripleStore, method: Method
) -> None:
    for is_back in (True, False):
        store = TripleStore(url)
        storage.meet(2)
        found = trace(store, "set", TRACED, is_back=is_back, method=method)
        asked = storage.requests()
        assert same(found, trace(near, "set", TRACED, is_back=is_back, method=method))
        assert asked.counts["HEAD"] == found.read.files
        # Beside them it is looked for a newer version.
        assert asked.counts["GET"] <= found.read.files + 2
        # Those that each trace needs.
        assert asked.at_once >= 2
        again = trace(store, "set", TRACED, is_back=is_back, method=method)
        assert again.triples == found.triples
        assert "HEAD" not in storage.requests().counts


@pytest.mark.parametrize("fetched_bytes", [1 << 20, 4_000])
def test_parts_of_large_files_are_read_at_the_same_time(
    storage: ObjectStorage,
    url: str,
    near: TripleStore,
    monkeypatch: pytest.MonkeyPatch,
    fetched_bytes: int,
) -> None:
    monkeypatch.setattr(opening, "WHOLE_BYTES", 0)
    monkeypatch.setattr(reading, "FETCHED_BYTES", fetched_bytes)
    for method in Method:
        store = TripleStore(url)
        storage.requests()
        found = trace(store, "set", TRACED, is_back=True, method=method)
        asked = storage.requests()
        assert same(found, trace(near, "set", TRACED, is_back=True, method=method))
        assert asked.counts["GET"] > found.read.files
        assert method is not Method.CCPROV or asked.at_once >= 2


def test_a_file_that_is_lost_or_cut_is_named_with_the_way_out(
    storage: ObjectStorage, tmp_path: Path
) -> None:
    """Also one of those that are opened before they are needed; and as soon as it is back there is an answer."""
    url = f"lake:s3://{BUCKET}/damaged/lake"
    store = filled(url, tmp_path)
    expected = trace(store, "set", TRACED, is_back=True).triples
    for file in store.files("set"):
        if file.part not in {Part.ITEMS, Part.BACK}:
            continue
        path = file.file.path
        whole = store.table.files.open_input_file(path).read_buffer()
        put(store, path, whole.to_pybytes()[:-7])
        with pytest.raises(DamagedError, match=r"triples index set --whole") as raised:
            trace(TripleStore(url), "set", TRACED, is_back=True, method=Method.CCPROV)
        assert path in str(raised.value)
        store.table.files.delete_file(path)
        fresh = TripleStore(url)
        with pytest.raises(DamagedError, match=r"set is damaged: a file is missing") as raised:
            trace(fresh, "set", TRACED, is_back=True, method=Method.CCPROV)
        assert path.rpartition("/")[2] in str(raised.value)
        assert "\n" not in str(raised.value)
        if file.part is Part.ITEMS:
            more = written(tmp_path / "again.parquet", src=[1], dst=[2], op=["z"])
            with pytest.raises(DamagedError, match=r"set is damaged: a file is missing"):
                fresh.add("set", [more])
        put(store, path, whole.to_pybytes())
        assert trace(fresh, "set", TRACED, is_back=True).triples == expected


def test_a_server_notices_that_triples_were_removed_or_put_in_place_of_others(
    storage: ObjectStorage, tmp_path: Path
) -> None:
    """What it keeps in memory is not answered of triples that are not there any more, nor mixed with others."""
    url = f"lake:s3://{BUCKET}/replaced/lake"
    served = ServedTriples(url)
    path = tmp_path / "a.csv"

    def imported(triples: str) -> None:
        path.write_text(f"src,dst,op\n{triples}\n")
        store = TripleStore(url, create=True)
        store.add("set", [path])
        store.index("set")

    imported("a,b,x")
    with served.opened() as store:
        assert trace(store, "set", "b", is_back=True).items == ["a"]
        for info in store.table.files.get_file_info(fs.FileSelector("", recursive=True)):
            if info.is_file:
                store.table.files.delete_file(info.path)
    with pytest.raises(ProblemError, match="there are no triples at"), served.opened():
        pass
    imported("c,b,x")
    with served.opened() as store:
        assert trace(store, "set", "b", is_back=True).items == ["c"]
        for info in store.table.files.get_file_info(fs.FileSelector("", recursive=True)):
            if info.is_file:
                store.table.files.delete_file(info.path)
    # Of more versions than the one before.
    imported("d,b,x")
    imported("e,d,x")
    with served.opened() as store:
        assert trace(store, "set", "b", is_back=True).items == ["d", "e"]


def test_an_older_copy_in_place_of_triples_is_noticed_where_a_file_is_missing(
    storage: ObjectStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has as many versions as there were, and it was looked for another copy just before."""
    monkeypatch.setattr("lineage_store.lake.table.SAME_S", 3_600.0)
    url = f"lake:s3://{BUCKET}/older/lake"
    store = filled(url, tmp_path)
    expected = trace(store, "set", TRACED, is_back=True)

    def objects() -> dict[str, bytes]:
        found = store.table.files.get_file_info(fs.FileSelector("", recursive=True))
        paths = [info.path for info in found if info.is_file]
        return {
            path: store.table.files.open_input_file(path).read_buffer().to_pybytes()
            for path in paths
        }

    copy = objects()
    store.index("set", is_whole=True)
    reader = TripleStore(url)
    versions = reader.table.snapshot().version
    for path in objects().keys() - copy:
        store.table.files.delete_file(path)
    for path, data in copy.items():
        put(store, path, data)
    other = TripleStore(url)
    other.add("other", [tmp_path / "tree.parquet"])
    assert other.table.snapshot(newest=True).version == versions
    assert same(trace(reader, "set", TRACED, is_back=True), expected)


def test_storage_that_refuses_for_a_while_changes_no_answer(
    storage: ObjectStorage, url: str, near: TripleStore
) -> None:
    store = TripleStore(url)
    storage.fail(Fault("GET", "/back.", times=2), Fault("HEAD", "/items."))
    found = trace(store, "set", TRACED, is_back=True)
    assert same(found, trace(near, "set", TRACED, is_back=True))
    assert storage.requests().faults_left == 0


def test_data_sets_are_listed_and_removed(storage: ObjectStorage, tmp_path: Path) -> None:
    store = filled(f"lake:s3://{BUCKET}/removed/lake", tmp_path)
    (listed,) = store.data_sets()
    assert (listed.rows, listed.sources, listed.is_indexed) == (ITEMS + 1, 2, True)
    store.remove("set")
    assert store.data_sets() == []
    left = store.table.files.get_file_info(fs.FileSelector("", recursive=True))
    assert not [info for info in left if info.path.endswith(".parquet")]
