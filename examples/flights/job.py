"""Which airline loses most time, and on the way where, when New York's weather is rough?

An ordinary PySpark job over the tables of ``prepare.py``; it knows nothing of lineage.

    python examples/flights/job.py DATA_DIR OUTPUT_DIR [PARTITIONS]
"""

from __future__ import annotations

import csv
import sys
from typing import NamedTuple

from pyspark import SparkContext

ROUGH_WIND_MPH = 24.0
ROUGH_RAIN_INCHES = 0.10
ROUGH_SIGHT_MILES = 1.0


class Flight(NamedTuple):
    """One flight that arrived; delay in minutes, negative when early."""

    carrier: str
    dest: str
    delay: int
    day: str


class Delays(NamedTuple):
    """What is kept of a group of flights."""

    flights: int
    minutes: int
    worst: int
    worst_day: str


def is_data(line: str) -> bool:
    """Header lines start with the name of the first column, data lines with its value."""
    return not line.startswith(("year,", "origin,", "carrier,", "faa,"))


def parse_line(line: str) -> list[str]:
    """The fields of one CSV line."""
    return next(csv.reader([line]))


def has_arrived(fields: list[str]) -> bool:
    """Cancelled and diverted flights have no arrival delay."""
    return fields[8] != "NA"


def by_departure(fields: list[str]) -> tuple[tuple[str, str], Flight]:
    """A flight by (origin, hour of departure)."""
    day = f"{fields[0]}-{int(fields[1]):02d}-{int(fields[2]):02d}"
    return (fields[12], fields[18]), Flight(fields[9], fields[13], int(fields[8]), day)


def number(text: str) -> float | None:
    """A measurement, None where none was taken."""
    return None if text == "NA" else float(text)


def weather_by_hour(fields: list[str]) -> tuple[tuple[str, str], str]:
    """An hour's weather by (origin, hour): what is rough about it, or nothing."""
    wind, rain, sight = number(fields[9]), number(fields[11]), number(fields[13])
    found = []
    if wind is not None and wind >= ROUGH_WIND_MPH:
        found.append("wind")
    if rain is not None and rain >= ROUGH_RAIN_INCHES:
        found.append("rain")
    if sight is not None and sight <= ROUGH_SIGHT_MILES:
        found.append("fog")
    return (fields[0], fields[14]), "+".join(found)


def is_rough(hour: tuple[tuple[str, str], str]) -> bool:
    """Keep only hours with something rough in them."""
    return hour[1] != ""


def add_flight(group: Delays, flight: tuple[int, str]) -> Delays:
    """Count one (delay, day) in."""
    delay, day = flight
    worst, worst_day = max((group.worst, group.worst_day), (delay, day))
    return Delays(group.flights + 1, group.minutes + delay, worst, worst_day)


def merge_groups(left: Delays, right: Delays) -> Delays:
    """Put two groups together."""
    worst, worst_day = max((left.worst, left.worst_day), (right.worst, right.worst_day))
    return Delays(left.flights + right.flights, left.minutes + right.minutes, worst, worst_day)


def mean_delay(group: Delays) -> float:
    """Minutes per flight."""
    return group.minutes / group.flights


def as_line(row: tuple[tuple[str, str], Delays]) -> str:
    """One line of the report."""
    (airline, airport), group = row
    return (
        f"{mean_delay(group):8.1f} min late on average | flights {group.flights:5d} | {airline} "
        f"to {airport} | worst {group.worst} min on {group.worst_day}"
    )


def run(sc: SparkContext, folder: str, output: str, partitions: int = 4) -> None:
    """Write the report, the latest arrivals first."""
    flights = sc.textFile(f"{folder}/flights.csv", partitions).filter(is_data).map(parse_line)
    weather = sc.textFile(f"{folder}/weather.csv").filter(is_data).map(parse_line)
    airlines = sc.textFile(f"{folder}/airlines.csv").filter(is_data).map(parse_line)
    airports = sc.textFile(f"{folder}/airports.csv").filter(is_data).map(parse_line)

    departures = flights.filter(has_arrived).map(by_departure)
    rough_hours = weather.map(weather_by_hour).filter(is_rough)
    in_rough_weather = departures.join(rough_hours, partitions).values()

    by_carrier = in_rough_weather.map(lambda pair: (pair[0].carrier, pair[0]))
    named = by_carrier.join(airlines.map(lambda f: (f[0], f[1])), partitions)
    by_destination = named.map(lambda kv: (kv[1][0].dest, (kv[1][1], kv[1][0])))
    with_airport = by_destination.join(airports.map(lambda f: (f[0], f[1])), partitions)

    delays = with_airport.map(
        lambda kv: ((kv[1][0][0], kv[1][1]), (kv[1][0][1].delay, kv[1][0][1].day))
    )
    start = Delays(0, 0, -(10**6), "")
    report = delays.aggregateByKey(start, add_flight, merge_groups, partitions)
    ranked = report.sortBy(lambda row: (-mean_delay(row[1]), row[0]), numPartitions=partitions)
    ranked.map(as_line).saveAsTextFile(output)


def main(arguments: list[str]) -> int:
    """Command line entry."""
    if len(arguments) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    sc = SparkContext.getOrCreate()
    try:
        run(sc, arguments[0], arguments[1], int(arguments[2]) if len(arguments) == 3 else 4)
    finally:
        sc.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
