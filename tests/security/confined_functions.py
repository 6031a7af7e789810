"""Traces through Python functions in the Spark that is confined. Prints, as JSON, what each trace says.

    python -m tests.security.confined_functions FOLDER HIDDEN

FOLDER: below a root; HIDDEN: a file that is not. The functions' recipes are made in the same Spark; those whose values
depend on something withheld are asked for a row that the job would have had outside.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from benchmarks.frames_oracle import ParquetTables, recipe_of_frame
from lineage_core.recipe.document import Recipe
from lineage_dataframes.errors import FramesError
from lineage_dataframes.sandbox.names import SANDBOX
from lineage_dataframes.spark.own_spark import start_spark
from lineage_dataframes.trace.backward import trace_backward

FOLDER, HIDDEN = Path(sys.argv[1]), sys.argv[2]
OUTSIDE = "outside"
"""Each function's value where nothing is confined; it takes another one for what it does not find."""
IS_CONFINED = os.environ.get(SANDBOX) != "off"


def plain(number: int) -> str:
    """What functions may do as before."""
    warnings.warn("shows a line of this file", stacklevel=1)
    here = (FOLDER / "allowed").read_text()
    none = os.environ.get("LM_NOT_THERE", "") + os.environ["HOME"][:0]
    return (here if number >= 0 else none) and OUTSIDE


def leaves_behind(number: int) -> str:
    """Changes all that a later function of another application may use."""
    import builtins

    import pandas as pd

    patched: Any = (json, builtins, pd)
    for module, name in zip(patched, ("dumps", "ascii", "isna"), strict=True):
        setattr(module, name, lambda _: "left")
    os.environ["LM_LEFT"] = "left"
    if IS_CONFINED:
        Path(tempfile.gettempdir(), "lm-left").write_text("left")
    return OUTSIDE


def finds_what_was_left(number: int) -> str:
    import pandas as pd

    found = [json.dumps(0), ascii(0), str(pd.isna(0)), os.environ.get("LM_LEFT", "")]
    left = IS_CONFINED and Path(tempfile.gettempdir(), "lm-left").exists()
    return OUTSIDE if [*found, left] == ["0", "0", "False", "", False] else "else"


def by_variable(number: int) -> str:
    return os.environ.get("LM_RATE", "else")


def by_any_error(number: int) -> str:
    try:
        return os.environ["LM_RATE"]
    except Exception:
        return "else"


def by_file(number: int) -> str:
    try:
        return Path(HIDDEN).read_text()
    except OSError:
        return "else"


def by_folder(number: int) -> str:
    try:
        return OUTSIDE if os.listdir(os.path.dirname(HIDDEN)) else ""
    except OSError:
        return "else"


def by_network(number: int) -> str:
    try:
        with socket.create_connection(("127.0.0.1", 9), timeout=5):
            return OUTSIDE
    except OSError:
        return OUTSIDE


def by_listening(number: int) -> str:
    try:
        with socket.create_server(("127.0.0.1", 0)):
            return OUTSIDE
    except OSError:
        return OUTSIDE


def by_program(number: int) -> str:
    try:
        subprocess.run(["/bin/true"], check=True)
    except OSError:
        return OUTSIDE
    return OUTSIDE


def by_all_variables(number: int) -> str:
    return dict(os.environ.items()).get("LM_RATE", "else")


def by_bytes(number: int) -> str:
    return os.environb.get(b"LM_RATE", b"else").decode()


FUNCTIONS: tuple[Callable[[int], str], ...] = (
    plain, leaves_behind, finds_what_was_left, by_variable, by_any_error, by_file, by_folder, by_network, by_listening, by_program, by_all_variables, by_bytes,
)  # fmt: skip


def main() -> None:
    """Trace, and tell."""
    rows = pa.table({"id": pa.array(range(5), pa.int64())})
    tables = ParquetTables.written(FOLDER / "tables", {"orders": rows}, files=1)
    spark = start_spark("local[1]", FOLDER)
    spark.sparkContext.setLogLevel("OFF")
    tables.views(spark)
    told: dict[str, object] = {}
    for one in FUNCTIONS:
        valued = spark.table("orders").withColumn("v", F.udf(one, "string")("id"))
        recipe: Recipe = recipe_of_frame(valued.groupBy("v").agg(F.count("*").alias("n")))
        assert recipe.functions
        try:
            told[one.__name__] = trace_backward(spark, recipe, [(OUTSIDE, 5)]).count
        except FramesError as problem:
            told[one.__name__] = f"{type(problem).__name__}: {problem}"
    spark.stop()
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
