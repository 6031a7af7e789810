"""Looking at executors before the first job: whatever they can't do ends capture, not the job."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext, cloudpickle

from lineage_core.contract.verdict import judge
from lineage_emitter.context import LineageContext
from lineage_emitter.open_sessions import allow_retry
from lineage_emitter.session import executor_check, executors
from lineage_store.url import open_store

pytestmark = pytest.mark.integration


def test_executors_on_which_no_task_that_looks_runs_are_unfit(
    spark_context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(executors.Probe):
        def __call__(self, split: int, records: Iterable[Any]) -> Iterator[tuple[str, str]]:
            raise RuntimeError("nothing runs here")

    monkeypatch.setattr(executors, "Probe", Broken)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    found = executors.check_executors(spark_context, tmp_path / "spool")
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert found.capture.startswith("a task that looked failed of RuntimeError")


def test_executors_like_the_drivers_are_fit(spark_context: SparkContext, tmp_path: Path) -> None:
    found = executors.check_executors(spark_context, tmp_path / "spool")
    assert found == executors.ExecutorFacts()


def test_executors_of_another_build_end_capture_before_the_first_job(
    spark_context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_check, "are_like_driver", lambda sc: False)
    monkeypatch.setattr(
        executor_check,
        "check_executors",
        lambda sc, folder: executors.ExecutorFacts(code="another build"),
    )
    lines = tmp_path / "in.txt"
    lines.write_text("a\n", encoding="utf-8")
    lc = LineageContext(spark_context, store=f"sqlite:///{tmp_path / 'lineage.db'}")
    assert lc.textFile(str(lines)).map(str.upper).collect() == ["A"]
    with open_store(f"sqlite:///{tmp_path / 'lineage.db'}") as store:
        verdict = judge(store.messages(lc.app), store.counts(lc.app), now=0.0)
    lc.close()
    # Capture that was given up stays so for this context, which other tests use as well.
    allow_retry(spark_context)
    assert any("another build" in reason for reason in verdict.reasons)


@pytest.mark.parametrize("module", ["numpy", "pyarrow.compute", "xxhash"])
def test_a_package_that_tasks_need_and_executors_lack_is_named(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for loaded in [
        name for name in sys.modules if name.startswith(("lineage_core", "lineage_emitter.worker"))
    ]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    probe = executors.Probe(
        str(tmp_path), "token", executors.code_digest(executors.WORKER_PACKAGES)
    )
    assert module in dict(probe(0, []))["capture"]


def test_executors_of_another_build_are_named(tmp_path: Path) -> None:
    """A worker loads functions by name: an archive or image of before would run what they were then."""
    (tmp_path / "token").touch()
    code = executors.code_digest(executors.WORKER_PACKAGES)
    assert dict(executors.Probe(str(tmp_path), "token", code)(0, [])) == {}
    found = dict(executors.Probe(str(tmp_path), "token", "other")(0, []))
    assert found == {"code": "executors have another build of lineage than the driver"}


def test_the_digest_is_of_the_code_wherever_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digest_of(place: Path) -> str:
        monkeypatch.syspath_prepend(str(place))
        for name in [name for name in sys.modules if name.partition(".")[0] == "some_code"]:
            monkeypatch.delitem(sys.modules, name)
        return executors.code_digest(["some_code"])

    texts = {
        "__init__.py": "",
        "one.py": "A = 1\n",
        "inner/__init__.py": "",
        "inner/two.py": "B = 1\n",
    }
    for name, text in texts.items():
        for place in ("first", "second", "third"):
            path = tmp_path / place / "some_code" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    cached = tmp_path / "second" / "some_code" / "__pycache__"
    cached.mkdir()
    (cached / "three.py").touch()
    (tmp_path / "third" / "some_code" / "inner" / "two.py").write_text("B = 2\n", encoding="utf-8")
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as packed:
        for name, text in texts.items():
            packed.writestr(f"some_code/{name}", text)
    first = digest_of(tmp_path / "first")
    assert digest_of(tmp_path / "second") == first
    assert digest_of(tmp_path / "packed.zip") == first
    assert digest_of(tmp_path / "third") != first
