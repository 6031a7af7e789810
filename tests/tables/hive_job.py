"""Reads and writes tables of a Hive catalog: tests run it with lineage, in a folder of its own.

What Hive gave of each table goes to given.json.
"""

import json
from itertools import zip_longest
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.builder.enableHiveSupport().getOrCreate()
spark.sparkContext.setLogLevel("OFF")
home = Path.cwd()
TEXT = "STORED AS TEXTFILE"
DELIMITED = "ROW FORMAT DELIMITED FIELDS TERMINATED BY"
given: list[tuple[str, list[list[str]]]] = []


def seen(name: str, frame: DataFrame) -> None:
    """Note what Hive's reader gives."""
    given.append((name, [[repr(value) for value in row] for row in frame.collect()]))


def made(name: str, columns: str, form: str, lines: str | bytes) -> None:
    """An external table over one file."""
    (home / name).mkdir()
    held = lines if isinstance(lines, bytes) else lines.encode()
    (home / name / "file").write_bytes(held)
    spark.sql(f"CREATE EXTERNAL TABLE {name} ({columns}) {form} LOCATION 'file:{home}/{name}'")


cells = json.loads((home / "cells.json").read_text())
lines = ("\x01".join(line) for line in zip_longest(*cells.values(), fillvalue="\\N"))
made("cells", ", ".join(f"c{n} {kind}" for n, kind in enumerate(cells)), TEXT, "\n".join(lines))
seen("cells", spark.table("cells"))
escaped = (
    "a\\,b,c,1\n\\N,\\\\N,2\nx\\ny,r\\rz,3\nend\\\nq,w\\,\\,,1\\2\n\\\\,\\t,\\3\n,,\n\n"
    "\\é\\,z,\\é,4,5,6\nq,w\\\n\\N\\N,\\n,7\n"
)
made("escaped", "a STRING, b STRING, c INT", f"{DELIMITED} ',' ESCAPED BY '\\\\' {TEXT}", escaped)
seen("escaped", spark.table("escaped"))
ends = "1|x\r\n-|y|z\r2|-\n\n3".encode("utf-8-sig")
made("ends", "a INT, b STRING", f"{DELIMITED} '|' NULL DEFINED AS '-' {TEXT}", ends)
seen("ends", spark.table("ends"))
odd = "1,abcd,2021-01-02 10:11:12,1d,x\n2,efgh,\\N,2,y\n"
columns = "a INT, short VARCHAR(2), at TIMESTAMP, d DOUBLE, b STRING"
made("odd", columns, f"{DELIMITED} ',' {TEXT}", odd)
for name in ("b", "short", "at", "d"):
    seen(f"odd {name}", spark.table("odd").select("a", name))
made("bytes", "a STRING", TEXT, b"ok\n\xff\xfe\n")
seen("bytes", spark.table("bytes"))
made("quoted", "a STRING", "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde'", "1\n")
seen("quoted", spark.table("quoted"))

spark.sql("SET hive.exec.dynamic.partition.mode=nonstrict")
spark.sql("CREATE TABLE orcs STORED AS ORC AS SELECT id, id % 2 AS n FROM range(0, 12, 1, 1)")
for name, form in (("parts", f"{DELIMITED} ',' {TEXT}"), ("columnar", "STORED AS PARQUET")):
    spark.sql(f"CREATE TABLE {name} (id BIGINT, b STRING) PARTITIONED BY (c STRING, n INT) {form}")
    value = "CASE id % 3 WHEN 0 THEN 'Oslo' WHEN 1 THEN 'x y/]%é=,' END"
    spark.sql(f"INSERT INTO {name} SELECT id, concat('b', id), {value}, n FROM orcs")
    seen(name, spark.table(name))
    seen(f"{name} pruned", spark.table(name).where("n = 1 AND c = 'Oslo'"))
    totals = spark.sql(f"SELECT c, n, sum(id) AS total FROM {name} WHERE n = 1 GROUP BY c, n")
    totals.coalesce(1).write.parquet(f"{name}_totals")
# Read and written by one statement.
spark.sql("INSERT INTO parts SELECT id + 100, b, c, n FROM parts WHERE c = 'Oslo' AND n = 0")
spark.sql(
    "INSERT INTO columnar PARTITION (c = 'new', n = 7) SELECT id + 100, b FROM columnar WHERE n = 1"
)
joined = "SELECT p.id, p.b FROM parts p JOIN orcs o ON p.id = o.id AND o.n = 1"
spark.sql(f"CREATE TABLE joined STORED AS PARQUET AS {joined}")
spark.sql("CREATE TABLE swapped (a BIGINT, b BIGINT) USING parquet")
spark.table("orcs").selectExpr("id AS b", "n AS a").write.insertInto("swapped")

# Files that were read can't be told.
spark.table("parts").cache().collect()
spark.catalog.clearCache()
late = str(home / "spark-warehouse" / "parts" / "c=Oslo" / "n=0" / "late")


def others_write(_: object) -> None:
    Path(late).write_text("77,late\n")


spark.table("parts").where("n = 0").foreach(others_write)
(home / "elsewhere").mkdir()
(home / "elsewhere" / "file").write_text("50,there\n")
spark.sql(f"ALTER TABLE parts ADD PARTITION (c = 'far', n = 1) LOCATION 'file:{home}/elsewhere'")
spark.table("parts").where("c = 'far'").collect()
(home / "given.json").write_text(json.dumps(given))
