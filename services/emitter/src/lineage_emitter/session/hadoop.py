"""What the driver asks Spark's JVM about files: the splits of a source, the files of a sink."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from lineage_core.contract.graph import Unit
from lineage_core.contract.message import RecordSplit, RecordSplits, SinkFile, Split, Splits
from lineage_emitter.sdk.files import is_compressed
from lineage_emitter.session.jvm_texts import TEXT, JvmTexts, Step

if TYPE_CHECKING:
    from pyspark import SparkContext

    from lineage_core.contract.graph import SplitRecord

_PART = re.compile(r"part-(?:[a-z]-)?(\d+)")
_OLD_RDD, _NEW_RDD = "org.apache.spark.rdd.HadoopRDD", "org.apache.spark.rdd.NewHadoopRDD"
_UNION, _MAPPED = "org.apache.spark.rdd.UnionRDD", "org.apache.spark.rdd.MapPartitionsRDD"
_TEXT_STREAM = "text file stream"
"""What Spark calls the RDDs that it makes for ``textFileStream``, and no others."""
_OLD, _NEW = "org.apache.hadoop.mapred", "org.apache.hadoop.mapreduce.lib.input"
_LOCAL = "file:"
_FILE_SPLIT = re.compile(r"(.*):(\d+)\+(\d+)", re.DOTALL)
"""A file, where a range of it begins, and its length: the text of Hadoop's splits."""
_WRITABLE = "org.apache.spark.SerializableWritable"
_SPLITS = {
    _OLD_RDD: Step("org.apache.spark.rdd.HadoopPartition", "inputSplit", _WRITABLE),
    _NEW_RDD: Step("org.apache.spark.rdd.NewHadoopPartition", "serializableHadoopSplit", _WRITABLE),
}
"""By kind of RDD how its partitions give their split."""
_VALUE = Step(_WRITABLE, "value", "org.apache.hadoop.io.Writable")
_CLASS_NAME = (
    Step("java.lang.Object", "getClass", "java.lang.Class"),
    Step("java.lang.Class", "getName", TEXT),
)
_PLAIN_SPLITS = {f"{_OLD}.FileSplit", f"{_NEW}.FileSplit"}
"""Splits that are one range of one file."""
_COMBINED_SPLIT = f"{_NEW}.CombineFileSplit"
_PATHS, _NUMBERS, _OBJECTS = "[Lorg.apache.hadoop.fs.Path;", "[J", "[Ljava.lang.Object;"
_OF_COMBINED = tuple(
    (Step(_COMBINED_SPLIT, name, kind), Step("java.util.Arrays", "toString", TEXT, general))
    for name, kind, general in (
        ("getPaths", _PATHS, _OBJECTS),
        ("getStartOffsets", _NUMBERS, _NUMBERS),
        ("getLengths", _NUMBERS, _NUMBERS),
    )
)
"""Files of a split of several, where the range of each begins, and its length."""
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
    return replace(source, jrdd=_reading_rdd(JvmTexts(sc), source.jrdd.rdd())[0].toJavaRDD())


def text_stream_folder(sc: SparkContext, rdd: Any) -> str | None:
    """The folder whose files are the lines of an RDD that ``textFileStream`` gave (Spark's object); None: it is another RDD, or has none."""
    named = rdd.scope()
    if not named.isDefined() or not str(named.get().name()).startswith(_TEXT_STREAM):
        return None
    texts = JvmTexts(sc)
    # It takes the line of each record that Hadoop reads, file by file.
    if not texts.is_a(rdd, _MAPPED):
        return None
    files = rdd.dependencies().apply(0).rdd()
    if not texts.is_a(files, _UNION):
        return None
    of_files = parts_of(files)
    if not of_files or not all(texts.is_a(part, _NEW_RDD) for part in of_files):
        return None
    return str(of_files[0].name()).rpartition("/")[0]


def parts_of(union: Any) -> list[Any]:
    """The RDDs of a union, in the order of its partitions (Spark's objects)."""
    dependencies = union.dependencies()
    return [dependencies.apply(place).rdd() for place in range(dependencies.size())]


def _reading_rdd(texts: JvmTexts, rdd: Any) -> tuple[Any, str]:
    """The RDD that reads, or unites those that do, and of which kind it is: Spark maps what Hadoop reads, partition by partition."""
    while True:
        for kind in (*_SPLITS, _UNION):
            if texts.is_a(rdd, kind):
                return rdd, kind
        rdd = rdd.dependencies().apply(0).rdd()


def _file_ranges(sc: SparkContext, rdd: Any) -> Iterator[_FileRange]:
    return _ranges_of(JvmTexts(sc), rdd)


def _ranges_of(texts: JvmTexts, rdd: Any) -> Iterator[_FileRange]:
    rdd, kind = _reading_rdd(texts, rdd)
    if kind != _UNION:
        ranges = _ranges_together(texts, rdd, kind)
        yield from _ranges_one_by_one(texts, rdd, kind) if ranges is None else ranges
        return
    first = 0
    for part in parts_of(rdd):
        for piece in _ranges_of(texts, part):
            yield replace(piece, partition=first + piece.partition)
        first += part.getNumPartitions()


def _ranges_together(texts: JvmTexts, rdd: Any, kind: str) -> list[_FileRange] | None:
    """The ranges of an RDD's partitions in a few calls; None: some have to be looked at one by one."""
    partitions, split = rdd.toJavaRDD().partitions(), (_SPLITS[kind], _VALUE)
    if partitions.isEmpty():
        return []
    try:
        # A class of an input format's own may call itself anything.
        classes = set(texts.texts_of(partitions, (*split, *_CLASS_NAME)) or ())
        if len(classes) == 1 and classes <= _PLAIN_SPLITS:
            as_text = Step("java.lang.Object", "toString", TEXT)
            return _plain_ranges(texts.texts_of(partitions, (*split, as_text)))
        if classes == {_COMBINED_SPLIT}:
            columns = [texts.texts_of(partitions, (*split, *steps)) for steps in _OF_COMBINED]
            return _combined_ranges(*columns)
    except Py4JError:
        pass
    return None


def _plain_ranges(texts: list[str] | None) -> list[_FileRange] | None:
    matches = [_FILE_SPLIT.fullmatch(text) for text in texts or ()]
    ranges = [
        _FileRange(index, 0, match[1], int(match[2]), int(match[3]))
        for index, match in enumerate(matches)
        if match is not None
    ]
    return ranges if texts is not None and len(ranges) == len(texts) else None


def _combined_ranges(
    paths: list[str] | None, starts: list[str] | None, lengths: list[str] | None
) -> list[_FileRange] | None:
    """The ranges of partitions of several files. ``paths``, ``starts``, ``lengths``: of each partition a list, as Java writes it."""
    if paths is None or starts is None or lengths is None:
        return None
    ranges = []
    for index, texts in enumerate(zip(paths, starts, lengths, strict=True)):
        of_paths, of_starts, of_lengths = (text[1:-1].split(", ") for text in texts)
        if not len(of_paths) == len(of_starts) == len(of_lengths):
            # A path holds what divides them.
            return None
        for row, (path, start, length) in enumerate(
            zip(of_paths, of_starts, of_lengths, strict=True)
        ):
            ranges.append(_FileRange(index, row, path, int(start), int(length)))
    return ranges


def _ranges_one_by_one(texts: JvmTexts, rdd: Any, kind: str) -> Iterator[_FileRange]:
    for index, partition in enumerate(rdd.partitions()):
        new = kind == _NEW_RDD
        split = (partition.serializableHadoopSplit() if new else partition.inputSplit()).value()
        if texts.is_a(split, _COMBINED_SPLIT):
            ranges = zip(split.getPaths(), split.getStartOffsets(), split.getLengths(), strict=True)
            for row, (path, start, length) in enumerate(ranges):
                yield _FileRange(index, row, path.toString(), start, length)
        elif any(texts.is_a(split, name) for name in sorted(_PLAIN_SPLITS)):
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
