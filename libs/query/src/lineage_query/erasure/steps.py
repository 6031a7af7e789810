"""What is to be done to erase what lineage itself keeps, as data: it is frozen before anything is changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from lineage_core.contract.message import Recipe
from lineage_core.environment.private_files import folder_named
from lineage_core.errors import LineageError
from lineage_core.recipe.document import ERASED
from lineage_core.recipe.document import Recipe as Document
from lineage_core.tracing.budget import current_budget
from lineage_query.erasure.erased_texts import keys_of_rows, nodes_to_erase
from lineage_query.erasure.finding import SubjectQuery
from lineage_query.erasure.journal import Step
from lineage_query.erasure.keeping import StorePlace, files_in
from lineage_query.erasure.plan import Plan
from lineage_query.erasure.reached import place_of
from lineage_query.erasure.testing import RowTest
from lineage_query.erasure.topics import not_used
from lineage_query.verdicts import verdict_of
from lineage_store.paths import canonical, plain_path
from lineage_store.port import GraphStore, ViewingStore


class ErasureError(LineageError):
    """A plan can't be carried out."""


def steps_of(plan: Plan, query: SubjectQuery, store: GraphStore, place: StorePlace) -> list[Step]:
    """The steps that erase what is kept.

    Raises:
        ErasureError: an application on the way still runs, or records of it are on their way to the store.
        LineageError: Kafka does not answer.
    """
    apps = applications_of(plan, store)
    running = {record.app for record in store.applications() if record.status == "running"}
    for app in apps:
        if app in running:
            raise ErasureError(f"{app} still runs: its lineage is erased when it has ended")
    if place.topics is not None:
        with place.topics() as topics:
            for where, app, count in not_used(topics, apps):
                raise ErasureError(
                    f"{count:,} records of {app} are not used yet ({where}), and would bring texts back: "
                    f"wait for them with lineage verify {app} --wait"
                )
    return list(_steps(plan, query, store, place, apps))


def applications_of(plan: Plan, store: GraphStore) -> list[str]:
    """The applications on the way of the subject's rows that the store has."""
    ids = set(store.application_ids())
    named = dict.fromkeys((*plan.apps, *(row.app for row in plan.rows), *plan.passed))
    return [app for app in named if app in ids]


def identifying_columns(query: SubjectQuery) -> tuple[str, ...]:
    """Columns whose values say who a subject is; none: all."""
    if query.subjects.columns:
        return query.subjects.columns
    if query.where:
        return tuple(dict.fromkeys((*RowTest.of(query.where).columns, *query.identity)))
    return query.identity


def _files_read(recipes: Iterable[str]) -> set[str]:
    """The files that recipes read, by canonical path; raises RecipeError where one can't be read."""
    sources = [source for text in recipes for source in Document.from_json(text).sources]
    named = chain.from_iterable(
        (*source.paths, *(file.path for file in source.files)) for source in sources
    )
    return set(map(canonical, named))


def _steps(
    plan: Plan, query: SubjectQuery, store: GraphStore, place: StorePlace, apps: Sequence[str]
) -> Iterator[Step]:
    keys = keys_of_rows([dict(row.values) for row in plan.subject], identifying_columns(query))
    doubtful = {gap.app for gap in plan.gaps}
    doubtful.update(app for app in apps if not verdict_of(store, app).complete)
    read_by_app: dict[str, set[str]] = {}
    for app in apps:
        current_budget().check()
        recipes = [
            (message.node, message.recipe)
            for message in store.messages(app, "recipe")
            if isinstance(message, Recipe)
        ]
        # Which items rows of DataFrames became is in no trace of records.
        whole = bool(recipes) or app in doubtful or app not in plan.passed
        spaces = {} if whole else plan.passed[app]
        erased = nodes_to_erase(recipes, keys)
        stay = [text for node, text in recipes if node not in erased and text != ERASED]
        read_by_app[app] = set() if app in doubtful else _files_read(stay)
        yield {
            "kind": "store",
            "app": app,
            "whole": whole,
            "spaces": {space: region.to_text() for space, region in spaces.items()},
            "recipes": erased,
        }
        if isinstance(store, ViewingStore):
            yield {"kind": "views", "app": app}
    reached = {at[0] for row in plan.rows if row.kept and row.place and (at := place_of(row.place))}
    kept = {plain_path(path) for path in reached}
    for app, read in read_by_app.items():
        files = map(str, files_in(folder_named(place.rows, app)))
        # What no recipe reads that stays is of a task that was killed, say, or of one that ran twice.
        kept.update(path for path in files if canonical(path) not in read)
    if kept:
        yield {"kind": "kept rows", "files": sorted(kept)}
    for app in apps:
        folder = folder_named(place.spool, app)
        if os.path.isdir(folder):
            yield {"kind": "spool", "app": app, "folder": str(folder)}
        if place.staging:
            yield {"kind": "staging", "app": app}
    if place.topics is not None:
        yield {"kind": "topics", "apps": list(apps)}
    yield {"kind": "caches", "folder": str(place.caches)}
