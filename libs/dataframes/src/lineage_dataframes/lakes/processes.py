"""The Python that Spark's processes run in a trace through a lake."""

from __future__ import annotations

import os
import re
import sys

from pyspark.sql import SparkSession

from lineage_dataframes.errors import FramesError
from lineage_dataframes.spark.pyspark_parts import spark_reason


def use_own_python(spark: SparkSession) -> None:
    """Have processes that Spark starts on this machine run this Python, which has all packages; a cluster's are its user's."""
    context = spark.sparkContext
    is_chosen = "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python")
    if (context.master or "local").startswith("local") and not is_chosen:
        context.pythonExec = sys.executable


def not_traced(app: str, error: Exception) -> FramesError:
    """What to say of one of `SPARK_ERRORS`."""
    lacks = re.search(r"No module named '(lineage_\w+|numpy|pyarrow)", str(error))
    if lacks is not None:
        return FramesError(
            f"Spark's Python processes have no {lacks[1]}: install this package where they run, with the extra lake, and name "
            "their Python by PYSPARK_PYTHON"
        )
    return FramesError(f"Spark can't trace {app}: {spark_reason(error)}")
