"""The same three jobs over Spark; each reads and writes what its job over MapReduce does.

python examples/movies/spark_job.py averages|favourites|demographics OUTPUT INPUT...
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from pyspark import RDD, SparkContext


def averages(lines: RDD[str]) -> RDD[str]:
    """The average rating of each user for each genre."""

    def of_genres(line: str) -> list[tuple[str, int]]:
        user, _, genres, rating = line.split(",")
        return [(f"{user},{genre}", int(rating)) for genre in genres.split("|")]

    def average(pair: tuple[str, Iterable[int]]) -> str:
        ratings = list(pair[1])
        return f"{pair[0]}\t{sum(ratings) / len(ratings):.2f}"

    return lines.flatMap(of_genres).groupByKey().map(average)


def favourites(lines: RDD[str]) -> RDD[str]:
    """The three genres that each user likes most, with who the user is."""

    def by_user(line: str) -> tuple[str, str]:
        user, _, rest = line.partition(",")
        return user, rest

    def top(pair: tuple[str, Iterable[str]]) -> list[str]:
        person, averages = "", []
        for value in pair[1]:
            genre, is_average, average = value.partition("\t")
            if is_average:
                averages.append((-float(average), genre))
            else:
                person = value.replace(",", " ")
        return [f"{pair[0]}\t{genre},{person}" for _, genre in sorted(averages)[:3]]

    return lines.map(by_user).groupByKey().flatMap(top)


def demographics(lines: RDD[str]) -> RDD[str]:
    """How many people of each gender and age like each genre."""
    counted = lines.map(lambda line: (line.split("\t")[1], 1)).reduceByKey(lambda a, b: a + b)
    return counted.map(lambda pair: f"{pair[0]}\t{pair[1]}")


STEPS: dict[str, Callable[[RDD[str]], RDD[str]]] = {
    "averages": averages,
    "favourites": favourites,
    "demographics": demographics,
}

if __name__ == "__main__":
    step, output, *inputs = sys.argv[1:]
    sc = SparkContext.getOrCreate()
    STEPS[step](sc.textFile(",".join(inputs))).saveAsTextFile(output)
    sc.stop()
