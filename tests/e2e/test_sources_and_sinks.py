"""Every source of SparkContext and every sink that hands records to the JVM, with its lineage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pyspark import RDD, SparkContext
from pyspark.serializers import NoOpSerializer
from pyspark.sql import SparkSession

from lineage_core.contract.graph import FlowGraph
from lineage_core.contract.message import Commit
from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageContext
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.url import open_store
from tests.support.job_runs import STORE, contents, judged, traced, traced_each, traced_items

pytestmark = pytest.mark.e2e

Capture = Callable[..., LineageContext]
WRITABLE = "org.apache.hadoop.io."
OLD, NEW = "org.apache.hadoop.mapred.", "org.apache.hadoop.mapreduce.lib."
ROWS = 5_000
PAIR = ("Int", "Text")


@pytest.fixture
def capture(spark_context: SparkContext, tmp_path: Path) -> Capture:
    """Begins a capture of its own on the one SparkContext; end it by ``with``."""

    def begin(**settings: Any) -> LineageContext:
        settings = {"store": f"sqlite:///{tmp_path / STORE}"} | settings
        return LineageContext(spark_context, **settings)

    return begin


@pytest.fixture(scope="module")
def spark(spark_context: SparkContext) -> SparkSession:
    return SparkSession(spark_context)


@pytest.fixture(scope="module")
def written(spark_context: SparkContext, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of every kind, in which record ``n`` says that it is the ``n``-th of its file."""
    root = tmp_path_factory.mktemp("written")
    # So long that Hadoop, which cuts sequence files at 100 kB at the least, cuts these.
    rows = spark_context.range(ROWS, numSlices=1).map(lambda n: (n, f"row {n}".ljust(70)))
    rows.saveAsSequenceFile(str(root / "pairs"))
    rows.saveAsPickleFile(str(root / "pickles"))
    (root / "records").write_bytes(b"".join(n.to_bytes(4, "big") for n in range(ROWS)))
    (root / "lines").write_text("".join(f"{n} row\n" for n in range(ROWS)))
    (root / "files").mkdir()
    for n in range(7):
        (root / "files" / str(n)).write_text(f"{n}\n" * n)
    return root


@pytest.fixture
def small_splits(spark_context: SparkContext) -> Iterator[None]:
    """Formats of Hadoop's newer kind cut files in several splits."""
    configuration = spark_context._jsc.hadoopConfiguration()
    key = "mapreduce.input.fileinputformat.split.maxsize"
    configuration.set(key, "6001")
    yield
    configuration.unset(key)


def few(record: tuple[int, Any]) -> bool:
    return record[0] % 331 == 0


def classes(root: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{root}{name}Writable" if name != "Text" else f"{root}Text" for name in names)


FROM_FILES: dict[str, Callable[[Any, str], Any]] = {
    "sequenceFile": lambda ctx, root: ctx.sequenceFile(f"{root}/pairs", minSplits=4),
    "pickleFile": lambda ctx, root: ctx.pickleFile(f"{root}/pickles", 3),
    "binaryRecords": lambda ctx, root: ctx.binaryRecords(f"{root}/records", recordLength=4).map(
        lambda record: (int.from_bytes(record, "big"), record)
    ),
    "hadoopFile": lambda ctx, root: ctx.hadoopFile(
        f"{root}/pairs", f"{OLD}SequenceFileInputFormat", *classes(WRITABLE, *PAIR)
    ),
    "newAPIHadoopFile": lambda ctx, root: ctx.newAPIHadoopFile(
        f"{root}/pairs", f"{NEW}input.SequenceFileInputFormat", *classes(WRITABLE, *PAIR)
    ),
    "hadoopRDD": lambda ctx, root: ctx.hadoopRDD(
        f"{OLD}SequenceFileInputFormat",
        *classes(WRITABLE, *PAIR),
        conf={"mapreduce.input.fileinputformat.inputdir": f"{root}/pairs"},
    ),
    "newAPIHadoopRDD": lambda ctx, root: ctx.newAPIHadoopRDD(
        f"{NEW}input.SequenceFileInputFormat",
        *classes(WRITABLE, *PAIR),
        conf={"mapreduce.input.fileinputformat.inputdir": f"{root}/pairs"},
        batchSize=7,
    ),
}


@pytest.mark.long
@pytest.mark.usefixtures("small_splits")
def test_records_of_files_are_traced_to_their_numbers(
    capture: Capture, tmp_path: Path, written: Path
) -> None:
    with capture() as lc:
        for name, source in FROM_FILES.items():
            rdd = source(lc, str(written))
            assert rdd.getNumPartitions() > 1, name
            rdd.filter(few).keys().saveAsTextFile(str(tmp_path / name))
        app = lc.app
    assert judged(tmp_path, app).reasons == ()
    assert judged(tmp_path, app).superset == {}
    for name in FROM_FILES:
        file = "records" if name == "binaryRecords" else "part-00000"
        rows = traced(tmp_path, tmp_path / name, app)
        assert rows == {(str(n), (f"{file}#{n}",)): 1 for n in range(0, ROWS, 331)}, name
    # And the other way: the record, as it was named.
    forward = traced_items(tmp_path, app, f"{written}/records#662", forward=True)
    assert forward == ["part-00000:3"]


def test_files_as_a_whole_are_items(capture: Capture, tmp_path: Path, written: Path) -> None:
    with capture() as lc:
        texts = lc.wholeTextFiles(str(written / "files"), 3)
        bytes_of = lc.binaryFiles(str(written / "files"), minPartitions=2)
        assert (texts.getNumPartitions(), bytes_of.getNumPartitions()) != (1, 1)
        both = texts.union(bytes_of.mapValues(bytes.decode)).filter(lambda file: file[1])
        both.values().map(lambda text: text.split()[0]).saveAsTextFile(str(tmp_path / "out"))
        lines = texts.flatMapValues(str.splitlines).values().distinct(2)
        lines.saveAsTextFile(str(tmp_path / "lines"))
        app = lc.app
    assert judged(tmp_path, app).reasons == ()
    rows = traced(tmp_path, tmp_path / "out", app)
    assert rows == {(str(n), (str(n),)): 2 for n in range(1, 7)}
    assert traced(tmp_path, tmp_path / "lines", app) == {
        (str(n), (str(n),)): 1 for n in range(1, 7)
    }
    # An empty file went nowhere, the others into three rows each.
    assert traced_items(tmp_path, app, str(written / "files" / "0"), forward=True) == []
    assert len(traced_items(tmp_path, app, str(written / "files" / "6"), forward=True)) == 3


def test_what_may_come_in_another_order_is_named_by_each_run(
    capture: Capture, tmp_path: Path, written: Path
) -> None:
    composed = {
        "mapred.join.expr": f'override(tbl({OLD}SequenceFileInputFormat,"{written}/pairs"))'
    }
    with capture() as lc:
        table = lc.hadoopRDD(
            f"{OLD}join.CompositeInputFormat", *classes(WRITABLE, *PAIR), conf=composed
        )
        rdd = table.union(lc.range(2, numSlices=1).keyBy(int)).filter(few)
        assert [n for n, _ in rdd.collect()] == [n for n, _ in rdd.collect()]
        app = lc.app
    assert judged(tmp_path, app).reasons == ()
    runs = [traced_items(tmp_path, app, f"{sink}#0#1") for sink in ("collect", "collect:1")]
    places = [place.split("#") for (place,) in runs]
    assert [(name, row) for name, _, row in places] == [("read", "331")] * 2
    assert len({run for _, run, _ in places}) == 2
    assert all(run.startswith("0.") for _, run, _ in places)
    assert traced_items(tmp_path, app, "collect#1#0") == ["range#0#0"]


def test_run_job_gives_what_its_function_took(capture: Capture, tmp_path: Path) -> None:
    def two(records: Iterable[Any]) -> list[Any]:
        return list(islice(records, 2))

    with capture() as lc:
        rdd = lc.range(400, numSlices=4).repartition(4).map(lambda n: n)
        took = lc.runJob(rdd, two, [2, 1])
        assert took == lc.sc.runJob(rdd, two, [2, 1])
        assert len(lc.runJob(rdd, two, [3, 3])) == 4
        assert lc.runJob(lc.emptyRDD().union(lc.emptyRDD()), two) == []
        assert lc.runJob(lc.range(3), sum, []) == []
        app = lc.app
    verdict = judged(tmp_path, app)
    assert [reason for reason in verdict.reasons if SparkContext.__module__ not in reason] == []
    items = [f"runJob#{partition}#{row}" for partition in (2, 1) for row in (0, 1)]
    found = traced_each(tmp_path, app, items)
    # An element of range is named by its slice and its place in it.
    assert [100 * int(p) + int(row) for ((_, p, row),) in map(parts, found)] == took
    assert len({tuple(one) for one in found}) == 4
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        spaces = store.graph(app).spaces_of(node_of(store.graph(app), "runJob:1"))
    assert len(spaces) == 2
    assert all(space.partition("#")[2].startswith("3.") for space in spaces)


def parts(places: Iterable[str]) -> list[list[str]]:
    return [place.split("#") for place in places]


def node_of(graph: FlowGraph, alias: str) -> str:
    return next(node.node for node in graph.nodes() if node.alias == alias)


# -- saves -------------------------------------------------------------------------------------

KEYED = {
    "mapreduce.job.output.key.class": f"{WRITABLE}IntWritable",
    "mapreduce.job.output.value.class": f"{WRITABLE}Text",
}
SAVES: dict[str, Callable[[Any, str], Any]] = {
    "saveAsPickleFile": lambda rdd, out: rdd.saveAsPickleFile(out),
    "batchSize": lambda rdd, out: rdd.saveAsPickleFile(out, batchSize=0),
    "saveAsSequenceFile": lambda rdd, out: rdd.saveAsSequenceFile(
        out, "org.apache.hadoop.io.compress.DefaultCodec"
    ),
    "saveAsHadoopFile": lambda rdd, out: rdd.saveAsHadoopFile(
        out, f"{OLD}SequenceFileOutputFormat"
    ),
    "saveAsNewAPIHadoopFile": lambda rdd, out: rdd.saveAsNewAPIHadoopFile(
        out, f"{NEW}output.SequenceFileOutputFormat", *classes(WRITABLE, *PAIR)
    ),
    "saveAsHadoopDataset": lambda rdd, out: rdd.saveAsHadoopDataset(
        KEYED
        | {
            "mapred.output.format.class": f"{OLD}TextOutputFormat",
            "mapreduce.output.fileoutputformat.outputdir": out,
        }
    ),
    "saveAsNewAPIHadoopDataset": lambda rdd, out: rdd.saveAsNewAPIHadoopDataset(
        KEYED
        | {
            "mapreduce.job.outputformat.class": f"{NEW}output.SequenceFileOutputFormat",
            "mapreduce.output.fileoutputformat.outputdir": out,
        }
    ),
}


def read_part(sc: SparkContext, name: str, part: Path) -> list[int]:
    """The keys in a part file, in order."""
    if name == "saveAsHadoopDataset":
        return [int(line.split("\t")[0]) for line in part.read_text().splitlines()]
    if name in ("saveAsPickleFile", "batchSize"):
        return list(sc.pickleFile(str(part)).keys().collect())
    return list(sc.sequenceFile(str(part)).keys().collect())


def same_bytes(file: bytes) -> bytes:
    """A file without what Hadoop draws at random for a sequence file: the mark between records."""
    if not file.startswith(b"SEQ"):
        return file
    at = 4
    for _ in range(2):
        at += 1 + file[at]
    compressed = file[at]
    at += 2
    at += 1 + file[at] if compressed else 0
    mark = file[at + 4 : at + 20]
    return file.replace(mark, bytes(16))


def test_saves_write_the_same_files_and_know_their_records(
    capture: Capture, tmp_path: Path, written: Path, spark_context: SparkContext
) -> None:
    def saved(ctx: Any) -> Any:
        pairs = ctx.textFile(str(written / "lines"), 2).map(lambda line: line.split(" ", 1))
        # The first partition is empty: whoever looks for a first record looks further.
        return pairs.map(lambda pair: (int(pair[0]), pair[1])).filter(
            lambda pair: pair[0] > 3_000 and pair[0] % 200 < 17
        )

    plain = saved(spark_context)
    with capture() as lc:
        rdd = saved(lc)
        for name, save in SAVES.items():
            save(plain, str(tmp_path / f"plain-{name}"))
            save(rdd, str(tmp_path / name))
        app = lc.app
    assert judged(tmp_path, app).reasons == ()
    for name in SAVES:
        files = [contents(tmp_path / folder) for folder in (f"plain-{name}", name)]
        same = [
            {file: same_bytes(body) for file, body in one.items() if not file.endswith(".crc")}
            for one in files
        ]
        assert same[1] == same[0], name
        _, part = sorted((tmp_path / name).glob("part-*"))
        keys = list(enumerate(read_part(spark_context, name, part)))[::40]
        rows = [f"{part}#{row}" for row, _ in keys]
        assert traced_each(tmp_path, app, rows) == [[f"lines:{key + 1}"] for _, key in keys]
        assert len(keys) == 5
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        sinks = {node.node for node in store.graph(app).nodes() if node.kind == "sink"}
        commits = [m for m in store.messages(app, "commit") if isinstance(m, Commit)]
    # What Spark looked at for the types of a sequence file's records is nothing of the sink's.
    ran = sorted((m.node, m.partition) for m in commits if m.node in sinks and m.rows)
    assert ran == [(sink, 1) for sink in sorted(sinks)]


@pytest.mark.long
def test_pickles_keep_the_batches_that_spark_keeps(
    capture: Capture, tmp_path: Path, written: Path, spark_context: SparkContext
) -> None:
    shapes: dict[str, Callable[[Any, str], Any]] = {
        "dealt out": lambda ctx, out: ctx.parallelize(list(range(41)), 4).saveAsPickleFile(out),
        "moved": lambda ctx, out: (
            ctx.range(95, numSlices=4).repartition(3).saveAsPickleFile(path=out)
        ),
        "moved and united": lambda ctx, out: (
            ctx.union([ctx.range(95).repartition(3), ctx.range(7).repartition(2)])
            .coalesce(2)
            .saveAsPickleFile(out, 10)
        ),
        "of others": lambda ctx, out: ctx.pickleFile(f"{written}/pickles").saveAsPickleFile(out, 0),
    }

    def batches(out: Path) -> list[list[bytes]]:
        jrdd = spark_context._jsc.objectFile(str(out), 1)
        rdd: RDD[bytes] = RDD(jrdd, spark_context, NoOpSerializer())
        return sorted(rdd.glom().collect())

    with capture() as lc:
        for number, save in enumerate(shapes.values()):
            save(lc.sc, str(tmp_path / f"plain-{number}"))
            save(lc, str(tmp_path / f"{number}"))
        app = lc.app
    assert judged(tmp_path, app).reasons == ()
    for number, shape in enumerate(shapes):
        assert batches(tmp_path / f"{number}") == batches(tmp_path / f"plain-{number}"), shape
    dealt = {"range": (95, 4), "range:1": (95, 2), "range:2": (7, 2)}
    for number in (1, 2, 3):
        part = tmp_path / str(number) / "part-00000"
        values = list(enumerate(spark_context.pickleFile(str(part)).collect()))[::7]
        found = traced_each(tmp_path, app, [f"{part}#{row}" for row, _ in values])
        for (_, value), (place,) in zip(values, found, strict=True):
            if number == 3:
                assert place == f"part-00000#{value[0]}"
            else:
                name, split, position = place.split("#")
                size, slices = dealt[name]
                assert int(int(split) * size / slices) + int(position) == value


def test_records_that_stand_in_no_text_file_have_texts_in_detailed_mode(
    capture: Capture, tmp_path: Path, written: Path
) -> None:
    out = tmp_path / "out"
    with capture(detailed=True) as lc:
        numbers = lc.pickleFile(f"{written}/pickles")
        numbers.saveAsPickleFile(str(out), batchSize=0)
        lc.wholeTextFiles(f"{written}/files", 1).filter(lambda file: len(file[1]) == 2).count()
        app = lc.app
    assert judged(tmp_path, app).reasons == ()
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        query_engine = QueryEngine(store, RowReader())
        for place, text in ((f"{out}/part-00000#41", "(41, 'row 41"), ("count#0#0", "/files/1', ")):
            answer = query_engine.ask(TraceQuery(Direction.BACKWARD, (place,), app=app))
            (item,) = answer.groups[0].items
            assert text in str(item.text)
            if "#41" in place:
                assert answer.start[0].items[0].text == item.text


# -- DataFrames --------------------------------------------------------------------------------


def test_rows_of_a_frame_are_numbered_in_each_run_and_named(
    capture: Capture, tmp_path: Path, spark: SparkSession
) -> None:
    frame = spark.range(0, 100, 1, 2)
    with capture() as lc:
        rdd = lc.rdd(frame)
        assert rdd.getNumPartitions() == 2
        rows = rdd.union(rdd).map(lambda row: row.id).filter(lambda n: n % 7 == 0)
        rows.map(str).saveAsTextFile(str(tmp_path / "out"))
        assert rdd.cache().count() == rdd.count() == 100
        app = lc.app
    assert judged(tmp_path, app).complete
    found = traced(tmp_path, tmp_path / "out", app)
    # Each row was read for each side of the union, and has one name.
    assert sorted(int(text) for text, _ in found) == [n for n in range(100) if n % 7 == 0]
    assert set(found.values()) == {2}
    assert {len(places) for _, places in found} == {1}
    assert len({places for _, places in found}) == len(found)
    (_, (place,)), *_ = found
    assert place.startswith("df.rdd@0#")
    ends = traced_items(tmp_path, app, place, forward=True)
    assert [end.partition(":")[0] for end in ends if end.startswith("part-")] != []
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        graph = store.graph(app)
        ops = {node.node: (node.kind, node.op) for node in graph.nodes()}
        links = {(ops[link.src], ops[link.dest]) for link in graph.links()}
        (read,) = [node for node, op in ops.items() if op == ("source", "DataFrame.rdd")]
        # Each of two partitions was read for each side, and for each count: eight numberings.
        assert len(graph.spaces_of(read)) == 8
    assert (("frame", "DataFrame.rdd"), ("source", "DataFrame.rdd")) in links


def test_each_row_handed_to_a_frame_is_an_item(
    capture: Capture, tmp_path: Path, written: Path, spark: SparkSession
) -> None:
    with capture() as lc:
        pairs = lc.textFile(str(written / "lines"), 2).map(lambda line: line.split(" "))
        moved = pairs.filter(lambda pair: pair[0].endswith("77")).repartition(2)
        # Its types are looked for in records: PySpark's own jobs are no part of the graph.
        frame = moved.toDF(["number", "text"])
        never = spark.createDataFrame(moved, "number string, text string", verifySchema=False)
        assert frame.count() == 50
        assert sorted(row.number for row in frame.collect()) == sorted(
            str(n) for n in range(77, ROWS, 100)
        )
        assert moved.count() == 50
        app = lc.app
    assert never.columns == ["number", "text"]
    verdict = judged(tmp_path, app)
    assert verdict.complete
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        graph = store.graph(app)
        sinks = {str(node.alias): node.node for node in graph.nodes() if node.kind == "sink"}
        spaces = graph.spaces_of(sinks["toDF"])
        rows = {
            (m.partition, m.attempt): m.rows
            for m in store.messages(app, "commit")
            if isinstance(m, Commit) and m.node == sinks["toDF"]
        }
        assert graph.spaces_of(sinks["toDF:1"]) == []
    # The frame's own count came first.
    assert set(sinks) == {"toDF", "toDF:1", "count:1"}
    # Two actions on the frame computed its two partitions twice.
    assert {f"{sinks['toDF']}#{part}.{run}" for part, run in rows} == set(spaces)
    assert sorted(part for part, _ in rows) == [0, 0, 1, 1]
    wanted = sorted(f"lines:{n + 1}" for n in range(77, ROWS, 100))
    for runs in (sorted(rows)[::2], sorted(rows)[1::2]):
        items = [f"toDF#{part}.{run}#{row}" for part, run in runs for row in range(rows[part, run])]
        each = traced_each(tmp_path, app, items)
        assert sorted(place for (place,) in each) == wanted
    assert traced_items(tmp_path, app, "count:1#0#0") == wanted
    forward = traced_items(tmp_path, app, f"{written}/lines:78", forward=True)
    assert [place.split("#")[0] for place in forward] == ["count:1", "toDF", "toDF"]
