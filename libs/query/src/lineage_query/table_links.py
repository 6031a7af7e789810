"""Rows of versioned tables that one application wrote and another read in another file.

A file of a table links two applications as any file does. What a table's own operations put into other files (``OPTIMIZE``, ``UPDATE``,
``MERGE``, ``DELETE``) is followed row by row where the table tracks rows. Elsewhere the table's log says that they did, and the trace ends
there, with both versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lineage_core.recipe.names import DELTA, ICEBERG
from lineage_query.answers import NotQueried
from lineage_query.delta_links import DeltaLinks, unknown_reader, unknown_writer
from lineage_query.iceberg_links import IcebergLinks
from lineage_query.iceberg_uses import IcebergUses
from lineage_query.rows.reader import RowReader
from lineage_query.table_versions import (
    TableVersion,
    outputs,
    tables_read,
    tables_written,
    unknown_commit,
)
from lineage_query.tracked_rows import LinkedRow, RowLinks, TrackedRows
from lineage_store.paths import RowsError, Spellings, plain_path
from lineage_store.port import GraphStore

_DATA_FILES = (".parquet", ".orc", ".avro")


class TableLinks:
    """What the logs of tables say about files of one query. Caches what it found.

    Args:
        store: has the applications.
        reader: decides which logs may be read.
        spellings: whose links are followed now.
    """

    def __init__(self, store: GraphStore, reader: RowReader, spellings: Spellings) -> None:
        self._store = store
        self._reader = reader
        self._uses = IcebergUses(store, spellings)
        self._iceberg = IcebergLinks(self._uses, reader, spellings)
        self._delta = DeltaLinks(store, reader, spellings)
        self._tracked = TrackedRows(self._delta, reader, store.application_ids())

    def before(
        self, app: str, node: str, path: str, ordinals: Sequence[int] | None = None
    ) -> RowLinks:
        """The applications whose rows a file may hold that a node read, and that no captured application wrote.

        Args:
            app: the application.
            node: its node.
            path: of the file.
            ordinals: rows of the file, from 0; None: any.
        """
        links, read = list[RowLinks](), "a table"
        try:
            for table in self._tables(app, node, path, wrote=False):
                read = str(table)
                links.append(self._before(table, app, node, path, ordinals))
        except RowsError as problem:
            links.append(RowLinks(refused=(unknown_writer(app, read, path, problem),)))
        return _united(links)

    def _before(
        self, table: TableVersion, app: str, node: str, path: str, ordinals: Sequence[int] | None
    ) -> RowLinks:
        if table.kind == ICEBERG:
            return self._iceberg.before(table, app, node, path, ordinals)
        if ordinals is None:
            return RowLinks(refused=tuple(self._delta.written_before(table, app, path)))
        return self._tracked.before(table, app, path, ordinals)

    def after(
        self, app: str, node: str, path: str, ordinals: Sequence[int] | None = None
    ) -> RowLinks:
        """The applications that may have read rows of a file that a node wrote in other files of the table; arguments as of :meth:`before`."""
        links, wrote = list[RowLinks](), "a table"
        try:
            for table in self._tables(app, node, path, wrote=True):
                wrote = str(table)
                links.append(self._after(table, app, node, path, ordinals))
        except RowsError as problem:
            links.append(RowLinks(refused=(unknown_reader(app, wrote, path, problem),)))
        return _united(links)

    def _after(
        self, table: TableVersion, app: str, node: str, path: str, ordinals: Sequence[int] | None
    ) -> RowLinks:
        if table.kind == ICEBERG:
            return self._iceberg.after(table, app, node, path, ordinals)
        if ordinals is None:
            return RowLinks(refused=tuple(self._delta.read_after(table, app, path)))
        return self._tracked.after(table, app, path, ordinals)

    def unlisted(self, app: str, node: str, path: str) -> Iterator[NotQueried]:
        """Applications that may have read what a node wrote to ``path``, of which no files were recorded."""
        try:
            (output,) = outputs(self._store.graph(app), [node]) or (None,)
            commit = None if output is None else unknown_commit(app, output)
            if commit is None:
                raise RowsError("no files of that write are recorded")
            yield from self._delta.read_of_unknown(commit)
        except RowsError as problem:
            reason = f"{app} wrote to {plain_path(path)}; whether another application read its rows is not known: {problem}"
            yield NotQueried(app, reason)

    # -- what applications recorded ------------------------------------------------------------

    def _tables(self, app: str, node: str, path: str, *, wrote: bool) -> list[TableVersion]:
        """The tables, in the versions that a node read or ``wrote``, of which a file is.

        Raises:
            RowsError: that can't be read.
        """
        if not path.endswith(_DATA_FILES):
            return []
        record = self._uses.nodes(app).get(node)
        if record is None or record.kind != ("frame" if wrote else "frame-source"):
            return []
        graph = self._store.graph(app)
        if wrote:
            return tables_written(graph, [node])
        if record.op not in (DELTA, ICEBERG):
            return []
        users = [link.dest for link in graph.links() if link.src == node]
        tables = dict.fromkeys(tables_read(graph, users))
        read = [table for table in tables if table.path == record.path]
        if not read:
            raise RowsError("which version was read is not recorded")
        return read


def _united(links: Sequence[RowLinks]) -> RowLinks:
    """Those of all versions of a table that a node read or wrote."""
    rows: dict[int, dict[LinkedRow, None]] = {}
    for of_table in links:
        for ordinal, linked in of_table.rows.items():
            rows.setdefault(ordinal, {}).update(dict.fromkeys(linked))
    refused = dict.fromkeys(gap for of_table in links for gap in of_table.refused)
    rows_by_number = {at: tuple(linked) for at, linked in rows.items()}
    return RowLinks(rows_by_number, tuple(refused), all(of_table.of_any for of_table in links))
