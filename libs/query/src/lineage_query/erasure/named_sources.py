"""Sources by the names of tables: a name is that of a table which a captured program read or wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from lineage_core.contract.message import Recipe as RecipeMessage
from lineage_core.errors import RecipeError, VersionError
from lineage_core.recipe.document import ERASED, Recipe
from lineage_core.tracing.budget import current_budget
from lineage_query.erasure.finding import SubjectError, SubjectQuery
from lineage_query.rows.reader import RowReader
from lineage_store.errors import DamagedError
from lineage_store.paths import canonical, plain_path
from lineage_store.port import GraphStore

_NAME = re.compile(r"[^/\\:]+")


def with_folder(query: SubjectQuery, store: GraphStore, reader: RowReader) -> SubjectQuery:
    """The query with the folder of its source, where that is the name of a table.

    A file or folder of the name comes first. ``customers`` and ``sales.customers`` name ``spark_catalog.sales.customers``.

    Raises:
        SubjectError: programs recorded several tables of the name, or one in several folders, or what one recorded can't be read.
        RowsError: a folder can't be listed.
    """
    source = query.source
    if not is_name(source) or reader.is_folder(source):
        return query
    if reader.files_below(canonical(source)):
        return query
    folder = _folder_of(source, store)
    return query if folder is None else replace(query, source=folder)


def is_name(source: str) -> bool:
    """Whether a source may be the name of a table: it has no sign of a path."""
    return _NAME.fullmatch(source) is not None


def with_table(query: SubjectQuery, store: GraphStore) -> SubjectQuery:
    """As `with_folder`, where a name is that of a table and never one of a file.

    Raises:
        SubjectError: programs recorded no table of the name, or several.
    """
    if not is_name(query.source):
        return query
    folder = _folder_of(query.source, store)
    if folder is None:
        raise SubjectError(
            f"{query.source} is the name of no table that a captured program read or wrote: give the whole path of a file or folder"
        )
    return replace(query, source=folder)


def _folder_of(source: str, store: GraphStore) -> str | None:
    """The folder of the table of a name; None: there is no such table."""
    wanted = _parts(source)
    tables = {
        (table, canonical(folder)): None
        for table, folder in _tables(store, wanted[-1])
        if _parts(table)[-len(wanted) :] == wanted
    }
    if not tables:
        return None
    folders = dict.fromkeys(folder for _, folder in tables)
    if len(folders) > 1 or len({tuple(_parts(table)) for table, _ in tables}) > 1:
        shown = "; ".join(f"{table} in {plain_path(folder)}" for table, folder in list(tables)[:20])
        raise SubjectError(f"{source} may be several tables: name one by its folder ({shown})")
    (folder,) = folders
    return plain_path(folder)


def names_of_table(store: GraphStore, folder: str) -> list[str]:
    """How programs named the table in a folder, as far as recipes that can be read say it."""
    wanted = canonical(folder)
    names = {
        table: None
        for table, path in _tables(store, plain_path(wanted).rpartition("/")[2], strict=False)
        if canonical(path) == wanted
    }
    return list(names)


def _parts(name: str) -> list[str]:
    return [part.strip("`").lower() for part in name.split(".")]


def _tables(store: GraphStore, text: str, *, strict: bool = True) -> Iterator[tuple[str, str]]:
    """Tables that programs read and wrote and that have a folder, by name.

    ``text``: stands in their recipes; ``strict``: a recipe that can't be read is an error, and not left out.
    """
    for app in store.application_ids():
        try:
            messages = store.messages(app, "recipe")
        except DamagedError as problem:
            if not strict:
                continue
            raise SubjectError(
                f"which folder is meant is not known ({problem}): name the folder"
            ) from problem
        for message in messages:
            current_budget().check()
            if not isinstance(message, RecipeMessage) or message.recipe == ERASED:
                continue
            if text.lower() not in message.recipe.lower():
                continue
            try:
                recipe = Recipe.from_json(message.recipe)
            except (RecipeError, VersionError) as problem:
                if not strict:
                    continue
                raise SubjectError(
                    f"which folder is meant is not known, as a recipe of {app} can't be read ({problem}): name the folder"
                ) from problem
            for source in recipe.sources:
                if source.table is not None and len(source.paths) == 1:
                    yield source.table, source.paths[0]
            if recipe.output.table is not None and recipe.output.path is not None:
                yield recipe.output.table, recipe.output.path
