"""What this Spark makes of every function that a recipe can name, as JSON: ``python -m tests.sparks.values FILE``."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.frames_oracle import ParquetTables
from tests.integration.test_frames_functions import AGGREGATES, SCALARS, VALUES, WINDOWS

EDGES = [
    "cast(s as int)",
    "try_cast(s as int)",
    "try_add(n,2147483647)",
    "try_subtract(-n,2147483647)",
    "try_multiply(n,2147483647)",
    "try_divide(a,0)",
    "split_part(s,'a',1)",
    "s rlike '^[a-m]'",
    "date_part('week',y)",
    "dayofmonth(y)",
    "positive(n)",
    "cast(s as double)",
    "cast(u as timestamp)",
    "cast(u as date)",
    "cast(d as int)",
    "cast(d as string)",
    "cast(q as string)",
    "cast(a as string)",
    "cast(a as int)",
    "cast(z as bigint)",
    "cast(b as int)",
    "cast(s as boolean)",
    "cast(s as decimal(5,1))",
    "cast(d as decimal(3,1))",
    "cast(n as tinyint)",
    "cast(z as string)",
    "cast(map(p,s) as string)",
    "cast(struct(n,d,s) as string)",
    "cast(w as string)",
    "cast(cast(s as binary) as string)",
    "cast(y as string)",
    "cast(double('1e20') as string)",
    "cast(cast(p as decimal(38,18)) as string)",
    "cast(float(d) as string)",
    "cast(n as timestamp)",
    "hex(cast(s as binary))",
    "a/p",
    "a*a/a",
    "cast(a as decimal(38,10))*cast(a as decimal(38,10))",
    "cast(a as decimal(38,10))/cast(p as decimal(38,10))",
    "n/0",
    "a % 0",
    "sum(a) over ()",
    "avg(a) over ()",
    "n div 0",
    "2147483647 + n",
    "decimal('9.99')+a",
    "-n % p",
    "pmod(-n,p)",
    "round(-2.5)",
    "bround(2.5)",
    "round(d,0)",
    "ceil(a,1)",
    "floor(a,1)",
    "upper('ß')",
    "lower('İ')",
    "initcap('ab cd-ef')",
    "length('😀')",
    "substring('😀a',2)",
    "reverse('😀a')",
    "format_number(12345.678,2)",
    "format_string('%s %d %.2f',s,n,d)",
    "chr(300)",
    "ascii('é')",
    "soundex('é')",
    "translate(s,'','x')",
    "instr('',s)",
    "lpad(s,3,'')",
    "split(s,'')",
    "split('a,b,',',')",
    "regexp_replace(s,'','x')",
    "concat_ws(',',w)",
    "s like 'a\\\\%'",
    "space(-1)",
    "repeat(s,-1)",
    "elt(3,s,t)",
    "unbase64('YQ==')",
    "hex(-1)",
    "conv('-1',10,16)",
    "conv('9223372036854775808',10,16)",
    "bin(-1)",
    "unhex('zz')",
    "levenshtein('', s)",
    "overlay(s placing '' from 1)",
    "substring_index('a.b.c','.',0)",
    "date_format(z,'G yyyy-MM-dd EEEE a')",
    "to_timestamp(u)",
    "to_date(u)",
    "unix_timestamp('1900-01-01 00:00:00')",
    "from_unixtime(-1)",
    "date_trunc('week',z)",
    "trunc(y,'week')",
    "weekofyear(y)",
    "dayofweek(y)",
    "months_between(y,date'2000-01-31')",
    "add_months(date'2024-01-31',1)",
    "last_day(y)",
    "next_day(y,'xx')",
    "make_date(2000,13,1)",
    "date_add(y,-1)",
    "y + interval 1 month",
    "z + interval 1 day",
    "z - z",
    "y - date'2000-01-01'",
    "datediff(z,y)",
    "extract(week from y)",
    "timestamp_seconds(1.5)",
    "date'1500-02-29' is null",
    "unix_millis(z)",
    "hour(timestamp'2024-03-31 02:30:00')",
    "map(0.0D,1)",
    "map(-0.0D,1)",
    "map_keys(map(-0.0D,1))",
    "map_from_arrays(array(-0.0D),array(1))",
    "array_distinct(array(0.0D,-0.0D,double('nan'),double('nan')))",
    "array_union(array(0.0D),array(-0.0D))",
    "sort_array(array(2,null,1))",
    "array_max(array(double('nan'),1))",
    "array_position(array(1,2),3)",
    "element_at(array(1,2),-1)",
    "slice(array(1,2,3),-2,2)",
    "sequence(date'2024-01-01',date'2024-03-01',interval 1 month)",
    "arrays_zip(x,v)",
    "flatten(array(x,null))",
    "size(null)",
    "array_join(array(1,null),',')",
    "array_except(x,v)",
    "get_json_object(j,'$.m[*]')",
    "get_json_object(j,'$.k.l')",
    "str_to_map('a:1,b')",
    "map_concat(map(1,2),map(3,4))",
    "array_repeat(1,-1)",
    "element_at(map('a',1),'b')",
    "array(1,2)[5]",
    "greatest(double('nan'),1)",
    "least(null,n)",
    "hash(-0.0D)",
    "hash(0.0D)",
    "xxhash64(map_values(map(1,2)))",
    "hash(x)",
    "max_by(s,id) over ()",
    "percentile(q,0.5) over ()",
    "exists(array(null,1), e -> e > 1)",
    "nanvl(double('nan'),1)",
    "0.0D = -0.0D",
    "double('nan')=double('nan')",
    "array(1) = array(1)",
    "arrays_overlap(array(0.0D), array(-0.0D))",
]
"""Where versions of Spark have differed or might: casts, arithmetic, odd texts, times and zeros."""

MANY = 40
"""Expressions in one query."""


def values(spark: SparkSession, folder: Path) -> dict[str, list[str]]:
    """The type and the values of each expression, with ANSI mode on and off; no values: it is an error."""
    spark.conf.set("spark.sql.session.timeZone", "Europe/Oslo")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    ParquetTables.written(folder, {"v": VALUES}).views(spark)
    found: dict[str, list[str]] = {}
    for ansi in ("false", "true"):
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        for table, first in (
            (SCALARS, "id,"),
            ({"": EDGES}, "id,"),
            (AGGREGATES, ""),
            (WINDOWS, "id,"),
        ):
            texts = [text for every in table.values() for text in every]
            for at in range(0, len(texts), MANY):
                made = _of(spark, texts[at : at + MANY], first)
                found |= {f"{text} (ANSI {ansi})": said for text, said in made}
    return found


def _of(spark: SparkSession, texts: list[str], first: str) -> Iterator[tuple[str, list[str]]]:
    columns = ", ".join(f"{text} AS c{n}" for n, text in enumerate(texts))
    try:
        frame = spark.sql(f"SELECT {first} {columns} FROM v")
        rows = frame.collect()
    except Exception:
        # One of them is an error: which?
        half = len(texts) // 2
        if half:
            yield from _of(spark, texts[:half], first)
            yield from _of(spark, texts[half:], first)
        else:
            yield texts[0], []
        return
    if first:
        rows.sort(key=lambda row: row[0])
    for place, text in enumerate(texts, len(frame.columns) - len(texts)):
        kind = frame.schema[place].dataType.simpleString()
        yield text, [kind, *(repr(_plain(row[place])) for row in rows)]


def _plain(value: Any) -> Any:
    """Bytes are of another class in PySpark 4.1."""
    return bytes(value) if isinstance(value, bytearray) else value


if __name__ == "__main__":
    session = (
        SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    )
    with tempfile.TemporaryDirectory() as temporary:
        made = values(session, Path(temporary))
    Path(sys.argv[1]).write_text(json.dumps(made))
