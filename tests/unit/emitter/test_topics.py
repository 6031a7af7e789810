"""Which offsets of topics an action has read: what Spark lists of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lineage_emitter.dataframes import topics


def relation(*parts: str) -> Any:
    """A relation that reads these parts, each as PARTITION FIRST END."""
    listed = [
        SimpleNamespace(
            toString=lambda part=part: (
                f"KafkaSourceRDDPartition(0,KafkaOffsetRange(a.b-c-{part},None))"
            )
        )
        for part in (",".join(part.split()) for part in parts)
    ]
    return SimpleNamespace(buildScan=lambda: SimpleNamespace(partitions=lambda: listed))


@pytest.mark.parametrize(
    ("parts", "ranges"),
    [
        (("0 2 5", "1 0 0"), {0: (2, 5), 1: (0, 0)}),
        (("0 2 5", "0 5 9"), {0: (2, 9)}),
        (("0 -2 -1", "1 3 -1"), {0: (10, 100), 1: (3, 101)}),
        # As it lists what is read in several parts.
        (("0 -2 40", "0 40 80", "0 80 -1"), {0: (10, 100)}),
        (("0 80 -1", "0 -2 40", "1 0 50", "1 50 60"), {0: (10, 100), 1: (0, 60)}),
    ],
)
def test_ranges_are_those_that_spark_reads(
    parts: tuple[str, ...], ranges: dict[int, tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = {("a.b-c", number): offset for number, offset in ((0, 100), (1, 101))}
    begins = dict.fromkeys(ends, 10)
    monkeypatch.setattr(topics, "_begins_and_ends", lambda *_: (begins, ends))
    found = topics._ranges(Any, relation(*parts))  # type: ignore[arg-type]
    assert found == {("a.b-c", number): span for number, span in ranges.items()}


def test_what_changed_meanwhile_is_not_certain() -> None:
    same, moved = topics.TopicRead({("t", 0): (0, 5)}), topics.TopicRead({("u", 0): (0, 5)})
    anew = topics.TopicRead({("v", 0): (0, 5)}, {"v": "first"})
    before = {"same": same, "moved": moved, "anew": anew, "gone": topics.TopicRead({})}
    after = {
        "same": same,
        "moved": topics.TopicRead({("u", 0): (0, 6)}),
        "anew": topics.TopicRead({("v", 0): (0, 5)}, {"v": "second"}),
    }
    assert topics.certain(before, after) == {"same": same}


def test_a_version_lists_what_has_offsets() -> None:
    ranges = {("t", 10): (3, 4), ("t", 2): (0, 7), ("t", 3): (5, 5), ("u", 0): (0, 9)}
    assert topics.version("t", ranges) == "2:0-7 10:3-4"
    assert topics.version("v", ranges) is None
    many = {("t", number): (0, 10**9) for number in range(topics.VERSION_MAX)}
    assert topics.version("t", many) is None


def test_relations_that_see_other_transactions_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def reading(isolation: str) -> Any:
        given = SimpleNamespace(
            apply=lambda _: "broker:9092", get=lambda _: SimpleNamespace(toString=lambda: isolation)
        )
        return SimpleNamespace(toString=lambda: "KafkaRelation(same)", specifiedKafkaParams=given)

    monkeypatch.setattr(topics, "_field", getattr)
    one, other = reading("None"), reading("Some(read_committed)")
    assert topics.key_of(one) == topics.key_of(reading("None"))
    assert topics.key_of(one) != topics.key_of(other)
