"""Files that are not any more what a job read or wrote: told before Spark starts, or traced over as they are now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lineage_core.contract.graph import FlowGraph, NodeRecord
from lineage_core.recipe.document import HIVE_TEXT, File, Recipe, Source
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.errors import ChangedSourceError
from lineage_dataframes.sources.changed import Change, local_changes, local_path, time_text
from lineage_dataframes.trace.allowed import check_files_allowed
from lineage_query.answers import Answer, Group
from lineage_query.engine import TraceQuery
from lineage_query.recipe_rows import RecipePlace
from lineage_query.rows.reader import RowReader
from lineage_query.rows.standing import seen
from lineage_query.trace import Trace
from lineage_store.materialised import whose_rows
from lineage_store.paths import FileState, canonical, plain_path
from lineage_store.port import GraphStore
from lineage_store.recipes import read_recipe

AS_NOW = frozenset({"parquet", "orc", "csv", "json", "text", HIVE_TEXT})
"""Formats of sources that may be read as they are now: files that say all of themselves."""
OFFERED = "--as-now (as_now over HTTP and in programs) traces over the files as they are now, and says so in the answer"
NO_OTHER_WAY = "run the job again to trace what it makes now"


def check_before(
    store: GraphStore, reader: RowReader, question: TraceQuery, noted: RecipePlace
) -> None:
    """See, before Spark starts, that the files which a question needs are what they were, as far as this machine has them.

    Raises:
        ChangedSourceError: they are not; it says which, since which application, and what can be asked instead.
        ForbiddenRowsError: a file may not be read.
        RefusedError: a recipe names files by patterns.
    """
    graph = store.graph(noted.app)
    told = _Told(store, reader, noted.app)
    if question.direction is Direction.BACKWARD:
        users: Sequence[str] = noted.nodes
        if noted.valued is None:
            told.check_output(graph, noted, question)
    else:
        users = _users(graph, noted.nodes)
    told.check_sources(graph, users, question)


def check_through(
    store: GraphStore, reader: RowReader, question: TraceQuery, traced: Trace
) -> None:
    """As :func:`check_before`, for a trace of records that goes on through DataFrames; raises the same."""
    if traced.beside:
        # What records tell is told in any case.
        return
    if question.direction is Direction.BACKWARD:
        users: Sequence[str] = [one.frame for one in traced.named_rows()]
    else:
        users = _users(traced.graph, [one.source for one in traced.kept_rows()])
    _Told(store, reader, traced.app).check_sources(traced.graph, users, question)


def _users(graph: FlowGraph, sources: Sequence[str]) -> Sequence[str]:
    return [link.dest for link in graph.links() if link.src in sources]


@dataclass(frozen=True)
class _Told:
    """Says what became of the files of one application."""

    store: GraphStore
    reader: RowReader
    app: str

    def check_sources(self, graph: FlowGraph, users: Sequence[str], question: TraceQuery) -> None:
        """See that one of some outputs can be computed anew from its sources, at least."""
        refused: list[ChangedSourceError] = []
        for node in users:
            recipe = read_recipe(graph, node)
            if recipe is None:
                return
            check_files_allowed(recipe, self.reader)
            problem = self._problem(recipe, question)
            if problem is None:
                return
            refused.append(problem)
        if refused:
            raise refused[0]

    def _problem(self, recipe: Recipe, question: TraceQuery) -> ChangedSourceError | None:
        changes = [one for source in recipe.sources for one in local_changes(source)[0]]
        if not changes:
            return None
        try:
            as_now(recipe)
        except ChangedSourceError:
            way = NO_OTHER_WAY
        else:
            if question.as_now:
                return None
            way = OFFERED
        more = f" (and {len(changes) - 1:,} more of its sources' files)" if changes[1:] else ""
        return ChangedSourceError(f"{changes[0].said}{more}; {self._who(self.app)} read it; {way}")

    def check_output(self, graph: FlowGraph, noted: RecipePlace, question: TraceQuery) -> None:
        """See that the file of a row that is asked for is what was written."""
        node = noted.nodes[0]
        recipe = read_recipe(graph, node)
        if recipe is None:
            return
        check_files_allowed(recipe, self.reader)
        wanted = canonical(noted.location.path)
        files = tuple(file for file in recipe.output.files if canonical(file.path) == wanted)
        changes, _ = local_changes(_as_source(files, recipe.output.format))
        for change in changes:
            who = self._who(self.app)
            if change.gone:
                raise ChangedSourceError(
                    f"{plain_path(change.file.path)} is gone: {who} wrote it{self._replaced(graph, node)}; the "
                    f"rows that it held are asked for by values: lineage back '{node}#COLUMN=VALUE' --app {self.app}"
                )
            if not question.as_now:
                raise ChangedSourceError(f"{change.said}; {who} wrote it; {OFFERED}")

    def _replaced(self, graph: FlowGraph, node: str) -> str:
        """Who has written to the output since, and what there is of that."""
        record = next(one for one in graph.nodes() if one.node == node)
        for app, later, file in self._later(record):
            who = "a later write of it" if app == self.app else f"a write of {self._who(app)}"
            return (
                f", and {who} (node {later}) replaced it: what there is now is asked for by rows of "
                f"its files, such as {plain_path(file)}"
            )
        return ""

    def _later(self, record: NodeRecord) -> Iterator[tuple[str, str, str]]:
        """Later writes to the path of an output of which a file is there: application, node, file. The latest first."""
        if record.path is None:
            return
        path, ids = canonical(record.path), list(self.store.application_ids())
        for app in ids[: ids.index(self.app) + 1]:
            if whose_rows(app, ids) is not None:
                continue
            graph = self.store.graph(app)
            nodes = list(graph.nodes())
            if app == self.app:
                nodes = nodes[[one.node for one in nodes].index(record.node) + 1 :]
            for node in reversed(nodes):
                if node.path is None or canonical(node.path) != path:
                    continue
                for file in graph.sink_files(node.node):
                    if isinstance(seen(self.reader, canonical(file.path)), FileState):
                        yield app, node.node, file.path
                        break

    def _who(self, app: str) -> str:
        for one in self.store.applications():
            if one.app == app:
                return f"{app} ({one.name}, begun {time_text(int(one.started_at * 1000))})"
        return app


@dataclass(frozen=True)
class AsNow:
    """A recipe over the files as they are now.

    ``reasons``: what changed; none where nothing did. ``changed``: paths of the outputs and sources that did.
    """

    recipe: Recipe
    reasons: tuple[str, ...] = ()
    changed: frozenset[str] = frozenset()


def as_now(recipe: Recipe) -> AsNow:
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
        reasons += [f"files are read as they are now: {change.said}" for change in changes]
        changed |= {source.name for _ in changes}
    output = recipe.output
    changes, _ = local_changes(_as_source(output.files, output.format))
    written = {change.file: change for change in changes if not change.gone}
    if written:
        files = tuple(_file_now(one) if one in written else one for one in output.files)
        output = replace(output, files=files)
        changed.add(output.path)
        reasons += [f"rows are read as they are now: {one.said}" for one in written.values()]
    names = frozenset(plain_path(one) for one in changed if one is not None)
    return AsNow(replace(recipe, sources=tuple(sources), output=output), tuple(reasons), names)


def marked(answer: Answer, found: Sequence[AsNow]) -> Answer:
    """An answer that says of the files which it was computed over that they are not those of then, where they are not."""
    reasons = tuple(dict.fromkeys(reason for one in found for reason in one.reasons))
    if not reasons:
        return answer
    changed = {path for one in found for path in one.changed}

    def as_now(group: Group) -> Group:
        items = tuple(
            one if one.text is None else replace(one, binding="now") for one in group.items
        )
        return replace(
            group, items=items, standing="changed" if group.path in changed else group.standing
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
    if source.format not in AS_NOW:
        raise ChangedSourceError(f"{changes[0].said}; {NO_OTHER_WAY}")
    gone = {change.file for change in changes if change.gone}
    others = {change.file for change in changes} - gone
    files = [_file_now(one) if one in others else one for one in source.files if one not in gone]
    if gone:
        files += _new_below(source)
    if not files:
        raise ChangedSourceError(f"{changes[0].said}, and nothing else of {source.name} is there")
    return replace(source, files=tuple(files))


def _file_now(file: File) -> File:
    path = local_path(file.path)
    assert path is not None
    try:
        state = path.stat()
    except OSError as problem:
        raise ChangedSourceError(f"{file.path} can't be read: {problem}") from problem
    return File(file.path, state.st_size, state.st_mtime_ns // 1_000_000)


def _new_below(source: Source) -> list[File]:
    """Files below a source's folders that it did not have."""
    known = {str(local_path(file.path)) for file in source.files}
    found: list[File] = []
    for path in source.paths:
        folder = local_path(path)
        if folder is None or not folder.is_dir():
            continue
        for below in sorted(folder.rglob("*")):
            if below.is_file() and str(below) not in known and not _is_hidden(below, folder):
                found.append(_file_now(File(f"file:{below}", 0, 0)))
    return found


def _is_hidden(path: Path, folder: Path) -> bool:
    """Whether Spark's readers leave a file out."""
    parts = path.relative_to(folder).parts
    return any(part[0] == "." or (part[0] == "_" and "=" not in part) for part in parts)
