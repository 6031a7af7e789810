"""PySpark's worker daemon with capture's libraries loaded before it forks workers.

Set as ``spark.python.daemon.module`` by ``lineage run`` on local masters: otherwise each worker
process would load them for itself in its first task.
"""

import pyarrow.compute  # noqa: F401  loaded before the fork, used by the codec
from pyspark.daemon import manager

if __name__ == "__main__":
    manager()
