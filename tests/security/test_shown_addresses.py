"""Addresses with logins in them, which no message repeats."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lineage.served import ServedAccess
from lineage.stack.ports import free_ports
from lineage_core.environment.shown_address import shown_address
from lineage_core.errors import LineageError
from lineage_emitter.settings import Settings
from lineage_openlineage.sending import read_endpoint
from lineage_store.neo4j.connection import read_address
from lineage_store.triples.data_sets import TripleStore
from lineage_store.url import open_lake, open_store, store_path

pytestmark = pytest.mark.security

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "address",
    [
        "https://ann:{}@host/path",
        "https://{}@host/path",
        "https://ann:{}@host:8080?x=1#y",
        "neo4j+s://ann:{}@host:7687?database=neo4j",
        "neo4j://host:7687?password={}",
        "bolt://ann:12/{}@host",
        "bolt://ann:a?{}@host",
        "bolt://ann:a#{}@host",
        "bolt://ann:a@{}@host",
        "bolt://ann:a@b/{}@host",
        "bolt://ann:{},lake:/a@host",
        "s3://key:{}@bucket/folder",
        "az://container:{}@account/folder",
        "abfss://container:{}@account.dfs.core.windows.net/folder",
        "lake:az://container/folder?sv=1&sig={}",
        "neo4j://ann:{}@host,lake:s3://bucket/folder",
        "neo4j://host,lake:s3://key:{}@bucket/folder",
        "sqlite:///a/b.db,lake:s3://key:{}@bucket/folder",
        "redis://:{}@host:6379/0",
        "sc://host:15002/;token={}",
        "jdbc:postgresql://ann:{}@host/base",
        "jdbc:postgresql://host/base?user=ann&password={}",
        "jdbc:sqlserver://host;user=ann;password={}",
        "jdbc:oracle:thin:ann/{}@host:1521:base",
        "ann:{}@host",
    ],
)
def test_a_login_is_hidden(address: str) -> None:
    shown = shown_address(address.format(SECRET))
    assert SECRET not in shown
    assert "***" in shown


@pytest.mark.parametrize(
    "address",
    [
        "",
        "lineage.db",
        "sqlite:///home/ann@corp/a:b@c.db",
        "lake:/data/a:b@c",
        "lake:s3://bucket/a@b",
        "lake:hdfs://namenode:8020/user/ann@corp",
        "lake:abfss://container@account.dfs.core.windows.net/folder",
        "neo4j://host:7687,lake:/data/a@b",
        "https://host:8080/path",
        "jdbc:postgresql://host:5432/base",
    ],
)
def test_an_address_without_a_login_is_shown_as_it_is(address: str) -> None:
    assert shown_address(address) == address


def test_a_user_stays_beside_a_password() -> None:
    assert shown_address("https://me:secret@host/") == "https://me:***@host/"


def test_long_addresses_take_no_long_time() -> None:
    begin = time.monotonic()
    for piece in ("a:", "a@", "/", "://", ":1", "a:@/"):
        shown_address("neo4j://" + piece * 50_000)
    assert time.monotonic() - begin < 20


@pytest.mark.parametrize(
    ("refuses", "address"),
    [
        (open_store, "neo4js://ann:a/{}@host"),
        (store_path, "neo4j://ann:{}@host"),
        (open_lake, "neo4j://ann:{}@host"),
        (open_lake, "lake:s3://key:a/{}@bucket/folder"),
        (TripleStore, "neo4j://ann:{}@host"),
        (read_address, "neo4j://host?password={}"),
        (read_address, "neo4j://ann:a/{}@host"),
        (read_endpoint, "http://ann:{}@host:port"),
        (lambda url: Settings(store=url).store_file(), "neo4j://ann:{}@host"),
    ],
)
def test_what_refuses_an_address_does_not_repeat_its_login(
    refuses: Callable[[str], object], address: str
) -> None:
    with pytest.raises(LineageError) as raised:
        refuses(address.format(SECRET))
    assert SECRET not in str(raised.value)


def test_triples_that_are_not_there_are_asked_for_without_the_login_of_the_database(
    tmp_path: Path,
) -> None:
    with pytest.raises(LineageError, match="there are no triples") as raised:
        TripleStore(f"neo4j://ann:{SECRET}@host,lake:{tmp_path}/lake")
    assert SECRET not in str(raised.value)


def test_a_server_that_does_not_answer_is_named_without_its_login() -> None:
    url = f"http://ann:{SECRET}@127.0.0.1:{free_ports(1)[0]}"
    with ServedAccess(url, "token") as access, pytest.raises(LineageError) as raised:
        access.applications()
    assert SECRET not in str(raised.value)
    assert "http://ann:***@127.0.0.1" in str(raised.value)
