"""Whether executors can capture: checked once, where they are not the driver's own environment."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from lineage_core.environment.private_files import ensure_private_folder
from lineage_emitter import scope
from lineage_emitter.failures import error_type

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import SparkContext


@dataclass(frozen=True, slots=True)
class ExecutorFacts:
    """What is wrong with executors; empty: nothing.

    ``capture``: they can't load what captured functions need. ``kafka``: nor what sends to Kafka.
    ``folder``: they don't share the spool folder with the driver.
    """

    capture: str = ""
    kafka: str = ""
    folder: str = ""


class Probe:
    """A task that reports what it lacks, and leaves a file of its own where it sees the driver's.

    It travels by value: its executor may not have this package.
    """

    def __init__(self, folder: str, token: str) -> None:
        self.folder = folder
        self.token = token

    def __call__(self, split: int, records: Iterable[Any]) -> Iterator[tuple[str, str]]:
        list(records)
        for requirement, modules in (
            (
                "capture",
                ("lineage_emitter.worker.operators", "lineage_emitter.dispatch.block_packer"),
            ),
            ("kafka", ("confluent_kafka",)),
        ):
            try:
                for module in modules:
                    __import__(module)
            except Exception as problem:
                # Nothing of this package is at hand here that says it in words.
                yield requirement, f"{type(problem).__name__}: {problem}"
        if not os.path.exists(os.path.join(self.folder, self.token)):
            yield "folder", "an executor does not see the folder of the driver"
            return
        try:
            with open(os.path.join(self.folder, f"{self.token}-{split}"), "w"):
                pass
        except OSError as problem:
            yield "folder", f"an executor can't write: {problem}"


def are_like_driver(sc: SparkContext) -> bool:
    """Whether executors have the driver's own environment: there is nothing to check."""
    return are_local(sc.master or "local") and is_our_python(sc.pythonExec)


def check_executors(sc: SparkContext, folder: Path) -> ExecutorFacts:
    """Run a task on executors that looks around. It waits for executors.

    ``folder``: of the spool.

    Raises:
        OSError: the driver itself can't write to the folder.
    """
    token = f"probe-{uuid.uuid4().hex}"
    ensure_private_folder(folder)
    (folder / token).touch()
    try:
        tasks = max(2, sc.defaultParallelism)
        with scope.suspended(), _by_value():
            probes = sc.parallelize(range(tasks), tasks).mapPartitionsWithIndex(
                Probe(str(folder), token)
            )
            try:
                missing = dict(probes.collect())
            except Exception as problem:
                # Where not even this runs, captured functions would make the job fail.
                return ExecutorFacts(capture=f"a task that looked failed of {error_type(problem)}")
        if "folder" not in missing and len(list(folder.glob(f"{token}-*"))) < tasks:
            missing["folder"] = "files of executors did not arrive"
        return ExecutorFacts(**missing)
    finally:
        for file in folder.glob(f"{token}*"):
            file.unlink(missing_ok=True)


@contextlib.contextmanager
def _by_value() -> Iterator[None]:
    """Functions of this module travel with their code."""
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def are_local(master: str) -> bool:
    """Whether executors are the driver's own process."""
    return master == "local" or master.startswith("local[")


def is_our_python(program: str) -> bool:
    """Whether workers run the driver's interpreter, with what is installed for it."""
    path = shutil.which(program)
    return path is not None and os.path.abspath(path) == os.path.abspath(sys.executable)
