"""``lineage bundle``: workers whose Python has nothing of ours installed."""

import json
import os
import subprocess
import sys
import tarfile
from importlib.metadata import distribution
from pathlib import Path

import numpy
import pyarrow
import pyspark
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lineage.bundling import UNPACKED
from lineage.worker_archive import LARGE, OPTIONAL, PACKAGES, REQUIRED
from tests.support.job_runs import judged, lineage, run_program, traced, write_job

pytestmark = pytest.mark.e2e

JOB = """
import json, os, sys
from pyspark import SparkConf, SparkContext
import lineage

conf = SparkConf().setMaster("local-cluster[1,1,1024]").setAppName("bundled")
conf.set("spark.ui.enabled", "false").set("spark.driver.host", "127.0.0.1")
conf.set("spark.archives", os.environ["ARCHIVE"])
conf.set(*os.environ["CONF"].split("=", 1))
sc = SparkContext(conf=conf)
context = lineage.attach(sc)
pairs = sc.textFile("in.txt").map(lambda line: (line[0], int(line[1:])))
pairs.reduceByKey(lambda a, b: a + b).map(str).coalesce(1).saveAsTextFile("out")
lineage.detach()

def where(_):
    import lineage_emitter
    yield sys.prefix, os.path.relpath(lineage_emitter.__file__)

print(json.dumps({"app": context.app, "workers": sc.parallelize([0], 1).mapPartitions(where).collect()}))
sc.stop()
"""
EVERYTHING = """
import importlib, pkgutil
import lineage, lineage_emitter.daemon, lineage_emitter.dispatch, lineage_emitter.worker

for name in set(lineage.__all__) - {"trace", "verify"}:
    getattr(lineage, name)
for package in (lineage_emitter.dispatch, lineage_emitter.worker):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
"""


def clean_python(folder: Path, *packages: Path) -> Path:
    """An interpreter that has what comes with Python, and some packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for package in packages:
        (site / package.name).symlink_to(package)
    python = folder / "bin" / "python"
    without = subprocess.run(
        [python, "-c", "import lineage_core"], capture_output=True, check=False
    )
    assert b"No module named" in without.stderr
    return python


@pytest.fixture(scope="module")
def python_with_arrow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with NumPy and PyArrow, which PySpark's own API of pandas needs, and nothing else."""
    homes = [Path(module.__path__[0]) for module in (numpy, pyarrow)]
    libraries = [home.with_name(f"{home.name}.libs") for home in homes]
    return clean_python(
        tmp_path_factory.mktemp("clean"), *homes, *(one for one in libraries if one.exists())
    )


def bundle(folder: Path, *options: str) -> dict[str, str]:
    """What a bundle tells of itself: its archive, and the options of Spark by name."""
    done = lineage(folder, "bundle", "-o", "workers.tar.gz", "--json", *options)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["bytes"] == (folder / made["archive"]).stat().st_size
    return dict(zip(made["options"][::2], made["options"][1::2], strict=True))


def packed_otherwise(archive: Path, folder: Path) -> None:
    """As if the archive were of another build: the same but for a comment."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    with (folder / "lineage_emitter" / "worker" / "operators.py").open(
        "a", encoding="utf-8"
    ) as file:
        file.write("# Of another build.\n")
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        for path in sorted(folder.iterdir()):
            packed.add(path, path.name)


@pytest.mark.long
@pytest.mark.parametrize("build", ["same", "other"])
def test_workers_with_nothing_of_ours_capture_by_the_archive_alone(
    build: str, python_with_arrow: Path, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text("a1\nb2\na3\n", encoding="utf-8")
    options = bundle(tmp_path)
    if build == "other":
        packed_otherwise(tmp_path / "workers.tar.gz", tmp_path / "unpacked")
    settings = {
        "PYSPARK_PYTHON": str(python_with_arrow),
        "ARCHIVE": options["--archives"],
        "CONF": options["--conf"],
    }
    done = run_program(tmp_path, [sys.executable, str(write_job(tmp_path, JOB))], settings)
    assert done.returncode == 0, done.stderr[-3_000:]
    facts = json.loads(done.stdout.splitlines()[-1])
    ((prefix, home),) = facts["workers"]
    assert (Path(prefix), Path(home).parts[0]) == (python_with_arrow.parents[1], UNPACKED)
    rows = (tmp_path / "out" / "part-00000").read_text(encoding="utf-8").splitlines()
    assert sorted(rows) == ["('a', 4)", "('b', 2)"]
    verdict = judged(tmp_path, facts["app"])
    if build == "same":
        assert verdict.reasons == ()
        assert dict(traced(tmp_path, tmp_path / "out", facts["app"])) == {
            ("('a', 4)", ("in.txt:1", "in.txt:3")): 1,
            ("('b', 2)", ("in.txt:2",)): 1,
        }
    else:
        assert not verdict.complete
        assert "another build of lineage" in "\n".join(verdict.reasons)


def import_everything(python: Path, folder: Path) -> None:
    """Load all that tasks and modules of jobs load, from an archive in a folder."""
    with tarfile.open(folder / "workers.tar.gz") as packed:
        packed.extractall(folder / UNPACKED, filter="data")
    sparks = sorted((Path(pyspark.__path__[0]) / "python" / "lib").glob("*.zip"))
    path = os.pathsep.join(map(str, (folder / UNPACKED, *sparks)))
    done = run_program(folder, [str(python), "-c", EVERYTHING], {"PYTHONPATH": path})
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_all_that_tasks_load_is_in_the_archive(python_with_arrow: Path, tmp_path: Path) -> None:
    bundle(tmp_path)
    import_everything(python_with_arrow, tmp_path)


@pytest.mark.long
def test_a_full_archive_needs_nothing_at_all(tmp_path: Path) -> None:
    bundle(tmp_path, "--full")
    python = clean_python(tmp_path / "clean")
    import_everything(python, tmp_path)
    own = run_program(
        tmp_path, [str(python), "-c", "import confluent_kafka"], {"PYTHONPATH": UNPACKED}
    )
    assert own.returncode == 0, own.stderr


def test_the_archive_is_the_same_for_the_same_packages(tmp_path: Path) -> None:
    bundle(tmp_path)
    first = (tmp_path / "workers.tar.gz").read_bytes()
    bundle(tmp_path)
    assert (tmp_path / "workers.tar.gz").read_bytes() == first
    with tarfile.open(tmp_path / "workers.tar.gz") as packed:
        members = packed.getmembers()
    assert {(member.uname, member.uid, member.isreg()) for member in members} == {("", 0, True)}
    assert not [
        one.name for one in members if {"..", "__pycache__", "bin"} & set(Path(one.name).parts)
    ]
    tops = {Path(member.name).parts[0] for member in members}
    assert tops >= {*PACKAGES, "xxhash", "pydantic_core"}
    assert not tops & {"pyarrow", "numpy", "lineage_query_api", "confluent_kafka"}
    wrong = lineage(tmp_path, "bundle", "-o", "workers.zip")
    assert wrong.returncode == 2
    assert "must end in .tar.gz" in wrong.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["workers.tar.gz"]


def test_what_packed_distributions_require_is_packed() -> None:
    packed = {*REQUIRED, *LARGE}
    for name in (*packed, *OPTIONAL):
        for text in distribution(name).requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                assert canonicalize_name(requirement.name) in packed, f"{name} requires {text}"
