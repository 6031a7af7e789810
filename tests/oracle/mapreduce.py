"""Jobs of Hadoop Streaming of several generated programs at once, whose records carry the lines that they were made from.

A line is ``KEY<tab>IDS``. A key is the number of a program and some letters, as in ``2.abc``; ids are those of the lines of sources, so
what a job wrote is its own brute-force provenance. One job runs all programs, each on the lines of its own keys, since Hadoop takes
long to start.
"""

from __future__ import annotations

import inspect
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from hypothesis import strategies as st

LETTERS = "abcd"
PROGRAMS = 4
"""How many one job has."""

Line: TypeAlias = "tuple[str, str]"
"""Key and ids."""


def mapped(kind: str, key: str, ids: str) -> list[Line]:
    """What a mapper makes of a line."""
    program, letters = key.split(".")
    match kind:
        case "split":
            return [(f"{program}.{letter}", ids) for letter in letters]
        case "filter":
            return [(key, ids)] if "a" not in letters else []
        case "first":
            return [(f"{program}.{letters[:1]}", ids)]
        case "twice":
            return [(key, ids)] * 2
        case _:
            return [(key, ids)]


def reduced(kind: str, key: str, group: list[str]) -> list[Line]:
    """What a reducer makes of the records of a key."""
    merged = ",".join(sorted(set(",".join(group).split(","))))
    match kind:
        case "large":
            return [(key, merged)] if len(group) > 1 else []
        case "each":
            return [(key, merged)] * len(group)
        case "double":
            return [(key, merged), (key, merged)]
        case _:
            return [(key, merged)]


HEAD = "\n\n".join(
    [
        "from __future__ import annotations",
        "import json, sys",
        "from itertools import groupby",
        *(inspect.getsource(function) for function in (mapped, reduced)),
        "job = json.loads(sys.argv[1])",
    ]
)
MAPPER = (
    HEAD
    + """
for line in sys.stdin:
    key, ids = line.rstrip("\\n").split("\\t")
    for record in mapped(job["mappers"][int(key.split(".")[0])], key, ids):
        print(*record, sep="\\t")
"""
)
REDUCER = (
    HEAD
    + """
records = (line.rstrip("\\n").split("\\t") for line in sys.stdin)
for key, group in groupby(records, key=lambda record: record[0]):
    group = [ids for _, ids in group]
    for record in reduced(job["reducers"][int(key.split(".")[0])], key, group):
        print(*record, sep="\\t")
"""
)


@dataclass(frozen=True, slots=True)
class Job:
    """One run of Hadoop: the kind of mapper and reducer of each program, and into how many tasks they are cut."""

    mappers: tuple[str, ...]
    reducers: tuple[str, ...]
    maps: int
    reduces: int
    """0: the lines that the mapper wrote are the output."""
    is_declared: bool
    """Whether ``--each-line`` and ``--named-keys`` are given."""


@dataclass(frozen=True, slots=True)
class Case:
    """The keys of the lines of each file, and the jobs over them in turn."""

    files: tuple[tuple[str, ...], ...]
    jobs: tuple[Job, ...]

    def lines(self) -> dict[str, list[Line]]:
        """The lines of each file by its name. The id of a line is its place."""
        return {
            f"in{number}.txt": [(key, f"in{number}.txt:{at}") for at, key in enumerate(keys, 1)]
            for number, keys in enumerate(self.files)
        }


EXAMPLE = Case(
    files=(
        ("0.ab", "1.abc", "2.bd", "3.a", "0.b", "1.a", "1.bc"),
        ("2.bd", "3.c", "0.ab", "1.bc", "2.bc"),
    ),
    jobs=(
        Job(
            mappers=("split", "filter", "first", "twice"),
            reducers=("one", "large", "each", "double"),
            maps=3,
            reduces=2,
            is_declared=True,
        ),
    ),
)
"""Each kind of program once."""


def expected_output(job: Job, lines: Iterable[Line]) -> Counter[Line]:
    """The lines that a job writes, in no order."""
    groups = defaultdict[str, list[str]](list)
    written = Counter[Line]()
    for key, ids in lines:
        for new_key, new_ids in mapped(job.mappers[int(key.split(".")[0])], key, ids):
            groups[new_key].append(new_ids)
            written[new_key, new_ids] += 1
    if job.reduces == 0:
        return written
    return Counter(
        record
        for key, group in groups.items()
        for record in reduced(job.reducers[int(key.split(".")[0])], key, group)
    )


def cases(jobs: int = 2) -> st.SearchStrategy[Case]:
    """Files and up to so many jobs."""
    letters = st.text(LETTERS, min_size=1, max_size=3)
    key = st.builds("{}.{}".format, st.integers(0, PROGRAMS - 1), letters)
    file = st.lists(key, min_size=4, max_size=24).map(tuple)
    job = st.builds(
        Job,
        mappers=_kinds(["split", "filter", "first", "twice", "same"]),
        reducers=_kinds(["large", "each", "double", "one"]),
        maps=st.integers(1, 4),
        reduces=st.sampled_from([2, 1, 3, 0]),
        is_declared=st.sampled_from([True, True, True, False]),
    )
    return st.builds(
        Case,
        files=st.lists(file, min_size=1, max_size=3).map(tuple),
        jobs=st.lists(job, min_size=1, max_size=jobs).map(tuple),
    )


def _kinds(kinds: Sequence[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.tuples(*[st.sampled_from(kinds)] * PROGRAMS)
