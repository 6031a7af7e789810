"""The type of the error that ended an action."""

import pytest
from py4j.protocol import Py4JError

from lineage_emitter.failures import error_type

pytestmark = pytest.mark.unit

TASK = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.runJob.
: org.apache.spark.SparkException: Job aborted.
\tat org.apache.spark.internal.io.SparkHadoopWriter$.write(SparkHadoopWriter.scala:110)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
  File "job.py", line 3, in <lambda>
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "job.py", line 5, in parse
    raise BadRowError(line)
rows.BadRowError: row 7
of two lines

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:581)
"""


def test_a_tasks_own_error_is_named_before_that_of_the_jvm() -> None:
    assert error_type(Py4JError(TASK)) == "rows.BadRowError (Py4JError)"
    assert error_type(Py4JError("No such file: in.txt")) == "Py4JError"
    assert error_type(ValueError(TASK)) == "ValueError"
