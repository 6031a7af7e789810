"""Good and bad votes for films, from tweets: python job.py TWEETS OUTPUT.

It has a fault, which it shares with the published example: in a tweet about the film called "Bad" the title is taken for a vote.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from pyspark import SparkContext

from prepare import BAD, FILMS, GOOD


def votes_in(line: str) -> Iterator[tuple[tuple[str, str], int]]:
    """A vote for each kind of adjective that a tweet holds, by its film."""
    text = json.loads(line)["text"]
    film = next(title for title in FILMS if title in text)
    words = text.lower().split()
    for vote, adjectives in (("good", GOOD), ("bad", BAD)):
        if any(word in words for word in adjectives):
            yield (film, vote), 1


def main() -> None:
    source, target = sys.argv[1:]
    sc = SparkContext(appName="votes")
    tweets = sc.textFile(source, 4).filter(lambda line: "#film" in line)
    tweets.flatMap(votes_in).reduceByKey(lambda a, b: a + b).saveAsTextFile(target)
    sc.stop()


if __name__ == "__main__":
    main()
