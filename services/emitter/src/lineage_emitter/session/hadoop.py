"""What the driver asks Spark's JVM about files: the splits of a source, the files of a sink."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError

from lineage_core.contract.graph import Unit
from lineage_core.contract.message import RecordSplit, RecordSplits, SinkFile, Split, Splits
from lineage_emitter.sdk.files import is_compressed
from lineage_emitter.session.jvm_texts import texts_of

if TYPE_CHECKING:
    from pyspark import SparkContext

    from lineage_core.contract.graph import SplitRecord

_PART = re.compile(r"part-(?:[a-z]-)?(\d+)")
_OLD_RDD, _NEW_RDD = "org.apache.spark.rdd.HadoopRDD", "org.apache.spark.rdd.NewHadoopRDD"
_OLD, _NEW = "org.apache.hadoop.mapred", "org.apache.hadoop.mapreduce.lib.input"
_LOCAL = "file:"
_FILE_SPLIT = re.compile(r"(.*):(\d+)\+(\d+)", re.DOTALL)
"""A file, where a range of it begins, and its length: the text of Hadoop's splits."""
_TEXT = "java.lang.String"
_WRITABLE = "org.apache.spark.SerializableWritable"
_PLAIN_SPLITS = {
    _OLD_RDD: (
        ("org.apache.spark.rdd.HadoopPartition", "inputSplit", _WRITABLE),
        f"{_OLD}.FileSplit",
    ),
    _NEW_RDD: (
        ("org.apache.spark.rdd.NewHadoopPartition", "serializableHadoopSplit", _WRITABLE),
        f"{_NEW}.FileSplit",
    ),
}
"""By kind of RDD how its partitions give their split, and the class of a split that is one range of one file."""
_FOLDERS_IN = ("mapreduce.input.fileinputformat.inputdir", "mapred.input.dir")
_FOLDERS_OUT = ("mapreduce.output.fileoutputformat.outputdir", "mapred.output.dir")


@dataclass(frozen=True, slots=True, eq=False)
class FileSource:
    """A source that reads files through Hadoop.

    ``jrdd``: the Java RDD. ``unit``: what a record is of its file. ``record_bytes``: the length of
    each where all are equally long, else 0.
    """

    jrdd: Any
    unit: Unit = "line"
    record_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _FileRange:
    """A range of a file that a partition reads; ``row``: its place among those of the partition."""

    partition: int
    row: int
    path: str
    start: int
    length: int


def splits_of(
    sc: SparkContext, app: str, node: str, source: FileSource
) -> Splits | RecordSplits | None:
    """Files and byte ranges of the partitions of a source.

    None where partitions are no ranges of files, or records can't be assigned to files: the
    source is a table, say, or a partition holds records of several files.

    Raises:
        py4j.protocol.Py4JError: the files can't be read.
    """
    file_ranges = list(_file_ranges(sc, source.jrdd.rdd()))
    if source.unit != "file" and len({piece.partition for piece in file_ranges}) < len(file_ranges):
        return None
    states = _FileStates(sc)
    if source.unit == "line":
        return Splits(
            app=app, node=node, splits=tuple(_line_split(piece, states) for piece in file_ranges)
        )
    splits = tuple(_record_split(piece, states, source.record_bytes) for piece in file_ranges)
    if not splits:
        return None
    return RecordSplits(app=app, node=node, whole=source.unit == "file", splits=splits)


def with_reading_rdd(sc: SparkContext, source: FileSource) -> FileSource:
    """The same source, whose Java RDD reads the files itself."""
    return replace(source, jrdd=_reading_rdd(sc, source.jrdd.rdd()).toJavaRDD())


def _reading_rdd(sc: SparkContext, rdd: Any) -> Any:
    """The RDD that reads: Spark maps what Hadoop reads, partition by partition."""
    while not any(is_instance_of(sc._gateway, rdd, name) for name in (_OLD_RDD, _NEW_RDD)):
        rdd = rdd.dependencies().apply(0).rdd()
    return rdd


def _file_ranges(sc: SparkContext, rdd: Any) -> Iterator[_FileRange]:
    rdd = _reading_rdd(sc, rdd)
    ranges = _plain_ranges(sc, rdd)
    return _ranges_one_by_one(sc, rdd) if ranges is None else iter(ranges)


def _plain_ranges(sc: SparkContext, rdd: Any) -> list[_FileRange] | None:
    """The ranges of an RDD of which each partition is one range of one file, in a few calls; None: not all are."""
    kind = next(name for name in _PLAIN_SPLITS if is_instance_of(sc._gateway, rdd, name))
    split_of_partition, plain_class = _PLAIN_SPLITS[kind]
    split = (split_of_partition, (_WRITABLE, "value", "org.apache.hadoop.io.Writable"))
    name = (
        ("java.lang.Object", "getClass", "java.lang.Class"),
        ("java.lang.Class", "getName", _TEXT),
    )
    partitions = rdd.toJavaRDD().partitions()
    if partitions.isEmpty():
        return []
    try:
        # A class of an input format's own may call itself anything.
        if set(texts_of(sc._jvm, partitions, (*split, *name)) or ()) != {plain_class}:
            return None
        texts = texts_of(sc._jvm, partitions, (*split, ("java.lang.Object", "toString", _TEXT)))
    except Py4JError:
        return None
    matches = [_FILE_SPLIT.fullmatch(text) for text in texts or ()]
    ranges = [
        _FileRange(index, 0, match[1], int(match[2]), int(match[3]))
        for index, match in enumerate(matches)
        if match is not None
    ]
    return ranges if len(ranges) == partitions.size() else None


def _ranges_one_by_one(sc: SparkContext, rdd: Any) -> Iterator[_FileRange]:
    def is_a(java_object: Any, name: str) -> bool:
        return bool(is_instance_of(sc._gateway, java_object, name))

    new = is_a(rdd, _NEW_RDD)
    for index, partition in enumerate(rdd.partitions()):
        split = (partition.serializableHadoopSplit() if new else partition.inputSplit()).value()
        if is_a(split, f"{_NEW}.CombineFileSplit"):
            ranges = zip(split.getPaths(), split.getStartOffsets(), split.getLengths(), strict=True)
            for row, (path, start, length) in enumerate(ranges):
                yield _FileRange(index, row, path.toString(), start, length)
        elif is_a(split, f"{_OLD}.FileSplit") or is_a(split, f"{_NEW}.FileSplit"):
            path, start, length = split.getPath(), split.getStart(), split.getLength()
            yield _FileRange(index, 0, path.toString(), start, length)


class _FileStates:
    """Sizes and times of files, each read once."""

    def __init__(self, sc: SparkContext) -> None:
        self._sc = sc
        self._states: dict[str, dict[str, Any]] = {}

    def of(self, path: str) -> dict[str, Any]:
        """``path`` as text, ``file_size`` in bytes, ``mtime`` in unix seconds."""
        if path not in self._states:
            size, mtime_ms = _local_state(path) or self._state(path)
            self._states[path] = {"path": path, "file_size": size, "mtime": mtime_ms / 1000}
        return self._states[path]

    def _state(self, path: str) -> tuple[int, int]:
        assert self._sc._jvm is not None
        java_path = self._sc._jvm.org.apache.hadoop.fs.Path(path)
        system = java_path.getFileSystem(self._sc._jsc.hadoopConfiguration())
        status = system.getFileStatus(java_path)
        return status.getLen(), status.getModificationTime()


def _local_state(path: str) -> tuple[int, int] | None:
    """Size, and time in milliseconds, of a file on this machine's disks, as Hadoop says them; None: it is elsewhere, or can't be read here."""
    if not path.startswith(f"{_LOCAL}/"):
        return None
    try:
        state = os.stat(path.removeprefix(_LOCAL))
    except (OSError, ValueError):
        return None
    return state.st_size, state.st_mtime_ns // 1_000_000


def _line_split(file_range: _FileRange, states: _FileStates) -> Split:
    state = states.of(file_range.path)
    return Split(
        partition=file_range.partition,
        start=file_range.start,
        length=file_range.length,
        compressed=is_compressed(state["path"]),
        **state,
    )


def _record_split(file_range: _FileRange, states: _FileStates, record_bytes: int) -> RecordSplit:
    return RecordSplit(
        partition=file_range.partition,
        row=file_range.row,
        start=file_range.start,
        length=file_range.length,
        first=file_range.start // record_bytes if record_bytes else None,
        **states.of(file_range.path),
    )


def _local_files(folder: str) -> list[tuple[str, int, int]] | None:
    """Files in a folder of this machine's disks, with size and time as :func:`_local_state` has them; None: it is elsewhere."""
    if not folder.startswith(f"{_LOCAL}/"):
        return None
    files = []
    try:
        with os.scandir(folder.removeprefix(_LOCAL)) as entries:
            for entry in entries:
                if entry.is_file():
                    state = entry.stat()
                    mtime_ms = state.st_mtime_ns // 1_000_000
                    files.append((f"{folder}/{entry.name}", state.st_size, mtime_ms))
    except (OSError, ValueError):
        return None
    return files


def reads_files(sc: SparkContext, input_format: str) -> bool:
    """Whether an ``InputFormat`` is one of files.

    These give the same records in the same order each time that a split is read; a table need not.
    """
    assert sc._jvm is not None
    loader = sc._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    format_class = loader.loadClass(input_format)
    return any(
        loader.loadClass(f"{package}.FileInputFormat").isAssignableFrom(format_class)
        for package in (_OLD, _NEW)
    )


def folder_in(conf: Mapping[str, str] | None) -> str | None:
    """The folder that a Hadoop configuration says to read."""
    return _first(conf, _FOLDERS_IN)


def folder_out(conf: Mapping[str, str] | None) -> str | None:
    """The folder that a Hadoop configuration says to write."""
    return _first(conf, _FOLDERS_OUT)


def _first(conf: Mapping[str, str] | None, keys: tuple[str, ...]) -> str | None:
    return next((conf[key] for key in keys if key in conf), None) if conf else None


def sink_files(sc: SparkContext, folder: str) -> list[SinkFile]:
    """The part files that Spark committed under ``folder``."""
    assert sc._jvm is not None
    path = sc._jvm.org.apache.hadoop.fs.Path(folder)
    file_system = path.getFileSystem(sc._jsc.hadoopConfiguration())
    files: list[SinkFile] = []
    if not file_system.exists(path):
        # An output format may write elsewhere.
        return files
    for name, size, mtime_ms in _local_files(file_system.makeQualified(path).toString()) or (
        (status.getPath().toString(), status.getLen(), status.getModificationTime())
        for status in file_system.listStatus(path)
        if status.isFile()
    ):
        part = _PART.match(name.rpartition("/")[2])
        if part is not None:
            file = SinkFile(partition=int(part[1]), path=name, size=size, mtime=mtime_ms / 1000)
            files.append(file)
    return sorted(files, key=lambda file: file.partition)


def changed_file(sc: SparkContext, splits: Iterable[SplitRecord]) -> str | None:
    """The first file of some splits that is not any more as it was when it was read; None: all are."""
    assert sc._jvm is not None
    configuration = sc._jsc.hadoopConfiguration()
    for name, split in {split.path: split for split in splits}.items():
        path = sc._jvm.org.apache.hadoop.fs.Path(name)
        file_system = path.getFileSystem(configuration)
        if not file_system.exists(path):
            return name
        status = file_system.getFileStatus(path)
        state = (status.getLen(), status.getModificationTime() / 1000)
        if state != (split.file_size, split.mtime):
            return name
    return None
