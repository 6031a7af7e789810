"""What is followed, as typed."""

from __future__ import annotations

import pytest

from lineage_query.followed import NamedRecord, parse_followed
from lineage_query.rows.places import Location, LocationError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders[3]@1742", NamedRecord("orders", 3, 1742)),
        ("kafka://a:1,b:2/orders[0]@0", NamedRecord("kafka://a:1,b:2/orders", 0, 0)),
        ("in/a.csv:3", Location("in/a.csv", 3)),
        ("in/a.parquet#3", Location("in/a.parquet", 3, "record")),
        ("in/a.csv", Location("in/a.csv", None, "file")),
        ("orders[3]", Location("orders[3]", None, "file")),
        ("orders[x]@1", Location("orders[x]@1", None, "file")),
        ("out#partition=1,offset=x", Location("out#partition=1,offset=x", None, "file")),
        ("out#k=1", Location("out#k=1", None, "file")),
    ],
)
def test_a_place_is_of_a_topic_or_a_file(text: str, expected: object) -> None:
    assert parse_followed(text) == expected


def test_other_texts_are_refused() -> None:
    for text in ("", "in/a.csv:0"):
        with pytest.raises(LocationError):
            parse_followed(text)
