"""A cluster of Dask with processes of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import dask
from distributed import Client, LocalCluster


@contextmanager
def two_workers() -> Iterator[Client]:
    """A client of two worker processes, on loopback."""
    with (
        # A cluster sets variables of this process for its workers (PYTHONHASHSEED), and leaves them.
        patch.dict(os.environ),
        dask.config.set({"distributed.worker.daemon": True, "distributed.admin.tick.limit": "60s"}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            # None would be port 8787, which one cluster of a machine gets.
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client
