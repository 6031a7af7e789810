"""Six programs of DataFrames with a fault in their data: python faults.py PROGRAM INPUT OUTPUT.

They are of the kinds that BigSift (Gulzar et al., SoCC 2017) was evaluated with. Each has its records, drawn by a seed, with one that is wrong; a
test of an output row; and itself again in plain Python, for a search that knows no lineage.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

Row = Mapping[str, Any]

WORDS_A_LINE, VOCABULARY = 8, 2_000
REPEATED = 100_000
"""How often the wrong line of the word count has its word: more than twice what other lines of 10,000,000 have it."""
MEAN_MAX, SPREAD_MAX, SCORE_MAX = 30, 5_000, 5


def word_count(spark: SparkSession, path: str) -> DataFrame:
    """How often each word occurs."""
    words = spark.read.text(path).select(F.explode(F.split("value", " ")).alias("word"))
    return words.groupBy("word").count()


def weather(spark: SparkSession, path: str) -> DataFrame:
    """How far the snow of a state lies apart in a year."""
    read = spark.read.csv(path, schema="station string, state string, year int, snow int")
    spread = (F.max("snow") - F.min("snow")).alias("spread")
    return read.groupBy("state", "year").agg(spread)


def transit(spark: SparkSession, path: str) -> DataFrame:
    """Minutes between flights of short transits, by airport and hour."""
    read = spark.read.csv(path, schema="airport string, arrives int, departs int")
    minutes = read.withColumn("minutes", F.col("departs") - F.col("arrives"))
    short = minutes.where("minutes < 45").withColumn("hour", F.expr("arrives div 60"))
    return short.groupBy("airport", "hour").agg(F.sum("minutes").alias("minutes"))


def inverted_index(spark: SparkSession, path: str) -> DataFrame:
    """The documents of each word."""
    read = spark.read.csv(path, schema="document string, text string")
    words = read.select("document", F.explode(F.split("text", " ")).alias("word"))
    return words.groupBy("word").agg(F.sort_array(F.collect_set("document")).alias("documents"))


def scores(spark: SparkSession, path: str) -> DataFrame:
    """How many films have each score."""
    read = spark.read.csv(path, schema="film string, score int")
    return read.groupBy("score").count()


def ages(spark: SparkSession, path: str) -> DataFrame:
    """The mean age of the students of a course and year."""
    read = spark.read.csv(path, schema="student string, course string, year int, age int")
    return read.groupBy("course", "year").agg(F.avg("age").alias("age"))


def _word_counts(lines: Iterable[str]) -> Iterable[Row]:
    counts: dict[str, int] = defaultdict(int)
    for line in lines:
        for word in line.split(" "):
            counts[word] += 1
    return ({"word": word, "count": count} for word, count in counts.items())


def _spreads(lines: Iterable[str]) -> Iterable[Row]:
    bounds: dict[tuple[str, str], tuple[int, int]] = {}
    for line in lines:
        _, state, year, text = line.split(",")
        snow = int(text)
        least, most = bounds.get((state, year), (snow, snow))
        bounds[state, year] = min(least, snow), max(most, snow)
    return ({"spread": most - least} for least, most in bounds.values())


def _transits(lines: Iterable[str]) -> Iterable[Row]:
    sums: dict[tuple[str, int], int] = defaultdict(int)
    for line in lines:
        airport, arrives, departs = line.split(",")
        minutes = int(departs) - int(arrives)
        if minutes < 45:
            sums[airport, int(arrives) // 60] += minutes
    return ({"minutes": minutes} for minutes in sums.values())


def _documents(lines: Iterable[str]) -> Iterable[Row]:
    documents: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        document, text = line.split(",")
        for word in text.split(" "):
            documents[word].add(document)
    return ({"documents": sorted(of_word)} for of_word in documents.values())


def _scores(lines: Iterable[str]) -> Iterable[Row]:
    return ({"score": score} for score in {int(line.split(",")[1]) for line in lines})


def _ages(lines: Iterable[str]) -> Iterable[Row]:
    sums: dict[tuple[str, str], list[int]] = defaultdict(list)
    for line in lines:
        _, course, year, age = line.split(",")
        sums[course, year].append(int(age))
    return ({"age": sum(of_course) / len(of_course)} for of_course in sums.values())


def _line_of_words(draw: random.Random, n: int) -> str:
    return " ".join(f"w{draw.randrange(VOCABULARY)}" for _ in range(WORDS_A_LINE))


def _reading(draw: random.Random, n: int) -> str:
    return f"s{n},state{draw.randrange(50)},{1990 + draw.randrange(30)},{draw.randrange(2_000)}"


def _stop(draw: random.Random, n: int) -> str:
    arrives = draw.randrange(24 * 60)
    return f"a{draw.randrange(100)},{arrives},{arrives + draw.randrange(120)}"


def _document(draw: random.Random, n: int) -> str:
    return f"doc{n}," + _line_of_words(draw, n)


def _score(draw: random.Random, n: int) -> str:
    return f"film{n},{draw.randrange(1, SCORE_MAX + 1)}"


def _student(draw: random.Random, n: int) -> str:
    return f"student{n},course{draw.randrange(300)},{draw.randrange(4)},{draw.randrange(18, 26)}"


@dataclass(frozen=True)
class Faulty:
    """A program and its fault. ``needed``: how many rows a minimal set has, of which the wrong one is one."""

    job: Callable[[SparkSession, str], DataFrame]
    plain: Callable[[Iterable[str]], Iterable[Row]]
    record: Callable[[random.Random, int], str]
    wrong: str
    needed: int
    is_right: Callable[[Row, int], bool]
    """Whether a row of the output is as it should be, of a job over so many records."""


PROGRAMS: dict[str, Faulty] = {
    "word count": Faulty(
        word_count,
        _word_counts,
        _line_of_words,
        " ".join(["w7"] * REPEATED),
        1,
        # Twice what a word has in the mean: above all others, below what the wrong line has alone.
        lambda row, records: row["count"] < max(2 * records * WORDS_A_LINE / VOCABULARY, 100),
    ),
    "weather": Faulty(
        weather,
        _spreads,
        _reading,
        "s0,state7,2001,90000",
        2,
        lambda row, _: row["spread"] < SPREAD_MAX,
    ),
    "transit": Faulty(
        transit, _transits, _stop, "a7,700,-900000", 1, lambda row, _: row["minutes"] >= 0
    ),
    "inverted index": Faulty(
        inverted_index,
        _documents,
        _document,
        "?,w7",
        1,
        lambda row, _: all(document.startswith("doc") for document in row["documents"]),
    ),
    "scores": Faulty(
        scores, _scores, _score, "film7,55", 1, lambda row, _: row["score"] <= SCORE_MAX
    ),
    "ages": Faulty(
        ages, _ages, _student, "s7,course7,1,1900000", 1, lambda row, _: row["age"] < MEAN_MAX
    ),
}


def lines_of(name: str, records: int, seed: int) -> tuple[list[str], int]:
    """The records of a program, and the index of the wrong one."""
    draw = random.Random(seed)
    program = PROGRAMS[name]
    lines = [program.record(draw, n) for n in range(records - 1)]
    at = draw.randrange(records)
    lines.insert(at, program.wrong)
    return lines, at


def main() -> None:
    """Run one."""
    name, source, target = sys.argv[1:]
    spark = SparkSession.builder.appName(name).getOrCreate()
    PROGRAMS[name].job(spark, source).write.parquet(target)
    spark.stop()


if __name__ == "__main__":
    main()
