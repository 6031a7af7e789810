"""How many flows and links there must be, by plain Python over the input.

Nothing of Spark or of lineage is used, but for one fact: which lines a split has. Hadoop cuts a file
at equal bytes, and a line belongs to the split in which the byte before its first one lies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from benchmarks.catalog import GREP_WORD
from benchmarks.workloads import tweets

SLOP = 1.1
"""A last split may be larger by so much."""
BLOCK_BYTES = 32 << 20
"""Of local files, as Hadoop sees them."""


class Counts(NamedTuple):
    """Flows, and pairs of flows where one's output is the other's input."""

    flows: int
    links: int


Splits: TypeAlias = Sequence[Sequence[str]]


def split_ends(size: int, partitions: int) -> list[int]:
    """Where the splits of a file of so many bytes end."""
    at_once = max(1, min(size // max(partitions, 1), BLOCK_BYTES))
    ends, bytes_left = [], size
    while bytes_left / at_once > SLOP:
        bytes_left -= at_once
        ends.append(size - bytes_left)
    return [*ends, size] if bytes_left else ends


def lines_by_split(source: Path, partitions: int) -> list[list[str]]:
    """The lines of each split."""
    ends = split_ends(source.stat().st_size, partitions)
    lines_of_splits: list[list[str]] = [[] for _ in ends]
    offset = split = 0
    with source.open("rb") as lines:
        for line in lines:
            while offset > ends[split]:
                split += 1
            lines_of_splits[split].append(line.removesuffix(b"\n").decode())
            offset += len(line)
    return lines_of_splits


def line_of(name: str, splits: Splits) -> int:
    """The line, from 1, that ``read#SPLIT#ROW`` names."""
    _, split, row = name.split("#")
    return sum(map(len, splits[: int(split)])) + int(row) + 1


def of_word_count(splits: Splits) -> Counts:
    """Read: a flow a line. Then by words, at stage level."""
    lines = sum(map(len, splits))
    words = [[word for line in split for word in line.split(" ")] for split in splits]
    return _reduced(before=Counts(lines, 0), keys=words, after=1)


def of_grep(splits: Splits) -> Counts:
    """Read: a flow a line. Write: a flow a match, linked with its line's."""
    matches = sum(GREP_WORD in line for split in splits for line in split)
    return Counts(sum(map(len, splits)) + matches, matches)


def of_tweets(splits: Splits) -> Counts:
    """In detail: a filter and three maps, each a flow a tweet that is about films; a map after the shuffle."""
    keys = [[_film(line) for line in split if tweets.is_about_films(line)] for split in splits]
    tweet_count = sum(map(len, keys))
    before = Counts(sum(map(len, splits)) + 4 * tweet_count, 4 * tweet_count)
    return _reduced(before=before, keys=keys, after=2)


def _film(line: str) -> str:
    return tweets.title_in(tweets.text_of(json.loads(line)))


def _reduced(before: Counts, keys: Iterable[Sequence[str]], after: int) -> Counts:
    """What follows on ``before`` where records with these keys (of each split) are reduced.

    Shuffle write: a flow a record, linked with the record's. Shuffle read: a flow a key and split, linked
    with each record combined into it. Then ``after`` times a flow a key; the first is linked with its key's
    flows of all splits, each later one with the one before.
    """
    by_split = list(keys)
    records = sum(map(len, by_split))
    combined = sum(len(set(split)) for split in by_split)
    rows = len(set().union(*by_split))
    flows = before.flows + records + combined + after * rows
    return Counts(flows, before.links + 2 * records + combined + (after - 1) * rows)


EXPECTED: dict[str, Callable[[Splits], Counts]] = {
    "wordcount": of_word_count,
    "grep": of_grep,
    "tweets": of_tweets,
}
"""By workload: those of the published evaluation."""
