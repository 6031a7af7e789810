"""Rows of a DataFrame's output, or of a source of it, page by page as its files hold them.

Who does not know a row's place or values finds it here. A page looks at a bounded number of files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from lineage_core.contract.graph import FlowGraph, NodeRecord
from lineage_core.recipe.document import File, Recipe, Source
from lineage_core.recipe.names import JDBC
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.trace_result import TraceError
from lineage_dataframes.errors import ChangedSourceError, RowError
from lineage_dataframes.sources.file_changes import check_local, check_unchanged, local_path
from lineage_dataframes.sources.hive_text import check_fields
from lineage_dataframes.sources.jdbc import check_tables
from lineage_dataframes.sources.locations import row_locations
from lineage_dataframes.sources.views import FILE_COLUMN, ROW_COLUMN, view_of
from lineage_dataframes.spark import literals
from lineage_dataframes.trace.allowed import check_may_read, check_recipe_allowed
from lineage_dataframes.trace.rows import output_of
from lineage_dataframes.trace.session import session_with_settings, translate_spark_errors
from lineage_query.answers import Item
from lineage_query.listing import CursorError
from lineage_query.rows.reader import RowReader, reading_by
from lineage_store.paths import canonical, shown_path
from lineage_store.port import GraphStore
from lineage_store.recipes import read_recipe

FILES_MAX = 64
"""Files that one page looks at: many may hold no row."""
TEXT_COLUMN = "__lineage_text"
_CURSOR = re.compile(r"(\d{1,9})\.(\d{1,18})")


@dataclass(frozen=True, slots=True)
class RowsPage:
    """Some rows of a node's files. ``following``: the cursor of the next page; None on the last one."""

    items: tuple[Item, ...]
    following: str | None


def list_rows(
    spark: SparkSession,
    store: GraphStore,
    reader: RowReader,
    app: str,
    node: str,
    limit: int,
    cursor: str | None,
) -> RowsPage:
    """Rows of the files that a DataFrame's node wrote or read: file by file, in their order.

    Args:
        spark: any session; rows are read in a new one beside it.
        store: has the recipes.
        reader: says which files may be read.
        app: the application's id.
        node: of a DataFrame's output or source.
        limit: how many rows at most; a page has fewer also where files have none.
        cursor: `RowsPage.following` of the page before; None: the first rows.

    Raises:
        CursorError: no page of these rows gave the cursor.
        RowError: the rows are in no file.
        TraceError: the node has no recipe.
        ChangedSourceError: a file is not what the job wrote or read.
        ForbiddenRowsError: a file may not be read.
    """
    graph = store.graph(app)
    record = next(record for record in graph.nodes() if record.node == node)
    with reading_by(reader), translate_spark_errors():
        recipe = _recipe_of(graph, record)
        check_recipe_allowed(recipe, reader)
        check_tables(recipe)
        source = _source_of(spark, recipe, record)
        return _page(spark, reader, recipe, source, record, limit, _position_of(cursor, source))


def _recipe_of(graph: FlowGraph, record: NodeRecord) -> Recipe:
    """The recipe of what wrote an output, or of the first that read a source."""
    users = [record.node]
    if record.kind == "frame-source":
        users = [link.dest for link in graph.links() if link.src == record.node]
    for user in users:
        recipe = read_recipe(graph, user)
        if recipe is not None:
            return recipe
    reason = f": {record.reason}" if record.reason else ""
    raise TraceError(f"node {record.node} ({record.name or record.op}) has no recipe{reason}")


def _source_of(spark: SparkSession, recipe: Recipe, record: NodeRecord) -> Source:
    if record.kind == "frame":
        return output_of(spark, recipe)
    sources = [source for source in recipe.sources if source.name == record.path]
    if not sources or sources[0].format == JDBC or not sources[0].files:
        raise RowError(
            f"{record.path or record.node} is read from no files: its rows are not listed"
        )
    return sources[0]


def _page(
    spark: SparkSession,
    reader: RowReader,
    recipe: Recipe,
    source: Source,
    record: NodeRecord,
    limit: int,
    position: tuple[int, int],
) -> RowsPage:
    session = session_with_settings(spark, recipe, [source])
    check_fields(source, [name for name, _ in source.columns()])
    files, items = source.files, list[Item]()
    (at, first), end = position, position[0] + FILES_MAX
    while at < min(len(files), end) and len(items) < limit:
        current_budget().check()
        wanted = limit - len(items)
        with leading_where_it_did(reader, files[at].path):
            rows = _rows_from(session, source, files[at], first, wanted)
        items += _items(session, replace(source, files=(files[at],)), record, rows)
        if len(rows) == wanted:
            first += wanted
        else:
            at, first = at + 1, 0
    following = f"{at}.{first}" if at < len(files) else None
    return RowsPage(tuple(items), following)


@contextmanager
def leading_where_it_did(reader: RowReader, path: str) -> Iterator[None]:
    """See that a path leads to one file, which may be read, before its rows are read and afterwards.

    Raises:
        ForbiddenRowsError: that file may not be read.
        ChangedSourceError: a link on the way was changed meanwhile.
    """
    led_to = canonical(path)
    check_may_read(path, reader)
    yield
    if canonical(path) != led_to or not reader.may_read(path):
        raise ChangedSourceError(f"{path} led to another file while its rows were read")


def _rows_from(
    session: SparkSession, source: Source, file: File, first: int, count: int
) -> list[Row]:
    """The rows of a file from an ordinal on, so many at most: ordinals and texts."""
    of_file = replace(source, files=(file,))
    check_unchanged(session, of_file)
    view = view_of(session, of_file)
    columns = [
        literals.quoted_name(name) for name in view.columns if name not in {FILE_COLUMN, ROW_COLUMN}
    ]
    in_page = (F.col(ROW_COLUMN) >= first) & (F.col(ROW_COLUMN) < first + count)
    text = F.to_json(F.struct(*columns)).alias(TEXT_COLUMN)
    rows = view.where(in_page).select(ROW_COLUMN, text).limit(count).collect()
    # It was read meanwhile: what was written since may be in it.
    check_local(of_file)
    current_budget().count_text(sum(len(row[TEXT_COLUMN]) for row in rows))
    return sorted(rows, key=lambda row: int(row[ROW_COLUMN]))


def _items(
    session: SparkSession, source: Source, record: NodeRecord, rows: Sequence[Row]
) -> list[Item]:
    if not rows:
        return []
    path = source.files[0].path
    local = local_path(path)
    shown = path if local is None else shown_path(str(local), record.path)
    # As an address, and as a location.
    current_budget().count_name(shown, 2 * len(rows))
    ordinals = np.array([row[ROW_COLUMN] for row in rows], np.uint64)
    places = row_locations(session, source, path, ordinals, shown)
    return [
        Item(f"{shown}#{row[ROW_COLUMN]}", place, row[TEXT_COLUMN])
        for row, place in zip(rows, places, strict=True)
    ]


def _position_of(cursor: str | None, source: Source) -> tuple[int, int]:
    if cursor is None:
        return 0, 0
    match = _CURSOR.fullmatch(cursor)
    if match is None or int(match[1]) >= len(source.files):
        raise CursorError(f"cursor {cursor!r:.40} was not given by a page of these rows")
    return int(match[1]), int(match[2])
