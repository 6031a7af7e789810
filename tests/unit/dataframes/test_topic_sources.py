"""Records of topics as sources of recipes: by which names, from which servers, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lineage_core.recipe.document import Source
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.sources.topic_admin import PROPERTIES, SERVERS, Cluster
from lineage_dataframes.sources.topics import (
    narrowed,
    partitions_of,
    record_names,
    rows_at_offset,
    untraced_reason,
)

NAME = "kafka://a:1,b:2/orders"
ORDERS = Source(
    "kafka",
    (),
    "{}",
    options={"servers": "a:1,b:2", "topic": "orders", "isolation": "read_uncommitted", "id": "x"},
    table=NAME,
    version="0:5-9 3:0-2",
)


def test_a_partition_is_a_file_and_an_offset_a_row() -> None:
    assert partitions_of(ORDERS) == [f"{NAME}[0]", f"{NAME}[3]"]
    assert record_names(f"{NAME}[3]", np.array([0, 1], np.uint64)) == [
        f"{NAME}[3]@0",
        f"{NAME}[3]@1",
    ]


@pytest.mark.parametrize(
    ("partition", "offset", "expected"),
    [("0", "5", 5), ("0", "8", 8), ("0", "9", None), ("0", "4", None), ("1", "5", None)],
)
def test_a_record_is_one_of_those_that_were_read(
    partition: str, offset: str, expected: int | None
) -> None:
    found = rows_at_offset(ORDERS, [("partition", partition), ("offset", offset)])
    assert found is not None
    listed = {path: offsets.tolist() for path, offsets in found.items()}
    assert listed == ({} if expected is None else {f"{NAME}[0]": [expected]})


@pytest.mark.parametrize("values", [[("value", "a")], [("partition", "x"), ("offset", "1")]])
def test_records_are_named_by_other_values_too(values: list[tuple[str, str]]) -> None:
    assert rows_at_offset(ORDERS, values) is None


def test_no_more_is_read_than_some_records_need() -> None:
    some = {f"{NAME}[0]": np.array([6, 7], np.uint64)}
    assert narrowed(ORDERS, some).version == "0:6-8"
    assert narrowed(ORDERS, {}) == ORDERS


@pytest.mark.parametrize(
    "source",
    [
        replace(ORDERS, version=None),
        replace(ORDERS, version="0:5-9;"),
        replace(ORDERS, options={**ORDERS.options, "id": ""}),
        replace(ORDERS, options={**ORDERS.options, "isolation": "other"}),
        replace(ORDERS, options={**ORDERS.options, "topic": "a,b"}),
        replace(ORDERS, table="kafka://a:1,b:2/others"),
        replace(ORDERS, paths=("/in",)),
        replace(ORDERS, options={"servers": "a:1,b:2", "topic": "orders"}),
    ],
)
def test_what_is_not_known_is_not_traced(source: Source) -> None:
    assert untraced_reason(ORDERS) == ""
    assert untraced_reason(source)


def test_the_environment_names_servers_and_login(tmp_path: Path) -> None:
    file = tmp_path / "login"
    file.write_text("# of the reader\nsecurity.protocol = SASL_SSL\nsasl.jaas.config=a b=c;\n\n")
    cluster = Cluster.of({SERVERS: "b:2, a:1", PROPERTIES: str(file)})
    assert cluster.settings("kafka.") == {
        "kafka.bootstrap.servers": "a:1,b:2",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.jaas.config": "a b=c;",
    }


@pytest.mark.parametrize("line", ["bootstrap.servers=c:3", "security.protocol", "ssl.x y=z"])
def test_the_login_says_nothing_else(tmp_path: Path, line: str) -> None:
    file = tmp_path / "login"
    file.write_text(f"{line}\n")
    with pytest.raises(RefusedError, match="line 1 of"):
        Cluster.of({SERVERS: "a:1", PROPERTIES: str(file)})


def test_servers_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=SERVERS):
        Cluster.of({})
    with pytest.raises(RefusedError, match="can't be read"):
        Cluster.of({SERVERS: "a:1", PROPERTIES: str(tmp_path / "none")})
