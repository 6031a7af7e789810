"""Whether executors see the spool: checked once, where they may be on other machines."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from lineage_emitter import scope
from lineage_emitter.errors import CaptureFailedError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import SparkContext


class Probe:
    """A task that looks for the driver's file and leaves one of its own."""

    def __init__(self, folder: str, token: str) -> None:
        self.folder = folder
        self.token = token

    def __call__(self, split: int, records: Iterable[Any]) -> Iterator[str]:
        list(records)
        if not os.path.exists(os.path.join(self.folder, self.token)):
            yield "an executor does not see the folder of the driver"
            return
        try:
            with open(os.path.join(self.folder, f"{self.token}-{split}"), "w"):
                pass
        except OSError as problem:
            yield f"an executor can't write: {problem}"


def check_shared(sc: SparkContext, folder: Path) -> None:
    """Check that executors read and write the spool folder of the driver.

    Raises:
        CaptureFailedError: they do not; says what to do.
    """
    master = sc.master or "local"
    if master == "local" or master.startswith("local["):
        return
    token = f"probe-{uuid.uuid4().hex}"
    (folder / token).touch()
    try:
        tasks = max(2, sc.defaultParallelism)
        with scope.suspended():
            problems = (
                sc.parallelize(range(tasks), tasks)
                .mapPartitionsWithIndex(Probe(str(folder), token))
                .collect()
            )
        if not problems and len(list(folder.glob(f"{token}-*"))) < tasks:
            problems = ["files of executors did not arrive"]
        if problems:
            raise CaptureFailedError(
                f"spool {folder}: {problems[0]}; set spark.lineage.spool (LINEAGE_SPOOL) to a "
                "folder that the driver and all executors share"
            )
    finally:
        for file in folder.glob(f"{token}*"):
            file.unlink(missing_ok=True)
