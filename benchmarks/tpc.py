"""TPC-DS and TPC-H: data and queries as DuckDB's wheel makes them, without a network."""

from __future__ import annotations

from pathlib import Path

SUITES = ("tpcds", "tpch")


def make_tables(suite: str, scale: float, folder: Path) -> tuple[str, ...]:
    """Write the suite's tables as ``folder/<table>/part-0.parquet``; their names.

    Args:
        suite: one of `SUITES`.
        scale: the suite's scale factor; 1 is about a gigabyte.
        folder: made where it is missing; tables that are there are kept.
    """
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"LOAD {suite}")
    if not folder.exists():
        generate = "dsdgen" if suite == "tpcds" else "dbgen"
        connection.execute(f"CALL {generate}(sf={scale})")
        for (name,) in connection.execute("SHOW TABLES").fetchall():
            (folder / name).mkdir(parents=True)
            connection.execute(f"COPY {name} TO '{folder}/{name}/part-0.parquet' (FORMAT parquet)")
    connection.close()
    return tuple(sorted(path.name for path in folder.iterdir()))


def queries(suite: str) -> dict[int, str]:
    """The suite's queries by number, as Spark reads them: names that stand in double quotes have its own."""
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"LOAD {suite}")
    rows = connection.execute(f"SELECT query_nr, query FROM {suite}_queries()").fetchall()
    connection.close()
    return {number: text.strip().rstrip(";").replace('"', "`") for number, text in rows}


SETTINGS = {"spark.sql.shuffle.partitions": "2"}
