"""Deterministic tweets, records, tables and graphs: the same bytes for the same arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.generate import SEED, vocabulary
from benchmarks.workloads.tweets import BAD, GOOD, HASHTAGS, TITLES

CHUNK = 50_000
FILM_SHARE = 0.01
TITLE_SHARE = 0.8
ADJECTIVE_SHARE = 0.4
RECORDS_A_KEY = 10
PAYLOAD_LETTERS = 60
UNKNOWN_CUSTOMERS = 1.1
"""Orders name customers from so many times those that there are."""
EDGES_A_NODE = 10
VILLAGE = 50
"""Nodes of a village: half of a graph are villages without an edge between them, half is one town."""


def _write(target: Path, chunks: Iterator[str], size: int | None = None) -> None:
    """Write whole lines, at least ``size`` bytes where it is given and no chunk more than needed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.with_suffix(".part")
    written = 0
    with half.open("w", encoding="ascii", newline="\n") as out:
        for chunk in chunks:
            if size is not None and written + len(chunk) > size:
                out.write(chunk[: chunk.index("\n", max(size - written - 1, 0)) + 1])
                break
            written += out.write(chunk)
    half.rename(target)


# -- tweets --------------------------------------------------------------------------------------


def write_tweets(target: Path, size: int) -> None:
    """JSON lines of about 420 bytes, one in 100 about films."""
    _write(target, _tweets(), size)


def _tweets() -> Iterator[str]:
    generator = np.random.default_rng(SEED)
    words = [word.decode("ascii") for word in vocabulary().tolist()]
    number = 450_000_000_000_000_000
    while True:
        lines = []
        lengths = generator.integers(10, 17, CHUNK).tolist()
        drawn = iter(generator.integers(0, len(words), sum(lengths)).tolist())
        people = generator.integers(10_000, 10_000_000, CHUNK).tolist()
        counts = generator.integers(0, 5_000, (CHUNK, 4)).tolist()
        films = (generator.random(CHUNK) < FILM_SHARE).tolist()
        for length, person, count, film in zip(lengths, people, counts, films, strict=True):
            text = [words[next(drawn)] for _ in range(length)]
            tags = _about_a_film(generator, text) if film else []
            number += 1 + count[0]
            lines.append(_tweet(number, person, count, " ".join(text), tags))
        yield "".join(lines)


def _about_a_film(generator: np.random.Generator, text: list[str]) -> list[str]:
    """Add a hashtag, often a title and adjectives; returns the hashtags."""
    tag = HASHTAGS[int(generator.integers(len(HASHTAGS)))]
    if generator.random() < TITLE_SHARE:
        text.insert(2, TITLES[int(generator.integers(len(TITLES)))].title())
    for adjectives in (GOOD, BAD):
        if generator.random() < ADJECTIVE_SHARE:
            text.insert(4, adjectives[int(generator.integers(len(adjectives)))])
    text.append(tag)
    return [tag[1:]]


def _tweet(number: int, person: int, count: list[int], text: str, tags: list[str]) -> str:
    at = f"2014-04-{count[1] % 28 + 1:02d}T{count[2] % 24:02d}:{count[3] % 60:02d}:00Z"
    tweet = {
        "created_at": at,
        "id": number,
        "id_str": str(number),
        "text": text,
        "source": "<a href=http://example.org/client>client</a>",
        "user": {
            "id": person,
            "screen_name": f"person{person}",
            "followers_count": count[0],
            "friends_count": count[1],
        },
        "retweet_count": count[2],
        "entities": {"hashtags": [{"text": tag} for tag in tags]},
        "lang": "en",
    }
    return json.dumps(tweet) + "\n"


# -- records, tables, graphs ---------------------------------------------------------------------


def write_records(target: Path, size: int) -> None:
    """Lines ``ID,KEY,NUMBER,PAYLOAD`` of 90 bytes; ten have the same key."""
    _write(target, _records(size // 90), size)


def _records(records: int) -> Iterator[str]:
    generator = np.random.default_rng(SEED)
    keys = max(records // RECORDS_A_KEY, 1)
    at = 0
    while True:
        letters = generator.integers(97, 123, (CHUNK, PAYLOAD_LETTERS), dtype=np.uint8)
        drawn = zip(
            generator.integers(0, keys, CHUNK).tolist(),
            generator.integers(0, 10**10, CHUNK).tolist(),
            letters.view(f"S{PAYLOAD_LETTERS}").ravel().tolist(),
            strict=True,
        )
        lines = [
            f"{number:08d},k{key:07d},{value:010d},{payload.decode('ascii')}\n"
            for number, (key, value, payload) in enumerate(drawn, start=at)
        ]
        at += CHUNK
        yield "".join(lines)


def write_tables(folder: Path, rows: int) -> None:
    """``orders.csv`` (ORDER,CUSTOMER,AMOUNT) and ``customers.csv`` (CUSTOMER,NAME), each of ``rows``.

    One order in eleven has a customer that is not there.
    """
    generator = np.random.default_rng(SEED)
    words = [word.decode("ascii") for word in vocabulary().tolist()]
    customers = generator.permutation(rows).tolist()
    word_indexes = generator.integers(0, len(words), rows).tolist()
    people = (f"c{c:07d},{words[n]}\n" for c, n in zip(customers, word_indexes, strict=True))
    _write(folder / "customers.csv", people)
    buyers = generator.integers(0, int(rows * UNKNOWN_CUSTOMERS), rows).tolist()
    amounts = generator.integers(1, 100_000, rows).tolist()
    orders = zip(buyers, amounts, strict=True)
    _write(folder / "orders.csv", (f"o{n:07d},c{b:07d},{a}\n" for n, (b, a) in enumerate(orders)))


def write_graph(target: Path, edges: int) -> None:
    """Lines ``FROM TO``: in a town where few nodes have most edges into them, and in villages."""
    generator = np.random.default_rng(SEED)
    town = max(edges // EDGES_A_NODE // 2, VILLAGE)
    sources = generator.integers(0, 2 * town, edges)
    targets = (generator.random(edges) ** 2 * town).astype(np.int64)
    away = sources >= town
    targets[away] = sources[away] // VILLAGE * VILLAGE + generator.integers(0, VILLAGE, edges)[away]
    pairs = zip(sources.tolist(), targets.tolist(), strict=True)
    _write(target, (f"n{a} n{b}\n" for a, b in pairs))
