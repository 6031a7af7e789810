"""Tasks that hand rows to a DataFrame and fail: what their attempts have kept counts for nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage.access import open_access
from lineage_core.tracing.trace_result import Direction
from lineage_query.trace_query import TraceQuery
from tests.support.job_runs import STORE, applications, lineage, run_captured, verify, write_job

pytestmark = pytest.mark.faults

JOB = """
import sys
from pyspark import SparkContext, TaskContext
from pyspark.sql import SparkSession, functions as F

sc = SparkContext(master="local[2,4]", appName="failing")
spark = SparkSession.builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()


def failing(attempt, where):
    # Attempts at partition 0 fail at some row of it.
    def function(row):
        context = TaskContext.get()
        if context.partitionId() == 0 and context.attemptNumber() == attempt and row == where:
            raise RuntimeError("as it is meant to")
        return row
    return function


rows = sc.textFile("in.txt", 2).map(failing(0, "k2 20")).map(lambda line: line.split(" "))
frame = rows.map(lambda pair: (pair[0], int(pair[1]))).toDF(["key", "n"])
# Here the row has left the RDD: the task's rows are whole when the second attempt fails.
late = F.udf(failing(1, 40), "long")
frame.select("key", late("n").alias("n")).groupBy("key").agg(F.sum("n")).coalesce(1).write.parquet("out")
"""


@pytest.mark.long
def test_what_failing_attempts_have_kept_is_not_traced(
    tmp_path: Path, spark_context: SparkContext
) -> None:
    write_job(tmp_path, JOB)
    (tmp_path / "in.txt").write_text("".join(f"k{n % 3} {n}\n" for n in range(90)))
    result = run_captured(tmp_path, "job.py", env={"PYTHONWARNINGS": "ignore"})
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stderr.count("as it is meant to") >= 2
    assert verify(tmp_path)["reasons"] == []
    (app,) = (one["app"] for one in applications(tmp_path))
    (folder,) = (tmp_path / ".lineage/rows" / app).iterdir()
    assert sum(pq.read_metadata(file).num_rows for file in folder.iterdir()) == 90
    SparkSession(spark_context)
    (file,) = (tmp_path / "out").glob("*.parquet")
    keys = pq.read_table(file)["key"].to_pylist()
    with open_access(f"sqlite:///{tmp_path / STORE}") as access:
        for at, key in enumerate(keys):
            answer = access.ask(TraceQuery(Direction.BACKWARD, (f"{file}#{at}",)))
            places = [item.location or "" for group in answer.groups for item in group.items]
            found = {
                int(one[1]) for place in places if (one := re.search(r"in\.txt:(\d+)$", place))
            }
            assert found == {n + 1 for n in range(90) if f"k{n % 3}" == key}
        answer = access.ask(TraceQuery(Direction.FORWARD, (f"{tmp_path}/in.txt:41",)))
        (item,) = answer.groups[-1].items
        total = sum(n for n in range(90) if n % 3 == 1)
        assert json.loads(item.text or "") == {"key": "k1", "sum(n)": total}
    assert lineage(tmp_path, "rm", app).returncode == 0
    assert not (tmp_path / ".lineage/rows" / app).exists()
