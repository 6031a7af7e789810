"""Files of provenance triples that tests write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def written(path: Path, **columns: Any) -> Path:
    """A file of Parquet with these columns."""
    pq.write_table(pa.table(columns), path)
    return path


def chain(path: Path) -> Path:
    """1 to 4, each made from the one before."""
    return written(path, src=[1, 2, 3], dst=[2, 3, 4], op=["a", "b", "c"])
