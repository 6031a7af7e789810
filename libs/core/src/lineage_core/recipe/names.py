"""Names that recipes and their readers share: of formats, of an action, of a column."""

from __future__ import annotations

import re

TO_RDD = "DataFrame.rdd"
"""The action whose rows become records of an RDD."""
DELTA = "delta"
"""Format of sources that are tables of Delta Lake in a version."""
DELTA_LOG = "_delta_log"
"""The folder with the log of a table of Delta Lake. No file of data has this name."""
HIVE_TEXT = "hive-text"
"""Format of sources whose files Hive's text reader splits. Options: ``sep``, ``escape``, ``nullValue``."""
ICEBERG = "iceberg"
"""Format of sources that are tables of Apache Iceberg in a snapshot, their ``version``. Options: ``metadata``, the file
that describes the table, and ``latest``, whether ``version`` is its current snapshot, which then need not be named."""
JDBC = "jdbc"
"""Format of sources that are tables, or queries, of a database."""
TABLE_NAME = re.compile(r"""(?:\w|"[^"]+"|`[^`]+`|\[[^]]+\]|\.)+""")
"""A table's name in a database, not a query in its place."""
DATABASE_URL = "jdbc:"
"""What the names of rows of databases begin with."""
KAFKA = "kafka"
"""Format of sources that are topics. Options: ``servers``, ``topic``, its ``id`` and the level of ``isolation``; ``version``: the
offsets that were read."""
TEXT_FORMATS = frozenset({"csv", "json", "text", HIVE_TEXT})
"""Formats whose files are text."""
SET_ASIDE_CALL = "lineage_call"
"""The last column but one of a recipe of rows that a Python function failed on: the number of the call, from 1."""
SET_ASIDE_ERROR = "lineage_error"
"""The last column of such a recipe: what the function failed with."""
ROW_NAME = "lineage_row"
"""The last column of a recipe of rows that became records of an RDD: a hash of the row, which names the record."""
