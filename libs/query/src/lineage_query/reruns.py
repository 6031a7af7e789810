"""Runs of a program of RDDs again: which rows its sources give, and which of its new rows are the requested ones.

A row of the rerun is a requested one again if it is made from the same rows of the sources, less those that were left out, and if no other
row of the job or of the rerun is. Several rows that are made from the same rows (the words of a line of text) can't be told apart: they come out as they
were if all of them do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from types import MappingProxyType
from typing import Literal, TypeAlias

from lineage_core.contract.address import SpaceKind, parse_space
from lineage_core.contract.graph import FlowGraph, NodeRecord
from lineage_core.contract.region import Region
from lineage_core.contract.verdict import QUARANTINE
from lineage_core.tracing.topology import Topology
from lineage_core.tracing.trace_result import Direction, NodeItems, TraceError
from lineage_query.recipe_rows import RecipePlace
from lineage_query.record_trace import RecordTrace
from lineage_query.record_tracing import RecordTracer, incomplete_warning
from lineage_query.rows.locations import Locations
from lineage_query.set_aside import rows_of_set_aside
from lineage_query.trace_query import TraceQuery
from lineage_store.paths import canonical, is_at_or_below, plain_path
from lineage_store.rerun_plan import RerunReport, RerunSource

SOURCE_OPERATORS = frozenset({
    "textFile", "wholeTextFiles", "binaryFiles", "binaryRecords", "sequenceFile", "pickleFile", "newAPIHadoopFile",
    "newAPIHadoopRDD", "hadoopFile", "hadoopRDD", "parallelize", "range", "emptyRDD",
})  # fmt: skip
"""Methods of SparkContext whose RDDs a rerun cuts down."""
SAVE_OPERATORS = frozenset({
    "saveAsTextFile", "saveAsPickleFile", "saveAsSequenceFile", "saveAsHadoopFile", "saveAsHadoopDataset",
    "saveAsNewAPIHadoopFile", "saveAsNewAPIHadoopDataset",
})  # fmt: skip
BY_ROWS = frozenset({
    "map", "flatMap", "filter", "mapValues", "flatMapValues", "keyBy", "keys", "values", "reduceByKey", "groupByKey",
    "groupBy", "aggregateByKey", "foldByKey", "combineByKey", "join", "cartesian", "union", "distinct", "partitionBy",
    "repartition", "coalesce", "sortBy", "sortByKey", "repartitionAndSortWithinPartitions",
})  # fmt: skip
"""Operators whose records depend on those alone that they were made from."""
INSIDE = frozenset({"source", "operator", "shuffle"})
"""Kinds of nodes that give a program nothing."""
CANDIDATES_MAX = 10_000
"""Rows of a rerun that are compared with the requested ones."""

State: TypeAlias = Literal["same", "changed", "gone", "unclear"]
Rows: TypeAlias = Mapping[int, Mapping[int, Region]]
"""Rows of sources: ordinals by the source's number and split."""


@dataclass(frozen=True, slots=True)
class ReplayedRow:
    """A requested row as the job gave it, and as the rerun gives it.

    ``after``: the row, or all rows that may be it; none where it is gone. A text is None where the
    format of the output has none.
    """

    place: str
    before: str | None
    after: tuple[str | None, ...]
    state: State


@dataclass(frozen=True, slots=True)
class _Requested:
    place: str
    space: str
    position: int
    before: str | None
    witnesses: Rows


class ProgramOfRdds:
    """An application as a program that can be run again: its sources and outputs, in the order in which they were made."""

    def __init__(self, graph: FlowGraph, nodes: Sequence[NodeRecord]) -> None:
        self.graph = graph
        self.nodes = {node.node: node for node in nodes}
        self.topology = Topology(nodes, graph.links())
        self.sources = [
            node for node in nodes if node.kind == "source" and node.op in SOURCE_OPERATORS
        ]
        self.outputs = [node for node in nodes if node.kind == "sink" and node.op in SAVE_OPERATORS]

    def number_of_source(self, node: str) -> int:
        """Which of the sources a node is.

        Raises:
            TraceError: it is none that a rerun could cut down.
        """
        for at, source in enumerate(self.sources):
            if source.node == node:
                return at
        record = self.nodes.get(node)
        name = node if record is None else f"{record.name or record.op} ({record.node})"
        raise TraceError(
            f"rows of {name} can't be replayed: a program is run again on rows of files and lists that its SparkContext read"
        )

    def rows_of(self, found: Mapping[str, NodeItems]) -> dict[int, dict[int, Region]]:
        """Items of sources as rows of these.

        Raises:
            TraceError: some are of no source that a rerun could cut down, or don't have the same order each time.
        """
        rows: dict[int, dict[int, Region]] = {}
        for node, items in found.items():
            number = self.number_of_source(node)
            for space, region in items.spaces.items():
                parsed = parse_space(space)
                if parsed.kind is not SpaceKind.PARTITION or parsed.incarnation is not None:
                    raise TraceError(
                        f"rows of {self.nodes[node].op} come in another order each time: they can't be read again"
                    )
                if region:
                    rows.setdefault(number, {})[parsed.partition] = region
        return rows

    def upstream(self, node: str) -> list[NodeRecord]:
        """All nodes that lead to one."""
        reached = self.topology.reachable_from(node, upstream=True)
        return [record for record in self.nodes.values() if record.node in reached]

    def paths(self) -> list[str]:
        """Local paths of what the job read or wrote."""
        nodes = [node for node in self.nodes.values() if node.path]
        paths = [canonical(node.path or "") for node in nodes]
        for node in nodes:
            paths += [canonical(split.path) for split in self.graph.splits(node.node)]
            paths += [canonical(file.path) for file in self.graph.sink_files(node.node)]
        return [path for path in dict.fromkeys(paths) if path.startswith("/")]

    def other_dependences(self, output: str) -> list[str]:
        """Why records of an output may depend on more than the rows that they are made from; none: they do not."""
        reasons: dict[str, None] = {}
        above = {record.node for record in self.upstream(output)}
        earlier = takewhile(lambda record: record.node != output, self.nodes.values())
        for record in earlier:
            name, site = (
                record.name or record.op,
                f" at {record.call_site}" * bool(record.call_site),
            )
            if record.node in above and record.kind in ("operator", "shuffle", "unknown"):
                if name not in BY_ROWS:
                    reasons[f"records of {name}{site} may depend on others"] = None
            elif record.kind not in INSIDE and record.op not in {*SAVE_OPERATORS, QUARANTINE}:
                reasons[
                    f"the program gets results of {name}{site}, on which its functions may depend"
                ] = None
        return list(reasons)


@dataclass(frozen=True, slots=True)
class Rerun:
    """A rerun of an application for some rows of one of its outputs.

    ``left_out``: rows of sources. ``reads_all_rows``: the sources give all other rows, not the witnesses alone. ``reasons``: why.
    ``superset``: why the witnesses may be more than the rows were made from.
    """

    app: str
    program: ProgramOfRdds
    output: NodeRecord
    requested: Sequence[_Requested]
    left_out: Rows
    reads_all_rows: bool
    reasons: Sequence[str]
    superset: Sequence[str]

    @property
    def witnesses(self) -> dict[int, dict[int, Region]]:
        """The rows that the requested ones are made from."""
        return rows_united([requested.witnesses for requested in self.requested])

    def sources(self) -> list[RerunSource]:
        """What each source of the program gives."""
        above = {record.node for record in self.program.upstream(self.output.node)}
        kept = _without(self.witnesses, self.left_out)
        return [
            RerunSource(left_out=self.left_out.get(at, {}))
            if self.reads_all_rows or source.node not in above
            else RerunSource(kept=kept.get(at, {}))
            for at, source in enumerate(self.program.sources)
        ]


def plan_rerun(
    tracer: RecordTracer, places: Sequence[str], excluded: Sequence[str], app: str | None
) -> Rerun:
    """What a rerun for some rows of one output has to read.

    Args:
        tracer: traces the job.
        places: the rows, each of an output that an RDD was saved to.
        excluded: rows of sources that are left out.
        app: the application alone that is looked at; None: any.

    Raises:
        TraceError: these are no such rows, or the program can't be run again on their witnesses.
        LineageError: there are no such rows, or their lineage or files are not what they were.
    """
    traced = [
        trace_of_records(tracer, TraceQuery(Direction.BACKWARD, (place,), app=app, limit=1))
        for place in places
    ]
    first = traced[0]
    if any(trace.app != first.app for trace in traced):
        raise TraceError("the rows are of several applications: name one by --app")
    program = ProgramOfRdds(first.graph, first.node_records())
    requested = [
        _requested(program, place, trace) for place, trace in zip(places, traced, strict=True)
    ]
    outputs = {parse_space(row.space).name for row in requested}
    if len(outputs) != 1:
        raise TraceError("the rows are of several outputs: name rows of one")
    output = program.nodes[outputs.pop()]
    left_out = rows_united([excluded_rows(tracer, program, place, first.app) for place in excluded])
    check_sources(program, first.locations.as_now(), _above(program, output.node))
    reasons = program.other_dependences(output.node)
    superset = list(dict.fromkeys(reason for trace in traced for reason in trace.result.reasons))
    reads_all_rows = bool(excluded) and bool(reasons or superset)
    return Rerun(first.app, program, output, requested, left_out, reads_all_rows, reasons, superset)


@dataclass(frozen=True, slots=True)
class Repair:
    """A rerun of an application over all rows of its sources, some of which are given anew.

    ``rows``: what the records were made from that it set aside. ``superset``: why these may be more.
    """

    app: str
    program: ProgramOfRdds
    rows: Rows
    superset: Sequence[str]

    def sources(self) -> list[RerunSource]:
        """What each source of the program gives."""
        return [
            RerunSource(repaired=self.rows.get(at, {})) for at in range(len(self.program.sources))
        ]

    def check(
        self, report: RerunReport, app: str, before: RecordTracer, after: RecordTracer
    ) -> None:
        """See that the program did what the job did; ``after`` traces the rerun, ``app``.

        Raises:
            TraceError: it did otherwise.
        """
        again, locations = rerun_program(after, app), before.locations(self.app)
        check_rerun(self.program, again, report, locations, _source_nodes(self.program))


def plan_repair(tracer: RecordTracer, app: str) -> Repair:
    """What a rerun has to repair that is to be without the failures of a job, which set records aside.

    Raises:
        TraceError: it set none aside, not all is known of them, or the program can't be run again.
        LineageError: lineage or files are not what they were.
    """
    traced = rows_of_set_aside(tracer, app)
    program = ProgramOfRdds(traced.graph, traced.node_records())
    rows = program.rows_of(traced.result.found)
    if not program.outputs:
        raise TraceError(f"{app} saved no RDD: there is no output to write anew")
    check_sources(program, traced.locations.as_now(), _source_nodes(program))
    return Repair(app, program, rows, list(dict.fromkeys(traced.result.reasons)))


def _source_nodes(program: ProgramOfRdds) -> set[str]:
    return {source.node for source in program.sources}


def trace_of_records(tracer: RecordTracer, query: TraceQuery) -> RecordTrace:
    """Trace records of RDDs.

    Raises:
        TraceError: the query names rows of a DataFrame.
    """
    trace = tracer.look_up(query)
    if isinstance(trace, RecipePlace):
        raise TraceError(
            f"{query.places[0]} is a row of a DataFrame: it is replayed by its recipe, without --program"
        )
    return trace


def _requested(program: ProgramOfRdds, place: str, trace: RecordTrace) -> _Requested:
    starts = trace.starts()
    if sum(items.count for items in starts) != 1:
        raise TraceError(f"{place} names no single row: name a row, as PATH:LINE")
    node = program.nodes.get(starts[0].node)
    if node is None or node not in program.outputs:
        raise TraceError(f"{place} is no row that the program saved")
    if not trace.complete:
        raise TraceError(
            f"{place}: {'; '.join(trace.warnings) or 'its lineage is not complete'}, so its witnesses may not be all"
        )
    if trace.changed:
        raise TraceError(f"{place}: the file has changed since the job wrote it")
    ((space, region),) = ((s, r) for s, r in starts[0].spaces.items() if r)
    (item,) = trace.composer(at_once=True).group(starts[0], 1, texts=True).items
    rows = program.rows_of(trace.result.found)
    return _Requested(place, space, int(region.first[0]), item.text, rows)


def excluded_rows(tracer: RecordTracer, program: ProgramOfRdds, place: str, app: str) -> Rows:
    """The rows of sources that a place names, in each source that reads them.

    Raises:
        TraceError: the file has changed, or they are of no source that a rerun could cut down.
        LineageError: there are none.
    """
    trace = trace_of_records(tracer, TraceQuery(Direction.FORWARD, (place,), app=app, limit=1))
    starts = {items.node: items for items in trace.starts()}
    if trace.changed:
        raise TraceError(f"{place}: the file has changed since the job read it")
    return program.rows_of(starts)


def _above(program: ProgramOfRdds, output: str) -> set[str]:
    return {record.node for record in program.upstream(output)}


def check_sources(program: ProgramOfRdds, locations: Locations, read: Collection[str]) -> None:
    """See that all sources that are ``read`` again are what they were.

    Raises:
        TraceError: a file is not.
    """
    written = [
        canonical(node.path)
        for node in program.nodes.values()
        if node.path and node.kind != "source"
    ]
    for source in program.sources:
        for path in locations.recorded_paths(source.node):
            if any(is_at_or_below(path, folder) for folder in written):
                raise TraceError(
                    f"the program reads {plain_path(path)}, which it wrote itself: such programs can't be replayed"
                )
        if source.node not in read:
            continue
        for path, status in locations.file_statuses(source.node).items():
            if status not in {"same", "touched"}:
                state = {"gone": "is gone", "unknown": "can't be compared with what the job read"}
                raise TraceError(
                    f"{plain_path(path)} {state.get(status, 'has changed since the job read it')}: its rows can't be read again"
                )


# -- what came out ---------------------------------------------------------------------------------


class RerunResult:
    """The lineage of a rerun beside that of the job."""

    def __init__(
        self, rerun: Rerun, report: RerunReport, app: str, before: RecordTracer, after: RecordTracer
    ) -> None:
        """``app``: the application that the rerun was captured as; ``after`` traces it, ``before`` the job.

        Raises:
            TraceError: the program did otherwise than the job.
        """
        self._rerun = rerun
        self._app = app
        self._before, self._after = before, after
        self._program = rerun_program(after, app)
        check_rerun(
            rerun.program,
            self._program,
            report,
            before.locations(rerun.app),
            _above(rerun.program, rerun.output.node),
        )

    def rows(self) -> list[ReplayedRow]:
        """Each requested row.

        Raises:
            TraceError: too many rows come out to compare them.
        """
        return [self._row(requested) for requested in self._rerun.requested]

    def items_again(self) -> list[tuple[str, int] | None]:
        """The item of the rerun that is each requested row, as the job gave it; of several equal ones the first. None: there is none.

        Raises:
            TraceError: too many rows come out to compare them.
        """
        return [self._item(requested) for requested in self._rerun.requested]

    def _item(self, requested: _Requested) -> tuple[str, int] | None:
        output = self._program.outputs[self._rerun.program.outputs.index(self._rerun.output)].node
        items = self._made_from(self._after, self._app, self._program, requested.witnesses, output)
        texts = _texts(self._after, self._app, items)
        return next(
            (
                item
                for item, text in zip(items, texts, strict=True)
                if text is not None and text == requested.before
            ),
            None,
        )

    def _row(self, requested: _Requested) -> ReplayedRow:
        job, left_out = self._rerun.program, self._rerun.left_out
        expected = _without(requested.witnesses, left_out)
        output = self._program.outputs[job.outputs.index(self._rerun.output)].node
        after = self._made_from(self._after, self._app, self._program, expected, output)
        texts = tuple(_texts(self._after, self._app, after))
        row = partial(ReplayedRow, requested.place, requested.before, texts)
        if not after:
            # Where witnesses may be too many, a row may have come out that is made from fewer.
            return row("unclear" if self._rerun.superset else "gone")
        before = self._made_from(
            self._before, self._rerun.app, job, expected, self._rerun.output.node, left_out
        )
        if None in texts or requested.before is None:
            return row("unclear")
        if len(before) == len(after) == 1:
            return row("same" if texts[0] == requested.before else "changed")
        if not left_out and sorted(texts, key=str) == sorted(
            _texts(self._before, self._rerun.app, before), key=str
        ):
            return ReplayedRow(requested.place, requested.before, (requested.before,), "same")
        return row("unclear")

    def _made_from(
        self,
        tracer: RecordTracer,
        app: str,
        program: ProgramOfRdds,
        rows: Rows,
        output: str,
        left_out: Rows = MappingProxyType({}),
    ) -> list[tuple[str, int]]:
        """The items of an output that are made from just these rows, and maybe from some of those left out."""
        regions = {
            f"{program.sources[at].node}#{split}": region
            for at, splits in rows.items()
            for split, region in splits.items()
        }
        if not regions:
            return []
        forward = tracer.trace(TraceQuery(Direction.FORWARD, (), app=app, regions=regions))
        items = forward.result.found.get(output)
        if items is None:
            return []
        if items.count > CANDIDATES_MAX:
            raise TraceError(
                f"{items.count:,} rows are made from the same rows as the requested ones: too many to compare"
            )
        return [
            (space, position)
            for space, region in items.spaces.items()
            for position in region.positions().tolist()
            if rows == _without(_witnesses(tracer, app, program, space, position), left_out)
        ]


def rerun_program(after: RecordTracer, app: str) -> ProgramOfRdds:
    """The program as it ran again, as application ``app``.

    Raises:
        TraceError: not all lineage of it is there.
    """
    opened = after.opened(app)
    if not opened.verdict.complete:
        raise TraceError(f"the rerun can't be compared: {incomplete_warning(app, opened.verdict)}")
    return ProgramOfRdds(opened.graph, opened.nodes)


def check_rerun(
    job: ProgramOfRdds,
    again: ProgramOfRdds,
    report: RerunReport,
    locations: Locations,
    read: Collection[str],
) -> None:
    """See that a program made the sources and outputs of the job, in its order, and read what the job read.

    Args:
        job: the job, and ``locations`` of its rows as they are after the rerun.
        again: the rerun.
        report: what it met.
        locations: of the job's rows.
        read: the sources that it read.

    Raises:
        TraceError: it did not.
    """
    check_made_sources(job, again, report, locations, read)
    if [node.op for node in again.outputs] != [node.op for node in job.outputs]:
        raise TraceError(
            f"the program wrote {len(again.outputs)} outputs where the job wrote {len(job.outputs)}: it is another program, "
            "or runs otherwise on fewer rows"
        )


def check_made_sources(
    job: ProgramOfRdds,
    again: ProgramOfRdds,
    report: RerunReport,
    locations: Locations,
    read: Collection[str],
) -> None:
    """See that a program made the sources of the job, in its order, and read what the job read; arguments as in `check_rerun`.

    Raises:
        TraceError: it did not.
    """
    # They may have changed while the program ran.
    check_sources(job, locations, read)
    if len(again.sources) != len(job.sources):
        raise TraceError(
            f"the program made {len(again.sources)} sources where the job made {len(job.sources)}: it is another program, "
            "or runs otherwise on fewer rows"
        )
    pairs = list(zip(job.sources, again.sources, strict=True))
    if [after.node for _, after in pairs] != list(report.sources):
        raise TraceError("the program made its sources in another order than they were cut down")
    whats = [(source.op, source.path) for source in job.sources]
    for before, after in pairs:
        if (before.op, before.path) != (after.op, after.path) or (
            before.call_site != after.call_site and whats.count((before.op, before.path)) > 1
        ):
            raise TraceError(
                f"the program reads {_named(after)} where the job read {_named(before)}: it is another program or arguments"
            )
        if _splits(job.graph, before.node) != _splits(again.graph, after.node):
            raise TraceError(
                f"{_named(before)} is read in other splits than by the job: run the program with the settings of the job"
            )


def _witnesses(
    tracer: RecordTracer, app: str, program: ProgramOfRdds, space: str, position: int
) -> Rows:
    item = {space: Region.from_positions([position])}
    traced = tracer.trace(TraceQuery(Direction.BACKWARD, (), app=app, regions=item))
    return program.rows_of(traced.result.found)


def _texts(
    tracer: RecordTracer, app: str, items: Sequence[tuple[str, int]]
) -> Iterator[str | None]:
    composer = tracer.opened(app).composer()
    for space, position in items:
        region = {space: Region.from_positions([position])}
        yield (
            composer.group(NodeItems(parse_space(space).name, region), 1, texts=True).items[0].text
        )


def _splits(graph: FlowGraph, node: str) -> set[tuple[int, str, int, int, int]]:
    return {
        (split.partition, canonical(split.path), split.start, split.length, split.row)
        for split in graph.splits(node)
    }


def _named(node: NodeRecord) -> str:
    path = "" if node.path is None else f" of {plain_path(node.path)}"
    return f"{node.op}{path}" + f" at {node.call_site}" * bool(node.call_site)


def rows_united(parts: Sequence[Rows]) -> dict[int, dict[int, Region]]:
    """The rows of all parts."""
    rows: dict[int, dict[int, Region]] = {}
    for part in parts:
        for source, splits in part.items():
            of_source = rows.setdefault(source, {})
            for split, region in splits.items():
                of_source[split] = of_source.get(split, Region()) | region
    return rows


def _without(rows: Rows, left_out: Rows) -> dict[int, dict[int, Region]]:
    kept = {
        source: {
            split: rest
            for split, region in splits.items()
            if (rest := region - left_out.get(source, {}).get(split, Region()))
        }
        for source, splits in rows.items()
    }
    return {source: splits for source, splits in kept.items() if splits}
