"""The input lines that made output rows, by plain Python over the input: what a trace must say.

Each function takes the input and output rows, and gives for each row the set of its lines. None knows
anything of Spark or of lineage; each reads its input once.
"""

from __future__ import annotations

import ast
import importlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from benchmarks.workloads import tweets

Line: TypeAlias = tuple[str, int]
"""File name and line, from 1."""
Lines: TypeAlias = set[Line]


class OutputRow(NamedTuple):
    """A row of the output, and how many rows of the output are before it."""

    text: str
    before: int


Witnesses: TypeAlias = Callable[[Path, Sequence[OutputRow]], list[Lines]]


def _lines_of(path: Path) -> Iterator[tuple[Line, str]]:
    with path.open(encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            yield (path.name, number), line.rstrip("\n")


def of_words(source: Path, rows: Sequence[OutputRow]) -> list[Lines]:
    """Word count: the lines that hold the word."""
    lines_by_word: dict[str, Lines] = {ast.literal_eval(row.text)[0]: set() for row in rows}
    for line, text in _lines_of(source):
        for word in lines_by_word.keys() & text.split(" "):
            lines_by_word[word].add(line)
    return list(lines_by_word.values())


def of_matches(word: str) -> Witnesses:
    """Grep: the line that it is."""

    def witnesses(source: Path, rows: Sequence[OutputRow]) -> list[Lines]:
        matches = [line for line, text in _lines_of(source) if word in text]
        return [{matches[row.before]} for row in rows]

    return witnesses


def of_tweets(source: Path, rows: Sequence[OutputRow]) -> list[Lines]:
    """The tweets with a film hashtag that name the film, and no film that comes before it."""
    lines_by_title: defaultdict[str, Lines] = defaultdict(set)
    for line, text in _lines_of(source):
        if any(tag in text for tag in tweets.HASHTAGS):
            tweet_text = json.loads(text)["text"].lower()
            titles = [title for title in tweets.TITLES if title in tweet_text]
            lines_by_title[(titles or [tweets.ANY])[0]].add(line)
    return [lines_by_title[ast.literal_eval(row.text)[0]] for row in rows]


def of_join(source: Path, rows: Sequence[OutputRow]) -> list[Lines]:
    """The order and the customer."""
    key_pairs = [row.text.split(",")[::2] for row in rows]
    names = {name for order_and_customer in key_pairs for name in order_and_customer}
    at = {
        name: line
        for table in ("orders", "customers")
        for line, text in _lines_of(source / f"{table}.csv")
        if (name := text.partition(",")[0]) in names
    }
    return [{at[order], at[customer]} for order, customer in key_pairs]


def of_whole_lines(source: Path, rows: Sequence[OutputRow]) -> list[Lines]:
    """Sort: the line that it is; no two are the same."""
    texts = {row.text for row in rows}
    at = {text: line for line, text in _lines_of(source) if text in texts}
    return [{at[row.text]} for row in rows]


def of_keys(source: Path, rows: Sequence[OutputRow]) -> list[Lines]:
    """Distinct and group: the records with the key."""
    lines_by_key: dict[str, Lines] = {row.text.partition(",")[0]: set() for row in rows}
    for line, text in _lines_of(source):
        key = text.split(",", 2)[1]
        if key in lines_by_key:
            lines_by_key[key].add(line)
    return list(lines_by_key.values())


def of_ranks(iterations: int) -> Witnesses:
    """PageRank: all edges from the nodes whose rank of some turn went into the row's."""

    def witnesses(source: Path, rows: Sequence[OutputRow]) -> list[Lines]:
        ends = np.array([text.split(" ") for _, text in _lines_of(source)])
        names, codes = np.unique(ends, return_inverse=True)
        start, stop = codes.reshape(-1, 2).T
        linked = np.zeros(len(names), np.bool_)
        linked[start] = True
        ranked = [linked]  # after each turn: which nodes have a rank
        for _ in range(iterations):
            is_source = np.zeros(len(names), np.bool_)
            is_source[stop[ranked[-1][start]]] = True
            ranked.append(is_source)
        return [
            {(source.name, int(edge) + 1) for edge in _edges_behind(node, start, stop, ranked)}
            for node in np.searchsorted(names, [row.text.split(" ")[0] for row in rows])
        ]

    return witnesses


def _edges_behind(
    node: int,
    start: np.ndarray[tuple[int], np.dtype[np.int64]],
    stop: np.ndarray[tuple[int], np.dtype[np.int64]],
    ranked: Sequence[np.ndarray[tuple[int], np.dtype[np.bool_]]],
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Places of the edges, turn by turn back from the last."""
    is_wanted = np.zeros(len(ranked[0]), np.bool_)
    is_wanted[node] = True
    sources = np.zeros_like(is_wanted)
    for before in reversed(ranked[:-1]):
        senders = start[is_wanted[stop] & before[start]]
        is_wanted = np.zeros_like(is_wanted)
        is_wanted[senders] = True
        sources |= is_wanted
    return np.flatnonzero(sources[start])


def of_flights(source: Path, rows: Sequence[OutputRow]) -> list[Lines]:
    """Flights of the airline to the airport in rough hours, those hours, the airline, the airport."""
    # Its types are checked with its folder, by other rules.
    job: Any = importlib.import_module("examples.flights.job")

    def data(name: str) -> Iterator[tuple[Line, list[str]]]:
        for line, text in _lines_of(source / f"{name}.csv"):
            if job.is_data(text):
                yield line, job.parse_line(text)

    rough: defaultdict[tuple[str, str], Lines] = defaultdict(set)
    for line, fields in data("weather"):
        hour = job.weather_by_hour(fields)
        if job.is_rough(hour):
            rough[hour[0]].add(line)
    airlines = {fields[0]: (line, fields[1]) for line, fields in data("airlines")}
    airports = {fields[0]: (line, fields[1]) for line, fields in data("airports")}
    lines_by_group: defaultdict[str, Lines] = defaultdict(set)
    for line, fields in data("flights"):
        if not job.has_arrived(fields):
            continue
        hour, flight = job.by_departure(fields)
        if hour in rough and flight.carrier in airlines and flight.dest in airports:
            airline, airport = airlines[flight.carrier], airports[flight.dest]
            group = lines_by_group[f"{airline[1]} to {airport[1]}"]
            group |= {line, airline[0], airport[0]} | rough[hour]
    return [lines_by_group[row.text.split(" | ")[2]] for row in rows]
