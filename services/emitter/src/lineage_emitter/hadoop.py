"""What the driver asks Spark's JVM about files: the splits of a source, the files of a sink."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lineage_core.message import SinkFile, Split

if TYPE_CHECKING:
    from pyspark import SparkContext

_PART = re.compile(r"part-(?:[a-z]-)?(\d+)")


def text_splits(sc: SparkContext, jrdd: Any) -> list[Split]:
    """Files and byte ranges of the partitions of a ``textFile``.

    Raises:
        py4j.protocol.Py4JError: the RDD is not a Hadoop text source.
    """
    hadoop = jrdd.rdd().prev()
    configuration = sc._jsc.hadoopConfiguration()
    statuses: dict[str, tuple[int, float]] = {}
    splits = []
    for index, partition in enumerate(hadoop.partitions()):
        split = partition.inputSplit().value()
        path = split.getPath()
        name = path.toString()
        if name not in statuses:
            status = path.getFileSystem(configuration).getFileStatus(path)
            statuses[name] = (status.getLen(), status.getModificationTime() / 1000)
        size, mtime = statuses[name]
        splits.append(
            Split(
                partition=index,
                path=name,
                start=split.getStart(),
                length=split.getLength(),
                file_size=size,
                mtime=mtime,
                compressed=is_compressed(name),
            )
        )
    return splits


def is_compressed(path: str) -> bool:
    """Whether Hadoop would read the file through a codec, by its extension."""
    return path.endswith((".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate"))


def sink_files(sc: SparkContext, folder: str) -> list[SinkFile]:
    """The part files that Spark committed under ``folder``."""
    assert sc._jvm is not None
    path = sc._jvm.org.apache.hadoop.fs.Path(folder)
    file_system = path.getFileSystem(sc._jsc.hadoopConfiguration())
    files = []
    for status in file_system.listStatus(path):
        part = _PART.match(status.getPath().getName())
        if part is not None:
            files.append(
                SinkFile(
                    partition=int(part[1]),
                    path=status.getPath().toString(),
                    size=status.getLen(),
                    mtime=status.getModificationTime() / 1000,
                )
            )
    return sorted(files, key=lambda file: file.partition)
