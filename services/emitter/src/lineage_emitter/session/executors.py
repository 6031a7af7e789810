"""Whether executors can capture: checked once, where they are not the driver's own environment."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
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

    ``capture``: they can't load what captured functions need. ``code``: they have other code of them than the
    driver. ``kafka``: they can't load what sends to Kafka. ``folder``: they don't share the spool folder with the driver.
    """

    capture: str = ""
    code: str = ""
    kafka: str = ""
    folder: str = ""


TASK_MODULES = (
    "lineage_core.codec.csv_codec",
    "lineage_core.codec.record_batch",
    "lineage_emitter.dispatch.opening",
    "lineage_emitter.dispatch.spool",
    "lineage_emitter.worker.commits",
    "lineage_emitter.worker.operators",
    "pyarrow.compute",
)
"""What tasks load to capture and to leave blocks; Arrow only where they pack one."""
WORKER_PACKAGES = ("lineage_core", "lineage_emitter", "lineage_kafka", "lineage_store")
"""What tasks load of ours."""


def code_digest(packages: Iterable[str]) -> str:
    """A digest of the source code of packages, wherever they are installed, in an archive, too."""
    digest = hashlib.sha256()
    for package in packages:
        folders = [(package, files(package))]
        while folders:
            name, folder = folders.pop()
            for child in sorted(folder.iterdir(), key=lambda child: child.name):
                if child.name.endswith(".py"):
                    digest.update(f"{name}/{child.name}\0".encode())
                    digest.update(hashlib.sha256(child.read_bytes()).digest())
                elif child.name != "__pycache__" and child.is_dir():
                    folders.append((f"{name}/{child.name}", child))
    return digest.hexdigest()


def import_problem(modules: Iterable[str]) -> str:
    """Why one of some modules can't be imported; empty: all can."""
    try:
        for module in modules:
            import_module(module)
    except Exception as problem:
        # Nothing of this package is at hand here that says it in words.
        return f"{type(problem).__name__}: {problem}"
    return ""


class Probe:
    """A task that reports what it lacks, and leaves a file of its own where it sees the driver's.

    It travels by value: its executor may not have this package. ``code``: the digest of the driver's code.
    """

    def __init__(self, folder: str, token: str, code: str) -> None:
        self.folder = folder
        self.token = token
        self.code = code

    def __call__(self, split: int, records: Iterable[Any]) -> Iterator[tuple[str, str]]:
        list(records)
        missing = {
            requirement: problem
            for requirement, modules in (
                ("capture", TASK_MODULES),
                ("kafka", ("confluent_kafka",)),
            )
            if (problem := import_problem(modules))
        }
        if "capture" not in missing and code_digest(WORKER_PACKAGES) != self.code:
            # Functions travel by name: those of another build may count or name records otherwise.
            missing["code"] = "executors have another build of lineage than the driver"
        yield from missing.items()
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
                Probe(str(folder), token, code_digest(WORKER_PACKAGES))
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
