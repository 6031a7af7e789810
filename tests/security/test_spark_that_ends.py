"""Queries of forged recipes that end a server's Spark, or don't end themselves: later questions are answered by another one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.job_runs import run_plain

pytestmark = pytest.mark.security
PROGRAM = """
import json, sys
from lineage_query_api import spark_session_holder
from lineage_query_api.errors import ProblemError
from lineage_query_api.spark_session_holder import SparkSessionHolder
from lineage_query_api.settings import read_settings

spark_session_holder.CANCEL_LIMIT_S = 0.5
TOO_LARGE = "SELECT max(length(repeat('x', CAST(2147483647 - id AS INT)))) AS a FROM range(1)"
LOOP = "aggregate(sequence(1, 1000000), 0L, (a, x) -> {})"
ENDLESS = f"SELECT {LOOP.format(LOOP.format('a + x + id').replace('0L, (a,', 'a, (a,'))} AS a FROM range(1)"
spark = SparkSessionHolder(read_settings(spark_master="local[1]", api_query_s=20))

def asked(text, tries=1):
    try:
        return spark.run(lambda session: session.sql(text).collect()[0].a)
    except ProblemError as problem:
        # Whoever asks while it ends is told to try again.
        again = tries > 1 and problem.status == 503
        return asked(text, tries - 1) if again else problem.status
    except Exception as problem:
        return type(problem).__name__

told = {"before": asked("SELECT 1 AS a"), "too large": asked(TOO_LARGE)}
told["after it"] = asked("SELECT 2 AS a", 3)
spark._limit_s = 4
told["endless"] = asked(ENDLESS)
spark._limit_s = 40
told["after that"] = asked("SELECT 3 AS a", 3)
spark.close()
print(json.dumps(told))
"""


@pytest.mark.long
def test_a_spark_that_a_query_ended_or_that_a_query_keeps_makes_room_for_another(
    tmp_path: Path,
) -> None:
    (tmp_path / "job.py").write_text(PROGRAM)
    done = run_plain(tmp_path, "job.py", env={"SPARK_DRIVER_MEMORY": "512m"})
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told.pop("too large") in {503, "PythonException", "SparkException", "Py4JJavaError"}
    assert told == {"before": 1, "after it": 2, "endless": 504, "after that": 3}
