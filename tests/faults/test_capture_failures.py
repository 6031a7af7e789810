"""The spool or the store fails: the job computes what it would, and the verdict says what is missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from lineage_emitter import LineageContext
from lineage_emitter.dispatch.driver_spool import DriverSpool
from lineage_emitter.errors import CaptureFailedError
from tests.support.job_runs import (
    STORE,
    contents,
    judged,
    lineage,
    run_captured,
    run_plain,
    traced,
    verify,
    write_job,
)

pytestmark = pytest.mark.faults

Capture = Callable[..., LineageContext]


@pytest.fixture
def capture(spark_context: SparkContext, tmp_path: Path) -> Capture:
    """Begins a capture on the one SparkContext; end it by ``with``."""

    def begin(**settings: Any) -> LineageContext:
        return LineageContext(
            spark_context, **{"store": f"sqlite:///{tmp_path / STORE}"} | settings
        )

    return begin


@pytest.fixture
def lines(tmp_path: Path) -> str:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{n % 7} {n}\n" for n in range(3_000)))
    return str(path)


def save_counts(ctx: Any, lines: str, out: Path) -> None:
    (
        ctx.textFile(lines, 3)
        .map(lambda line: (line.split(" ")[0], 1))
        .reduceByKey(lambda a, b: a + b, 2)
        .sortByKey(numPartitions=1)
        .saveAsTextFile(str(out))
    )


@pytest.fixture
def plain(spark_context: SparkContext, lines: str, tmp_path: Path) -> dict[str, bytes]:
    """What the job writes without capture."""
    save_counts(spark_context, lines, tmp_path / "plain")
    return contents(tmp_path / "plain")


def test_a_spool_that_can_not_be_made(
    capture: Capture, tmp_path: Path, lines: str, plain: dict[str, bytes]
) -> None:
    (tmp_path / "file").touch()
    with capture(spool=str(tmp_path / "file" / "spool")) as lc:
        save_counts(lc, lines, tmp_path / "out")
        app = lc.app
    assert contents(tmp_path / "out") == plain
    verdict = judged(tmp_path, app)
    assert not verdict.complete
    assert any("capture: it can't begin: " in reason for reason in verdict.reasons)
    assert any("Not a directory" in reason for reason in verdict.reasons)
    with capture() as lc:
        save_counts(lc, lines, tmp_path / "next")
        assert lc.app != app
    assert judged(tmp_path, lc.app).complete


def test_a_spool_that_can_not_be_made_fails_who_asked_for_it(
    capture: Capture, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CaptureFailedError, match=r"can't begin.*Not a directory"):
        capture(spool=str(tmp_path / "file" / "spool"), on_error="fail")


@pytest.mark.parametrize("what", ["spool", "application", "blocks"])
def test_a_spool_that_vanishes(
    what: str, capture: Capture, tmp_path: Path, lines: str, plain: dict[str, bytes]
) -> None:
    with capture() as lc:
        save_counts(lc, lines, tmp_path / "first")
        assert lc.session is not None
        folder = lc.session.api.dispatcher.folder
        gone = {"spool": folder.parent, "application": folder, "blocks": folder / "blocks"}
        shutil.rmtree(gone[what])
        save_counts(lc, lines, tmp_path / "second")
        assert lc.textFile(lines).count() == 3_000
        app = lc.app
    assert contents(tmp_path / "first") == contents(tmp_path / "second") == plain
    verdict = judged(tmp_path, app)
    assert not verdict.complete
    wanted = "No such file or directory" if what == "blocks" else "was removed while"
    assert any(wanted in reason for reason in verdict.reasons), verdict.reasons
    assert verdict.status == "ok"


def test_a_spool_that_vanishes_fails_who_asked_for_it(
    capture: Capture, tmp_path: Path, lines: str
) -> None:
    lc = capture(on_error="fail")
    assert lc.session is not None
    shutil.rmtree(lc.session.api.dispatcher.folder)
    with pytest.raises(Exception, match=r"CaptureFailedError.*No such file or directory"):
        save_counts(lc, lines, tmp_path / "out")
    assert not (tmp_path / "out" / "_SUCCESS").exists()
    with pytest.raises(CaptureFailedError, match="was removed while"):
        lc.close()
    assert not judged(tmp_path, lc.app).complete


def test_a_disk_that_is_full_for_the_driver(
    capture: Capture,
    tmp_path: Path,
    lines: str,
    plain: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sync(spool: DriverSpool) -> None:
        raise OSError(28, "No space left on device")

    with capture() as lc:
        with monkeypatch.context() as full:
            full.setattr(DriverSpool, "sync", sync)
            save_counts(lc, lines, tmp_path / "out")
        app = lc.app
    assert contents(tmp_path / "out") == plain
    verdict = judged(tmp_path, app)
    assert any("No space left on device" in reason for reason in verdict.reasons)


def test_a_store_that_can_not_be_written_loses_nothing(
    capture: Capture, tmp_path: Path, lines: str, plain: dict[str, bytes]
) -> None:
    (tmp_path / "file").touch()
    spool = tmp_path / "spool"
    with capture(store=f"sqlite:///{tmp_path}/file/lineage.db", spool=str(spool)) as lc:
        save_counts(lc, lines, tmp_path / "out")
        app = lc.app
    assert contents(tmp_path / "out") == plain
    linked = lineage(
        tmp_path, "link", "--spool", str(spool), "--store", f"sqlite:///{tmp_path / STORE}"
    )
    assert linked.returncode == 0, linked.stderr
    assert judged(tmp_path, app).reasons == ()
    rows = traced(tmp_path, tmp_path / "out", app)
    assert {text: len(where) for text, where in rows} == {
        f"('{n}', {429 if n < 4 else 428})": 429 if n < 4 else 428 for n in range(7)
    }
    assert not any(spool.iterdir())


def test_a_store_that_can_not_be_written_fails_who_asked_for_it(
    capture: Capture, tmp_path: Path, lines: str
) -> None:
    (tmp_path / "file").touch()
    lc = capture(
        store=f"sqlite:///{tmp_path}/file/lineage.db",
        spool=str(tmp_path / "spool"),
        on_error="fail",
    )
    lc.textFile(lines).count()
    with pytest.raises(CaptureFailedError, match="could not link the lineage"):
        lc.close()


# -- whole programs --------------------------------------------------------------------------------

FULL = """
import resource, sys
from pyspark import SparkContext

out, *limit = sys.argv[1:]


def kept(line):
    # From the first record on, this worker can write files of no more than so many bytes.
    if limit:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit[0]), hard))
    return hash(line) % 3 == 0


sc = SparkContext("local[2]")
sc.textFile("in.txt", 2).filter(kept).saveAsTextFile(out)
print(sc.textFile("in.txt", 2).map(len).reduce(max))
print(sc.textFile("in.txt", 2).map(len).count())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("full")
    write_job(folder, FULL)
    (folder / "in.txt").write_text("".join(f"{n} {n * n}\n" for n in range(300_000)))
    result = run_plain(folder, "job.py", "plain", env=QUIET)
    assert (result.returncode, result.stdout) == (0, "18\n300000\n"), result.stderr
    return folder


QUIET = {"PYTHONHASHSEED": "0"}


@pytest.mark.long
def test_a_disk_that_is_full_for_the_workers(folder: Path) -> None:
    result = run_captured(folder, "job.py", "full", "5000", env=QUIET)
    assert (result.returncode, result.stdout) == (0, "18\n300000\n"), result.stderr
    assert contents(folder / "full") == contents(folder / "plain")
    verdict = verify(folder)
    assert verdict["status"] == "ok"
    assert any("File too large" in reason for reason in verdict["reasons"])
    assert any("could not be delivered" in reason for reason in verdict["reasons"])


def test_a_disk_that_is_full_fails_who_asked_for_it(folder: Path) -> None:
    result = run_captured(
        folder, "job.py", "failed", "5000", env=QUIET | {"LINEAGE_ON_ERROR": "fail"}
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert "lineage could not be captured" in result.stderr
    assert "File too large" in result.stderr
    assert not (folder / "failed" / "_SUCCESS").exists()
    assert not verify(folder)["complete"]


def test_a_program_goes_on_when_capture_can_not_begin(folder: Path) -> None:
    (folder / "file").touch()
    lost = QUIET | {"LINEAGE_SPOOL": str(folder / "file" / "spool")}
    result = run_captured(folder, "job.py", "uncaptured", env=lost)
    assert (result.returncode, result.stdout) == (0, "18\n300000\n"), result.stderr
    assert contents(folder / "uncaptured") == contents(folder / "plain")
    verdict = verify(folder)
    assert any("Not a directory" in reason for reason in verdict["reasons"])


@pytest.mark.long
def test_a_program_goes_on_when_capture_is_set_wrongly(folder: Path) -> None:
    wrong = QUIET | {"LINEAGE_MEMORY_MB": "much"}
    result = run_captured(folder, "job.py", "wrong", env=wrong)
    assert (result.returncode, result.stdout) == (0, "18\n300000\n"), result.stderr
    assert contents(folder / "wrong") == contents(folder / "plain")
    assert result.stderr.count("lineage: not captured: setting memory_mb") == 1
