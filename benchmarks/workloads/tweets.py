"""What people think of ten films: python tweets.py INPUT OUTPUT PARTITIONS.

The job of the published evaluation: tweets as JSON lines; those with a film hashtag are rated by
whether they hold a good and a bad adjective, by the film that they name.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark import SparkContext

HASHTAGS = ("#film", "#movie", "#cinema", "#nowwatching", "#premiere")
TITLES = (
    *("the long harbour", "northern lanterns", "a quiet engine", "seven bridges", "paper moons"),
    *("the last cartographer", "salt and copper", "winter parade", "glass orchard", "blue hours"),
)
ANY = "any"
GOOD = ("great", "brilliant", "wonderful", "touching")
BAD = ("awful", "boring", "dreadful", "weak")

Votes = tuple[int, int]


def is_about_films(line: str) -> bool:
    """Whether a line holds a film hashtag."""
    return any(tag in line for tag in HASHTAGS)


def text_of(tweet: dict[str, Any]) -> str:
    """What the tweet says, in lower case."""
    return str(tweet["text"]).lower()


def title_in(text: str) -> str:
    """The film that a text names."""
    return next((title for title in TITLES if title in text), ANY)


def votes_in(text: str) -> Votes:
    """1 or 0 for a good adjective, and for a bad one."""
    return int(any(word in text for word in GOOD)), int(any(word in text for word in BAD))


def sum_of(first: Votes, second: Votes) -> Votes:
    """Good and bad votes of both."""
    return first[0] + second[0], first[1] + second[1]


def rating_of(votes: Votes) -> str:
    """The share of good votes, in stars."""
    good, bad = votes
    return f"{5 * good / max(good + bad, 1):.2f} stars, {good} good, {bad} bad"


def main() -> None:
    source, target, partitions = sys.argv[1], sys.argv[2], int(sys.argv[3])
    sc = SparkContext(appName="tweets")
    texts = sc.textFile(source, partitions).filter(is_about_films).map(json.loads).map(text_of)
    votes = texts.map(lambda text: (title_in(text), votes_in(text)))
    votes.reduceByKey(sum_of).mapValues(rating_of).saveAsTextFile(target)
    sc.stop()


if __name__ == "__main__":
    main()
