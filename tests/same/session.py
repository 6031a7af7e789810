"""The Spark that calls and documented examples run in, plainly and captured, and the file that their outcomes go to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def quiet_session(name: str, work: Path, settings: Mapping[str, str]) -> SparkSession:
    """A quiet session of an application, which keeps tables and checkpoints below ``work``."""
    builder: Any = SparkSession.builder
    of_work = {"spark.sql.warehouse.dir": str(work / "warehouse")}
    for key, value in {**_SETTINGS, **of_work, **settings}.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.master("local[2]").appName(name).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.sparkContext.setCheckpointDir(str(work / "checkpoints"))
    return spark


def write_outcomes(file: Path, outcomes: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Write each outcome with its name as it comes: a line of JSON."""
    with file.open("w") as out:
        for name, outcome in outcomes:
            out.write(json.dumps([name, outcome]) + "\n")
            out.flush()
