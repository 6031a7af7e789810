"""Tweets about films, as JSON lines: python prepare.py FILE [TWEETS]. One of the films is called "Bad"."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

FILMS = (
    *("The Long Harbour", "Northern Lanterns", "A Quiet Engine", "Seven Bridges", "Paper Moons"),
    *("The Last Cartographer", "Salt and Copper", "Winter Parade", "Glass Orchard", "Blue Hours"),
    "Bad",
)
WORDS = [
    "tonight",
    "we",
    "saw",
    "it",
    "again",
    "with",
    "friends",
    "and",
    "then",
    "home",
    "by",
    "train",
    "late",
    "rain",
    "outside",
]
GOOD, BAD = ("great", "wonderful", "touching"), ("bad", "boring", "weak")
VOTE_SHARE = 0.4


def main() -> None:
    file, tweets = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3_000
    draw = random.Random(7)
    with file.open("w", encoding="utf-8") as out:
        for number in range(tweets):
            words = draw.sample(WORDS, 5)
            words.insert(2, draw.choice(FILMS))
            for adjectives in (GOOD, BAD):
                if draw.random() < VOTE_SHARE:
                    words.append(draw.choice(adjectives))
            out.write(json.dumps({"id": number, "text": " ".join(words) + " #film"}) + "\n")


if __name__ == "__main__":
    main()
