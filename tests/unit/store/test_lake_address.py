"""Where a lake may be, and what is said where it can't."""

from __future__ import annotations

import pytest

from lineage_store.errors import StoreError, TriplesNotFoundError
from lineage_store.lake.address import read_lake_address
from lineage_store.lake.file_names import is_of_lake, new_path
from lineage_store.lake.storage_errors import reason_of
from lineage_store.triples.data_sets import TripleStore
from lineage_store.url import open_store

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "location",
    [
        "s3://bucket/a/b",
        "s3a://bucket/a",
        "gs://bucket/a",
        "az://container/a",
        "abfss://container@account.dfs.core.windows.net/a",
        "hdfs://namenode:8020/a",
        "hdfs:///a",
        "viewfs://cluster/a",
    ],
)
def test_storages_are_named_by_their_urls(location: str) -> None:
    address = read_lake_address(f"lake:{location}/")
    assert (address.location, address.is_local) == (location, False)
    assert read_lake_address(str(address)) == address


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        # The table format would read other logins for it, or keep it in memory.
        ("gcs://bucket/a", "give lake:gs://bucket/a"),
        ("s3n://bucket/a", "give lake:s3://bucket/a"),
        ("memory:///a", "one of abfs, abfss"),
        ("http://host/a", "one of abfs, abfss"),
        ("s3://", "give lake:s3://BUCKET/FOLDER"),
        ("hdfs:///", "names no folder"),
    ],
)
def test_what_no_lake_can_be_on_is_refused_at_once(location: str, reason: str) -> None:
    with pytest.raises(StoreError, match=reason):
        read_lake_address(f"lake:{location}")


def test_causes_that_stand_below_each_other_are_one_line() -> None:
    said = "Generic S3 error\n  \x1b[31m↳\x1b[0m Error performing list\n     \x1b[31m↳\x1b[0m refused (os error 111)\n"
    assert reason_of(OSError(said)) == (
        "Generic S3 error: Error performing list: refused (os error 111)"
    )


def test_the_stack_of_a_server_is_left_out() -> None:
    said = "RPC error: org.apache.AccessControlException\n/a (is not a directory)\n\tat org.apache.A.b(A.java:7)\n\tat org.apache.C$D$2.e(C.java)\n"
    assert reason_of(OSError(said)) == (
        "RPC error: org.apache.AccessControlException /a (is not a directory)"
    )


def test_files_of_a_lake_are_known_by_their_paths() -> None:
    assert is_of_lake(new_path("0123", "app-1", "ab"))
    # As versions before named them.
    assert is_of_lake("app=0123/0a1b.parquet")
    # Not finished, on HDFS.
    assert is_of_lake("app=0123/.0a1b.parquet.tmp.2")
    for path in ("notes.txt", "data/0a1b.parquet", "app=0123/notes.txt", "app/0a1b.parquet"):
        assert not is_of_lake(path)


@pytest.mark.parametrize(
    "location",
    [
        "s3://key:secret@bucket/a",
        "gs://secret@bucket/a",
        "s3n://key:secret@bucket/a",
        "abfss://container:secret@account.dfs.core.windows.net/a",
        "az://container/a?sv=1&sig=secret",
        "s3://key:sec/secret@bucket/a",
        "abfss://container:a/secret@account.dfs.core.windows.net/a",
        "s3://bucket/a#secret",
    ],
)
def test_what_the_table_format_leaves_out_of_an_address_is_refused_and_not_repeated(
    location: str,
) -> None:
    with pytest.raises(StoreError, match="in its address") as raised:
        read_lake_address(f"lake:{location}")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "lake:https://user:secret@host/lake",
        "lake:https://host/lake?sv=1&sig=secret",
        "lake://user:secret@host/lake",
        "neo4js://neo4j:secret@host:7687",
        "lake:/a,lake:https://user:secret@host/lake",
        "lake:/b,lake:https://user:secret@host/lake,lake:/a",
    ],
)
def test_a_login_in_what_is_no_store_is_not_repeated(url: str) -> None:
    with pytest.raises(StoreError, match="is not known") as raised:
        open_store(url)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "location",
    ["s3://bucket", "hdfs://namenode:8020", "abfss://container@account.dfs.core.windows.net"],
)
def test_triples_of_a_lake_without_a_folder_go_into_no_other_bucket(location: str) -> None:
    assert read_lake_address(f"lake:{location}").location == location
    for is_created in (False, True):
        with pytest.raises(TriplesNotFoundError, match=f"give lake:{location}/FOLDER"):
            TripleStore(f"lake:{location}", create=is_created)
