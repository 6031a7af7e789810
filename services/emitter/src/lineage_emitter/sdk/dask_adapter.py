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
from dask import bag, base
from dask.bag.core import Bag
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph
from dask.utils import system_encoding
from distributed import Client
from fsspec.core import open_files

from lineage_core.contract.message import SinkFiles, Split, Splits
from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.sdk.api import LineageApi
from lineage_emitter.sdk.dask_bags import Row, TracedBag, TracedItem, bag_of_rows, numbered, refuse
from lineage_emitter.sdk.dask_files import (
    changed,
    is_plain,
    read_with_splits,
    sink_file,
    write_lines,
)
from lineage_emitter.sdk.dask_frames import UNKNOWN, FrameBase, FrameTracing, Scalar, rows_of

calls = import_module("dask.delayed")  # the package has a function of this name
SOURCES = ("from_sequence", "read_text", "range", "from_url")
MANY_BAGS = ("concat", "zip", "map", "map_partitions", "from_delayed")


def _ids(text: str) -> frozenset[str]:
    return frozenset(filter(None, text.split(",")))


class _Capture:
    def __init__(self, api: LineageApi) -> None:
        self.api = api
        self.numbers = count()
        self.compute = base.compute
        self.frame_sources: dict[str, str] = {}
        self.splits: tuple[Split, ...] = ()

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
            self.api.send(Splits(app=self.api.app, node=node, splits=splits))
            self.splits += splits
        name = f"numbered-{node}-{made.name}"
        graph = {
            (name, n): (numbered, f"{node}#{n}", (made.name, n)) for n in range(made.npartitions)
        }
        layers = HighLevelGraph.from_collections(name, graph, dependencies=[made])
        return TracedBag(layers, name, made.npartitions)

    def computed(self, *args: Any, **options: Any) -> tuple[Any, ...]:
        """What ``dask.compute`` gives, with its lineage."""
        captured = TracedBag | TracedItem | Delayed | FrameBase
        for arg in args:
            if not isinstance(arg, captured) and (found := base.unpack_collections(arg)[0]):
                refuse(f"dask.compute of {type(found[0]).__name__} here")
        if any(isinstance(arg, FrameBase) for arg in args):
            return tuple(
                self.computed_frame(arg, **options)
                if isinstance(arg, FrameBase)
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
            refuse("Bag.to_textfiles later, compressed, or to other file systems")
        name = f"to-textfiles-{uuid.uuid4().hex}"
        graph = {
            (name, n): (_written, (traced.name, n), file, last_endline)
            for n, file in enumerate(files)
        }
        layers = HighLevelGraph.from_collections(name, graph, dependencies=[bag_of_rows(traced)])
        (parts,) = self.compute(Bag(layers, name, traced.npartitions), **options)
        self.keep_files(os.path.dirname(files[0].path), files, parts)
        return [file.path for file in files]

    def keep_files(self, folder: str, files: list[Any], parts: Sequence[Any]) -> None:
        """Keep the lineage of the lines of files, one of each partition."""
        sink = self.sink("to_textfiles", [row for _, rows in parts for row in rows], path=folder)
        sink_files = []
        for n, (file, (wrote, rows)) in enumerate(zip(files, parts, strict=True)):
            described, problem = sink_file(n, file, wrote)
            sink_files.append(described)
            self.keep_task(sink, n, rows[: wrote.lines], problem)
        self.api.send(SinkFiles(app=self.api.app, node=sink, path=folder, files=tuple(sink_files)))

    def computed_frame(self, frame: FrameBase, **options: Any) -> Any:
        """What ``compute`` gives of a DataFrame, a series or a value, with its lineage."""
        tracing = FrameTracing(self.frame_source, refuse)
        packed = tracing.packed(frame)
        for name in ("fuse", "concatenate"):
            options.pop(name, None)
        rows, origins = rows_of(*self.compute(packed, **options))
        kept = [Row(None, _ids(text), frozenset(tracing.reasons)) for text in origins]
        self.keep_rows(kept if len(kept) == len(rows) else [Row(None, frozenset([UNKNOWN]))])
        return rows.iloc[0] if isinstance(frame, Scalar) else rows

    def frame_source(self, expression: Any) -> str:
        """The node of what a DataFrame is read from."""
        name, kind = expression._name, type(expression).__name__
        if name not in self.frame_sources:
            self.frame_sources[name] = self.api.register(
                f"{kind}-{next(self.numbers)}", kind, kind="source"
            )
        return self.frame_sources[name]

    def keep(self, collection: Any, result: Any) -> Any:
        """Keep the lineage of a result; gives the result as it would be without capture."""
        if isinstance(collection, Delayed):
            self.keep_calls(collection)
        if not isinstance(collection, TracedBag | TracedItem):
            return result
        self.keep_rows([result] if isinstance(result, Row) else result)
        return result.value if isinstance(result, Row) else [row.value for row in result]

    def keep_rows(self, rows: Sequence[Row]) -> None:
        """Keep the lineage of the rows of a result."""
        is_unknown = any(UNKNOWN in row.ids for row in rows)
        problem = "rows and their origins do not fit each other" if is_unknown else ""
        self.keep_task(self.sink("compute", rows), 0, rows, problem)

    def sink(self, kind: str, rows: Iterable[Row], **fields: Any) -> str:
        """A sink, linked to the sources of its rows."""
        for path in changed(self.splits):
            self.api.unknown("read_text", f"{path} changed while it was read")
        sink = self.api.register(f"{kind}-{next(self.numbers)}", kind, kind="sink", **fields)
        spaces = {item.partition("#")[0] for row in rows for item in row.ids}
        for source in sorted(spaces - {UNKNOWN}):
            self.api.flow_link(source, sink)
        return sink

    def keep_task(self, sink: str, partition: int, rows: Sequence[Row], problem: str) -> None:
        """Keep the lineage of the rows of a partition of a sink, or why there is none."""
        with self.api.task(sink, partition) as task:
            if problem:
                task.end_capture(CaptureFailedError(problem))
                return
            task.superset_reason = "; ".join(sorted(set().union(*(row.reasons for row in rows))))
            for n, row in enumerate(rows):
                for item in sorted(row.ids):
                    task.add_input(item)
                task.add_output(f"{sink}#{partition}#{n}", reset=True)

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


def _computed_by(frame: FrameBase, capture: _Capture, **options: Any) -> Any:
    return capture.computed_frame(frame, **options)


def _refuse_graph(frame: FrameBase) -> NoReturn:
    refuse(f"{type(frame).__name__} in other ways than by compute")


def _written(rows: Iterable[Row], file: Any, last_endline: bool) -> list[Any]:
    """Write a partition; gives what was written, and the lineage of its lines."""
    rows = list(rows)
    wrote = write_lines([row.value for row in rows], file, last_endline=last_endline)
    return [(wrote, [Row(None, row.ids, row.reasons) for row in rows])]


def _written_by(traced: TracedBag, capture: _Capture, *args: Any, **options: Any) -> list[str]:
    return capture.written(traced, *args, **options)


def _check_bags(collections: Iterable[Any]) -> None:
    if not all(isinstance(one, TracedBag | TracedItem) for one in collections):
        refuse("dask.persist of other collections than bags")


def _persisted(persist: Callable[..., Any], *args: Any, **options: Any) -> Any:
    _check_bags(args)
    return persist(*args, **options)


def _persisted_by(client: Client, persist: Callable[..., Any], kept: Any, **options: Any) -> Any:
    _check_bags(kept if isinstance(kept, list | tuple) else [kept])
    return persist(client, kept, **options)


def _argument(unpack: Callable[..., Any], argument: Any, **options: Any) -> Any:
    if isinstance(argument, TracedBag | TracedItem):
        refuse("dask.delayed of a bag")
    if isinstance(argument, FrameBase):
        refuse("dask.delayed of a DataFrame")
    return unpack(argument, **options)


def _checked(original: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A function of Dask that is not captured: collections here are refused by name."""
    if base.unpack_collections(args, options)[0]:
        refuse(f"{original.__module__}.{original.__name__}")
    return original(*args, **options)


@contextmanager
def replace_operators(api: LineageApi) -> Iterator[None]:
    """As :func:`lineage_emitter.sdk.dask_capture.capture_dask`."""
    capture = _Capture(api)
    replaced: list[tuple[Any, str, Any]] = [
        (Client, "compute", partial(refuse, "Client.compute")),
        (FrameBase, "compute", partialmethod(_computed_by, capture)),
        (FrameBase, "__dask_graph__", partialmethod(_refuse_graph)),
        (Client, "persist", partialmethod(_persisted_by, Client.persist)),
        (calls, "unpack_collections", partial(_argument, calls.unpack_collections)),
    ]
    replaced.append((TracedBag, "to_textfiles", partialmethod(_written_by, capture)))
    for name in SOURCES:
        replaced.append((bag, name, partial(capture.source, getattr(bag, name))))
    replaced.append((bag, "to_textfiles", capture.written))
    for name in MANY_BAGS:
        replaced.append((bag, name, partial(_checked, getattr(bag, name))))
    for module in (dask, base):
        replaced.append((module, "compute", capture.computed))
        replaced.append((module, "persist", partial(_persisted, base.persist)))
    with ExitStack() as stack:
        for owner, name, replacement in replaced:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, replacement)
        yield
