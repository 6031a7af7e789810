"""The jars by which Spark reads tables of other formats."""

from __future__ import annotations

from pathlib import Path

from tests.support.fetched_jars import fetched_jars
from tests.support.versions import IN_35

HERE = Path(__file__).parent
LISTED = HERE / "tables-spark35" if IN_35 else HERE
"""Has what is to be fetched for this Spark."""


def table_jars() -> Path:
    """The folder with the jars.

    Raises:
        ValueError: they are not those that SHA256SUMS names.
    """
    return fetched_jars(LISTED)
