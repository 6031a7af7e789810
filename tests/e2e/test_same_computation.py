"""A captured program computes what the plain one does: same files, partitions, shuffles, calls."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark import RDD, SparkContext, StorageLevel

from lineage_emitter import LineageContext, LineageRDD
from lineage_emitter.pyspark_parts import portable_hash
from tests.support.drawn import drawn
from tests.support.job_runs import contents

pytestmark = pytest.mark.e2e

WORDS = ("red", "green", "blue", "grey", "rosé", "schwarz", "白", "")


@dataclass
class Files:
    """Inputs on disk."""

    root: Path

    def __getattr__(self, name: str) -> str:
        path = self.root / name
        assert path.exists(), path
        return str(path)


def write_files(root: Path) -> Files:
    """A few hundred lines in every shape that ``textFile`` reads."""
    draw = random.Random(7)
    lines = [
        " ".join(draw.choice(WORDS) for _ in range(draw.randrange(6))) + f" {n}" for n in range(300)
    ]
    (root / "text").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (root / "ragged").write_bytes(b"first\r\n\r\n\nlast without an end \xc3\xa9")
    (root / "empty").write_bytes(b"")
    (root / "bytes").write_bytes(draw.randbytes(7 * 40))
    folder = root / "folder"
    folder.mkdir()
    for n in range(12):
        some = "\n".join(lines[n * 10 : n * 10 + n]) + "\n" * (n > 0)
        (folder / f"part-{n:05d}").write_text(some, encoding="utf-8")
    (folder / "_ignored").write_text("not read\n")
    (root / "gz").mkdir()
    with gzip.open(root / "gz" / "a.gz", "wt", encoding="utf-8") as stream:
        stream.write("\n".join(lines[:120]) + "\n")
    with gzip.open(root / "gz" / "b.gz", "wt", encoding="utf-8") as stream:
        stream.write("zipped\n")
    return Files(root)


Context = Any
"""A SparkContext or a LineageContext."""
Program = Callable[[Context, Files], Any]

PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    """One of the programs that are run both ways."""
    PROGRAMS[function.__name__] = function
    return function


def add(a: Any, b: Any) -> Any:
    return a + b


def append(values: list[Any], value: Any) -> list[Any]:
    values.append(value)
    return values


def extend(values: list[Any], others: list[Any]) -> list[Any]:
    values.extend(others)
    return values


def words(ctx: Context, files: Files, splits: int = 4) -> Any:
    """(word, line number in text) pairs."""
    return ctx.textFile(files.text, splits).flatMap(
        lambda line: [(word, line.split(" ")[-1]) for word in line.split(" ")[:-1]]
    )


def numbers(ctx: Context, splits: int = 3) -> Any:
    return ctx.parallelize([(n * 7 % 11, n) for n in range(95)], splits)


@program
def text_as_it_is(ctx: Context, files: Files) -> Any:
    return ctx.textFile(files.text)


@program
def text_in_many_splits(ctx: Context, files: Files) -> Any:
    return ctx.textFile(files.text, 40).map(str.upper)


@program
def text_as_bytes(ctx: Context, files: Files) -> Any:
    return ctx.textFile(files.text, 2, False).filter(lambda line: b"red" in line)


@program
def ragged_text(ctx: Context, files: Files) -> Any:
    return ctx.textFile(files.ragged, 3).map(repr)


@program
def empty_text(ctx: Context, files: Files) -> Any:
    return ctx.textFile(files.empty).map(repr)


@program
def folder(ctx: Context, files: Files) -> Any:
    return ctx.textFile(files.folder).map(lambda line: line[::-1])


@program
def glob_and_list(ctx: Context, files: Files) -> Any:
    return ctx.textFile(f"{files.folder}/part-0000[3-5],{files.text}", 6)


@program
def zipped(ctx: Context, files: Files) -> Any:
    return ctx.textFile(files.gz, 5).filter(lambda line: "blue" in line)


@program
def records_of_all_types(ctx: Context, files: Files) -> Any:
    rows = [None, 1, 2.5, "two\nlines", "crlf\r\n", "", b"\xffbytes\n", ("t", 1), ["白"], {"k": 1}]
    return ctx.parallelize(rows, 4)


def stored(ctx: Context, files: Files) -> tuple[str, str]:
    """Folders of pickles and of a sequence file's pairs, written by plain Spark."""
    pickles, pairs = str(files.root / "pickles"), str(files.root / "pairs")
    if not (files.root / "pairs").exists():
        plain: Any = getattr(ctx, "sc", ctx)
        numbers = plain.parallelize([(n, f"row {n}") for n in range(95)], 3)
        numbers.saveAsPickleFile(pickles)
        numbers.saveAsSequenceFile(pairs)
    return pickles, pairs


@program
def files_as_a_whole(ctx: Context, files: Files) -> Any:
    texts = ctx.wholeTextFiles(files.folder, 3)
    return texts.union(ctx.binaryFiles(files.folder).mapValues(bytes.decode)).values()


@program
def records_moved(ctx: Context, files: Files) -> Any:
    records = ctx.binaryRecords(files.bytes, recordLength=7)
    return records.union(records).coalesce(1).repartition(3)


@program
def pickles_united_and_moved(ctx: Context, files: Files) -> Any:
    pickles, pairs = stored(ctx, files)
    read = [ctx.pickleFile(pickles, 5), ctx.sequenceFile(pairs)]
    return ctx.union([*read, ctx.range(9, numSlices=2), ctx.emptyRDD()]).repartition(2)


@program
def pickles_cached(ctx: Context, files: Files) -> Any:
    pickles, _ = stored(ctx, files)
    return ctx.pickleFile(pickles).cache().union(ctx.pickleFile(pickles)).coalesce(2)


@program
def range_source(ctx: Context, files: Files) -> Any:
    return ctx.parallelize(range(5, 100, 3), 4).map(lambda n: n * n)


@program
def parallelize_without_slices(ctx: Context, files: Files) -> Any:
    return ctx.parallelize(iter("abcdefgh"))


@program
def parallelize_more_slices_than_rows(ctx: Context, files: Files) -> Any:
    return ctx.parallelize([1, 2], 5).map(str)


@program
def parallelize_nothing(ctx: Context, files: Files) -> Any:
    return ctx.parallelize([], 3).map(str)


@program
def narrow_chain(ctx: Context, files: Files) -> Any:
    return (
        numbers(ctx)
        .map(lambda kv: (kv[0], kv[1] + 1))
        .filter(lambda kv: kv[1] % 3)
        .mapValues(lambda v: [v, v * 2])
        .flatMapValues(lambda vs: vs)
        .keyBy(lambda kv: kv[1] % 5)
        .values()
        .keys()
        .flatMap(lambda k: [k] * (k % 3))
    )


@program
def whole_partitions(ctx: Context, files: Files) -> Any:
    return (
        numbers(ctx)
        .mapPartitions(lambda rows: [sorted(rows, reverse=True)])
        .mapPartitionsWithIndex(lambda n, lists: ((n, len(one)) for one in lists))
    )


@program
def reduced(ctx: Context, files: Files) -> Any:
    return words(ctx, files).mapValues(int).reduceByKey(add)


@program
def reduced_by_own_function(ctx: Context, files: Files) -> Any:
    return words(ctx, files).reduceByKey(max, 5, len)


@program
def folded(ctx: Context, files: Files) -> Any:
    return numbers(ctx).foldByKey(100, add, 4)


@program
def aggregated_into_lists(ctx: Context, files: Files) -> Any:
    return words(ctx, files).aggregateByKey([], append, extend, 3)


@program
def aggregated_into_dicts(ctx: Context, files: Files) -> Any:
    def into(counts: dict[int, int], value: int) -> dict[int, int]:
        counts[value % 3] = counts.get(value % 3, 0) + 1
        return counts

    def both(one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
        for key, count in other.items():
            one[key] = one.get(key, 0) + count
        return one

    return (
        numbers(ctx).aggregateByKey({}, into, both).mapValues(lambda counts: sorted(counts.items()))
    )


@program
def combined(ctx: Context, files: Files) -> Any:
    return words(ctx, files).combineByKey(lambda v: [v], append, extend, 2)


@program
def grouped(ctx: Context, files: Files) -> Any:
    return words(ctx, files).groupByKey().mapValues(list)


@program
def grouped_by_function(ctx: Context, files: Files) -> Any:
    return ctx.textFile(files.text, 3).groupBy(len, 3).mapValues(sorted)


@program
def reduced_twice(ctx: Context, files: Files) -> Any:
    return (
        words(ctx, files)
        .mapValues(int)
        .reduceByKey(add, 3)
        .map(lambda kv: (kv[1] % 4, kv[0]))
        .reduceByKey(add, 2)
    )


@program
def reduced_in_place(ctx: Context, files: Files) -> Any:
    return numbers(ctx).reduceByKey(add, 3).mapValues(lambda v: v + 1).reduceByKey(add, 3)


@program
def grouped_in_place(ctx: Context, files: Files) -> Any:
    return numbers(ctx).partitionBy(4).groupByKey(4).mapValues(list)


@program
def distinct_rows(ctx: Context, files: Files) -> Any:
    return words(ctx, files).keys().distinct()


@program
def distinct_equal_keys(ctx: Context, files: Files) -> Any:
    return ctx.parallelize([1, 1.0, True, 0, False, -1, "1", None, (1,), (1.0,)] * 3, 4).distinct(3)


@program
def united(ctx: Context, files: Files) -> Any:
    return ctx.textFile(files.text, 2).union(ctx.textFile(files.ragged))


@program
def united_with_itself(ctx: Context, files: Files) -> Any:
    one = numbers(ctx)
    return one.union(one) + one.map(lambda kv: (kv[0], -1))


@program
def united_kinds(ctx: Context, files: Files) -> Any:
    return ctx.union(
        [
            ctx.textFile(files.text, 2),
            ctx.parallelize(["a", "b", "c"], 2),
            words(ctx, files).keys(),
            numbers(ctx).reduceByKey(add).map(str),
        ]
    )


@program
def united_with_nothing(ctx: Context, files: Files) -> Any:
    return ctx.textFile(files.empty).union(numbers(ctx)).union(ctx.parallelize([], 1))


@program
def united_partitioned(ctx: Context, files: Files) -> Any:
    one, other = numbers(ctx).partitionBy(3), numbers(ctx, 2).mapValues(str).partitionBy(3)
    return one.union(other).reduceByKey(lambda a, b: str(a) + str(b), 3)


@program
def cogrouped(ctx: Context, files: Files) -> Any:
    other = ctx.parallelize([(n % 13, str(n)) for n in range(30)], 2)
    return numbers(ctx).cogroup(other, 4).mapValues(lambda sides: [list(side) for side in sides])


@program
def joined(ctx: Context, files: Files) -> Any:
    other = ctx.parallelize([(n % 13, str(n)) for n in range(30)], 2)
    return numbers(ctx).join(other)


@program
def joined_left(ctx: Context, files: Files) -> Any:
    other = ctx.parallelize([(n % 13, str(n)) for n in range(8)], 2)
    return numbers(ctx).leftOuterJoin(other, 3)


@program
def joined_right(ctx: Context, files: Files) -> Any:
    other = ctx.parallelize([(n, str(n)) for n in range(8, 15)] * 2, 2)
    return numbers(ctx).rightOuterJoin(other, 3)


@program
def joined_full(ctx: Context, files: Files) -> Any:
    other = ctx.parallelize([(n, None) for n in range(8, 15)], 2)
    return numbers(ctx).fullOuterJoin(other, 5)


@program
def joined_with_itself(ctx: Context, files: Files) -> Any:
    one = numbers(ctx)
    return one.join(one.mapValues(str), 3)


@program
def joined_partitioned(ctx: Context, files: Files) -> Any:
    one = numbers(ctx).partitionBy(4)
    other = numbers(ctx, 2).reduceByKey(add, 4)
    return one.join(other, 4)


@program
def joined_half_partitioned(ctx: Context, files: Files) -> Any:
    return numbers(ctx).reduceByKey(add, 4).leftOuterJoin(numbers(ctx, 2), 4)


@program
def joined_after_joining(ctx: Context, files: Files) -> Any:
    one = numbers(ctx).join(numbers(ctx, 2), 3)
    return one.mapValues(lambda pair: pair[0] % 3).join(
        one.keys().distinct(3).keyBy(lambda k: k), 3
    )


@program
def crossed(ctx: Context, files: Files) -> Any:
    """The batches of every kind of RDD decide the order of the pairs."""
    text = ctx.textFile(files.ragged, 2)
    one = numbers(ctx, 2).mapValues(str)
    return ctx.union(
        [
            text.cartesian(ctx.parallelize(list(range(25)), 2)).map(repr),
            one.cartesian(one.partitionBy(2)).map(repr),
            text.coalesce(1).cartesian(one.coalesce(1)).map(repr),
            one.repartition(2).cartesian(ctx.parallelize(list(range(30)), 3).coalesce(1)).map(repr),
            ctx.parallelize([1, 2, 3], 2).cartesian(text).cartesian(one.filter(len)).map(repr),
        ]
    )


@program
def crossed_in_large_batches(ctx: Context, files: Files) -> Any:
    wide = ctx.parallelize(range(120), 2).map(lambda n: f"{n:03d}" * 1000).cache()
    return wide.cartesian(wide).map(lambda pair: pair[0][:3] + pair[1][:3])


@program
def zipped_pairs(ctx: Context, files: Files) -> Any:
    """Whether two RDDs fit depends on their batches."""
    text = ctx.textFile(files.ragged, 2)
    one, other = numbers(ctx), ctx.parallelize(list(range(95)), 3)
    pairs = other.zip(other.map(str))
    return ctx.union(
        [
            text.zip(text.map(len)).map(repr),
            text.zip(text).map(repr),
            other.zip(one).map(repr),
            one.partitionBy(3).zip(one.mapValues(str).partitionBy(3)).map(repr),
            pairs.zip(other.map(hash)).map(repr),
            pairs.zip(pairs).map(repr),
        ]
    )


@program
def piped(ctx: Context, files: Files) -> Any:
    return (
        ctx.textFile(files.text, 3).pipe("sort -r", {"LC_ALL": "C"}).union(numbers(ctx).pipe("cat"))
    )


@program
def in_a_barrier_stage(ctx: Context, files: Files) -> Any:
    return (
        ctx.parallelize(list(range(25)), 2)
        .map(str)
        .barrier()
        .mapPartitions(sorted)
        .barrier()
        .mapPartitionsWithIndex(lambda split, rows: ((split, row) for row in rows))
    )


@program
def checkpointed(ctx: Context, files: Files) -> Any:
    one, other = words(ctx, files), ctx.textFile(files.text, 2)
    one.checkpoint()
    other.localCheckpoint()
    return one.keys().distinct(2).union(one.map(repr)).union(other)


@program
def sorted_rows(ctx: Context, files: Files) -> Any:
    return ctx.textFile(files.text, 4).sortBy(lambda line: line[:1], numPartitions=3)


@program
def sorted_descending(ctx: Context, files: Files) -> Any:
    return ctx.textFile(files.text, 4).sortBy(len, ascending=False)


@program
def sorted_by_key(ctx: Context, files: Files) -> Any:
    return words(ctx, files).sortByKey(keyfunc=lambda key: key[::-1])


@program
def sorted_in_one_partition(ctx: Context, files: Files) -> Any:
    return numbers(ctx).sortByKey(False, 1)


@program
def sorted_one_partition_in_place(ctx: Context, files: Files) -> Any:
    return ctx.textFile(files.ragged, 1).sortBy(len, numPartitions=1).map(lambda line: line + "|")


@program
def sorted_nothing(ctx: Context, files: Files) -> Any:
    return ctx.textFile(files.empty).sortBy(len)


@program
def sorted_few_keys(ctx: Context, files: Files) -> Any:
    return ctx.parallelize([(n % 2, n) for n in range(50)], 4).sortByKey(numPartitions=4)


@program
def repartitioned(ctx: Context, files: Files) -> Any:
    return ctx.textFile(files.text, 3).repartition(5)


@program
def repartitioned_again(ctx: Context, files: Files) -> Any:
    return words(ctx, files).repartition(5).repartition(3)


@program
def repartitioned_tens(ctx: Context, files: Files) -> Any:
    # 20 rows in 2 slices: PySpark itself moves batches of ten here, whole.
    return ctx.parallelize(range(20), 2).repartition(4).map(lambda n: n + 1)


@program
def repartitioned_tens_of_a_list(ctx: Context, files: Files) -> Any:
    return (
        ctx.parallelize(list(range(25)), 2)
        .union(ctx.parallelize(list(range(20)), 2))
        .repartition(4)
    )


@program
def repartitioned_sevens(ctx: Context, files: Files) -> Any:
    return ctx.parallelize(list(range(28)), 4).repartition(3).repartition(2)


@program
def repartitioned_unions(ctx: Context, files: Files) -> Any:
    one = words(ctx, files).repartition(2)
    return one.union(numbers(ctx).repartition(3)).repartition(4)


@program
def repartitioned_coalesced(ctx: Context, files: Files) -> Any:
    return words(ctx, files).repartition(6).coalesce(2).repartition(3)


@program
def repartitioned_mixed_union(ctx: Context, files: Files) -> Any:
    return words(ctx, files).repartition(2).union(numbers(ctx)).repartition(3)


@program
def repartitioned_cached(ctx: Context, files: Files) -> Any:
    return numbers(ctx).repartition(2).cache().repartition(3)


@program
def coalesced(ctx: Context, files: Files) -> Any:
    return ctx.textFile(files.text, 8).coalesce(3).map(lambda line: line + "!")


@program
def coalesced_to_more(ctx: Context, files: Files) -> Any:
    return numbers(ctx).coalesce(10)


@program
def coalesced_after_shuffle(ctx: Context, files: Files) -> Any:
    return words(ctx, files).mapValues(int).reduceByKey(add, 6).coalesce(2)


@program
def coalesced_union_of_itself(ctx: Context, files: Files) -> Any:
    one = words(ctx, files, 2).reduceByKey(max)
    return one.union(one).coalesce(1)


@program
def coalesced_with_shuffle(ctx: Context, files: Files) -> Any:
    return words(ctx, files).coalesce(3, shuffle=True)


@program
def partitioned(ctx: Context, files: Files) -> Any:
    return numbers(ctx).partitionBy(5)


@program
def partitioned_by_own_function(ctx: Context, files: Files) -> Any:
    return numbers(ctx).partitionBy(3, lambda key: -key).mapValues(str)


@program
def partitioned_twice(ctx: Context, files: Files) -> Any:
    return numbers(ctx).partitionBy(3).partitionBy(3).partitionBy(2)


@program
def partitioned_by_default(ctx: Context, files: Files) -> Any:
    return numbers(ctx).partitionBy(None)


@program
def cached(ctx: Context, files: Files) -> Any:
    one = words(ctx, files).cache()
    return one.keys().distinct().union(one.values().distinct())


@program
def persisted_on_disk(ctx: Context, files: Files) -> Any:
    one = words(ctx, files).reduceByKey(max).persist(StorageLevel.DISK_ONLY)
    return one.map(str).union(one.map(repr))


@program
def persisted_source(ctx: Context, files: Files) -> Any:
    one = ctx.textFile(files.text, 3).persist(StorageLevel.MEMORY_AND_DISK_2)
    return one.map(len).union(one.map(hash))


@program
def numbered(ctx: Context, files: Files) -> Any:
    return words(ctx, files).zipWithIndex()


@program
def numbered_one_partition(ctx: Context, files: Files) -> Any:
    return ctx.textFile(files.text, 1).coalesce(1).zipWithIndex().filter(lambda pair: pair[1] % 2)


@program
def sampled(ctx: Context, files: Files) -> Any:
    return ctx.textFile(files.text, 4).sample(False, 0.3, seed=5)


@program
def sampled_with_replacement(ctx: Context, files: Files) -> Any:
    return ctx.textFile(files.text, 4).sample(True, 1.4, seed=5)


@program
def named_keywords(ctx: Context, files: Files) -> Any:
    return (
        ctx.textFile(name=files.text, minPartitions=3)
        .map(f=lambda line: (len(line), line), preservesPartitioning=False)
        .groupByKey(numPartitions=2, partitionFunc=portable_hash)
        .flatMapValues(f=list)
        .sortBy(keyfunc=lambda kv: kv[1], ascending=False, numPartitions=2)
        .coalesce(numPartitions=1, shuffle=False)
    )


# -- run both ways -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def lc(
    spark_context: SparkContext, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LineageContext]:
    store = tmp_path_factory.mktemp("store") / "lineage.db"
    with LineageContext(spark_context, store=f"sqlite:///{store}", link=False) as lc:
        yield lc


def shuffles(rdd: RDD[Any]) -> int:
    """Shuffles in an RDD's plan."""
    described = rdd.toDebugString()
    assert described is not None
    return len(re.findall(rb"ShuffledRDD|CoGroupedRDD", described))


def partitioning(rdd: RDD[Any]) -> Any:
    """What decides whether another shuffle is needed (functions of a sort differ anyway)."""
    found = rdd.partitioner
    by_hash = found is not None and found.partitionFunc is portable_hash
    return None if found is None else (found.numPartitions, by_hash)


@pytest.mark.parametrize("name", drawn(PROGRAMS, 14))
def test_same_files_partitions_and_shuffles(
    name: str, lc: LineageContext, files: Files, tmp_path: Path
) -> None:
    plain, captured = (PROGRAMS[name](ctx, files) for ctx in (lc.sc, lc))
    assert not isinstance(plain, LineageRDD)
    assert isinstance(captured, LineageRDD)
    assert captured.getNumPartitions() == plain.getNumPartitions()
    assert partitioning(captured) == partitioning(plain)
    assert shuffles(captured) == shuffles(plain)
    plain.saveAsTextFile(str(tmp_path / "plain"))
    captured.saveAsTextFile(str(tmp_path / "captured"))
    assert contents(tmp_path / "captured") == contents(tmp_path / "plain")
    assert lc.session is not None
    assert lc.session.problem == ""


@pytest.mark.parametrize("codec", ["GzipCodec", "BZip2Codec"])
def test_compressed_output_is_the_same(
    codec: str, lc: LineageContext, files: Files, tmp_path: Path
) -> None:
    name = f"org.apache.hadoop.io.compress.{codec}"
    for ctx, out in ((lc.sc, "plain"), (lc, "captured")):
        ctx.textFile(files.text, 2).saveAsTextFile(str(tmp_path / out), name)
    assert contents(tmp_path / "captured") == contents(tmp_path / "plain")


def as_text(record: Any) -> str:
    return str(record)[::-1]


def first_letter(record: Any) -> str:
    return str(record)[:1]


ACTIONS: dict[str, Callable[[Any], Any]] = {
    # The others: test_same_calls.py.
    "top": lambda rdd: (rdd.top(9, first_letter), rdd.top(999, as_text)),
    "takeOrdered": lambda rdd: [rdd.takeOrdered(n, first_letter) for n in (0, 9)],
    "takeSample": lambda rdd: [rdd.takeSample(n > 8, n, seed=3) for n in (5, 9)],
    "take": lambda rdd: [rdd.take(n) for n in (0, 1, 7, 40, 1000)],
}


@pytest.mark.long
@pytest.mark.parametrize("action", ACTIONS)
def test_same_results_of_actions(action: str, lc: LineageContext, files: Files) -> None:
    plain, captured = (
        [ACTIONS[action](PROGRAMS[name](ctx, files)) for name in ("united_kinds", "reduced_twice")]
        for ctx in (lc.sc, lc)
    )
    assert captured == plain


def test_many_actions_on_one_rdd(lc: LineageContext, files: Files) -> None:
    rdd = words(lc, files).mapValues(int).reduceByKey(add, 2)
    assert dict(rdd.collect()) == dict(rdd.collect()) == dict(rdd.take(100))
    assert rdd.count() == len(rdd.collect())
    assert dict(rdd.mapValues(str).collect()) == {k: str(v) for k, v in rdd.collect()}


# -- nothing runs earlier, later or more often -------------------------------------------------


def calls_of(ctx: Context, build: Callable[[Context, Any], Any]) -> list[int]:
    """How often the user's function had been called: before the action, and after each."""
    calls = ctx.accumulator(0)

    def noted(value: Any) -> Any:
        calls.add(1)
        return value

    found = []
    for action in build(ctx, noted):
        found.append(calls.value)
        action()
    return [*found, calls.value]


@pytest.mark.long
def test_functions_of_the_user_are_called_as_often(lc: LineageContext, files: Files) -> None:
    def chain(ctx: Context, noted: Any) -> Any:
        one = ctx.textFile(files.text, 3).map(noted).keyBy(len).partitionBy(2)
        two = one.mapValues(noted).groupByKey().mapValues(list)
        return [two.count, one.collect, two.first]

    def cached(ctx: Context, noted: Any) -> Any:
        one = ctx.textFile(files.text, 3).map(noted).cache()
        return [one.count, one.collect, lambda: one.unpersist(True), one.count]

    def partitioning(ctx: Context, noted: Any) -> Any:
        pairs = ctx.textFile(files.text, 3).keyBy(len)
        return [
            *(pairs.reduceByKey(max, 3, noted).count, pairs.groupByKey(2, noted).count),
            *(pairs.partitionBy(2, noted).count, pairs.foldByKey("", max, 2, noted).collect),
        ]

    def sorting(ctx: Context, noted: Any) -> Any:
        one = ctx.textFile(files.text, 3).map(noted)
        return [lambda: one.sortBy(len).count(), lambda: one.zipWithIndex().count()]

    def taking(ctx: Context, noted: Any) -> Any:
        one = ctx.textFile(files.text, 30).map(noted)
        return [lambda: one.take(5), one.first, lambda: one.take(200)]

    def joining(ctx: Context, noted: Any) -> Any:
        one = ctx.textFile(files.text, 2).map(noted).keyBy(len)
        return [one.join(one.map(noted), 2).count, one.cartesian(one.filter(bool)).count]

    def choosing(ctx: Context, noted: Any) -> Any:
        one = ctx.textFile(files.ragged, 3).map(noted)
        return [
            *(lambda: one.max(noted), one.min, lambda: one.top(2, noted)),
            *(lambda: one.takeOrdered(3, noted), lambda: one.takeSample(False, 2, 1)),
            *(lambda: next(one.toLocalIterator()), lambda: one.countApprox(60_000)),
        ]

    def checkpointing(ctx: Context, noted: Any) -> Any:
        one, other = (ctx.textFile(files.text, 2).map(noted) for _ in range(2))
        one.checkpoint()
        other.localCheckpoint()
        return [one.count, one.collect, other.count, other.collect, other.collect, one.first]

    for build in (chain, cached, partitioning, sorting, taking, joining, choosing, checkpointing):
        assert calls_of(lc, build) == calls_of(lc.sc, build), build


MISSING: dict[str, Callable[[Any], Any]] = {
    "map": lambda rdd: rdd.map(str).filter(len).flatMap(str.split).keyBy(len).sample(False, 0.5),
    "cache": lambda rdd: rdd.cache().persist().unpersist(),
    "repartition": lambda rdd: rdd.repartition(3),
    "coalesce": lambda rdd: rdd.coalesce(2),
    "union": lambda rdd: rdd.union(rdd),
    "union of mapped": lambda rdd: rdd.map(str).union(rdd.filter(len)),
    "distinct": lambda rdd: rdd.distinct(),
    "distinct in 3": lambda rdd: rdd.distinct(3),
    "reduceByKey": lambda rdd: rdd.keyBy(len).reduceByKey(max),
    "groupByKey in 2": lambda rdd: rdd.keyBy(len).groupByKey(2),
    "partitionBy": lambda rdd: rdd.keyBy(len).partitionBy(2),
    "partitionBy default": lambda rdd: rdd.keyBy(len).partitionBy(None),
    "join": lambda rdd: rdd.keyBy(len).join(rdd.keyBy(len)),
    "join in 2": lambda rdd: rdd.keyBy(len).join(rdd.keyBy(len), 2),
    "cogroup": lambda rdd: rdd.keyBy(len).cogroup(rdd.keyBy(len), 2),
    "cartesian": lambda rdd: rdd.cartesian(rdd.map(str)),
    "zip": lambda rdd: rdd.zip(rdd.map(str)),
    "checkpoint": lambda rdd: (rdd.checkpoint(), rdd.localCheckpoint()),
    "toLocalIterator": lambda rdd: rdd.toLocalIterator(),
    "takeOrdered": lambda rdd: rdd.takeOrdered(1),
    "sortBy": lambda rdd: rdd.sortBy(len),
    "sortBy in 1": lambda rdd: rdd.sortBy(len, numPartitions=1),
    "zipWithIndex": lambda rdd: rdd.zipWithIndex(),
    "collect": lambda rdd: rdd.collect(),
    "take": lambda rdd: rdd.take(1),
    "count": lambda rdd: rdd.map(str).count(),
    "mapPartitions": lambda rdd: rdd.mapPartitions(list),
}


@pytest.mark.parametrize("case", drawn(MISSING, 4))
def test_a_missing_input_is_missed_at_the_same_call(
    case: str, lc: LineageContext, tmp_path: Path
) -> None:
    outcomes = []
    for ctx in (lc.sc, lc):
        source = ctx.textFile(str(tmp_path / "nowhere"))
        try:
            MISSING[case](source)
            outcomes.append("")
        except Exception as problem:
            outcomes.append(f"{type(problem).__name__}: {problem}"[:2000].split("\tat ")[0])
    plain, captured = (re.sub(r"calling \S+", "calling", outcome) for outcome in outcomes)
    assert captured == plain


def raising(kind: type[BaseException]) -> Any:
    def function(*values: Any) -> Any:
        raise kind("by the user")

    return function


def taking_one_too_many(rows: Any) -> Any:
    rows = iter(rows)
    while True:
        yield next(rows)


def pairs_zipped(ctx: Context) -> Any:
    """One batch of four pairs with four batches of one."""
    rows = ctx.parallelize(range(4), 1)
    return rows.zip(rows.map(str)).zip(ctx.parallelize(list(range(4)), 4).coalesce(1))


FAILING: dict[str, Callable[[Context], Any]] = {
    "map": lambda ctx: ctx.parallelize([1, 2]).map(raising(ZeroDivisionError)).collect(),
    "map stops": lambda ctx: ctx.parallelize([1, 2]).map(raising(StopIteration)).collect(),
    "filter stops": lambda ctx: ctx.parallelize([1, 2]).filter(raising(StopIteration)).count(),
    "flatMap stops": lambda ctx: ctx.parallelize([1, 2]).flatMap(raising(StopIteration)).count(),
    "generator stops": lambda ctx: ctx.parallelize([1]).mapPartitions(taking_one_too_many).count(),
    "create stops": lambda ctx: (
        numbers(ctx).combineByKey(raising(StopIteration), append, extend).count()
    ),
    "merge stops": lambda ctx: numbers(ctx).reduceByKey(raising(StopIteration)).count(),
    "merge fails": lambda ctx: numbers(ctx).reduceByKey(raising(KeyError)).collect(),
    "combiners stop": lambda ctx: (
        numbers(ctx).combineByKey(lambda v: v, max, raising(StopIteration)).count()
    ),
    "unhashable": lambda ctx: ctx.parallelize([([], 1)]).reduceByKey(add).collect(),
    "not a pair": lambda ctx: ctx.parallelize([1, 2]).reduceByKey(add).collect(),
    "not a pair to partition": lambda ctx: ctx.parallelize([1, 2]).partitionBy(2).collect(),
    "not a pair to join": lambda ctx: ctx.parallelize([1]).join(numbers(ctx)).collect(),
    "partition function": lambda ctx: numbers(ctx).partitionBy(2, raising(ValueError)).count(),
    "sort key": lambda ctx: ctx.parallelize([1, 2, 3], 2).sortBy(raising(KeyError)).collect(),
    "unordered keys": lambda ctx: ctx.parallelize([1, "a", None], 2).sortBy(lambda x: x).collect(),
    "reduce": lambda ctx: ctx.parallelize([1, 2], 1).reduce(raising(OSError)),
    "reduce stops": lambda ctx: ctx.parallelize([1, 2], 1).reduce(raising(StopIteration)),
    "reduce on the driver": lambda ctx: ctx.parallelize([1, 2], 2).reduce(raising(OSError)),
    "reduce nothing": lambda ctx: ctx.parallelize([], 2).reduce(add),
    "max of nothing": lambda ctx: ctx.parallelize([], 2).max(),
    "max key stops": lambda ctx: ctx.parallelize([1, 2], 1).max(raising(StopIteration)),
    "max of unlike": lambda ctx: ctx.parallelize([1, "a"], 2).max(),
    "top key stops": lambda ctx: ctx.parallelize([1, 2], 2).top(1, raising(StopIteration)),
    "least key stops": lambda ctx: ctx.parallelize([1, 2], 1).takeOrdered(
        1, raising(StopIteration)
    ),
    "top of no partition": lambda ctx: ctx.emptyRDD().top(3),
    "least negative": lambda ctx: ctx.parallelize([1, 2], 2).takeOrdered(-1),
    "sample negative": lambda ctx: ctx.parallelize([1, 2], 2).takeSample(False, -1),
    "zip of other partitions": lambda ctx: numbers(ctx, 2).zip(numbers(ctx, 3)),
    "zip of other lengths": lambda ctx: numbers(ctx, 1).zip(numbers(ctx, 1).filter(max)).collect(),
    "zip of more batches": lambda ctx: (
        ctx.parallelize(range(150), 1).zip(ctx.parallelize(range(90), 1)).collect()
    ),
    "zip in the worker": lambda ctx: numbers(ctx, 1).zip(numbers(ctx, 1).filter(max)).count(),
    "zip of pairs and batches": lambda ctx: pairs_zipped(ctx).collect(),
    "one side of a product": lambda ctx: (
        numbers(ctx).cartesian(numbers(ctx).map(raising(OSError))).first()
    ),
    "pipe": lambda ctx: ctx.parallelize(["a"], 1).pipe("false", checkCode=True).count(),
    "no such program": lambda ctx: ctx.parallelize(["a"], 1).pipe("no-such-program").count(),
    "iterating": lambda ctx: list(ctx.parallelize([1], 1).map(raising(OSError)).toLocalIterator()),
    "take of a barrier": lambda ctx: numbers(ctx, 2).barrier().mapPartitions(list).first(),
    "first of nothing": lambda ctx: ctx.parallelize([], 2).first(),
    "foreach": lambda ctx: ctx.parallelize([1]).foreach(raising(IndexError)),
    "no partitions": lambda ctx: ctx.parallelize([1]).coalesce(0),
    "negative sample": lambda ctx: ctx.parallelize([1]).sample(False, -1.0),
    "unpicklable row": lambda ctx: ctx.parallelize([1]).map(lambda x: (y for y in [x])).collect(),
    "unpicklable function": lambda ctx: ctx.parallelize([1]).map(lambda x: ctx).collect(),
    "exit": lambda ctx: ctx.parallelize([1]).map(raising(SystemExit)).collect(),
    "save over": lambda ctx: ctx.parallelize([1]).saveAsTextFile("/"),
    "codec": lambda ctx: ctx.parallelize([1]).saveAsTextFile("/nowhere/out", "no.such.Codec"),
}


def outcome_of(ctx: Context, case: str) -> tuple[str, set[str]]:
    """The error as the user sees it: its type, and what the worker or Spark said last.

    Which of two failing tasks is named first is a matter of chance.
    """
    try:
        return repr(FAILING[case](ctx)), set()
    except Exception as problem:
        java = getattr(problem, "java_exception", None)
        if java is None:
            return type(problem).__name__, {str(problem)[:80]}
        lines = re.findall(r"^([\w.]*(?:Error|Exception|Exit|Iteration)\b.*)", str(java), re.M)
        in_python = {line for line in lines if not line.startswith(("org.", "java."))}
        return type(problem).__name__, in_python or {lines[0].split(":")[0]}


@pytest.mark.parametrize("case", drawn(FAILING, 4))
def test_errors_of_the_user_surface_the_same(case: str, lc: LineageContext) -> None:
    plain, captured = outcome_of(lc.sc, case), outcome_of(lc, case)
    assert plain[1]
    assert captured == plain


# -- other ways to set Spark up --------------------------------------------------------------------


@pytest.fixture
def small_batches(lc: LineageContext) -> Iterator[None]:
    """As ``SparkContext(batchSize=5)``."""
    from pyspark.serializers import BatchedSerializer

    sc = lc.sc
    before = sc._batchSize, sc.serializer
    sc._batchSize, sc.serializer = 5, BatchedSerializer(sc._unbatched_serializer, 5)
    yield
    sc._batchSize, sc.serializer = before


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize(
    "name",
    drawn(
        [
            "repartitioned_again",
            "repartitioned_coalesced",
            "repartitioned_unions",
            "repartitioned_mixed_union",
            "repartitioned_tens_of_a_list",
            "united_kinds",
            "joined",
        ],
        4,
    ),
)
def test_same_with_a_batch_size_of_the_users(
    name: str, lc: LineageContext, files: Files, tmp_path: Path
) -> None:
    for ctx, out in ((lc.sc, "plain"), (lc, "captured")):
        PROGRAMS[name](ctx, files).saveAsTextFile(str(tmp_path / out))
    assert contents(tmp_path / "captured") == contents(tmp_path / "plain")
