"""PySpark's worker daemon with capture's libraries warm before it forks workers.

Set as ``spark.python.daemon.module`` by ``lineage run`` on local masters: otherwise each worker
process would load them for itself in its first task, and hold that memory alone.
"""

from __future__ import annotations

import contextlib
import gc
import os
from importlib import import_module

import numpy as np
from pyspark.daemon import manager

# Loaded before the fork, used by tasks.
import lineage_core.contract.positions
import lineage_emitter.dispatch.opening
import lineage_emitter.dispatch.spool
import lineage_emitter.driver.shuffles
import lineage_emitter.worker.combiner
import lineage_emitter.worker.commits
import lineage_emitter.worker.culprits
import lineage_emitter.worker.operators  # noqa: F401
from lineage_core.codec.csv_codec import encode_csv
from lineage_core.codec.record_batch import compress
from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.environment.archives import forget_archives

WARM_ROWS = 4_096


def warm_up() -> None:
    """Encode a block once: Arrow sets up its kernels and the allocator its arenas."""
    rows = np.arange(WARM_ROWS, dtype=np.uint64)
    block = FlowBlock(
        block_id=BlockId("0", 0, 0, 0),
        relation=Relation.ROWS,
        in_space="0#0",
        out=(Section("1#0", 0, WARM_ROWS),),
        in_ptr=np.arange(WARM_ROWS + 1, dtype=np.int64),
        in_first=rows * np.uint64(3),
        in_last=rows * np.uint64(3) + np.uint64(1),
        out_first=rows,
    )
    compress(encode_csv(block))
    if os.environ.get("LINEAGE_DISPATCHER") == "kafka":
        # Loaded before the fork; a producer has to wait until after it.
        with contextlib.suppress(Exception):
            import_module("confluent_kafka")
            import_module("lineage_emitter.dispatch.kafka")
    lineage_core.contract.positions.key_positions(["warm", 1, ("up", 2)])
    forget_archives()
    # What is loaded now stays: collections in the workers neither visit nor copy it.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    warm_up()
    manager()
