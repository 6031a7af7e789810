"""Files that are no longer what a job read or wrote: reported before Spark starts, or traced over as they are now."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lineage_core.contract.graph import FlowGraph, NodeRecord
from lineage_core.recipe.document import File, Recipe, Source
from lineage_core.recipe.names import HIVE_TEXT
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.errors import ChangedSourceError
from lineage_dataframes.sources.file_changes import (
    Change,
    local_changes,
    local_path,
    may_be_held,
)
from lineage_dataframes.trace.allowed import check_files_allowed
from lineage_query.answers import Answer, Group
from lineage_query.outputs import is_called
from lineage_query.recipe_rows import RecipePlace
from lineage_query.record_trace import RecordTrace
from lineage_query.rows.file_status import current_state
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.errors import UNREAD
from lineage_store.materialised import whose_rows
from lineage_store.paths import (
    FileState,
    canonical,
    file_time_text,
    is_hidden,
    plain_path,
    walked,
)
from lineage_store.port import GraphStore
from lineage_store.recipes import read_recipe

AS_NOW_FORMATS = frozenset({"parquet", "orc", "csv", "json", "text", HIVE_TEXT})
"""Formats of sources that may be read as they are now: files that say all of themselves."""
AS_NOW_HINT = "--as-now (as_now over HTTP and in programs) traces over the files as they are now, and says so in the answer"
BELOW_MAX = 100_000
"""Maximum number of files below a source's paths among which new ones are looked for."""
RERUN_HINT = "run the job again to trace what it makes now"


def check_files_of_query(
    store: GraphStore, reader: RowReader, query: TraceQuery, recipe_place: RecipePlace
) -> None:
    """See, before Spark starts, that the files which a question needs are what they were, as far as this machine has them.

    Raises:
        ChangedSourceError: they are not; the message says which, since which application, and which query is possible instead.
        ForbiddenRowsError: a file may not be read.
        RefusedError: a recipe names files by patterns.
    """
    graph = store.graph(recipe_place.app)
    report = _ChangeReport(store, reader, recipe_place.app)
    if query.direction is Direction.BACKWARD:
        nodes: Sequence[str] = recipe_place.nodes
        if recipe_place.valued is None:
            report.check_output(graph, recipe_place, query)
    else:
        nodes = _users(graph, recipe_place.nodes)
    report.check_sources(graph, nodes, query)


def check_files_of_trace(
    store: GraphStore, reader: RowReader, query: TraceQuery, traced: RecordTrace
) -> None:
    """As :func:`check_files_of_query`, for a trace of records that goes on through DataFrames; raises the same."""
    if traced.recipe_places:
        # The trace of records is answered in any case.
        return
    if query.direction is Direction.BACKWARD:
        nodes: Sequence[str] = [named_rows.frame for named_rows in traced.named_rows()]
    else:
        nodes = _users(traced.graph, [stored_rows.source for stored_rows in traced.stored_rows()])
    _ChangeReport(store, reader, traced.app).check_sources(traced.graph, nodes, query)


def _users(graph: FlowGraph, sources: Sequence[str]) -> Sequence[str]:
    return [link.dest for link in graph.links() if link.src in sources]


@dataclass(frozen=True)
class _ChangeReport:
    """Says what became of the files of one application."""

    store: GraphStore
    reader: RowReader
    app: str

    def check_sources(self, graph: FlowGraph, nodes: Sequence[str], query: TraceQuery) -> None:
        """See that one of some outputs can be computed anew from its sources, at least."""
        refused: list[ChangedSourceError] = []
        for node in nodes:
            recipe = read_recipe(graph, node)
            if recipe is None:
                return
            check_files_allowed(recipe, self.reader)
            problem = self._source_change(recipe, query)
            if problem is None:
                return
            refused.append(problem)
        if refused:
            raise refused[0]

    def _source_change(self, recipe: Recipe, query: TraceQuery) -> ChangedSourceError | None:
        changes = [change for source in recipe.sources for change in local_changes(source)[0]]
        if not changes:
            return None
        try:
            current_recipe(recipe)
        except ChangedSourceError:
            hint = RERUN_HINT
        else:
            if query.as_now:
                return None
            hint = AS_NOW_HINT
        more = f" (and {len(changes) - 1:,} more of its sources' files)" if changes[1:] else ""
        return ChangedSourceError(
            f"{changes[0].message}{more}; {self._application_text(self.app)} read it; {hint}"
        )

    def check_output(self, graph: FlowGraph, recipe_place: RecipePlace, query: TraceQuery) -> None:
        """See that the file of a requested row is what was written."""
        node = recipe_place.nodes[0]
        recipe = read_recipe(graph, node)
        if recipe is None:
            return
        check_files_allowed(recipe, self.reader)
        path = canonical(recipe_place.location.path)
        files = tuple(file for file in recipe.output.files if canonical(file.path) == path)
        if recipe_place.held_in is not None and all(
            may_be_held(recipe.output.path, file) for file in files
        ):
            # Whether the other file has the content still is seen when its row is read.
            return
        changes, _ = local_changes(_as_source(files, recipe.output.format))
        for change in changes:
            who = self._application_text(self.app)
            if change.gone:
                raise ChangedSourceError(
                    f"{plain_path(change.file.path)} is gone: {who} wrote it{self._replacement_text(graph, node)}; query "
                    "the rows that it held by their values: "
                    + shlex.join(["lineage", "back", f"{node}#COLUMN=VALUE", "--app", self.app])
                )
            if not query.as_now:
                raise ChangedSourceError(f"{change.message}; {who} wrote it; {AS_NOW_HINT}")

    def _replacement_text(self, graph: FlowGraph, node: str) -> str:
        """Who has written to the output since, and what there is of that."""
        record = next(
            record_of_node for record_of_node in graph.nodes() if record_of_node.node == node
        )
        for app, later_node, file in self._later_writes(record):
            who = (
                "a later write of it"
                if app == self.app
                else f"a write of {self._application_text(app)}"
            )
            return (
                f", and {who} (node {later_node}) replaced it: query what there is now by rows of "
                f"its files, such as {plain_path(file)}"
            )
        return ""

    def _later_writes(self, record: NodeRecord) -> Iterator[tuple[str, str, str]]:
        """Later writes to the path of an output of which a file is there: application, node, file. The latest first."""
        if record.path is None:
            return
        path, ids = canonical(record.path), list(self.store.application_ids())
        for app in ids[: ids.index(self.app) + 1]:
            if whose_rows(app, ids) is not None:
                continue
            graph = self.store.graph(app)
            try:
                nodes = list(graph.nodes())
            except UNREAD:
                # It can't be looked at whether this one wrote there, which is only a hint.
                continue
            if app == self.app:
                nodes = nodes[[node_record.node for node_record in nodes].index(record.node) + 1 :]
            for node in reversed(nodes):
                if not is_called(node, record.path, path):
                    continue
                for file in graph.sink_files(node.node):
                    if isinstance(current_state(self.reader, canonical(file.path)), FileState):
                        yield app, node.node, file.path
                        break

    def _application_text(self, app: str) -> str:
        for application in self.store.applications():
            if application.app == app:
                return f"{app} ({application.name}, begun {file_time_text(int(application.started_at * 1000))})"
        return app


@dataclass(frozen=True)
class CurrentRecipe:
    """A recipe over the files as they are now.

    ``reasons``: what changed; none where nothing did. ``changed``: paths of the outputs and sources that did.
    """

    recipe: Recipe
    reasons: tuple[str, ...] = ()
    changed: frozenset[str] = frozenset()


def current_recipe(recipe: Recipe) -> CurrentRecipe:
    """A recipe whose sources and output are what their files are now, where they are not what they were.

    A file of a source that is gone is left out. Where one is, files that lie below the source's paths now are read in
    its place. Files of other machines stay what they were.

    Raises:
        ChangedSourceError: what changed is a table with versions, or nothing is left of a source.
    """
    reasons: list[str] = []
    sources: list[Source] = []
    changed: set[str | None] = set()
    for source in recipe.sources:
        changes, _ = local_changes(source)
        sources.append(_source_now(source, changes) if changes else source)
        reasons += [f"files are read as they are now: {change.message}" for change in changes]
        changed |= {source.name for _ in changes}
    output = recipe.output
    changes, _ = local_changes(_as_source(output.files, output.format))
    written = {change.file: change for change in changes if not change.gone}
    if written:
        files = tuple(_file_now(file) if file in written else file for file in output.files)
        output = replace(output, files=files)
        changed.add(output.path)
        reasons += [
            f"rows are read as they are now: {change.message}" for change in written.values()
        ]
    names = frozenset(plain_path(path) for path in changed if path is not None)
    return CurrentRecipe(
        replace(recipe, sources=tuple(sources), output=output), tuple(reasons), names
    )


def mark_current(answer: Answer, recipes: Sequence[CurrentRecipe]) -> Answer:
    """An answer that says of the files which it was computed over that they are not those of then, where they are not."""
    reasons = tuple(dict.fromkeys(reason for recipe in recipes for reason in recipe.reasons))
    if not reasons:
        return answer
    changed = {path for recipe in recipes for path in recipe.changed}

    def as_now(group: Group) -> Group:
        items = tuple(
            item if item.text is None else replace(item, binding="now") for item in group.items
        )
        return replace(
            group,
            items=items,
            file_status="changed" if group.path in changed else group.file_status,
        )

    return replace(
        answer,
        start=tuple(map(as_now, answer.start)),
        groups=tuple(map(as_now, answer.groups)),
        exact=False,
        complete=False,
        changed=True,
        reasons=(*reasons, *answer.reasons),
    )


def _as_source(files: tuple[File, ...], form: str | None) -> Source:
    return Source(format=form or "", paths=(), schema="", files=files)


def _source_now(source: Source, changes: Sequence[Change]) -> Source:
    if source.format not in AS_NOW_FORMATS:
        raise ChangedSourceError(f"{changes[0].message}; {RERUN_HINT}")
    gone = {change.file for change in changes if change.gone}
    changed = {change.file for change in changes} - gone
    files = [
        _file_now(file) if file in changed else file for file in source.files if file not in gone
    ]
    if gone:
        files += _new_files(source)
    if not files:
        raise ChangedSourceError(
            f"{changes[0].message}, and nothing else of {source.name} is there"
        )
    return replace(source, files=tuple(files))


def _file_now(file: File) -> File:
    path = local_path(file.path)
    assert path is not None
    try:
        state = path.stat()
    except OSError as problem:
        raise ChangedSourceError(f"{file.path} can't be read: {problem}") from problem
    return File(file.path, state.st_size, state.st_mtime_ns // 1_000_000)


def _new_files(source: Source) -> list[File]:
    """Files below a source's folders that it did not have.

    Raises:
        ChangedSourceError: there is too much below them, or it can't be listed.
    """
    recorded_paths = {str(local_path(file.path)) for file in source.files}
    try:
        return sorted(_files_without(source, recorded_paths), key=lambda file: Path(file.path))
    except OSError as error:
        raise ChangedSourceError(
            f"files of {source.name} are gone, and what is below its paths can't be listed: {error}"
        ) from error


def _files_without(source: Source, recorded_paths: Collection[str]) -> Iterator[File]:
    looked_at = 0
    for path in dict.fromkeys(source.paths):
        folder = local_path(path)
        if folder is None or not folder.is_dir():
            continue
        for name, below, names in walked(str(folder)):
            below[:] = [part for part in below if not is_hidden(part)]
            for file in names:
                if is_hidden(file):
                    continue
                current_budget().check()
                looked_at += 1
                if looked_at > BELOW_MAX:
                    raise ChangedSourceError(
                        f"files of {source.name} are gone, and more than {BELOW_MAX:,} are below its paths now"
                    )
                there = Path(name, file)
                if os.path.isfile(there) and str(there) not in recorded_paths:
                    yield _file_now(File(f"file:{there}", 0, 0))
