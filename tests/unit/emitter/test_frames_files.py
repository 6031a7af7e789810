"""Files that a write has left, as far as no Spark is needed to tell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lineage_emitter.dataframes.files import FileFacts, _is_data, _local, added_files
from lineage_emitter.dataframes.hooks import _options
from lineage_emitter.dataframes.jdbc import address
from lineage_emitter.dataframes.outputs import WriterCalls

pytestmark = pytest.mark.unit


def test_data_files_are_found_in_folders_of_partitions_too(tmp_path: Path) -> None:
    names = (
        "part-0",
        "a=1/part-0",
        "_b=2/part-1",
        "_SUCCESS",
        ".part-0.crc",
        "_temporary/0/part-9",
    )
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        os.utime(path, ns=(0, 1_700_000_000_123_999_999))
    found = dict(_local(str(tmp_path)))
    assert found == {
        f"file:{tmp_path / name}": FileFacts(len(name), 1_700_000_000_123) for name in names[:3]
    }
    assert dict(_local(str(tmp_path / "none"))) == {}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("part-0", True), ("_a=1", True), ("_SUCCESS", False), (".a=1", False), ("a=_b", True)],
)
def test_what_spark_would_read(name: str, wanted: bool) -> None:
    assert _is_data(name) is wanted


def test_a_write_left_what_is_new_or_changed() -> None:
    before = {"a": FileFacts(1, 1), "b": FileFacts(2, 2), "c": FileFacts(3, 3)}
    after = {"b": FileFacts(2, 2), "c": FileFacts(3, 4), "d": FileFacts(4, 4)}
    assert added_files(before, after) == {"c": FileFacts(3, 4), "d": FileFacts(4, 4)}


def test_secrets_of_writers_are_not_noted() -> None:
    writer_calls = WriterCalls()
    _options(
        writer_calls, Header=True, sep=";", path="out", password="hunter2", fs_s3a_secret_key="k"
    )
    assert writer_calls == WriterCalls(options={"header": "true", "sep": ";"}, path="out")
    place = "jdbc:postgresql://host/db"
    assert address(f"{place}?user=ada&password=x") == place
    assert address("jdbc:sqlserver://host;user=ada;password=x") == ("jdbc:sqlserver://host")
    oracle = "(DESCRIPTION=(ADDRESS=(PROTOCOL=tcp)(HOST=h)(PORT=1))(CONNECT_DATA=(SERVICE_NAME=s)))"
    assert address(f"jdbc:oracle:thin:ada/x@{oracle}") == f"jdbc:oracle:thin:{oracle}"


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:mysql://address=(host=h)(port=1)(user=ada)(password=secret)/db",
        "jdbc:mysql://(host=h,user=ada,password=secret)/db",
        "jdbc:mysql://h/db#password=secret",
        "jdbc:teradata://h/DATABASE=x,USER=ada,PASSWORD=secret",
        "jdbc:db2://h:50000/db:password=secret;user=ada;",
        "jdbc:db2://h:50000/db:user=ada;password=secret;",
        "jdbc:x://(host=(password =secret))/db",
    ],
)
def test_logins_among_the_parts_of_a_place_are_not_recorded(url: str) -> None:
    assert address(url) == url[: url.index("://")]
