"""What lineage itself keeps of rows: beside the flows, which hold positions and keys' hashes alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from lineage_core.environment.private_files import folder_named
from lineage_core.errors import LineageError
from lineage_core.tracing.budget import BudgetError, current_budget
from lineage_query.erasure.reached import ReachedRow
from lineage_query.erasure.topics import OpenTopics, RecordRanges, records_of
from lineage_store.errors import DamagedError
from lineage_store.materialised import SUFFIX
from lineage_store.paths import walked
from lineage_store.port import GraphStore, ViewingStore

ALL_RECORDS = "records that could not be used, and all topics until their retention"
NOT_KNOWN = "not looked at: LINEAGE_KAFKA names the servers"
KeptKind: TypeAlias = Literal[
    "kept rows",
    "texts of items",
    "recipes",
    "materialised",
    "spool",
    "lake",
    "caches",
    "dead letters",
    "topics",
    "views",
]


@dataclass(frozen=True, slots=True)
class StorePlace:
    """Where a store of this machine lies. ``url``: of the store; ``rows``, ``spool``, ``caches``: folders beside it.

    ``has_pipeline``: lineage comes to it through Kafka.
    """

    url: str
    rows: Path
    spool: Path
    caches: Path
    is_lake: bool
    has_pipeline: bool
    topics: OpenTopics | None = None
    """Connects to the topics of the pipeline; None: where they are is not known."""
    staging: str = ""
    """Of a lake, the store of this machine in which applications wait; empty: there is none."""

    @property
    def journals(self) -> Path:
        """Where journals of erasures are."""
        return self.spool.parent / "erasures"


@dataclass(frozen=True, slots=True)
class Kept:
    """Something that lineage keeps. ``items``: how many rows, files or messages; ``holds``: what of the subject may be in it."""

    kind: KeptKind
    app: str
    where: str
    items: int
    holds: str


def kept_of(
    store: GraphStore, apps: Sequence[str], rows: Sequence[ReachedRow], place: StorePlace | None
) -> tuple[Kept, ...]:
    """What is kept of some applications.

    Args:
        store: has the applications.
        apps: those on the way of the subject's rows.
        rows: what the rows went into.
        place: of the store; None: it has no folders on this machine.
    """
    return tuple(_kept(store, apps, rows, place))


def _kept(
    store: GraphStore, apps: Sequence[str], rows: Sequence[ReachedRow], place: StorePlace | None
) -> Iterator[Kept]:
    ids = frozenset(store.application_ids())
    for app in apps:
        current_budget().check()
        where = "the store" if place is None else place.url
        kept_rows = [row for row in rows if row.app == app and row.kept and row.place is not None]
        if place is not None:
            yield from _files(app, place, len(kept_rows))
        texts = sum(row.app == app and row.place is None and row.text is not None for row in rows)
        if texts:
            yield Kept(
                "texts of items",
                app,
                where,
                texts,
                "texts of rows, as detailed capture or an SDK stored them",
            )
        holds = "constants of the program's queries, and rows that it made itself"
        try:
            recipes = len(store.messages(app, "recipe"))
        except DamagedError as error:
            yield Kept("recipes", app, where, 0, f"{holds}; not looked at: {error}")
        else:
            if recipes:
                yield Kept("recipes", app, where, recipes, holds)
        views = sum(1 for _ in view_texts(store, app)) if place is not None else 0
        if views:
            yield Kept(
                "views",
                app,
                where,
                views,
                "texts of rows in the record-level view of the application",
            )
        if f"{app}{SUFFIX}" in ids:
            yield Kept("materialised", app, where, 1, "positions of rows, and no text of them")
    if place is not None:
        yield from _not_linked(place, ids)
    if place is not None and place.is_lake:
        yield Kept(
            "lake",
            "",
            place.url,
            0,
            "files that others left unfinished stay until `lineage compact` deletes them",
        )
    if place is not None and place.has_pipeline:
        yield from _in_topics(place.topics, frozenset(apps))
    if place is not None:
        yield Kept(
            "caches", "", str(place.caches), 0, "counts and checksums of lines, and no text of them"
        )


def view_texts(store: GraphStore, app: str) -> Iterator[str]:
    """The texts of rows in the record-level view of an application, if it has one."""
    return store.view_texts(app) if isinstance(store, ViewingStore) else iter(())


def _in_topics(open_topics: OpenTopics | None, apps: Collection[str]) -> Iterator[Kept]:
    """Records of applications in the pipeline's topics."""
    if open_topics is None:
        yield Kept("dead letters", "", "Kafka", 0, f"{ALL_RECORDS}; {NOT_KNOWN}")
        return
    if not apps:
        return
    ranges, dead = RecordRanges(), RecordRanges()
    try:
        with open_topics() as topics:
            for record in records_of(topics, apps):
                is_dead = topics.is_dead_letters(record.topic)
                (dead if is_dead else ranges).add(record, record.app)
    except BudgetError:
        raise
    except LineageError as problem:
        yield Kept("dead letters", "", "Kafka", 0, f"{ALL_RECORDS}; not looked at: {problem}")
    for where, app, count in dead:
        yield Kept(
            "dead letters", app, where, count, "records that could not be used, as they came"
        )
    for where, app, count in ranges:
        yield Kept(
            "topics", app, where, count, "records on their way to the store, until their retention"
        )


def _not_linked(place: StorePlace, ids: Collection[str]) -> Iterator[Kept]:
    """Spools of applications that the store has not: nothing is known of what they read."""
    linked = {folder_named(place.spool, app) for app in ids}
    try:
        folders = sorted(folder for folder in place.spool.iterdir() if folder not in linked)
    except FileNotFoundError:
        return
    count = sum(map(_file_count, folders))
    if count:
        holds = "of applications that are not linked: they are not looked at, and stay; `lineage link` links them"
        yield Kept("spool", "", str(place.spool), count, holds)


def _files(app: str, place: StorePlace, rows: int) -> Iterator[Kept]:
    folder = folder_named(place.rows, app)
    count = _file_count(folder)
    if count:
        reached = f"; {rows:,} of them are the subject's or were made of its rows" if rows else ""
        yield Kept(
            "kept rows",
            app,
            str(folder),
            count,
            f"whole rows that the program handed to DataFrames{reached}",
        )
    folder = folder_named(place.spool, app)
    count = _file_count(folder)
    if count:
        yield Kept(
            "spool",
            app,
            str(folder),
            count,
            "blocks and messages that were not removed after linking",
        )


def files_in(folder: Path) -> Iterator[Path]:
    """All files below a folder; none if it is not there.

    Raises:
        OSError: it can't be listed.
    """
    if folder.is_dir():
        for at, _, names in walked(str(folder)):
            yield from (Path(at, name) for name in names)


def _file_count(folder: Path) -> int:
    return sum(1 for _ in files_in(folder))
