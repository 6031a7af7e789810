"""Deletes rows of tables of Apache Iceberg by their positions in data files, in one commit, by Spark.

A table is opened by a name that programs gave it, in the catalogs of Spark's settings, or by its folder where that
says which of its metadata is current (tables of Iceberg's Hadoop catalog). Any other is refused: what is committed
to a folder alone, its catalog does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_core.recipe.names import ICEBERG
from lineage_dataframes.spark.connected import new_session
from lineage_dataframes.spark.literals import quoted_name
from lineage_dataframes.spark.pyspark_parts import SPARK_ERRORS, is_connected, spark_reason
from lineage_query.erasure.steps import ErasureError
from lineage_query.erasure.table_rows import MARK, TableRows
from lineage_query.rows.iceberg_log import latest_metadata
from lineage_query.rows.reader import RowReader
from lineage_query.rows.table_log import opened_log
from lineage_store.paths import RowsError, canonical

CATALOG: Final = "lineage_erasure"
"""The name of a catalog for tables that are opened by their folders."""
ROWS: Final = "lineage_erased_rows"
"""The name of a view of the positions of rows."""
SNAPSHOTS_MAX = 50
"""Snapshots that are looked at for files that hold the rows, the latest first: each takes a query."""


class IcebergDeleter:
    """Deletes rows from tables of Iceberg. Implements `lineage_query.erasure.table_rows.TableDeleter`."""

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        """``session``: gives a session of Spark that has Iceberg's jar, and may write the tables."""
        self._session = session

    def check(self, rows: TableRows, digest: str) -> None:
        with _named(rows.table):
            table = self._opened(rows, digest)
            if table.committed() is None:
                table.check(rows)

    def delete(self, rows: TableRows, digest: str) -> Sequence[str]:
        with _named(rows.table):
            table = self._opened(rows, digest)
            if table.committed() is None:
                table.delete(table.check(rows), rows.count)
            return list(table.keeping(rows))

    def _opened(self, rows: TableRows, digest: str) -> _Table:
        session = self._session()
        if is_connected(session):
            raise ErasureError(
                "it takes the Spark of a cluster or of this machine, not Spark Connect"
            )
        spark = new_session(session)
        # Of all that this session commits; a commit to a branch would leave the rows in the table.
        spark.conf.set(f"spark.sql.iceberg.snapshot-property.{MARK}", digest)
        for name in ("spark.wap.branch", "spark.wap.id"):
            spark.conf.unset(name)
        return _Table(spark, _name_of(spark, rows), digest)


@contextmanager
def _named(table: str) -> Iterator[None]:
    """Say which table an error is about."""
    try:
        yield
    except SPARK_ERRORS as problem:
        raise ErasureError(f"{table}: {spark_reason(problem)}") from problem
    except (ErasureError, RowsError) as problem:
        raise ErasureError(f"{table}: {problem}") from problem


def _name_of(spark: SparkSession, rows: TableRows) -> str:
    """The table's name in SQL: one that leads to the table's folder."""
    for name in rows.names:
        quoted = ".".join(quoted_name(part.strip("`")) for part in name.split("."))
        if _location(spark, quoted) == canonical(rows.table):
            return quoted
    folder = Path(rows.table)
    try:
        with opened_log(RowReader(), rows.table) as log:
            latest_metadata(log.files, folder / "metadata")
    except RowsError as problem:
        named = f" of {' or '.join(rows.names)}" if rows.names else ""
        raise ErasureError(
            f"{problem}: give Spark the settings of the catalog{named} (SPARK_CONF_DIR), or delete the rows by the means of the table"
        ) from problem
    own = f"spark.sql.catalog.{CATALOG}"
    spark.conf.set(own, "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"{own}.type", "hadoop")
    spark.conf.set(f"{own}.warehouse", f"file://{folder.parent}")
    spark.conf.set(f"{own}.cache-enabled", "false")
    quoted = f"{CATALOG}.{quoted_name(folder.name)}"
    if _location(spark, quoted) != canonical(rows.table):
        raise ErasureError(
            f"it can't be opened by its folder: Spark needs Iceberg's jar (spark.jars in SPARK_CONF_DIR), and {_why_not(spark, quoted)}"
        )
    return quoted


def _described(spark: SparkSession, name: str) -> DataFrame:
    return spark.sql(f"DESCRIBE TABLE EXTENDED {name}")


def _location(spark: SparkSession, name: str) -> str | None:
    """The folder of a table of Iceberg; None: there is no such table."""
    try:
        lines = {line["col_name"]: line["data_type"] for line in _described(spark, name).collect()}
    except SPARK_ERRORS:
        return None
    location = lines.get("Location")
    return canonical(location) if lines.get("Provider") == ICEBERG and location else None


def _why_not(spark: SparkSession, name: str) -> str:
    try:
        _described(spark, name).collect()
    except SPARK_ERRORS as problem:
        return spark_reason(problem)
    return "its metadata name another folder"


class _Table:
    """A table in a session of its own. ``name``: in SQL."""

    def __init__(self, spark: SparkSession, name: str, digest: str) -> None:
        self._spark = spark
        self._name = name
        self._digest = digest

    def _part(self, part: str) -> DataFrame:
        self._spark.catalog.refreshTable(self._name)
        return self._spark.table(f"{self._name}.{part}")

    def committed(self) -> tuple[int, int] | None:
        """The snapshot that deleted the rows, and the one before it, of those that led to the table as it is."""
        current = self._part("history").where("is_current_ancestor").select("snapshot_id")
        marked = self._part("snapshots").where(F.col("summary")[MARK] == self._digest)
        found = marked.join(current, "snapshot_id").select("snapshot_id", "parent_id").collect()
        return (found[0][0], found[0][1]) if found else None

    def _files(self) -> Mapping[str, str]:
        """The data files of the current version, as the table spells them, by canonical path."""
        files = self._part("files").where("content = 0").select("file_path").collect()
        return {canonical(file.file_path): file.file_path for file in files}

    def check(self, rows: TableRows) -> Sequence[tuple[str, int]]:
        """The places of the rows, as the table spells them.

        Raises:
            ErasureError: one is not in the current version.
        """
        spelled = self._files()
        places = []
        for file, positions in rows.files.items():
            path = spelled.get(canonical(f"{rows.table}/{file}"))
            if path is None:
                raise ErasureError(
                    f"{file} is not in its current version: the rows may be in another file by now; nothing is deleted from tables"
                )
            places += [(path, position) for position in positions]
        standing = self._standing(places)
        if standing != len(places):
            raise ErasureError(
                f"{len(places) - standing:,} of {len(places):,} rows are not in its current version any more; nothing is deleted from tables"
            )
        return places

    def _standing(self, places: Sequence[tuple[str, int]]) -> int:
        """How many of some places hold rows now. Leaves the view of the places."""
        view = self._spark.createDataFrame(list(places), "file string, pos bigint")
        view.createOrReplaceTempView(ROWS)
        self._spark.catalog.refreshTable(self._name)
        rows = self._spark.table(self._name).select(
            F.col("_file").alias("file"), F.col("_pos").alias("pos")
        )
        return rows.join(view, ["file", "pos"]).count()

    def delete(self, places: Sequence[tuple[str, int]], count: int) -> None:
        """Delete the rows at some places, and see that these and no others are gone.

        Raises:
            ErasureError: they are not; what was committed is named.
        """
        self._spark.sql(
            f"DELETE FROM {self._name} WHERE (_file, _pos) IN (SELECT file, pos FROM {ROWS})"
        )
        made = self.committed()
        if made is None:
            raise ErasureError(
                "somebody else changed it meanwhile, and nothing was deleted: run it again"
            )
        after, before = (self._rows_at(snapshot) for snapshot in made)
        standing = self._standing(places)
        if before - after != count or standing:
            raise ErasureError(
                f"snapshot {made[0]} has {before - after:,} rows less, of {count:,} that were to be deleted, and {standing:,} of these "
                f"stand: look at it before you go on, or set the table back to snapshot {made[1]}"
            )

    def _rows_at(self, snapshot: int) -> int:
        return self._spark.read.option("versionAsOf", str(snapshot)).table(self._name).count()

    def keeping(self, rows: TableRows) -> Iterator[str]:
        """What keeps the deleted rows, and how it is removed."""
        paths = {canonical(f"{rows.table}/{file}") for file in rows.files}
        catalog, _, within = self._name.partition(".")
        # The catalog is ours where the table was opened by its folder.
        system = f"{'CATALOG' if catalog == CATALOG else catalog}.system"
        table = "'" + within.replace("'", "''") + "'"
        if paths & self._files().keys():
            yield (
                f"{rows.table}: its current version keeps data files with the rows, marked as deleted (write.delete.mode is "
                f"merge-on-read): CALL {system}.rewrite_data_files(table => {table}, options => map('delete-file-threshold', '1'))"
            )
        holding, unseen = self._snapshots_with(paths)
        unseen_text = f", and perhaps {unseen:,} older ones" if unseen else ""
        if holding or unseen:
            yield (
                f"{rows.table}: snapshots {', '.join(map(str, holding)) or 'that were not looked at'} keep the rows{unseen_text}: CALL "
                f"{system}.expire_snapshots(table => {table}, older_than => TIMESTAMP 'now', retain_last => 1)"
            )
        refs = self._part("refs").where("name <> 'main'").collect()
        named = [
            f"{ref['type'].lower()} {ref['name']}"
            for ref in refs
            if ref["snapshot_id"] in holding or unseen
        ]
        if named:
            yield f"{rows.table}: snapshots that keep the rows stay while these name them: {', '.join(named)}"

    def _snapshots_with(self, paths: set[str]) -> tuple[list[int], int]:
        """Snapshots with data files of some paths, but for the current one; and how many were not looked at."""
        ordered = self._part("snapshots").orderBy(F.desc("committed_at")).select("snapshot_id")
        snapshots = [line.snapshot_id for line in ordered.collect()]
        current = {line.snapshot_id for line in self._part("refs").where("name = 'main'").collect()}
        holding = []
        for snapshot in snapshots[:SNAPSHOTS_MAX]:
            if snapshot in current:
                continue
            files = self._spark.read.option("versionAsOf", str(snapshot)).table(
                f"{self._name}.files"
            )
            if paths & {canonical(file.file_path) for file in files.select("file_path").collect()}:
                holding.append(snapshot)
        return holding, max(0, len(snapshots) - SNAPSHOTS_MAX)
