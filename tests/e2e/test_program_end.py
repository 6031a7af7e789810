"""The end of a program closes its lineage, whatever way it takes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from lineage_core.contract.message import End
from lineage_emitter import LineageContext
from lineage_emitter.session import program_end
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import open_store
from tests.e2e.conftest import Capture
from tests.support.job_runs import (
    STORE,
    applications,
    environment,
    judged,
    run_captured,
    run_plain,
    traced_items,
    write_job,
)

pytestmark = pytest.mark.e2e

LATE = """
import atexit, os, sys, threading
from operator import add
from pyspark import SparkContext

sc = context = SparkContext("local[2]", "job")
if sys.argv[1:] == ["explicit"]:
    from lineage_emitter import LineageContext
    context = LineageContext(sc)
rows = context.parallelize(range(10), 2).map(lambda n: (n % 2, n)).reduceByKey(add)
main_ends = threading.Event()

def work():
    main_ends.wait()
    print("thread", sorted(rows.collect()))

def forever():
    threading.Event().wait()

def leave():
    print("exit", rows.take(1))

if os.fork() == 0:
    sys.exit(0)
os.wait()
atexit.register(leave)
threading.Thread(target=forever, daemon=True).start()
threading.Thread(target=work).start()
print("main", rows.count())
main_ends.set()
"""


@pytest.mark.long
@pytest.mark.parametrize("way", [pytest.param("explicit", marks=pytest.mark.long), "zero code"])
def test_actions_of_threads_and_at_exit_are_captured(tmp_path: Path, way: str) -> None:
    write_job(tmp_path, LATE)
    plain = run_plain(tmp_path, "job.py")
    if way == "explicit":
        captured = run_plain(tmp_path, "job.py", "explicit")
    else:
        captured = run_captured(tmp_path, "job.py")
    assert (captured.returncode, captured.stdout) == (0, plain.stdout)
    assert "Traceback" not in captured.stderr, captured.stderr
    [app] = applications(tmp_path)
    verdict = judged(tmp_path, app["app"])
    assert (verdict.reasons, verdict.status, verdict.final) == ((), "ok", True)
    even = [f"parallelize#{place}" for place in ("0#0", "0#2", "0#4", "1#1", "1#3")]
    assert traced_items(tmp_path, app["app"], "take#0#0") == even
    assert traced_items(tmp_path, app["app"], "collect#0#0") == even


FAILING = """
import sys
from pyspark import SparkContext
from lineage_emitter import LineageContext

lc = LineageContext(SparkContext("local[2]", "job"))
print(lc.parallelize([1, 2], 2).collect(), flush=True)
if sys.argv[1] == "raise":
    raise ValueError("by the user")
sys.stdin.read()
"""


@pytest.mark.long
def test_a_program_that_raises_has_failed(tmp_path: Path) -> None:
    write_job(tmp_path, FAILING)
    ended = run_plain(tmp_path, "job.py", "raise")
    assert (ended.returncode, ended.stdout) == (1, "[1, 2]\n")
    assert ended.stderr.rstrip().endswith("ValueError: by the user")
    assert ended.stderr.count("Traceback") == 1
    [app] = applications(tmp_path)
    verdict = judged(tmp_path, app["app"])
    assert (verdict.reasons, verdict.status) == ((), "failed")


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM]
)
def test_signals_end_it_as_they_end_plain_python(tmp_path: Path, number: signal.Signals) -> None:
    write_job(tmp_path, FAILING)
    command = [sys.executable, "job.py", "wait"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment({"PYSPARK_PYTHON": sys.executable}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == b"[1, 2]\n"
        job.send_signal(number)
        _, errors = job.communicate()
    assert job.returncode == -number, errors
    with SqliteStore(tmp_path / STORE) as store:
        # Nothing is asked before SIGTERM ends a program: the spool has what was said by then.
        ingest_all(store, tmp_path / ".lineage" / "spool")
        [app] = store.applications()
    assert app.status == {signal.SIGINT: "failed", signal.SIGTERM: "running"}[number]


def end_of(tmp_path: Path, lc: LineageContext) -> str:
    """The status that the end of a capture says."""
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        [end] = [one for one in store.messages(lc.app) if isinstance(one, End)]
    return end.status


def fail(_: int) -> int:
    raise ValueError("by the user")


def test_a_caught_action_that_failed_is_named_and_is_not_the_program(
    capture: Capture, tmp_path: Path
) -> None:
    with capture() as lc, pytest.raises(Py4JJavaError):
        lc.parallelize([1], 1).map(fail).collect()
    assert end_of(tmp_path, lc) == "ok"
    [unknown] = judged(tmp_path, lc.app).unknown
    assert "the action failed: ValueError" in unknown


def test_a_capture_that_an_exception_leaves_has_failed(capture: Capture, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="by the user"), capture() as lc:
        fail(0)
    assert end_of(tmp_path, lc) == "failed"


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (None, "ok"),
        (SystemExit(), "ok"),
        (SystemExit(0), "ok"),
        (GeneratorExit(), "ok"),
        (SystemExit(3), "failed"),
        (SystemExit("words"), "failed"),
        (KeyboardInterrupt(), "failed"),
    ],
)
def test_what_an_exception_says_of_the_program(problem: BaseException | None, status: str) -> None:
    assert program_end.status_of(problem) == status
