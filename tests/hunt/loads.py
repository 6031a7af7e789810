"""Daily loads: several jobs over shared inputs and appended outputs, and what is true of every row they left.

Inputs are CSV files whose rows have an id of their own. Each output row states in ``ids`` which source rows it is
made of, and in ``j`` which write made it. So the files that are there now tell the truth in both directions: of a
source row as it is now, all rows that are there and name it, of whichever job; of an output row, what it names, as
it was when its job read it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow.parquet as pq
from pyspark.sql import functions as f

from lineage_emitter import LineageContext

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

Place: TypeAlias = tuple[str, int]
"""A file, and a row of it: its line from 1, or in Parquet its ordinal from 0."""

INPUT = "id string, k string, v int"
HEADER = "id,k,v"
PARQUET = ".parquet"
APPENDED = "appended"
"""The folder that rows are appended to, as they are."""
AUDIT = "audit"
"""The folder of what RDD jobs write."""
BETWEEN = "|"
STAMP_NS = 1_600_000_000 * 10**9
"""Inputs are this old; each that is written is a second younger."""


@dataclass(frozen=True)
class Written:
    """An output row that is there: where, its values as text, the source rows that it names, and its job's id."""

    place: Place
    values: Mapping[str, str]
    tags: frozenset[str]
    app: str

    @property
    def of_records(self) -> bool:
        """Whether an RDD's job wrote it: such outputs have no columns to ask by."""
        return f"/{AUDIT}/" in self.place[0]

    @property
    def output(self) -> str:
        """The folder that it lies in."""
        return os.path.dirname(self.place[0])


@dataclass
class Loads:
    """A folder in which jobs run one after the other.

    ``read``: by application, the rows of each file as the job read them, by what names them.
    ``wrote``: by output file, the application that wrote it.
    """

    sc: SparkContext
    session: SparkSession
    folder: Path
    url: str
    read: dict[str, dict[Place, str]] = field(default_factory=dict)
    contents: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """By application, the bytes of the files that it read."""
    wrote: dict[str, str] = field(default_factory=dict)
    writes: int = 0
    rows: int = 0
    stamps: int = 0

    # Inputs -----------------------------------------------------------------------------------

    def land(self, name: str, rows: list[tuple[str, int]]) -> None:
        """A new input, ``name``, of rows (k, v)."""
        lines = [HEADER]
        for k, v in rows:
            self.rows += 1
            lines.append(f"i{self.rows},{k},{v}")
        self.write(name, "".join(f"{line}\n" for line in lines).encode())

    def write(self, name: str, content: bytes) -> None:
        """An input's bytes, a second younger than what was written before."""
        path = self.folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self.touch(name)

    def touch(self, name: str) -> None:
        """Another time for an input."""
        self.stamps += 1
        stamp = STAMP_NS + self.stamps * 10**9
        os.utime(self.folder / "in" / name, ns=(stamp, stamp))

    def inputs(self) -> list[str]:
        """The names of all inputs that are there."""
        return sorted(path.name for path in (self.folder / "in").glob("*.csv"))

    # Jobs -------------------------------------------------------------------------------------

    def run(self, job: Callable[[LineageContext], None], files: list[str]) -> None:
        """Run a job over files as an application of its own."""
        lc = LineageContext(self.sc, store=self.url)
        read = {place: tag for file in files for place, tag in _tagged(file)}
        self.read[lc.app] = read
        self.contents[lc.app] = {file: Path(file).read_bytes() for file in files}
        try:
            job(lc)
        finally:
            lc.close()
        for file in self._outputs():
            self.wrote.setdefault(file, lc.app)

    def paths(self, names: list[str]) -> list[str]:
        """The paths of inputs."""
        return [str(self.folder / "in" / name) for name in names]

    def append(self, names: list[str], out: str, least: int, *, format: str, times: int) -> None:
        """Append the rows whose ``v`` is enough, in as many writes of one program."""
        files = self.paths(names)

        def job(lc: LineageContext) -> None:
            for _ in range(times):
                rows = self._frame(files).where(f.col("v") >= least)
                self._save(rows.withColumnRenamed("id", "ids"), out, "append", format)

        self.run(job, files)

    def overwrite(self, names: list[str], out: str, *, format: str) -> None:
        """Overwrite an output with the inputs' rows by ``k``."""
        files = self.paths(names)
        self.run(lambda _: self._grouped(self._frame(files), out, format), files)

    def report(self, source: str, out: str, *, format: str) -> None:
        """Overwrite an output with rows of what other jobs have appended, by ``k``."""
        files = sorted(map(str, (self.folder / source).glob(f"part-*{PARQUET}")))
        tag = f.concat("ids", f.lit("@"), "j").alias("id")

        def job(_: LineageContext) -> None:
            rows = self.session.read.parquet(str(self.folder / source))
            self._grouped(rows.select(tag, "k", "v"), out, format)

        self.run(job, files)

    def audit(self, name: str, least: int) -> None:
        """Write the lines of an input whose ``v`` is enough, as an RDD."""
        (file,) = self.paths([name])
        self.writes += 1
        number = self.writes

        def line(text: str) -> str:
            ids, k, v = text.split(",")
            return json.dumps({"ids": ids, "k": k, "v": int(v), "j": number})

        def job(lc: LineageContext) -> None:
            lines = lc.textFile(file, 2).filter(lambda text: text != HEADER)
            wanted = lines.filter(lambda text: int(text.rpartition(",")[2]) >= least)
            wanted.map(line).saveAsTextFile(str(self.folder / AUDIT / f"{number}"))

        self.run(job, [file])

    def _frame(self, files: list[str]) -> DataFrame:
        return self.session.read.option("header", True).schema(INPUT).csv(files)

    def _grouped(self, rows: DataFrame, out: str, format: str) -> None:
        ids = f.array_join(f.sort_array(f.collect_list("id")), BETWEEN).alias("ids")
        self._save(rows.groupBy("k").agg(ids, f.sum("v").alias("v")), out, "overwrite", format)

    def _save(self, rows: DataFrame, out: str, mode: str, format: str) -> None:
        self.writes += 1
        stamped = rows.select("ids", "k", "v").withColumn("j", f.lit(self.writes))
        stamped.write.mode(mode).format(format).save(str(self.folder / out))

    # Truth ------------------------------------------------------------------------------------

    def _outputs(self) -> Iterator[str]:
        for path in sorted(self.folder.glob("*/**/part-*")):
            if not path.name.endswith(".crc") and "_temporary" not in path.parts:
                yield str(path)

    def written(self) -> list[Written]:
        """All output rows that are there."""
        found = []
        for file in self._outputs():
            for place, row in _rows(file):
                values = {name: str(value) for name, value in row.items()}
                tags = frozenset(str(row["ids"]).split(BETWEEN))
                found.append(Written(place, values, tags, self.wrote[file]))
        return found

    def is_gone(self, app: str) -> bool:
        """Whether nothing is there any more that an application wrote."""
        return not any(of == app and Path(file).exists() for file, of in self.wrote.items())

    def witnesses(self, row: Written) -> frozenset[Place]:
        """The source rows that a row is made of, where they were when its job read them."""
        return frozenset(place for place, tag in self.read[row.app].items() if tag in row.tags)

    def readers(self, file: str) -> list[str]:
        """The applications that read a file with the bytes that it has now."""
        now = Path(file).read_bytes()
        return [app for app, files in self.contents.items() if files.get(file) == now]

    def changed(self, app: str) -> list[str]:
        """The files that an application read and that hold other bytes by now, or are gone."""
        return [
            file
            for file, before in self.contents[app].items()
            if not Path(file).exists() or Path(file).read_bytes() != before
        ]

    def made_of(self, source: Place, rows: Iterable[Written]) -> frozenset[Place]:
        """Those of some output rows that were made of a source row as it is now."""
        readers = set(self.readers(source[0]))
        return frozenset(
            row.place for row in rows if row.app in readers and source in self.witnesses(row)
        )

    def sources(self) -> list[tuple[Place, str]]:
        """All rows of inputs, and of outputs that a job has read: where they are, and what names them."""
        files = {file for read in self.contents.values() for file in read} | set(
            self.paths(self.inputs())
        )
        return [one for file in sorted(files) if Path(file).exists() for one in _tagged(file)]


def _tagged(file: str) -> list[tuple[Place, str]]:
    """The rows of a source, and what names each."""
    if file.endswith(PARQUET):
        return [(place, f"{row['ids']}@{row['j']}") for place, row in _rows(file)]
    lines = Path(file).read_text().splitlines()
    return [
        ((file, number), line.partition(",")[0])
        for number, line in enumerate(lines, start=1)
        if line and line != HEADER
    ]


def _rows(file: str) -> list[tuple[Place, dict[str, Any]]]:
    """The rows of an output file."""
    if file.endswith(PARQUET):
        return [((file, n), row) for n, row in enumerate(pq.read_table(file).to_pylist())]
    lines = Path(file).read_text().splitlines()
    return [((file, n), json.loads(line)) for n, line in enumerate(lines, start=1)]


def named(place: Place) -> str:
    """A place as people type it."""
    path, number = place
    return f"{path}#{number}" if path.endswith(PARQUET) else f"{path}:{number}"


def place_of(location: str) -> Place:
    """What `named` gave."""
    path, _, number = location.rpartition("#" if PARQUET in location else ":")
    return path, int(number)
