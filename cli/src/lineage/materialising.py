"""``lineage materialise``: the rows of DataFrames' outputs as ordinary lineage, for traces in milliseconds.

The relations are those of :mod:`lineage_dataframes.trace.relations`. They become the flows of an application of their
own, which has the files of the job's: a trace of a row of such a file uses its flows.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lineage.frame_traces import spark_session
from lineage.options import print_json
from lineage.servers import SERVER_SCHEMES
from lineage.terminal import echo
from lineage_core.contract.graph import FlowGraph, NodeRecord
from lineage_core.contract.message import NodeKind, RecordFiles, RecordSplits, SinkFiles, Splits
from lineage_core.recipe.document import Recipe, Source
from lineage_core.recipe.names import TEXT_FORMATS
from lineage_core.tracing.trace_result import TraceError
from lineage_dataframes.errors import FramesError, RefusedError
from lineage_dataframes.sandbox.starting import written_folder
from lineage_dataframes.sources.locations import line_numbers_of_file
from lineage_dataframes.sources.text_records import has_lines
from lineage_dataframes.trace.allowed import check_recipe_allowed
from lineage_dataframes.trace.pairs import ItemKind, ItemPairs
from lineage_dataframes.trace.relations import Relations
from lineage_query.finding import find_application
from lineage_query.names import Names
from lineage_query.rows.reader import RowReader
from lineage_store.materialised import NAME_ENDING, SUFFIX
from lineage_store.paths import plain_path
from lineage_store.recipes import read_recipe
from lineage_store.url import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lineage_emitter.sdk.api import LineageApi
    from lineage_emitter.sdk.task_capture import TaskCapture
    from lineage_store.port import GraphStore

PAIR_BITS = 63
"""Bits of a pair packed into one number, which sorts far faster than two numbers."""


@dataclass
class Materialised:
    """The result of materialising. ``app``: the application with the flows; ``refused``: reasons by node."""

    app: str
    flows: int = 0
    associations: int = 0
    nodes: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """For tools."""
        return asdict(self)


def materialise(
    store: GraphStore, url: str, app: str, outputs: Sequence[str] = (), *, again: bool = False
) -> Materialised:
    """Materialise outputs of an application, all that have files, or those that ``outputs`` names.

    Raises:
        TraceError: no such output, it is done already, or Spark does not start.
        SettingsError: the flows can't be sent from here.
        OSError: the folder for relations, or the spool, can't be written.
    """
    chosen = _chosen(store.graph(app), outputs)
    outcome = Materialised(f"{app}{SUFFIX}")
    if outcome.app in store.application_ids():
        if not again:
            raise TraceError(f"{app} is materialised, as {outcome.app}; --again repeats it")
        store.delete(outcome.app)
    started = time.monotonic()
    with ExitStack() as stack:
        spark = stack.enter_context(spark_session())
        scratch = Path(tempfile.mkdtemp(prefix="lineage-materialise-", dir=written_folder()))
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        ready: list[tuple[NodeRecord, Recipe, Relations]] = []
        for number, (node, recipe) in enumerate(chosen):
            try:
                check_recipe_allowed(recipe, RowReader())
                _check_ends(store.graph(app), node)
                for source in recipe.reads():
                    _check_lines(source)
                # Not by the node's id, which its program chose, and which may be a path.
                relations = Relations(spark, recipe, scratch / str(number))
                _check_lines(relations.output)
                ready.append((node, recipe, relations))
            except FramesError as problem:
                outcome.refused[node.node] = str(problem)
        if ready:
            _send(store, url, app, outcome, spark, ready)
    outcome.seconds = time.monotonic() - started
    return outcome


def _chosen(graph: FlowGraph, outputs: Sequence[str]) -> list[tuple[NodeRecord, Recipe]]:
    names, chosen = Names(graph.nodes()), list[tuple[NodeRecord, Recipe]]()
    for node in graph.nodes():
        if node.kind != "frame" or (outputs and not _is_called(node, names, outputs)):
            continue
        recipe = read_recipe(graph, node.node)
        if recipe is not None and recipe.output.files:
            chosen.append((node, recipe))
    if not chosen:
        selection = f"called {', '.join(outputs)}" if outputs else "with files"
        raise TraceError(
            f"the application has no DataFrame's output {selection}: see lineage graph"
        )
    return chosen


def _is_called(node: NodeRecord, names: Names, patterns: Sequence[str]) -> bool:
    """Whether one of the ``patterns`` (``*`` matches any text) matches a name of the node."""
    node_names = {node.node, names.label(node.node)}
    if node.path is not None:
        node_names |= {node.path, plain_path(node.path)}
    return any(fnmatchcase(name, like) for name in node_names for like in patterns)


def _check_ends(graph: FlowGraph, node: NodeRecord) -> None:
    """Check that lineage ends at the node's sources, as materialised lineage ends there.

    Raises:
        RefusedError: a source holds rows of an RDD.
    """
    links = graph.links()
    sources = {link.src for link in links if link.dest == node.node}
    if any(link.dest in sources for link in links):
        raise RefusedError("it reads rows of an RDD, whose lineage continues")


def _check_lines(source: Source) -> None:
    if source.format in TEXT_FORMATS and not has_lines(source):
        raise RefusedError(f"rows of these {source.format} files are no lines")


def _send(
    store: GraphStore,
    url: str,
    app: str,
    outcome: Materialised,
    spark: SparkSession,
    ready: Sequence[tuple[NodeRecord, Recipe, Relations]],
) -> None:
    from lineage_emitter.sdk.api import LineageApi
    from lineage_emitter.settings import read_settings

    name = next(record.name for record in store.applications() if record.app == app)
    settings = read_settings(store=url)
    title = f"{name}{NAME_ENDING}"
    with LineageApi(title, app=outcome.app, settings=settings, raising=True) as api:
        for node, recipe, relations in ready:
            sender = _Sender(api, store, app, spark, node, recipe, relations)
            sender.send()
            outcome.nodes.append(node.node)
            outcome.flows += sender.flows
            outcome.associations += sender.associations


class _Sender:
    """Sends the relations of one output."""

    def __init__(
        self,
        api: LineageApi,
        store: GraphStore,
        app: str,
        spark: SparkSession,
        output: NodeRecord,
        recipe: Recipe,
        relations: Relations,
    ) -> None:
        self._api, self._store, self._app, self._spark = api, store, app, spark
        self._output, self._recipe, self._relations = output, recipe, relations
        self._nodes = {node.node: node for node in store.graph(app).nodes()}
        self._producers = [
            link.src for link in store.graph(app).links() if link.dest == output.node
        ]
        self._registered: set[str] = set()
        self._links: set[tuple[str, str]] = set()
        self._tasks: dict[str, TaskCapture] = {}
        self._lines: dict[tuple[ItemKind, str], NDArray[np.uint64] | None] = {}
        self.flows = self.associations = 0

    def send(self) -> None:
        """Send the flows, then the files that they belong to."""
        try:
            for pairs in self._relations.pairs():
                self._send_pairs(pairs)
        except BaseException as problem:
            for task in self._tasks.values():
                task.fail(f"{type(problem).__name__}: {problem}")
            raise
        for task in self._tasks.values():
            task.commit()
        self._register(ItemKind("output"))
        for message in self._store.messages(
            self._app, "splits", "record_splits", "sink_files", "record_files"
        ):
            assert isinstance(message, Splits | RecordSplits | SinkFiles | RecordFiles)
            if message.node in self._registered:
                self._api.send(message.model_copy(update={"app": self._api.app}))

    def _send_pairs(self, pairs: ItemPairs) -> None:
        output, input_node = self._register(pairs.output_kind), self._register(pairs.input_kind)
        if (input_node, output) not in self._links:
            self._links.add((input_node, output))
            self._api.link(input_node, output)
        if output not in self._tasks:
            self._tasks[output] = self._api.begin(output)
        out, ptr, first, last = flows_of(
            self._positions(pairs.output_kind, pairs.output_file, pairs.outputs),
            self._positions(pairs.input_kind, pairs.input_file, pairs.inputs),
        )
        self.flows += len(out)
        self.associations += len(pairs.outputs)
        self._tasks[output].capture_columns(
            self._space(input_node, pairs.input_kind, pairs.input_file),
            first,
            self._space(output, pairs.output_kind, pairs.output_file),
            out,
            in_ptr=ptr,
            in_last=last,
            reason="; ".join(self._relations.reasons.get(pairs.output_kind, [])),
        )

    def _space(self, node: str, items: ItemKind, file: str) -> str:
        if items.type in {"group", "subquery"}:
            return f"{node}@0"
        return f"{node}#{self._files(items).index(file) if file else 0}"

    def _files(self, items: ItemKind) -> list[str]:
        source = self._source(items)
        return [] if source is None else [file.path for file in source.files]

    def _source(self, items: ItemKind) -> Source | None:
        if items.type == "output":
            return self._relations.output
        return self._recipe.sources[items.place] if items.type == "source" else None

    def _positions(
        self, items: ItemKind, file: str, rows: NDArray[np.uint64]
    ) -> NDArray[np.uint64]:
        """The positions of rows in their file: in a text file a row's position is its line number, from 0."""
        source = self._source(items)
        if source is None or not has_lines(source):
            return rows
        if (items, file) not in self._lines:
            self._lines[items, file] = line_numbers_of_file(self._spark, source, file)
        lines = self._lines[items, file]
        return rows if lines is None else lines[rows.astype(np.int64)] - np.uint64(1)

    def _register(self, items: ItemKind) -> str:
        """The node of items, which is registered on first use."""
        node = self._node(items)
        if node not in self._registered:
            self._registered.add(node)
            reasons = "; ".join(self._relations.reasons.get(items, []))
            record = self._nodes.get(node)
            if record is None:
                kind: NodeKind = "source" if items.type == "plan" else "operator"
                what = "values" if items.type == "plan" else items.type
                self._api.register(
                    node, what, kind=kind, exact=not reasons, reason=reasons,
                    call_site=self._output.call_site,
                )  # fmt: skip
            else:
                self._api.register(
                    node,
                    record.name,
                    kind="sink" if items.type == "output" else "source",
                    op=record.op,
                    call_site=record.call_site,
                    alias=record.alias,
                    path=record.path,
                    exact=not reasons,
                    reason=reasons,
                )
        return node

    def _node(self, items: ItemKind) -> str:
        if items.type == "output":
            return self._output.node
        if items.type != "source":
            return f"{self._output.node}.{items.type}{items.place}"
        named = self._recipe.sources[items.place].name
        return next(node for node in self._producers if self._nodes[node].path == named)


def flows_of(
    outputs: NDArray[np.uint64], inputs: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64]]:
    """Pairs as flows: for each of ``out`` (uint64[n], ascending) what it was made from, as runs.

    Returns ``out``, ``ptr`` (int64[n + 1]), ``first`` and ``last`` (uint64[ptr[n]]). An output of more runs than
    a block holds is there several times.
    """
    from lineage_emitter.worker.recorders import runs_of, split_by_runs

    out, place = _ranked(outputs)
    bits = int(inputs.max(initial=0)).bit_length()
    if bits + len(out).bit_length() <= PAIR_BITS:
        values = None
        pairs = place << bits | inputs.view(np.int64)
    else:
        values, rank = _ranked(inputs)
        bits = len(values).bit_length()
        pairs = place << bits | rank
    pairs.sort()
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    encoded_inputs = pairs & ((1 << bits) - 1)
    lengths = np.bincount(pairs >> bits, minlength=len(out))
    positions = encoded_inputs.view(np.uint64) if values is None else values[encoded_inputs]
    sizes, first, last = runs_of(positions, lengths.astype(np.int64))
    row, _, sizes = split_by_runs(sizes)
    return out[row], np.concatenate(([0], np.cumsum(sizes))), first, last


def _ranked(values: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The distinct values in order, and the index of each value among them; int64[n]."""
    encoded = pa.array(values).dictionary_encode()
    distinct = encoded.dictionary.to_numpy()
    order = np.argsort(distinct)
    rank = np.empty(len(distinct), np.int64)
    rank[order] = np.arange(len(distinct))
    return distinct[order], rank[encoded.indices.to_numpy()]


def show_materialised(
    url: str,
    name: str,
    nodes: Sequence[str],
    *,
    again: bool = False,
    as_json: bool = False,
    to_stderr: bool = False,
) -> None:
    """Materialise, and print what was done.

    Raises:
        TraceError: nothing could be materialised, or not from here.
    """
    if url.startswith(SERVER_SCHEMES):
        raise TraceError(
            "rows are materialised where the store and Spark are, not through a server"
        )
    with open_store(url) as store:
        app = find_application(store, name)
        outcome = materialise(store, url, app, nodes, again=again)
    for node, reason in outcome.refused.items():
        echo(f"lineage: node {node} is not materialised: {reason}", err=True)
    if not outcome.nodes:
        raise TraceError(f"no output of {app} could be materialised")
    if as_json:
        print_json(outcome.to_json())
        return
    outputs = "1 output" if len(outcome.nodes) == 1 else f"{len(outcome.nodes)} outputs"
    counts = f"{outcome.associations:,} associations in {outcome.flows:,} flows"
    lead = "lineage: " if to_stderr else ""
    echo(f"{lead}{outcome.app}: {outputs}, {counts}, {outcome.seconds:.1f} s", err=to_stderr)
