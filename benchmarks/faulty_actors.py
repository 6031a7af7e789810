"""How high `lineage suspects` ranks two faulty mappers: python -m benchmarks.faulty_actors --json-out FILE.

The experiment of Newt's evaluation of faulty actors: a join of four datasets in three stages, with 42 actors (six mappers a dataset, six reducers a
stage), of which two mappers are faulty. The original's data and its definition of an error's magnitude are not at hand. Here a faulty mapper gives, for
one in ten of its records, ``magnitude`` records of random keys. A final row is bad where such a record is among its witnesses. What is
asked, over lineage that is captured by `LineageApi` and linked: the health of the application; a sample of bad rows; bad and good rows.
Each actor's percentile rank is the share of the other actors that rank below it, those of its own rank by half.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.provenance import provenance
from benchmarks.row import put_out
from lineage.access import StoredAccess, open_access
from lineage_emitter import LineageApi
from lineage_query.suspects.answer import Suspects
from lineage_query.suspects.query import SuspectsQuery

MAPPERS = REDUCERS = 6
DATASETS = ("a", "b", "c", "d")
ACTORS = MAPPERS * len(DATASETS) + REDUCERS * (len(DATASETS) - 1)
RECORDS, KEYS = 300, 120
"""Records of the first dataset; keys, of which each other dataset has every one once."""
FAULTY_SHARE = 10
"""One of so many records of a faulty mapper goes wrong."""
MAGNITUDES = (1, 2, 5, 10, 100, 1_000)
SAMPLES = (1, 5, 20)
LAST = f"join-{len(DATASETS) - 1}"

Actor = tuple[str, int]


@dataclass(frozen=True)
class Put:
    """A record that an actor put out: where, its key, and whether a fault is among its witnesses."""

    partition: int
    position: int
    key: int
    bad: bool


@dataclass
class Job:
    """One run of the join, and its final rows by their addresses."""

    generator: random.Random
    magnitude: int
    faulty: frozenset[Actor]
    bad: list[str] = field(default_factory=list)
    good: list[str] = field(default_factory=list)

    def run(self, url: str) -> None:
        """Run it, and capture its lineage."""
        with LineageApi("four datasets", app="join", store=url, on_error="fail") as api:
            for dataset in DATASETS:
                api.register(dataset, kind="source")
                api.register(f"map-{dataset}")
                api.flow_link(dataset, f"map-{dataset}")
            left = self._mapped(api, "a")
            for stage, dataset in enumerate(DATASETS[1:], 1):
                node = f"join-{stage}"
                api.register(node, kind="sink" if node == LAST else "operator")
                left_node = "map-a" if stage == 1 else f"join-{stage - 1}"
                for src in (left_node, f"map-{dataset}"):
                    api.flow_link(src, node)
                left = self._joined(
                    api, node, (left_node, left), (f"map-{dataset}", self._mapped(api, dataset))
                )
        for row in left:
            (self.bad if row.bad else self.good).append(f"{LAST}#{row.partition}#{row.position}")

    def _mapped(self, api: LineageApi, dataset: str) -> list[Put]:
        drawn = self.generator
        keys = (
            [drawn.randrange(KEYS) for _ in range(RECORDS)] if dataset == "a" else list(range(KEYS))
        )
        drawn.shuffle(keys)
        found: list[Put] = []
        for mapper in range(MAPPERS):
            node, pairs = f"map-{dataset}", list[tuple[int, int]]()
            for at, key in enumerate(keys[mapper::MAPPERS]):
                wrong = (node, mapper) in self.faulty and at % FAULTY_SHARE == 0
                for made in (
                    [drawn.randrange(KEYS) for _ in range(self.magnitude)] if wrong else [key]
                ):
                    found.append(Put(mapper, len(pairs), made, wrong))
                    pairs.append((at, len(pairs)))
            with api.task(node, mapper) as task:
                _capture(task, f"{dataset}#{mapper}", f"{node}#{mapper}", pairs)
        return found

    def _joined(
        self,
        api: LineageApi,
        node: str,
        left: tuple[str, Sequence[Put]],
        right: tuple[str, Sequence[Put]],
    ) -> list[Put]:
        by_key: defaultdict[int, list[Put]] = defaultdict(list)
        for row in right[1]:
            by_key[row.key].append(row)
        found: list[Put] = []
        for reducer in range(REDUCERS):
            pairs: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
            made = 0
            for row in left[1]:
                for other in by_key[row.key] if row.key % REDUCERS == reducer else ():
                    pairs[f"{left[0]}#{row.partition}"].append((row.position, made))
                    pairs[f"{right[0]}#{other.partition}"].append((other.position, made))
                    # The next stage joins by another key of the row.
                    found.append(
                        Put(reducer, made, (row.key * 7 + made) % KEYS, row.bad or other.bad)
                    )
                    made += 1
            with api.task(node, reducer) as task:
                for space, of_space in sorted(pairs.items()):
                    _capture(task, space, f"{node}#{reducer}", of_space)
        return found


def _capture(task: Any, in_space: str, out_space: str, pairs: Sequence[tuple[int, int]]) -> None:
    if pairs:
        ins, outs = (np.array(column, np.uint64) for column in zip(*pairs, strict=True))
        task.capture_columns(in_space, ins, out_space, outs)


def percentile_ranks(found: Suspects, faulty: frozenset[Actor]) -> list[float]:
    """The percentile rank of each faulty actor among all; those that are not listed share the last place."""
    places = {(task.node, task.partition): task.place for task in found.tasks}
    ranks = []
    for actor in faulty:
        place = places.get(actor)
        first, tied = (
            (len(places) + 1, ACTORS - len(places)) if place is None else (place.rank, place.tied)
        )
        ranks.append(100 * (1 - (first - 1 + (tied - 1) / 2) / (ACTORS - 1)))
    return ranks


def is_first(found: Suspects, faulty: frozenset[Actor]) -> bool:
    """Whether a faulty actor, and no other one, has the first rank."""
    first = [(task.node, task.partition) for task in found.tasks if task.place.rank == 1]
    return bool(first) and faulty.issuperset(first)


def queries(job: Job) -> Iterator[tuple[str, SuspectsQuery]]:
    """What is asked of a run, by name."""
    yield "health", SuspectsQuery(app="join", limit=ACTORS)
    for size in SAMPLES:
        bad, good = (
            tuple(job.generator.sample(rows, min(size, len(rows)))) for rows in (job.bad, job.good)
        )
        yield f"{size} bad", SuspectsQuery(bad, (), "join", ACTORS)
        yield f"{size} bad and {size} good", SuspectsQuery(bad, good, "join", ACTORS)


def measured(magnitude: int, trials: int, seed: int) -> dict[str, Any]:
    """Ask each query of some runs, and tell how the faulty actors rank."""
    ranks: defaultdict[str, list[float]] = defaultdict(list)
    firsts: defaultdict[str, list[bool]] = defaultdict(list)
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    for trial in range(trials):
        generator = random.Random(f"{seed} {magnitude} {trial}")
        mappers = [(f"map-{dataset}", n) for dataset in DATASETS for n in range(MAPPERS)]
        job = Job(generator, magnitude, frozenset(generator.sample(mappers, 2)))
        folder = Path(tempfile.mkdtemp(prefix="faulty-actors-"))
        try:
            url = f"sqlite:///{folder}/lineage.db"
            job.run(url)
            for name, query in queries(job) if job.bad else ():
                with open_access(url) as access:
                    assert isinstance(access, StoredAccess)
                    began = time.monotonic()
                    found = access.suspects(query)
                seconds[name].append(time.monotonic() - began)
                assert found.complete, "lineage is missing: no figure counts"
                ranks[name] += percentile_ranks(found, job.faulty)
                firsts[name].append(is_first(found, job.faulty))
        finally:
            shutil.rmtree(folder)
    return {
        name: {
            "percentile": round(statistics.mean(ranks[name]), 1),
            "first": f"{sum(firsts[name])}/{len(firsts[name])}",
            "seconds": round(statistics.median(seconds[name]), 3),
        }
        for name in ranks
    }


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faulty_actors", description=__doc__)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--magnitude", type=int, action="append", dest="magnitudes")
    parser.add_argument("--json-out", type=Path, help="append the row to this file, too")
    options = parser.parse_args()
    row = {
        "benchmark": "faulty-actors",
        "actors": ACTORS,
        "trials": options.trials,
        "magnitudes": {
            str(magnitude): measured(magnitude, options.trials, options.seed)
            for magnitude in options.magnitudes or MAGNITUDES
        },
        "provenance": provenance(),
    }
    put_out(row, options.json_out)


if __name__ == "__main__":
    main()
