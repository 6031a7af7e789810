"""Which records of RDDs were joined with each other, held against what the records themselves say.

Each record carries the combinations of lines that it was joined of, put together by the functions of generated programs.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest

from lineage.access import StoredAccess
from lineage_core.tracing import joined_items
from lineage_core.tracing.joined_items import OF_GROUPS, TOO_LARGE, TOO_MANY
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer
from lineage_query.trace_query import TraceQuery
from tests.support.api_server import serving
from tests.support.job_runs import STORE, lineage, run_captured, stored, write_job

pytestmark = pytest.mark.e2e

JOB = """
import json
import random
from pyspark import SparkConf, SparkContext

sc = SparkContext(conf=SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false"))
sc.setLogLevel("ERROR")


def record(line):
    key, place = line.split()
    return int(key), (((place,),), True)


def both(left, right):
    # A side that an outer join has no row of.
    if left is None or right is None:
        return left or right
    rows = {tuple(sorted(l + r)) for l in left[0] for r in right[0]}
    return tuple(sorted(rows)), left[1] and right[1] and len(left[0]) == len(right[0]) == 1


def every(left, right):
    # All combinations of rows that meet in an aggregate.
    return tuple(sorted({*left[0], *right[0]})), left[1] and right[1]


def mixed(groups):
    values = [value for group in groups for value in group]
    if len(values) == 1:
        return values[0]
    return (tuple(sorted(row for rows, _ in values for one in rows for row in one)),), False


def thawed(text):
    rows, known = json.loads(text)
    return tuple(map(tuple, rows)), known


def saved(rdd, name):
    rdd.map(lambda pair: json.dumps(pair[1])).saveAsTextFile(name)


def moved(rdd, draw):
    # Steps that change no combination, by which positions and keys do change.
    step = draw.choice(["rekey", "sort", "repartition", "cache", "filter", "none", "partition"])
    if step == "rekey":
        return rdd.map(lambda pair: ((pair[0] * 7 + 3) % 4, pair[1]))
    if step == "sort":
        return rdd.sortByKey(ascending=False, numPartitions=2)
    if step == "repartition":
        return rdd.repartition(3)
    if step == "cache":
        return rdd.cache()
    if step == "filter":
        return rdd.filter(lambda pair: pair[0] != 2)
    return rdd.partitionBy(2) if step == "partition" else rdd


JOINS = ["join", "leftOuterJoin", "rightOuterJoin", "fullOuterJoin"]


def joined(left, right, how):
    return getattr(left, how)(right, 2).mapValues(lambda sides: both(*sides))


def program(draw, sources):
    rdd = moved(draw.choice(sources), draw)
    for _ in range(draw.choice([1, 2, 2, 3])):
        other = moved(draw.choice(sources), draw)
        step = draw.choice([*JOINS, *JOINS, "zip", "reduce", "union", "cogroup", "subtract", "distinct"])
        if step in JOINS:
            rdd = joined(rdd, other, step)
        elif step == "zip":
            with_number = rdd.zipWithIndex().mapValues(lambda number: number)
            same = rdd.mapValues(lambda value: value)
            rdd = same.zip(with_number).map(lambda two: (two[0][0], both(two[0][1], two[1][0][1])))
        elif step == "reduce":
            rdd = rdd.reduceByKey(every, 2)
        elif step == "union":
            rdd = rdd.union(other)
        elif step == "cogroup":
            rdd = rdd.cogroup(other, numPartitions=2).mapValues(mixed)
        elif step == "subtract":
            rdd = rdd.subtractByKey(other)
        else:
            rdd = rdd.map(lambda pair: (pair[0], json.dumps(pair[1]))).groupBy(lambda pair: pair)
            rdd = rdd.map(lambda group: (group[0][0], thawed(group[0][1])))
        rdd = moved(rdd, draw)
    return rdd


a, b, c, none = [sc.textFile(name, 2).map(record) for name in ("a.txt", "b.txt", "c.txt", "none.txt")]
for number in range(PROGRAMS):
    saved(program(random.Random(f"SEED {number}"), [a, b, c, none]), f"program{number}")
"""
FIXED = """
saved(joined(joined(a, b, "join"), c, "join"), "chain")
saved(joined(joined(a, b, "leftOuterJoin").map(lambda pair: (pair[0] % 3, pair[1])), c, "fullOuterJoin"), "outer")
saved(joined(a, none, "leftOuterJoin"), "empty_side")
saved(joined(a, a, "join"), "itself")
saved(joined(joined(a, b, "join").reduceByKey(every), c, "join"), "group")
lines = sc.textFile("c.txt", 2)
crossed = lines.cartesian(lines).map(lambda two: (0, both(record(two[0])[1], record(two[1])[1])))
saved(crossed, "crossed")
saved(a.intersection(a), "intersection")
saved(joined(a, b, "join").mapPartitions(lambda pairs: sorted(pairs, key=str)), "superset")
saved(a.reduceByKey(every), "plain")
"""
SEED = 27
Together: TypeAlias = tuple[str, ...]


def run(folder: Path, seed: int, programs: int, more: str = "") -> Path:
    draw = random.Random(seed)
    for name, size in {"a.txt": 12, "b.txt": 7, "c.txt": 5, "none.txt": 0}.items():
        lines = [f"{draw.randrange(4)} {name}:{n + 1}\n" for n in range(size)]
        (folder / name).write_text("".join(lines))
    drawn = JOB.replace("PROGRAMS", str(programs)).replace("SEED", str(seed))
    write_job(folder, drawn + more)
    done = run_captured(folder, "job.py")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("records"), SEED, 3, FIXED)


@pytest.fixture
def access(ran: Path) -> StoredAccess:
    return stored(ran)


def rows_of(ran: Path, name: str) -> list[tuple[str, list[Together], bool]]:
    """Place of each row of an output, what it says it was joined of, and whether that is all known."""
    rows = []
    for file in sorted((ran / name).glob("part-*")):
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            combinations, known = json.loads(line)
            rows.append((f"{file}:{number}", [tuple(sorted(one)) for one in combinations], known))
    return rows


def asked(access: StoredAccess, place: str, **query: Any) -> Answer:
    return access.ask(TraceQuery(Direction.BACKWARD, (place,), **query))


def pairs_of(ran: Path, answer: Answer) -> list[Together]:
    assert answer.pairs is not None
    listed = {item.location for group in answer.groups for item in group.items}
    assert all(row.location in listed for rows in answer.pairs.rows for row in rows)
    return sorted(
        tuple(sorted(str(row.location).removeprefix(f"{ran}/") for row in together))
        for together in answer.pairs.rows
    )


def check(ran: Path, access: StoredAccess, names: list[str], rows_max: int) -> dict[bool, int]:
    """Hold the answers about rows of outputs against these; how many were known, and not known."""
    seen = {True: 0, False: 0}
    for name in names:
        for place, combinations, known in rows_of(ran, name)[:rows_max]:
            answer = asked(access, place)
            assert answer.pairs is not None
            assert answer.exact, (place, answer.reasons)
            found = pairs_of(ran, answer)
            true = sorted({one for one in combinations if len(one) > 1})
            assert not answer.pairs.unknown or not known, (place, answer.pairs.unknown)
            if answer.pairs.unknown:
                # Parts of what was joined are joined, too.
                assert all(any(_is_in(one, whole) for whole in true) for one in found), place
            else:
                assert found == true, place
            seen[not answer.pairs.unknown] += 1
    return seen


def _is_in(part: Together, whole: Together) -> bool:
    return all(part.count(row) <= whole.count(row) for row in part)


NAMES = ["chain", "outer", "empty_side", "itself", "group", "crossed", "plain"]


def test_records_that_were_joined_are_those_that_they_name(ran: Path, access: StoredAccess) -> None:
    drawn = [f"program{number}" for number in range(3)]
    seen = check(ran, access, [*NAMES, *drawn], 6)
    assert seen[True] > 30
    assert seen[False] > 2


@pytest.mark.long
def test_records_of_many_programs(tmp_path: Path) -> None:
    seen: Counter[bool] = Counter()
    for seed in range(3):
        (tmp_path / str(seed)).mkdir()
        ran = run(tmp_path / str(seed), seed, 20)
        seen.update(check(ran, stored(ran), [f"program{number}" for number in range(20)], 60))
    assert seen[True] > 300
    assert seen[False] > 10


def test_what_is_not_known_of_records_is_said(
    ran: Path, access: StoredAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(name: str, **query: Any) -> tuple[str, ...]:
        (place, *_), *_ = rows_of(ran, name)
        pairs = asked(access, place, **query).pairs
        assert pairs is not None
        assert name == "group" or not pairs.rows
        return pairs.unknown

    assert unknown("group") == (OF_GROUPS,)
    (reason,) = unknown("intersection")
    assert re.fullmatch(
        r"intersection \(node \d+\) makes one row from all rows of a key: .*", reason
    )
    assert unknown("superset") == (joined_items.NOT_EXACT,)
    assert unknown("plain") == ()
    monkeypatch.setattr(joined_items, "JOINED_MAX", 0)
    assert unknown("chain") == (TOO_MANY,)
    monkeypatch.setattr(joined_items, "ITEMS_MAX", 1)
    assert unknown("chain") == (TOO_LARGE,)
    assert unknown("plain") == ()
    forward = access.ask(TraceQuery(Direction.FORWARD, (f"{ran}/a.txt:1",)))
    assert forward.pairs is None


def test_rows_of_one_node_that_were_joined_with_each_other(ran: Path, access: StoredAccess) -> None:
    for place, combinations, _ in rows_of(ran, "itself")[:6]:
        source = asked(access, place).groups[0]
        answer = asked(access, place, until=source.node)
        assert pairs_of(ran, answer) == sorted(combinations)
    for place, _, _ in rows_of(ran, "chain")[:3]:
        until = asked(access, place).groups[0].node
        answer = asked(access, place, until=until)
        assert answer.pairs is not None
        assert (answer.pairs.rows, answer.pairs.unknown) == ((), ())


def test_records_that_were_joined_over_http_and_by_command(ran: Path, access: StoredAccess) -> None:
    place, (together,), _ = rows_of(ran, "chain")[0]
    answer = asked(access, place)
    assert answer.pairs is not None
    wanted = answer.pairs.to_json()
    with (
        serving(f"sqlite:///{ran / STORE}", api_roots=str(ran)) as address,
        httpx.Client(base_url=address) as client,
    ):
        body = {"direction": "backward", "start": {"places": [place]}}
        made = client.post("/v1/applications/latest/traces", json=body).json()
        assert made["pairs"] == wanted
        assert client.get(f"/v1/traces/{made['trace']}").json()["pairs"] == wanted
    done = lineage(ran, "back", place, "--pairs")
    assert done.returncode == 0, done.stderr
    assert "rows that were joined with each other: 1\n" in done.stdout
    assert f"\n{' + '.join(together)}\n" in done.stdout
    assert Answer.from_json(answer.to_json()) == answer
