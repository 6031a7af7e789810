"""Deletes a row of a table of Iceberg by a plan, and is killed between the commit and the journal: with `again`, goes on.

What was done goes to deleted.json.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lineage.erasure_of_tables import deleted_rows
from lineage_query.erasure.journal import Journal
from lineage_query.erasure.keeping import StorePlace

spark = SparkSession.builder.getOrCreate()
home = Path.cwd()
place = StorePlace("x", home / "rows", home / "spool", home / "index", False, False)


def killed(self: Journal, number: int, result: Mapping[str, Any]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if "again" not in sys.argv:
    spark.sql("CREATE TABLE local.db.people (id BIGINT) USING iceberg")
    spark.sql("INSERT INTO local.db.people SELECT id FROM range(0, 4, 1, 1)")
    stands = spark.table("local.db.people").where("id = 2").select("_file", "_pos").head(1)[0]
    file, position = stands["_file"], stands["_pos"]
    row = {
        "app": "a",
        "label": "write:people",
        "place": f"{file}#{position}",
        "path": file,
        "kept": False,
    }
    row |= {"kind": "carries", "exact": True, "there": True}
    Path("plan.json").write_text(json.dumps({"digest": "sha256:1", "rows": [row]}))
    Journal.done = killed  # type: ignore[method-assign]
deleted = deleted_rows(json.loads(Path("plan.json").read_text()), place)
ids = [line.id for line in spark.table("local.db.people").orderBy("id").collect()]
count = spark.table("local.db.people.snapshots").count()
said = {"ids": ids, "snapshots": count, "deleted": [asdict(table) for table in deleted]}
Path("deleted.json").write_text(json.dumps(said))
spark.stop()
