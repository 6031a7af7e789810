"""Replays through several jobs of DataFrames: what a job reads is what the jobs before it make of their sources.

A source is linked with the write that made the very version of its files, as `lineage_query.all_jobs` links them. Without some rows, each job before is
computed without them, from the first to the last (`trace.output_changes`), and the job itself over what they give then. On witnesses alone, each row that a
job read is computed anew by the one that wrote it, and compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from lineage_core.recipe.document import File, Recipe
from lineage_core.recipe.plan import Scan
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.errors import NotReadError, RefusedError
from lineage_dataframes.sources.views import FILE_COLUMN, ROW_COLUMN
from lineage_dataframes.trace.allowed import check_files_allowed
from lineage_dataframes.trace.held_rows import SourceRows
from lineage_dataframes.trace.output_changes import OutputChanges, changed_source, output_changes
from lineage_dataframes.trace.replay import AddedRows, Replay, Replayer, RequestedOutput
from lineage_dataframes.trace.requested_recipes import RequestedRecipe
from lineage_dataframes.trace.source_rows import source_rows_at
from lineage_query.all_jobs import FileLinks
from lineage_query.job_links import FileNode
from lineage_query.rows.reader import RowReader
from lineage_store.paths import canonical, plain_path
from lineage_store.port import GraphStore
from lineage_store.recipes import read_recipe

JOBS_MAX = 50
"""Writes that one replay goes through."""
ROWS_MAX = 200
"""Rows of one write that are computed anew, each compared with the job's."""


@dataclass(frozen=True)
class Write:
    """A write of a job, told by its node."""

    node: FileNode
    recipe: Recipe = field(compare=False)

    @property
    def name(self) -> str:
        """What it is called: its path or table."""
        output = self.recipe.output
        return plain_path(output.path) if output.path else output.table or self.node.node


@dataclass(frozen=True)
class Upstream:
    """What the sources of a job are without some rows of the jobs before it.

    ``left_out`` and ``added``: as `trace.replay.Replayer.replay` takes them. ``changes``: of the outputs on the way, from the first job on. ``uncertain``: why
    they may be other ones.
    """

    left_out: SourceRows
    added: AddedRows | None = None
    changes: tuple[tuple[Write, OutputChanges], ...] = ()
    uncertain: tuple[str, ...] = ()


@dataclass
class JobChain:
    """The jobs of DataFrames that wrote what a job read, and those before them.

    Args:
        spark: any session of a Spark of this machine.
        store: has their recipes.
        reader: says which files may be read.
    """

    spark: SparkSession
    store: GraphStore
    reader: RowReader
    uncertain: dict[str, None] = field(default_factory=dict)
    _changes: dict[Write, OutputChanges | None] = field(default_factory=dict)
    """Of each write that was computed anew, behind those that it read; None: its output stays as it is."""
    _on_the_way: list[Write] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._links = FileLinks(self.store, Direction.BACKWARD, self.reader)

    def without(self, requested: RequestedRecipe, places: Sequence[str]) -> Upstream:
        """What the sources of a job are without some rows of its sources, or of those of the jobs before.

        Raises:
            NotReadError: none of these jobs has read what a place names.
            RefusedError: the output of one on the way can't be computed anew.
            ChangedSourceError: a file is not what it was.
        """
        unread = dict.fromkeys(places)
        write = Write(FileNode(requested.app, requested.node), requested.recipe)
        left_out, added = self._sources_without(write, places, unread)
        if unread:
            others = (
                " or by a job before it" if self._changes else ", and no job wrote what it read"
            )
            raise NotReadError(f"{next(iter(unread))} was not read by it{others}")
        changes = tuple(
            (of, changed) for of, changed in self._changes.items() if changed is not None
        )
        return Upstream(left_out, added, changes, tuple(self.uncertain))

    def _sources_without(
        self, write: Write, places: Sequence[str], unread: dict[str, None]
    ) -> tuple[SourceRows, AddedRows]:
        added: dict[int, list[pa.Table]] = {}
        named: dict[tuple[int, str], set[int]] = {}
        for place in places:
            try:
                rows = source_rows_at(self.spark, write.recipe, [place])
            except NotReadError:
                continue
            unread.pop(place, None)
            for key, ordinals in rows.items():
                named.setdefault(key, set()).update(ordinals.tolist())
        left_out = {key: set(ordinals) for key, ordinals in named.items()}
        for number in _scanned(write.recipe):
            for before in self._writes_of(write, number):
                changes = self._changes_of(before, places, unread)
                if changes is None:
                    continue
                changed = changed_source(self.spark, changes, write.recipe, number)
                self.uncertain |= dict.fromkeys(changed.uncertain)
                for path, ordinals in changed.left_out.items():
                    left_out.setdefault((number, path), set()).update(ordinals.tolist())
                if changed.added is not None:
                    rows_besides = _without_named(changed.added, number, named)
                    if rows_besides.num_rows:
                        added.setdefault(number, []).append(rows_besides)
        return (
            {key: np.array(sorted(rows), np.uint64) for key, rows in left_out.items()},
            {number: pa.concat_tables(tables) for number, tables in added.items()},
        )

    def _changes_of(
        self, write: Write, places: Sequence[str], unread: dict[str, None]
    ) -> OutputChanges | None:
        if write in self._changes:
            return self._changes[write]
        if write in self._on_the_way:
            raise RefusedError(f"{write.name} was made of itself: which rows it had is not known")
        if len(self._changes) + len(self._on_the_way) >= JOBS_MAX:
            raise RefusedError(f"more than {JOBS_MAX} writes of jobs lie before it")
        self._on_the_way.append(write)
        left_out, added = self._sources_without(write, places, unread)
        changes = None
        if left_out or added:
            changes = output_changes(self.spark, write.recipe, left_out, added)
        self._changes[self._on_the_way.pop()] = changes
        return changes

    # -- on witnesses alone ------------------------------------------------------------------------

    def replays_before(
        self, requested: RequestedRecipe, witnesses: SourceRows
    ) -> Iterator[tuple[Write, Replay]]:
        """Replays of the rows that a job read by the jobs that wrote them, on what these were made from, and so on.

        Raises:
            RefusedError: they can't be computed anew, or are too many.
            ChangedSourceError: a file is not what it was.
        """
        pending = [(Write(FileNode(requested.app, requested.node), requested.recipe), witnesses)]
        done: set[tuple[FileNode, tuple[tuple[str, int], ...]]] = set()
        while pending:
            write, rows = pending.pop(0)
            for before, places in self._places_before(write, rows).items():
                seen = before.node, tuple((file.path, ordinal) for file, ordinal in places)
                if seen in done:
                    continue
                done.add(seen)
                if len(done) > JOBS_MAX:
                    raise RefusedError(f"more than {JOBS_MAX} writes of jobs lie before it")
                if len(places) > ROWS_MAX:
                    raise RefusedError(
                        f"it is made from {len(places):,} rows of {before.name}: more than {ROWS_MAX:,} are not computed anew"
                    )
                requested_rows = RequestedOutput(places=tuple(places))
                replayer = Replayer(self.spark, before.recipe, requested_rows)
                yield before, replayer.replay({})
                pending.append((before, replayer.witnesses))

    def _places_before(self, write: Write, rows: SourceRows) -> dict[Write, list[tuple[File, int]]]:
        """By the writes that made the files of some rows, where these stand in their outputs."""
        places: dict[Write, dict[tuple[File, int], None]] = {}
        for number in _scanned(write.recipe):
            mine = {path: ordinals for (of, path), ordinals in rows.items() if of == number}
            if not any(map(len, mine.values())):
                continue
            for before in self._writes_of(write, number):
                files = {canonical(file.path): file for file in before.recipe.output.files}
                for path, ordinals in mine.items():
                    file = files.get(canonical(path))
                    if file is not None and len(ordinals):
                        at = places.setdefault(before, {})
                        at |= dict.fromkeys((file, ordinal) for ordinal in ordinals.tolist())
        return {before: list(at) for before, at in places.items()}

    # -- links -------------------------------------------------------------------------------------

    def _writes_of(self, write: Write, number: int) -> list[Write]:
        """The writes of DataFrames that made files of a source; of others is said that their rows are as they were."""
        source, origin = write.recipe.sources[number], self._source_node(write, number)
        if any(link.dest == origin.node for link in self.store.graph(origin.app).links()):
            self._take_as_they_are(number, write, f"{origin.app}: they were records of RDDs")
        writers: dict[FileNode, None] = {}
        for file in source.files:
            links = self._links.of(origin, plain_path(file.path), is_end=True)
            writers |= dict.fromkeys(links.nodes)
            for gap in links.refused:
                self._take_as_they_are(number, write, f"{gap.app}: {gap.reason}")
            for copy in links.copies:
                self._take_as_they_are(number, write, f"{copy.node.app}: {copy.text}")
        writes = []
        for node in writers:
            recipe = read_recipe(self.store.graph(node.app), node.node)
            if recipe is None:
                why = "no DataFrame wrote them, or it has no recipe"
                self._take_as_they_are(number, write, f"{node.app}: {why}")
            elif recipe.batch is not None:
                self._take_as_they_are(number, write, f"{node.app}: a streaming query wrote them")
            else:
                check_files_allowed(recipe, self.reader.of_application(node.app))
                writes.append(Write(node, recipe))
        return writes

    def _take_as_they_are(self, number: int, write: Write, why: str) -> None:
        name = plain_path(write.recipe.sources[number].name or "a source")
        self.uncertain[f"rows of {name} are taken as they are; {why}"] = None

    def _source_node(self, write: Write, number: int) -> FileNode:
        """The node that read a source.

        Raises:
            RefusedError: it is not known.
        """
        graph, name = self.store.graph(write.node.app), write.recipe.sources[number].name
        before = {link.src for link in graph.links() if link.dest == write.node.node}
        for record in graph.nodes():
            if record.node in before and record.path == name:
                return FileNode(write.node.app, record.node)
        raise RefusedError(f"which node of {write.node.app} read {name} is not known")


def _without_named(
    added: pa.Table, number: int, named: dict[tuple[int, str], set[int]]
) -> pa.Table:
    """Added rows of a source, but for those that stand in the place of one that is left out itself."""
    at = zip(added[FILE_COLUMN].to_pylist(), added[ROW_COLUMN].to_pylist(), strict=True)
    stays = [ordinal not in named.get((number, str(path)), ()) for path, ordinal in at]
    return added.filter(pa.array(stays, pa.bool_()))


def _scanned(recipe: Recipe) -> list[int]:
    return sorted({node.source for node in recipe.plan if isinstance(node, Scan)})
