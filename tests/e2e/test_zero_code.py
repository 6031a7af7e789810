"""``lineage run job.py``: the program is as it would be on its own."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.support.job_runs import (
    CLI,
    applications,
    contents,
    graph,
    lineage,
    run_captured,
    run_plain,
    run_program,
    traced,
    traced_items,
    verify,
    write_job,
)

pytestmark = pytest.mark.e2e


# -- programs without Spark ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("pass", 0),
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('no input today')", 1),
        ("raise SystemExit(True)", 1),
        ("raise ValueError('bad')", 1),
        ("x = (1,\n", 1),
    ],
)
def test_exit_code_and_streams_are_the_programs_own(
    tmp_path: Path, statement: str, code: int
) -> None:
    write_job(tmp_path, f"print('out', flush=True)\n{statement}\n")
    plain, captured = run_plain(tmp_path, "job.py"), run_captured(tmp_path, "job.py")
    assert plain.returncode == code
    assert (captured.returncode, captured.stdout) == (plain.returncode, plain.stdout)
    assert captured.stderr == plain.stderr


def test_a_traceback_has_no_frames_of_ours(tmp_path: Path) -> None:
    write_job(
        tmp_path,
        """
        def inner():
            try:
                {}["key"]
            except KeyError as missing:
                raise RuntimeError("no key") from missing

        inner()
        """,
    )
    plain, captured = run_plain(tmp_path, "job.py"), run_captured(tmp_path, "job.py")
    assert captured.returncode == plain.returncode == 1
    assert "RuntimeError: no key" in captured.stderr
    assert captured.stderr == plain.stderr


def test_a_program_that_a_signal_ends_gives_the_shells_code(tmp_path: Path) -> None:
    write_job(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert run_plain(tmp_path, "job.py").returncode == -signal.SIGKILL
    assert run_captured(tmp_path, "job.py").returncode == 128 + signal.SIGKILL


def test_the_program_sees_itself_as_python_would_show_it(tmp_path: Path) -> None:
    write_job(tmp_path, "NAME = __name__", "tools/sibling.py")
    (tmp_path / "tools" / "link.py").symlink_to("job.py")
    write_job(
        tmp_path,
        '''
        """What the program is for."""
        import inspect, json, sys
        import sibling

        count: int = 1

        def function():
            return 1

        import __main__
        print(json.dumps({
            "argv": sys.argv,
            "name": __name__,
            "file": __file__,
            "doc": __doc__,
            "path": sys.path[0],
            "annotations": repr(__annotations__),
            "builtins": repr(__builtins__),
            "spec": repr(__spec__),
            "package": repr(__package__),
            "main": __main__.count,
            "names": sorted(globals()),
            "source": inspect.getsource(function),
            "sibling": sibling.NAME,
            "executable": sys.executable,
        }, indent=1))
        ''',
        "tools/job.py",
    )
    for job in ("tools/job.py", "tools/link.py", str(tmp_path / "tools/job.py")):
        words = (job, "--date", "2013-01-01", "a b", "")
        plain, captured = run_plain(tmp_path, *words), run_captured(tmp_path, *words)
        assert plain.returncode == captured.returncode == 0, captured.stderr
        assert json.loads(captured.stdout) == json.loads(plain.stdout)


def test_threads_of_the_program_are_waited_for(tmp_path: Path) -> None:
    write_job(
        tmp_path,
        """
        import atexit, threading
        from concurrent.futures import ThreadPoolExecutor
        main_ends = threading.Event()
        atexit.register(print, "exit")
        # A pool that is not shut down waits for more.
        pool = ThreadPoolExecutor(1)
        pool.submit(int).result()

        def work():
            main_ends.wait()
            print("thread")

        threading.Thread(target=work).start()
        print("main")
        main_ends.set()
        """,
    )
    captured = run_captured(tmp_path, "job.py")
    assert captured.stdout == run_plain(tmp_path, "job.py").stdout == "main\nthread\nexit\n"


def test_a_job_that_is_not_there(tmp_path: Path) -> None:
    captured = run_captured(tmp_path, "nowhere.py")
    assert captured.returncode == run_plain(tmp_path, "nowhere.py").returncode == 2
    assert "nowhere.py" in captured.stderr
    assert "Traceback" not in captured.stderr


def test_no_spark_at_all_is_said(tmp_path: Path) -> None:
    write_job(tmp_path, "print(1)\n")
    result = lineage(tmp_path, "run", "job.py")
    assert (result.returncode, result.stdout) == (0, "1\n")
    assert "nothing was captured" in result.stderr
    assert not (tmp_path / ".lineage").exists()


# -- programs with Spark ---------------------------------------------------------------------------

QUIET = """
spark.ui.enabled false
spark.ui.showConsoleProgress false
spark.master local[2]
spark.app.name job
"""
LOGGING = """
rootLogger.level = error
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %m%n
"""


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A Spark configuration folder: programs need say nothing, and Spark logs errors alone."""
    folder = tmp_path_factory.mktemp("conf")
    (folder / "spark-defaults.conf").write_text(QUIET)
    (folder / "log4j2.properties").write_text(LOGGING)
    return {"SPARK_CONF_DIR": str(folder)}


WORDS = """
from __future__ import annotations
import argparse, dataclasses, sys
from pyspark import SparkContext
from tools import cut
import lines

@dataclasses.dataclass(frozen=True, order=True)
class Count:
    word: str
    number: int

class Threshold:
    def __init__(self, least):
        self.least = least

    def __call__(self, count):
        return count.number >= self.least

def one(word):
    return word, 1

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("out")
    parser.add_argument("--least", type=int, default=1)
    args = parser.parse_args()
    seen = SparkContext().accumulator(0)
    sc = SparkContext._active_spark_context
    least = sc.broadcast(args.least)

    def noted(line):
        seen.add(1)
        return line

    counts = (
        sc.textFile(args.source, 4)
        .map(noted)
        .flatMap(cut.words)
        .map(one)
        .reduceByKey(lambda a, b: a + b, 3)
        .map(lambda pair: Count(*pair))
        .filter(Threshold(least.value))
        .sortBy(lambda count: (-count.number, count.word))
    )
    counts.map(lines.line).saveAsTextFile(args.out)
    print("lines", seen.value, "words", counts.count(), flush=True)
    print("first", counts.first(), file=sys.stderr)
    sys.exit(4)

if __name__ == "__main__":
    main()
"""


def test_a_word_count_is_traced_and_is_the_same_program(
    tmp_path: Path, conf: dict[str, str]
) -> None:
    write_job(tmp_path, WORDS, "words.py")
    write_job(tmp_path, "def words(line):\n    return line.split()\n", "tools/cut.py")
    write_job(tmp_path, "def line(count):\n    return f'{count.word} {count.number}'\n", "lines.py")
    (tmp_path / "in.txt").write_text("to be or\n\nnot to be\nthat is\nthe question\n")
    events = tmp_path / "events.ndjson"
    env = {**conf, "LINEAGE_OPENLINEAGE_FILE": str(events)}
    results = [
        run(tmp_path, "words.py", "in.txt", out, "--least", "2", env=env)
        for run, out in ((run_plain, "plain"), (run_captured, "captured"))
    ]
    for result in results:
        assert result.returncode == 4, result.stderr
        assert result.stdout == "lines 5 words 2\n"
        assert "first Count(word='be', number=2)\n" in result.stderr
    assert results[1].stderr == results[0].stderr
    assert contents(tmp_path / "captured") == contents(tmp_path / "plain")
    assert traced(tmp_path, tmp_path / "captured") == {
        ("be 2", ("in.txt:1", "in.txt:3")): 1,
        ("to 2", ("in.txt:1", "in.txt:3")): 1,
    }
    verdict = verify(tmp_path)
    assert verdict["reasons"] == []
    assert verdict["superset"] == {}
    (app,) = applications(tmp_path)
    assert app["status"] == "failed"  # the program said so by its exit code
    start, end = map(json.loads, events.read_text().splitlines())
    assert [start["eventType"], end["eventType"]] == ["START", "FAIL"]
    assert [one["name"] for one in end["outputs"]] == [str(tmp_path / "captured")]
    assert end["run"]["facets"]["lineageMaster_recordLineage"]["complete"]
    (first,) = (n for n in graph(tmp_path)["nodes"] if n["op"] == "textFile")
    before = WORDS.lstrip()[: WORDS.lstrip().index("sc.textFile")]
    assert first["call_site"] == f"words.py:{before.count(chr(10)) + 1}"


@pytest.mark.long
def test_every_way_to_a_context(tmp_path: Path, conf: dict[str, str]) -> None:
    write_job(
        tmp_path,
        """
        import threading
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession

        def work(sc, name):
            sc.textFile("in.txt").map(str.upper).saveAsTextFile(name)
            print(name, flush=True)

        sc = SparkContext("local[2]", "master")
        work(sc, "master")
        sc.stop()

        sc = SparkContext(conf=SparkConf().setMaster("local[1]").setAppName("conf"))
        work(sc, "conf")
        SparkContext.stop(sc)

        spark = SparkSession.builder.master("local[2]").appName("session").getOrCreate()
        work(spark.sparkContext, "session")
        spark.stop()

        with SparkContext(appName="with") as sc:
            work(sc, "with")

        with SparkContext.getOrCreate(SparkConf().setAppName("getOrCreate")) as sc:
            assert SparkContext.getOrCreate() is sc
            work(sc, "getOrCreate")

        def in_thread():
            sc = SparkContext(appName="thread")
            work(sc, "thread")

        # It goes on when the main program has ended, and never stops its context.
        threading.Thread(target=in_thread).start()
        """,
    )
    (tmp_path / "in.txt").write_text("a\nb\n")
    result = run_captured(tmp_path, "job.py", env=conf)
    assert result.returncode == 0, result.stderr
    names = ["master", "conf", "session", "with", "getOrCreate", "thread"]
    assert result.stdout.split() == names
    found = applications(tmp_path)
    assert [(app["name"], app["status"]) for app in found] == [(name, "ok") for name in names]
    for app in found:
        assert verify(tmp_path, app["app"])["reasons"] == []
        rows = traced(tmp_path, tmp_path / app["name"], app["app"])
        assert rows == {("A", ("in.txt:1",)): 1, ("B", ("in.txt:2",)): 1}
    assert not any((tmp_path / ".lineage" / "spool").iterdir())


def test_a_failed_action_is_named_once_with_the_error_of_its_task(
    tmp_path: Path, conf: dict[str, str]
) -> None:
    source = """
        from pyspark import SparkContext
        sc = SparkContext()
        print(sc.textFile("in.txt").count())
        sc.textFile("in.txt").map(int).saveAsTextFile("out")
        """
    write_job(tmp_path, source)
    (tmp_path / "in.txt").write_text("1\ntwo\n")
    result = run_program(tmp_path, [*CLI, "run", "job.py"], conf)
    assert result.returncode == 1
    assert "a task died while working on in.txt:2: two" in result.stderr
    (reason,) = verify(tmp_path)["reasons"]
    assert reason == (
        "unknown part: saveAsTextFile at job.py:4: the action failed: ValueError (Py4JJavaError) "
        "while working on 2#0#1"
    )


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("LINEAGE_ENABLED", "false", "capture is switched off"),
        pytest.param("LINEAGE_MEMORY_MB", "0", "setting memory_mb: ", marks=pytest.mark.long),
    ],
)
def test_the_summary_says_why_nothing_was_captured(
    tmp_path: Path, conf: dict[str, str], name: str, value: str, reason: str
) -> None:
    write_job(tmp_path, "from pyspark import SparkContext\nSparkContext().range(3).count()\n")
    result = run_program(tmp_path, [*CLI, "run", "job.py"], conf | {name: value})
    assert result.returncode == 0
    told = result.stderr.splitlines()[-1]
    assert told.startswith(f"lineage: nothing was captured: {reason}")
    assert "no SparkContext was started" not in result.stderr


def test_dataframe_work_without_a_trace_is_named_in_the_verdict(
    tmp_path: Path, conf: dict[str, str]
) -> None:
    source = """
        from pyspark.sql import SparkSession
        spark = SparkSession.builder.getOrCreate()
        rdd = spark.sparkContext.parallelize([("a", 1), ("b", 2)], 2)
        spark.createDataFrame(rdd, "name string, number int")  # createDataFrame
        frame = rdd.toDF(["name", "number"])  # toDF
        print(sorted(map(tuple, frame.collect())))  # collect
        print(spark.read.text("in.txt").count())  # count
        print(frame.rdd.map(lambda row: row.name).collect())  # rdd
        spark.sql("CREATE TABLE t USING json LOCATION 't' AS SELECT id AS one FROM range(1)")  # sql
        frame.write.csv("out")  # write
        print(frame.stat.corr("number", "number"))  # corr
        frame.groupBy("name").count().show()  # show
        print(spark.createDataFrame([(1,)] * 1001, "one int").toPandas().shape)  # toPandas
        """
    path = write_job(tmp_path, source)
    (tmp_path / "in.txt").write_text("a\nb\n")
    # Rows of RDDs are not kept, else they are traced.
    result = run_captured(tmp_path, "job.py", env=conf | {"LINEAGE_ROWS_MB": "0"})
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[:3] == ["[('a', 1), ('b', 2)]", "2", "['a', 'b']"]
    verdict = verify(tmp_path)
    assert not verdict["complete"]
    lines = path.read_text().splitlines()
    for line, named in (
        ("createDataFrame", "DataFrame"),
        ("toDF", "DataFrame"),
        ("collect", "DataFrame.collect"),
        ("rdd", "DataFrame.rdd"),
        ("write", "DataFrameWriter.csv"),
        ("corr", "DataFrame.corr"),
        ("show", "DataFrame.show"),
        ("toPandas", "DataFrame.toPandas"),
    ):
        (number,) = (n for n, text in enumerate(lines, 1) if text.endswith(f"# {line}"))
        noted = [reason for reason in verdict["reasons"] if f"at job.py:{number}:" in reason]
        assert any(named in reason for reason in noted), (line, verdict["reasons"])
    for line in ("count", "sql"):
        (number,) = (n for n, text in enumerate(lines, 1) if text.endswith(f"# {line}"))
        assert not any(f"at job.py:{number}:" in reason for reason in verdict["reasons"])
    shown = graph(tmp_path)
    kinds = {node["node"]: node["kind"] for node in shown["nodes"]}
    by_op = {node["op"]: node["node"] for node in shown["nodes"]}
    assert (kinds[by_op["DataFrame.collect"]], kinds[by_op["DataFrame.count"]]) == (
        "unknown",
        "frame",
    )
    frames = {n["node"] for n in shown["nodes"] if n["op"] == "DataFrame"}
    sinks = {n["node"] for n in shown["nodes"] if n["op"] == "toDF"}
    links = {(link["src"], link["dest"]) for link in shown["links"]}
    assert {src for src, dest in links if dest in frames} == sinks
    assert {src for src, dest in links if dest in sinks} == {by_op["parallelize"]}
    assert (len(frames), len(sinks)) == (2, 2)
    assert "unknown" in lineage(tmp_path, "graph", "--mermaid").stdout


SOURCES_AND_SINKS = """
import os
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
sc = spark.sparkContext
WRITABLE, OLD, NEW = "org.apache.hadoop.io.", "org.apache.hadoop.mapred.", "org.apache.hadoop.mapreduce.lib."
CLASSES = WRITABLE + "IntWritable", WRITABLE + "Text"
FOLDER = {"mapreduce.input.fileinputformat.inputdir": os.path.abspath("pairs")}

pairs = sc.range(3, numSlices=1).map(lambda n: (n, "ab"))
pairs.saveAsSequenceFile("pairs")  # pairs#1
pairs.saveAsPickleFile("pickles")  # pickles#1
print(sorted(name[-1] + text for name, text in sc.wholeTextFiles("files", minPartitions=1).collect()))
print(sorted(name[-1] + text.decode() for name, text in sc.binaryFiles("files", 1).collect()))
print(sc.binaryRecords("records", 2).collect())
print(sc.sequenceFile("pairs").keys().collect())
print(sc.pickleFile("pickles", 1).collect()[1])
print(sc.hadoopFile("pairs", OLD + "SequenceFileInputFormat", *CLASSES).keys().collect())
print(sc.newAPIHadoopFile("pairs", NEW + "input.SequenceFileInputFormat", *CLASSES).keys().collect())
print(sc.hadoopRDD(OLD + "SequenceFileInputFormat", *CLASSES, conf=FOLDER).keys().collect())
print(sc.newAPIHadoopRDD(NEW + "input.SequenceFileInputFormat", *CLASSES, conf=FOLDER).keys().collect())
print(sc.emptyRDD().union(sc.range(1, 9, 4, 2)).collect())
print(sc.runJob(sc.parallelize([5, 6, 7], 3), lambda numbers: [sum(numbers)], [2]))
frame = sc.range(4, numSlices=2).map(lambda n: (n, "ab")).toDF(["n", "text"])
print(frame.rdd is frame.rdd, frame.rdd.map(lambda row: row.n * 10).collect())
"""


def test_every_source_and_sink_is_captured(tmp_path: Path, conf: dict[str, str]) -> None:
    write_job(tmp_path, SOURCES_AND_SINKS)
    (tmp_path / "files").mkdir()
    for name, text in (("a", "one"), ("b", "two")):
        (tmp_path / "files" / name).write_text(text)
    (tmp_path / "records").write_bytes(b"aabbcc")
    result = run_captured(tmp_path, "job.py", env=conf)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        *["['aone', 'btwo']"] * 2,
        "[b'aa', b'bb', b'cc']",
        "[0, 1, 2]",
        "(1, 'ab')",
        *["[0, 1, 2]"] * 4,
        "[1, 5]",
        "[7]",
        "True [0, 10, 20, 30]",
    ]
    verdict = verify(tmp_path)
    whats = [reason.split(":")[1].partition(" at ")[0].strip() for reason in verdict["reasons"]]
    assert whats == ["DataFrame.rdd"]
    assert verdict["superset"] == {}
    (app,) = (one["app"] for one in applications(tmp_path))
    out = str(tmp_path / "pairs" / "part-00000")
    assert traced_items(tmp_path, app, f"{out}#1") == ["range#0#1"]
    assert traced_items(tmp_path, app, f"{tmp_path}/pickles/part-00000#2") == ["range#0#2"]
    files = [traced_items(tmp_path, app, "collect#0#0", "collect#0#1")]
    files += [traced_items(tmp_path, app, "collect:1#0#0", "collect:1#0#1")]
    assert files == [["a", "b"]] * 2
    assert traced_items(tmp_path, app, "collect:2#0#1") == ["records#1"]
    for action in range(3, 9):
        assert traced_items(tmp_path, app, f"collect:{action}#0#1") == ["part-00000#1"], action
    assert traced_items(tmp_path, app, "collect:9#1#0") == ["range:1#1#0"]
    assert traced_items(tmp_path, app, "runJob#2#0") == ["parallelize#2#0"]
    (row,) = traced_items(tmp_path, app, "collect:10#1#1")
    assert (row.split("#")[0], row.split("#")[2]) == ("df.rdd", "1")
    assert row.split("#")[1].startswith("1.")
    rows = [f"range:2#{n // 2}#{n % 2}" for n in range(4)]
    assert traced_items(tmp_path, app, *(f"toDF#{n // 2}#{n % 2}" for n in range(4))) == rows


@pytest.mark.long
def test_operators_that_pair_choose_and_keep_are_captured(
    tmp_path: Path, conf: dict[str, str]
) -> None:
    source = """
        from pyspark import SparkContext
        sc = SparkContext()
        sc.setCheckpointDir("checkpoints")
        a = sc.textFile("in.txt", 2)
        b = sc.parallelize([1, 2, 3], 2)
        print(b.cartesian(b).collect())
        print(b.zip(b.map(str)).collect())
        print(b.max(), b.min())
        print(b.top(2), b.takeOrdered(1))
        print(list(b.toLocalIterator()))
        print(next(a.toLocalIterator()))
        left_open = b.toLocalIterator()
        print(next(left_open))
        a.checkpoint()
        print(sc.union([b.pipe("cat").map(int), a.map(int)]).collect())
        print(a.isCheckpointed(), a.map(int).map(lambda x: x + 1).collect())

        def models(_):
            import sys
            return {"pydantic", "lineage_core.contract.message"} & set(sys.modules)

        # Behind all the others, in the workers that ran them: each module costs each worker time.
        pairs = b.keyBy(str)
        pairs.reduceByKey(max).join(pairs).sortBy(str).cogroup(pairs).count()
        print(b.map(models).collect())
        """
    write_job(tmp_path, source)
    (tmp_path / "in.txt").write_text("7\n8\n")
    plain = run_plain(tmp_path, "job.py", env=conf)
    assert plain.returncode == 0, plain.stderr
    captured = run_captured(tmp_path, "job.py", env=conf)
    assert captured.returncode == 0, captured.stderr
    assert captured.stdout == plain.stdout
    verdict = verify(tmp_path)
    assert verdict["reasons"] == []
    nodes = {node["node"]: node["name"] for node in graph(tmp_path)["nodes"]}
    assert {nodes[node] for node in verdict["superset"]} == {"pipe", "map"}
    (app,) = (one["app"] for one in applications(tmp_path))
    for item, wanted in (
        ("collect#1#1", ["parallelize#0#0", "parallelize#1#1"]),
        ("max#0#0", ["parallelize#1#1"]),
        ("top#0#1", ["parallelize#1#0"]),
        ("toLocalIterator:1#0#0", ["in.txt:1"]),
        ("toLocalIterator:2#0#0", ["parallelize#0#0"]),
        ("collect:2#2#1", ["in.txt:2"]),
        ("collect:3#0#1", ["in.txt:2"]),
    ):
        assert traced_items(tmp_path, app, item) == wanted, item


@pytest.mark.long
def test_libraries_that_use_rdds_are_named(tmp_path: Path, conf: dict[str, str]) -> None:
    source = """
        from pyspark import SparkContext
        from pyspark.mllib.linalg import Vectors
        from pyspark.mllib.stat import Statistics
        from pyspark.mllib.util import MLUtils
        sc = SparkContext()
        print(sc.textFile("svm.txt").count())
        print(MLUtils.loadLibSVMFile(sc, "svm.txt").map(lambda point: point.label).collect())  # read
        vectors = sc.parallelize([[1.0, 2.0], [3.0, 4.0]], 2).map(Vectors.dense)
        print(Statistics.colStats(vectors).mean().tolist())  # passed
        """
    path = write_job(tmp_path, source)
    (tmp_path / "svm.txt").write_text("1 1:2 3:4\n0 2:5\n")
    plain, captured = (run(tmp_path, "job.py", env=conf) for run in (run_plain, run_captured))
    assert plain.returncode == captured.returncode == 0, captured.stderr
    assert captured.stdout == plain.stdout == "2\n[1.0, 0.0]\n[2.0, 3.0]\n"
    verdict = verify(tmp_path)
    lines = path.read_text().splitlines()
    for mark, name in (
        ("read", "pyspark.mllib"),
        ("passed", "pyspark.mllib"),
    ):
        (number,) = (n for n, text in enumerate(lines, 1) if text.endswith(f"# {mark}"))
        noted = [reason for reason in verdict["reasons"] if f"at job.py:{number}:" in reason]
        assert any(name in reason for reason in noted), (mark, verdict["reasons"])
