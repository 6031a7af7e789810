"""Dead letters: what their headers say, and back."""

import pytest

from lineage_core.contract.dead_letter import (
    REASON_MAX,
    DeadRecord,
    TopicPartitionOffset,
    app_of_key,
    dead_letter_reason,
    parse_topic_partition_offset,
    read_dead_record,
)
from lineage_core.contract.message import DeadLetter
from lineage_core.errors import ContractError, RecordBatchError

pytestmark = pytest.mark.unit

PLACE = TopicPartitionOffset("p-lineage-edge", 3, 17)


@pytest.mark.parametrize(
    "record",
    [
        DeadRecord(PLACE, "byte 0: not a record batch", "writer", 12.5, "app-1", 7),
        DeadRecord(PLACE, "", "linker", 0.0),
        DeadRecord(PLACE, "ü\x00", "cli", 1.0, "a", 9_000_000, cut=True, resolved=True),
    ],
)
def test_headers_and_back(record: DeadRecord) -> None:
    assert read_dead_record(record.headers(), b"") == record


def test_headers_that_another_program_wrote() -> None:
    headers: list[tuple[str, bytes | str | None]]
    headers = [("topic", b"t"), ("partition", "0"), ("offset", b"1"), ("reason", b"\xff")]
    found = read_dead_record(headers, b"four")
    assert (found.place, found.size, found.reason) == (TopicPartitionOffset("t", 0, 1), 4, "\ufffd")


@pytest.mark.parametrize(
    "headers", [None, [], [("topic", b"t"), ("partition", b"x"), ("offset", b"1")]]
)
def test_what_is_no_dead_letter(headers: list[tuple[str, bytes]] | None) -> None:
    with pytest.raises(ContractError):
        read_dead_record(headers, None)


def test_the_message_for_the_verdict() -> None:
    record = DeadRecord(PLACE, "x" * 10 * REASON_MAX, "writer", 1.0, "app-1")
    assert record.message() == DeadLetter(
        app="app-1", place="p-lineage-edge/3/17", reason="x" * REASON_MAX
    )
    assert DeadRecord(PLACE, "x", "writer", 1.0).message() is None


def test_places_as_typed() -> None:
    assert parse_topic_partition_offset("a/b/3/17") == TopicPartitionOffset("a/b", 3, 17)
    for text in ("", "3/17", "/3/17", "t/3/x", "t/-3/1"):
        with pytest.raises(ContractError):
            parse_topic_partition_offset(text)


@pytest.mark.parametrize(
    ("key", "app"),
    [(b"app-1", "app-1"), (None, ""), (b"\xff", ""), (b"a\x00b", ""), (b"a" * 513, "")],
)
def test_the_application_of_a_key(key: bytes | None, app: str) -> None:
    assert app_of_key(key) == app


def test_errors_as_reasons() -> None:
    assert (
        dead_letter_reason(RecordBatchError("not a\nrecord batch", where="byte 0"))
        == "byte 0: not a record batch"
    )
    assert dead_letter_reason(OverflowError("too large")) == "OverflowError: too large"
