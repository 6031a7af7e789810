"""The published design as a baseline: its events, and what plain Python counts for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from benchmarks.baselines.record_level.consumer import flows_of
from benchmarks.baselines.record_level.events import (
    VALUE_CHARACTERS,
    Event,
    EventError,
    decode,
    encode,
    hash_of,
)
from benchmarks.baselines.record_level.expected import (
    line_of,
    lines_by_split,
    of_grep,
    of_tweets,
    of_word_count,
    split_ends,
)
from benchmarks.catalog import GREP_WORD

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "val", ["", "(a, 1)", "a;b", 'said "so"', "two\nlines", "a\r\n;", '"', "é"]
)
def test_an_event_is_read_as_it_was_told(val: str) -> None:
    told = Event("map1#0#7#3", "read#0#6", "0123456789abcdef", val)
    assert decode([encode(*told), encode(*told)]) == [told, told]


def test_an_event_is_four_fields_with_semicolons_between() -> None:
    assert encode("write#0#1#0", "ab", "write#0#1") == b"write#0#1#0;ab;write#0#1;"


def test_long_values_are_cut() -> None:
    (event,) = decode([encode("a", "b", "c", "v" * 5_000)])
    assert event.val == "v" * VALUE_CHARACTERS


def test_a_line_that_is_no_event_is_refused() -> None:
    with pytest.raises(EventError, match="4 fields, not 3"):
        decode([b"a;b;c"])


def test_a_hash_has_16_digits_and_follows_the_name() -> None:
    assert len(hash_of("a#0")) == 16
    assert hash_of("a#0") == hash_of("a#0") != hash_of("a#1")


class FakeMessage:
    def __init__(self, key: bytes, value: bytes, error: object = None) -> None:
        self._key, self._value, self._error = key, value, error

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes:
        return self._value

    def error(self) -> object:
        return self._error


def test_a_message_names_application_and_node_by_its_key() -> None:
    message = FakeMessage(b"wordcount-1#shuffle-write", encode("f", "a", "b"))
    (flow,) = flows_of([message])  # type: ignore[list-item]
    assert (flow.app, flow.node, flow.event.hash_out) == ("wordcount-1", "shuffle-write", "b")


def test_an_error_of_the_broker_is_not_taken_for_an_event() -> None:
    with pytest.raises(KafkaException):
        flows_of([FakeMessage(b"", b"", "gone")])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("size", "partitions", "ends"),
    [
        (100, 4, [25, 50, 75, 100]),
        (101, 4, [25, 50, 75, 101]),  # the rest is within a tenth of a split
        (10, 3, [3, 6, 9, 10]),
        (0, 3, []),
        (3 << 25, 1, [1 << 25, 2 << 25, 3 << 25]),  # no split is larger than a block
    ],
)
def test_a_file_is_cut_at_equal_bytes(size: int, partitions: int, ends: list[int]) -> None:
    assert split_ends(size, partitions) == ends


def test_a_line_belongs_to_the_split_with_the_byte_before_it(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_text("aaaa\nbbbb\ncccc\ndddd\n")  # 20 bytes: splits end at 10 and 20
    assert split_ends(20, 2) == [10, 20]
    # The line that begins at byte 10 is read by the first split, which can't know that it ends there.
    splits = lines_by_split(source, 2)
    assert splits == [["aaaa", "bbbb", "cccc"], ["dddd"]]
    assert [line_of(name, splits) for name in ("read#0#0", "read#0#2", "read#1#0")] == [1, 3, 4]


def test_word_count_by_hand() -> None:
    splits = [["a b", "a"], ["a c"]]
    # read 3, shuffle write 5 (a word each), shuffle read 4 (a, b; a, c), write 3
    # 5 to their lines, 5 to what is combined, 4 to rows
    assert of_word_count(splits) == (3 + 5 + 4 + 3, 5 + 5 + 4)


def test_grep_by_hand() -> None:
    assert of_grep([[f"x {GREP_WORD}", "y"], [GREP_WORD]]) == (3 + 2, 2)


def test_tweets_by_hand() -> None:
    about = [
        f'{{"text": "#film {title}"}}' for title in ("Blue Hours", "Paper Moons", "Paper Moons")
    ]
    splits = [[about[0], '{"text": "rain"}', about[1]], [about[2]]]
    # read 4; filter, three maps and shuffle write 3 each; shuffle read 3; a map and write 2 each
    assert of_tweets(splits) == (4 + 5 * 3 + 3 + 2 * 2, 4 * 3 + 2 * 3 + 3 + 2)
