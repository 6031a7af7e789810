"""``attach``: capture of sessions that are there before it, and its end by ``detach``."""

import json
import os
import pickle
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from lineage_core.contract.message import Begin, Unknown
from lineage_emitter.driver.older_rdds import REASON
from tests.e2e.test_zero_code_oracle import drawn
from tests.oracle.brute import evaluate
from tests.oracle.budget import examples
from tests.oracle.captured import SpoolReader, of_one_program
from tests.oracle.compare import assert_witnesses, sink_items
from tests.oracle.model import Program
from tests.oracle.spark import Outcome
from tests.support.job_runs import applications, judged, lineage, run_program, traced, write_job

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
JOB = ROOT / "tests" / "oracle" / "attached_job.py"


def run(folder: Path, source: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """Run a program in a folder; what it says last, as JSON."""
    job = write_job(folder, source)
    done = run_program(folder, [sys.executable, str(job)], environment or {})
    assert done.returncode == 0, done.stderr[-3_000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1]) | {"stderr": done.stderr}
    return found


def test_lineage_from_attach_to_detach_is_the_witnesses_of_every_row(tmp_path: Path) -> None:
    chosen = drawn(examples(6))
    third = len(chosen) // 3
    (tmp_path / "programs").write_bytes(pickle.dumps(chosen))
    done = run_program(
        tmp_path,
        [sys.executable, str(JOB), "programs", str(tmp_path)],
        {
            "PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path)),
            "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false pyspark-shell",
            "LINEAGE_SPOOL": str(tmp_path / "spool"),
            "LINEAGE_LINK": "false",
        },
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    whole, partly = pickle.loads((tmp_path / "outcomes.pickle").read_bytes())
    captured = [one for number, one in enumerate(chosen[: 2 * third]) if number % third]
    apps = [app for app, _ in whole]
    assert len(set(apps)) == 2
    for _, group in groupby(zip(captured, whole, strict=True), key=lambda of: of[1][0]):
        assert_right(tmp_path, list(group))
    for program, (app, outcomes) in zip(chosen[2 * third :], partly, strict=True):
        assert_told(tmp_path, program, app, outcomes)


def assert_right(folder: Path, runs: list[tuple[Program, tuple[str, list[Outcome]]]]) -> None:
    """Programs of one application: every row has its witnesses, and nothing is unknown."""
    reader = SpoolReader(folder / "spool" / runs[0][1][0])
    messages = reader.messages()
    assert isinstance(messages.pop(0), Begin)
    blocks = reader.blocks(messages)
    for program, (_, outcomes) in runs:
        lineage, messages = of_one_program(program, messages, blocks)
        assert lineage.complaints == []
        run = evaluate(program)
        for job, outcome in zip(lineage.jobs, outcomes, strict=True):
            items = sink_items(lineage, str(job.sink), outcome)
            assert_witnesses(run, outcome.sink, [(text, lineage.back(*at)) for text, at in items])
    assert not [one for one in messages if isinstance(one, Unknown)]


def assert_told(folder: Path, program: Program, app: str, outcomes: list[Outcome]) -> None:
    """A program of which half of the steps are older than capture: where a row hangs on one, the verdict knows."""
    messages = SpoolReader(folder / "spool" / app).messages()
    unknown = [one for one in messages if isinstance(one, Unknown)]
    older = set(range(len(program.steps) // 2))
    hangs = [sink for sink in program.sinks if older & {sink.step, *program.ancestors(sink.step)}]
    assert bool(unknown) == bool(hangs)
    evaluated = evaluate(program)
    for outcome in outcomes:
        if outcome.sink.action in {"save", "collect"}:
            wanted = sorted(str(row.value) for row in evaluated.sink_rows(outcome.sink))
            assert len(outcome.rows) == len(wanted)


ATTACHING = """
import json, os
from pyspark.sql import SparkSession
import lineage

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
sc = spark.sparkContext
old = sc.textFile("in.txt").map(str.upper)
old_frame = spark.read.csv("in.csv", header=True)
old_writer = old_frame.write.format("csv").option("header", True)
cached = spark.read.csv("changing.csv", header=True).cache()
cached.count()
with open("changing.csv", "w") as file:
    file.write("name,number\\nnow,2\\n")
python = sc.pythonExec
spark.conf.set("spark.lineage.memory.mb", "48")

first = lineage.attach(spark, store="sqlite:///given.db")
second = lineage.attach(sc)
facts = {"apps": [first.app, second.app], "one": first.session is second.session}
facts["settings"] = [first.session.settings.memory_mb, first.session.settings.unsupported]
sc.textFile("in.txt").map(str.upper).saveAsTextFile("new")
earlier = sc.textFile("in.txt").map(str.upper)
old_frame.filter("number > 1").coalesce(1).write.parquet("frame")
lineage.detach()
lineage.detach()
facts["ended"] = first.session.closed
sc.textFile("in.txt").saveAsTextFile("after")

third = lineage.attach(spark, store="sqlite:///given.db")
facts["apps"].append(third.app)
old.count()
sc.runJob(old, list)
earlier.first()
earlier.collect()
old.saveAsTextFile("old")
sc.union([old, sc.textFile("in.txt")]).saveAsTextFile("both")
old.union(sc.textFile("in.txt")).saveAsTextFile("other")
old_writer.save("written")
cached.coalesce(1).write.parquet("cached")
lineage.detach(spark)

fourth = lineage.attach(spark, store="sqlite:///given.db")
facts["apps"].append(fourth.app)
made = sc.textFile("in.txt").map(str.upper)
facts["replayed"] = made.getLineage().replay(capture=True).collect()
facts["plain"] = made.getLineage().replay().first()
lineage.detach(spark)
spark.stop()
print(json.dumps(facts))
"""


@pytest.fixture(scope="module")
def attached(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("attached")
    (folder / "in.txt").write_text("a\nb\nc\n", encoding="utf-8")
    (folder / "in.csv").write_text("name,number\nann,1\nbob,2\ncid,3\n", encoding="utf-8")
    (folder / "changing.csv").write_text("name,number\nthen,1\n", encoding="utf-8")
    return folder, run(folder, ATTACHING)


@pytest.mark.long
def test_a_second_attach_changes_nothing_and_one_after_detach_begins_anew(
    attached: tuple[Path, dict[str, Any]],
) -> None:
    _, facts = attached
    first, second, third, _ = facts["apps"]
    assert first == second != third
    assert facts["one"]
    assert facts["ended"]


@pytest.mark.long
def test_settings_are_merged(attached: tuple[Path, dict[str, Any]]) -> None:
    folder, facts = attached
    assert facts["settings"] == [48, "continue"]
    assert (folder / "given.db").exists()
    assert not (folder / ".lineage" / "lineage.db").exists()


@pytest.mark.long
def test_what_is_made_after_attach_is_complete_and_exact(
    attached: tuple[Path, dict[str, Any]],
) -> None:
    folder, facts = attached
    app = facts["apps"][0]
    done = lineage(folder, "--store", "sqlite:///given.db", "verify", app, "--json")
    verdict = json.loads(done.stdout)
    assert (verdict["complete"], verdict["answerable"], done.returncode) == (True, True, 0)
    answer = asked(folder, "new/part-00000:2")
    assert (answer["exact"], places(answer)) == (True, ["in.txt:2"])
    # A frame that is older than capture is a plan like any other.
    answer = asked(folder, "frame#name=cid")
    assert (answer["exact"], places(answer)) == (True, ["in.csv:4"])


def asked(folder: Path, place: str) -> dict[str, Any]:
    done = lineage(folder, "--store", "sqlite:///given.db", "back", place, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def places(answer: dict[str, Any]) -> list[str]:
    return [
        item["location"].rpartition("/")[2]
        for source in answer["sources"]
        for item in source["items"]
    ]


@pytest.mark.long
def test_what_older_rdds_and_writers_give_is_unknown(
    attached: tuple[Path, dict[str, Any]],
) -> None:
    folder, facts = attached
    done = lineage(folder, "--store", "sqlite:///given.db", "verify", facts["apps"][2], "--json")
    verdict = json.loads(done.stdout)
    assert not verdict["complete"]
    said = "\n".join(verdict["reasons"])
    for part in (
        "RDD.count",
        "RDD.first",
        "RDD.collect",
        "SparkContext.runJob",
        "RDD.saveAsTextFile",
        REASON,
        "DataFrameWriter.save",
        "its writer was made before",
    ):
        assert part in said, said
    assert "not recorded" not in said, said


@pytest.mark.long
def test_what_a_plain_replay_gives_is_unknown_for_the_right_reason(
    attached: tuple[Path, dict[str, Any]],
) -> None:
    folder, facts = attached
    assert (facts["replayed"], facts["plain"]) == (["A", "B", "C"], "A")
    done = lineage(folder, "--store", "sqlite:///given.db", "verify", facts["apps"][3], "--json")
    (said,) = json.loads(done.stdout)["reasons"]
    assert "RDD.first" in said
    assert "or by rows() or by replay() without capture=True" in said


@pytest.mark.long
def test_a_cache_that_is_older_than_its_file_is_not_taken_for_the_file(
    attached: tuple[Path, dict[str, Any]],
) -> None:
    folder, _ = attached
    done = lineage(folder, "--store", "sqlite:///given.db", "back", "cached#name=then", "--json")
    answer = json.loads(done.stdout)
    assert done.returncode != 0 or answer["changed"] or not answer["exact"], answer


BUILDING = """
import json
from pyspark.sql import SparkSession
import lineage

own = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
own = own.config("spark.extraListeners", "").config("spark.jars.packages", "")
before = dict(own._options)
spark = lineage.builder(own, store="sqlite:///built.db").appName("built").getOrCreate()
facts = {"class": type(spark).__module__, "name": spark.sparkContext.appName}
facts["kept"] = {key: own._options[key] == value for key, value in before.items()}
facts["new"] = sorted(own._options.keys() - before.keys())
spark.sparkContext.textFile("in.txt").saveAsTextFile("out")
spark.stop()
try:
    lineage.attach(object())
except TypeError as error:
    facts["type"] = str(error)
try:
    lineage.attach(spark.sparkContext)
except lineage.CaptureFailedError as error:
    facts["stopped"] = str(error)
class Remote:
    pass
Remote.__module__ = "pyspark.sql.connect.session"
try:
    lineage.attach(Remote())
except lineage.ConnectSessionError as error:
    facts["connect"] = [error.operation, str(error)]
print(json.dumps(facts))
"""


@pytest.mark.long
def test_a_builder_keeps_what_the_program_set_and_captures_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\nb\n", encoding="utf-8")
    facts = run(tmp_path, BUILDING)
    assert (facts["class"], facts["name"]) == ("pyspark.sql.session", "built")
    assert all(facts["kept"].values())
    assert facts["new"] == ["spark.app.name"]
    done = lineage(tmp_path, "--store", "sqlite:///built.db", "verify")
    assert done.returncode == 0, done.stdout
    assert facts["type"] == "a SparkSession or a SparkContext is wanted, not object"
    assert facts["stopped"].endswith("the SparkContext has been stopped")
    assert facts["connect"][0] == "attach"
    assert "Spark Connect" in facts["connect"][1]


PLAIN = """
import json
from pyspark import SparkConf, SparkContext
sc = SparkContext("local[1]", "plain", conf=SparkConf().set("spark.ui.enabled", "false"))
sc.textFile("in.txt").map(str.upper).coalesce(1).saveAsTextFile("out")
sc.stop()
print(json.dumps({}))
"""


@pytest.mark.long
@pytest.mark.parametrize("conf", ["", "--conf spark.lineage.enabled=true"])
def test_a_site_preloads_and_programs_ask_by_their_configuration(tmp_path: Path, conf: str) -> None:
    (tmp_path / "in.txt").write_text("a\nb\n", encoding="utf-8")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import lineage_emitter.preload\n", "utf-8")
    run(
        tmp_path,
        PLAIN,
        {
            "PYTHONPATH": os.pathsep.join((str(tmp_path / "site"), *sys.path)),
            "PYSPARK_SUBMIT_ARGS": f"{conf} pyspark-shell",
        },
    )
    assert (tmp_path / "out" / "part-00000").read_text(encoding="utf-8") == "A\nB\n"
    assert (tmp_path / ".lineage").exists() == bool(conf)
    if conf:
        (app,) = [one["app"] for one in applications(tmp_path)]
        assert judged(tmp_path, app).reasons == ()
        assert dict(traced(tmp_path, tmp_path / "out", app)) == {
            ("A", ("in.txt:1",)): 1,
            ("B", ("in.txt:2",)): 1,
        }
