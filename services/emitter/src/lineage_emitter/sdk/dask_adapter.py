"""Dask bags, DataFrames and delayed calls, captured while a program runs as it is.

Records of a bag carry the addresses of the source records that they were made from. What a task gives is its
record and its lineage in one, so a task that is tried again, or computed again elsewhere, counts once.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial, partialmethod
from importlib import import_module
from itertools import count
from typing import Any, NoReturn

import dask
import numpy as np
from dask import bag, base
from dask.bag.core import Bag, reify
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph
from dask.utils import system_encoding
from distributed import Client
from fsspec.core import open_files

from lineage_core.contract.message import (
    RecordFiles,
    RecordSplit,
    RecordSplits,
    SinkFiles,
    Split,
    Splits,
)
from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.module_watch import call_on_load
from lineage_emitter.sdk.api import LineageApi
from lineage_emitter.sdk.dask_bags import TracedBag, TracedItem, bag_of_batches, concatenated
from lineage_emitter.sdk.dask_files import (
    is_plain,
    read_with_splits,
    sink_file,
    write_lines,
)
from lineage_emitter.sdk.dask_refusals import (
    COMPUTE_VALUE,
    INSIDE,
    METHOD,
    refuse,
    refuse_file,
    refuse_frame,
)
from lineage_emitter.sdk.dask_rows import Rows, joined_rows, numbered, origins_of
from lineage_emitter.sdk.line_files import changed

calls = import_module("dask.delayed")  # the package has a function of this name
SOURCES = ("from_sequence", "read_text", "range", "from_url")
TEXT_READERS = ("read_csv", "read_table", "read_fwf")
CSV_MODULES = ("dask.dataframe", "dask.dataframe.io", "dask.dataframe.io.csv")
PARQUET_MODULES = (
    "dask.dataframe",
    "dask.dataframe.dask_expr",
    "dask.dataframe.dask_expr.io.parquet",
)
"""Modules that have the functions by which DataFrames write files; methods take them from the last one."""
NO_FIT = "rows and their origins do not fit each other"
MANY_BAGS = ("zip", "map", "map_partitions", "from_delayed")


def _ids(text: str) -> frozenset[str]:
    return frozenset(filter(None, text.split(",")))


class _Capture:
    def __init__(self, api: LineageApi) -> None:
        self.api = api
        self.numbers = count()
        self.compute = base.compute
        self.frames: Any = None
        """The module that traces DataFrames, once the program has loaded ``dask.dataframe``: many programs never do."""
        self.frame_files: Any = None
        """The module for the files of these, loaded with it."""
        self.frame_lines: Any = None
        """The module for files of text that they are read from, loaded with it."""
        self.frame_sources: dict[str, Any] = {}
        """By the name of an expression what names its rows."""
        self.frame_texts: dict[str, Any] = {}
        """By the name of an expression the text that it reads."""
        self.rest: dict[str, str] = {}
        """Paths of the text whose rows may be no lines, by the nodes of such rows."""
        self.splits: tuple[Split | RecordSplit, ...] = ()

    def source(self, make: Callable[..., Any], *args: Any, **options: Any) -> TracedBag:
        """A source of a bag, whose records are numbered in each partition."""
        splits: tuple[Split, ...] = ()
        if make.__name__ == "read_text" and options.get("collection", True):
            made, splits = read_with_splits(make, *args, **options)
        else:
            made = make(*args, **options)
        name = f"{make.__name__}-{next(self.numbers)}"
        fields = {"path": os.path.commonpath([split.path for split in splits])} if splits else {}
        node = self.api.register(name, make.__name__, kind="source", **fields)
        if splits:
            self.api.send_files(Splits(app=self.api.app, node=node, splits=splits))
            self.splits += splits
        name = f"numbered-{node}-{made.name}"
        graph = {
            (name, n): (reify, (numbered, f"{node}#{n}", (made.name, n)))
            for n in range(made.npartitions)
        }
        layers = HighLevelGraph.from_collections(name, graph, dependencies=[made])
        return TracedBag(layers, name, made.npartitions)

    def computed(self, *args: Any, **options: Any) -> tuple[Any, ...]:
        """What ``dask.compute`` gives, with its lineage."""
        captured = TracedBag | TracedItem | Delayed
        for arg in args:
            is_captured = isinstance(arg, captured) or self.is_frame(arg)
            if not is_captured and (found := base.unpack_collections(arg)[0]):
                refuse(f"dask.compute of {type(found[0]).__name__} here", way_out=INSIDE)
        if any(map(self.is_frame, args)):
            return tuple(
                self.computed_frame(arg, **options)
                if self.is_frame(arg)
                else self.computed(arg, **options)[0]
                for arg in args
            )
        results = self.compute(*args, **options)
        return tuple(map(self.keep, args, results))

    def written(
        self,
        traced: TracedBag,
        path: Any,
        name_function: Any = None,
        compression: str = "infer",
        encoding: str | None = system_encoding,
        compute: bool = True,
        storage_options: Any = None,
        last_endline: bool = False,
        **options: Any,
    ) -> list[str]:
        """As ``to_textfiles``, with the lineage of the lines."""
        files = open_files(
            path,
            compression=compression,
            mode="wb" if encoding is None else "wt",
            encoding=encoding,
            name_function=name_function,
            num=traced.npartitions,
            **(storage_options or {}),
        )
        if not compute or not is_plain(files):
            refuse_file("Bag.to_textfiles later, compressed, or to other file systems")
        name = f"to-textfiles-{uuid.uuid4().hex}"
        graph = {
            (name, n): (_written, (traced.name, n), file, last_endline)
            for n, file in enumerate(files)
        }
        layers = HighLevelGraph.from_collections(name, graph, dependencies=[bag_of_batches(traced)])
        (parts,) = self.compute(Bag(layers, name, traced.npartitions), **options)
        self.keep_files(os.path.dirname(files[0].path), files, parts)
        return [file.path for file in files]

    def keep_files(self, folder: str, files: list[Any], parts: Sequence[Any]) -> None:
        """Keep the lineage of the lines of files, one of each partition."""
        sink = self.sink("to_textfiles", [rows for _, rows in parts], path=folder)
        sink_files = []
        for n, (file, (wrote, rows)) in enumerate(zip(files, parts, strict=True)):
            described, problem = sink_file(n, file.path, wrote)
            sink_files.append(described)
            self.keep_task(
                sink, n, rows.of_values([], np.arange(min(wrote.lines, len(rows.origins)))), problem
            )
        self.api.send_files(
            SinkFiles(app=self.api.app, node=sink, path=folder, files=tuple(sink_files))
        )

    def is_frame(self, collection: Any) -> bool:
        """Whether it is a DataFrame, a series, or a value computed from them."""
        return self.frames is not None and isinstance(collection, self.frames.FrameBase)

    def computed_frame(self, frame: Any, **options: Any) -> Any:
        """What ``compute`` gives of a DataFrame, a series or a value, with its lineage."""
        frames = self.frames
        tracing = frames.FrameTracing(self.frame_source, refuse_frame)
        packed = tracing.packed(frame)
        for name in ("fuse", "concatenate"):
            options.pop(name, None)
        rows, origins = frames.rows_of(*self.compute(packed, **options))
        ids = list(map(_ids, origins))
        known = [of_row for of_row in ids if frames.UNKNOWN not in of_row]
        fits = len(known) == len(ids) == len(rows)
        kept = Rows([], origins_of(known), frozenset(tracing.reasons))
        self.keep_rows([kept], "" if fits else NO_FIT)
        return rows.iloc[0] if isinstance(frame, frames.Scalar) else rows

    def written_frame(
        self, prepare: Callable[..., Any], original: Callable[..., Any], *args: Any, **options: Any
    ) -> Any:
        """As ``to_csv`` or ``to_parquet``, with the lineage of the rows. ``prepare``: says what a call writes."""
        call = prepare(original, refuse_file, *args, **options)
        tracing = self.frames.FrameTracing(self.frame_source, refuse_frame)
        (parts,) = self.compute(tracing.written(call.frame, call.write), **call.options)
        rows, problems = [], list[str]()
        for part, origins in parts:
            ids = (
                [frozenset[str](), *map(_ids, origins)] if part.header else list(map(_ids, origins))
            )
            known = [of_row for of_row in ids if self.frames.UNKNOWN not in of_row]
            fits = len(known) == len(ids) == part.written.lines
            rows.append(Rows([], origins_of(known), frozenset(tracing.reasons)))
            problems.append("" if fits else NO_FIT)
        folder = f"file:{os.path.realpath(call.write.folder)}"
        sink = self.sink(call.name, rows, path=folder)
        files = []
        for n, ((part, _), of_part, unfit) in enumerate(zip(parts, rows, problems, strict=True)):
            described, problem = sink_file(n, part.path, part.written)
            files.append(described)
            self.keep_task(sink, n, of_part, unfit or problem)
        kind = SinkFiles if call.write.has_lines else RecordFiles
        self.api.send_files(kind(app=self.api.app, node=sink, path=folder, files=tuple(files)))
        return call.result

    def frame_source(self, expression: Any) -> Any:
        """Register what a DataFrame is read from; gives what names its rows."""
        name = expression._name
        if name not in self.frame_sources:
            read = self.frame_texts.get(name)
            kind = read.name if read else type(expression).__name__
            path = read.path if read else self.frame_files.path_read(expression)
            node = self.register_source(f"{kind}-{next(self.numbers)}", kind, path)
            splits = self.frame_files.record_splits(expression)
            if splits:
                self.api.send_files(
                    RecordSplits(app=self.api.app, node=node, whole=False, splits=splits)
                )
            elif read and read.splits:
                splits = read.splits
                self.api.send_files(Splits(app=self.api.app, node=node, splits=splits))
                self.rest[node + self.frame_lines.ROWS] = path
            self.splits += splits
            numbers = read.numbers(node) if read else self.frame_lines.RowNumbers(node)
            self.frame_sources[name] = numbers
        return self.frame_sources[name]

    def register_source(self, name: str, kind: str, path: str) -> str:
        """The node of a source."""
        return self.api.register(name, kind, kind="source", **({"path": path} if path else {}))

    def read_frame(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """As a function that reads a DataFrame from files of text: what it is read from is known."""
        made, read = self.frame_lines.read_text(original, *args, **options)
        for source in made.expr.find_operations(self.frames.FromMap):
            self.frame_texts[source._name] = read
        return made

    def keep(self, collection: Any, result: Any) -> Any:
        """Keep the lineage of a result; gives the result as it would be without capture."""
        if isinstance(collection, Delayed):
            self.keep_calls(collection)
        if not isinstance(collection, TracedBag | TracedItem):
            return result
        batches = [result] if isinstance(result, Rows) else result
        self.keep_rows(batches)
        values = [value for rows in batches for value in rows.values]
        return values[0] if isinstance(collection, TracedItem) else values

    def keep_rows(self, batches: Sequence[Rows], problem: str = "") -> None:
        """Keep the lineage of the rows of a result, or why there is none."""
        self.keep_task(self.sink("compute", batches), 0, joined_rows(batches), problem)

    def sink(self, kind: str, batches: Iterable[Rows], **fields: Any) -> str:
        """A sink, linked to the sources of its rows."""
        for path in changed(self.splits):
            self.api.unknown("a source", f"{path} changed while it was read")
        sink = self.api.register(f"{kind}-{next(self.numbers)}", kind, kind="sink", **fields)
        spaces = {space.partition("#")[0] for rows in batches for space in rows.origins.spaces}
        for node in spaces & self.rest.keys():
            self.register_source(node, "rows", self.rest.pop(node))
        for source in sorted(spaces):
            self.api.flow_link(source, sink)
        return sink

    def keep_task(self, sink: str, partition: int, rows: Rows, problem: str) -> None:
        """Keep the lineage of the rows of a partition of a sink, or why there is none."""
        space = f"{sink}#{partition}"
        with self.api.task(sink, partition) as task:
            if problem:
                task.end_capture(CaptureFailedError(problem))
                return
            task.superset_reason = "; ".join(sorted(rows.reasons))
            for flows in rows.origins.flows():
                task.capture_columns(
                    flows.in_space,
                    flows.in_first,
                    space,
                    flows.out,
                    in_ptr=flows.in_ptr,
                    in_last=flows.in_last,
                )
            alone = rows.origins.without_items()
            nothing = np.zeros(0, np.uint64)
            task.capture_columns(
                space, nothing, space, alone, in_ptr=np.zeros(len(alone) + 1, np.int64)
            )

    def keep_calls(self, call: Delayed) -> None:
        """Keep the lineage of delayed calls: a value is made from its arguments. Keys name them in this result."""
        sink = self.api.register(f"delayed-{next(self.numbers)}", "delayed", kind="sink")
        with self.api.task(sink) as task:
            for key, arguments in call.dask.get_all_dependencies().items():
                for argument in arguments:
                    task.add_input(f"{sink}:{argument}", key)
                # A call without such arguments is where the data begins.
                if arguments:
                    task.add_output(f"{sink}:{key}", key)
            task.add_input(f"{sink}:{call.key}")
            task.add_output(f"{sink}#0#0")


def _computed_by(frame: Any, capture: _Capture, **options: Any) -> Any:
    return capture.computed_frame(frame, **options)


def _refuse_graph(frame: Any) -> NoReturn:
    refuse(f"{type(frame).__name__} in other ways than by compute", way_out=METHOD)


def _written(batches: Iterable[Rows], file: Any, last_endline: bool) -> list[Any]:
    """Write a partition; gives what was written, and the lineage of its lines."""
    rows = joined_rows(batches)
    wrote = write_lines(rows.values, file, last_endline=last_endline)
    return [(wrote, Rows([], rows.origins, rows.reasons))]


def _written_by(traced: TracedBag, capture: _Capture, *args: Any, **options: Any) -> list[str]:
    return capture.written(traced, *args, **options)


def _check_bags(collections: Iterable[Any]) -> None:
    if not all(isinstance(one, TracedBag | TracedItem) for one in collections):
        refuse("dask.persist of other collections than bags", way_out="leave out persist")


def _persisted(persist: Callable[..., Any], *args: Any, **options: Any) -> Any:
    _check_bags(args)
    return persist(*args, **options)


def _persisted_by(client: Client, persist: Callable[..., Any], kept: Any, **options: Any) -> Any:
    _check_bags(kept if isinstance(kept, list | tuple) else [kept])
    return persist(client, kept, **options)


def _argument(capture: _Capture, unpack: Callable[..., Any], argument: Any, **options: Any) -> Any:
    if isinstance(argument, TracedBag | TracedItem):
        refuse("dask.delayed of a bag", way_out=COMPUTE_VALUE)
    if capture.is_frame(argument):
        refuse("dask.delayed of a DataFrame", way_out=COMPUTE_VALUE)
    return unpack(argument, **options)


def _checked(original: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A function of Dask that is not captured: collections here are refused by name."""
    if base.unpack_collections(args, options)[0]:
        refuse(f"{original.__module__}.{original.__name__}", way_out=COMPUTE_VALUE)
    return original(*args, **options)


@contextmanager
def replace_operators(api: LineageApi) -> Iterator[None]:
    """As :func:`lineage_emitter.sdk.dask_capture.capture_dask`."""
    capture = _Capture(api)
    replaced: list[tuple[Any, str, Any]] = [
        (Client, "compute", partial(refuse, "Client.compute", way_out=METHOD)),
        (Client, "persist", partialmethod(_persisted_by, Client.persist)),
        (calls, "unpack_collections", partial(_argument, capture, calls.unpack_collections)),
    ]
    replaced.append((TracedBag, "to_textfiles", partialmethod(_written_by, capture)))
    for name in SOURCES:
        replaced.append((bag, name, partial(capture.source, getattr(bag, name))))
    replaced.append((bag, "to_textfiles", capture.written))
    replaced.append((bag, "concat", partial(concatenated, bag.concat)))
    for name in MANY_BAGS:
        replaced.append((bag, name, partial(_checked, getattr(bag, name))))
    for module in (dask, base):
        replaced.append((module, "compute", capture.computed))
        replaced.append((module, "persist", partial(_persisted, base.persist)))
    with ExitStack() as stack:

        def replace(owner: Any, name: str, replacement: Any) -> None:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, replacement)

        def capture_frames(_loaded: Any) -> None:
            capture.frames = import_module("lineage_emitter.sdk.dask_frames")
            frame = capture.frames.FrameBase
            replace(frame, "compute", partialmethod(_computed_by, capture))
            replace(frame, "__dask_graph__", partialmethod(_refuse_graph))
            files = capture.frame_files = import_module("lineage_emitter.sdk.dask_frame_files")
            capture.frame_lines = import_module("lineage_emitter.sdk.dask_frame_lines")
            frames = import_module("dask.dataframe")
            for name in TEXT_READERS:
                replace(frames, name, partial(capture.read_frame, getattr(frames, name)))
            for name, prepare, modules in (
                ("to_csv", files.csv_write, CSV_MODULES),
                ("to_parquet", files.parquet_write, PARQUET_MODULES),
            ):
                for module in map(import_module, modules):
                    original = getattr(module, name)
                    replace(module, name, partial(capture.written_frame, prepare, original))

        for owner, name, replacement in replaced:
            replace(owner, name, replacement)
        stack.callback(call_on_load("dask.dataframe", capture_frames))
        yield
