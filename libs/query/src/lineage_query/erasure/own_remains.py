"""Looks for what is left of a subject in what lineage itself keeps."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from lineage_core.tracing.budget import current_budget
from lineage_query.blocks import iter_blocks
from lineage_query.erasure.applying import items_of
from lineage_query.erasure.erased_texts import ItemsOfTexts
from lineage_query.erasure.file_search import FileSearch
from lineage_query.erasure.journal import Step
from lineage_query.erasure.keeping import NOT_KNOWN, StorePlace, files_in, kept_of, view_texts
from lineage_query.erasure.message_texts import TYPES
from lineage_query.erasure.own_texts import SubjectTexts
from lineage_query.erasure.topics import records_with_texts
from lineage_query.rows.reader import RowReader
from lineage_store.paths import canonical
from lineage_store.port import GraphStore
from lineage_store.url import open_embedded, store_path
from lineage_store.watch_folder import FOLDER

Look: TypeAlias = Callable[[], None]
WATCHED = (".json", ".jsonl")
"""Endings of files of conditions by which rows were watched, and of these rows."""


@dataclass(frozen=True, slots=True)
class OwnRemains:
    """What is ours. ``reader``: reads its files. ``steps``: of the journal, none where the plan was not carried out.

    ``add``: takes the kind, place and reason of what is left; ``unseen``: takes what could not be looked at.
    """

    store: GraphStore
    place: StorePlace
    reader: RowReader
    steps: Sequence[Step]
    texts: SubjectTexts
    add: Callable[[str, str, str], None]
    unseen: Callable[[str], None]

    def looks(self) -> Iterator[tuple[str, Look]]:
        """What is looked at, and how; each look may raise a LineageError."""
        for app in self.store.application_ids():
            yield app, partial(self._application, app)
        for step in self.steps:
            yield step["kind"], partial(self._folder, step)
        if self.place.has_pipeline:
            yield "dead letters and other records in Kafka", self._topics
        yield "spools", self._spools
        for path in files_in(self.place.rows):
            yield str(path), partial(self._file, path, "kept rows hold the values: lineage rm")
        for path in files_in(self.place.spool):
            if path.suffix in WATCHED and FOLDER in path.parts:
                why = "what was watched holds the values: delete the file"
                yield str(path), partial(self._file, path, why)

    def _of_app(self, app: str) -> tuple[ItemsOfTexts | None, Collection[str]]:
        """Whose texts, and which recipes, were to be erased."""
        for step in self.steps:
            if step["kind"] == "store" and step["app"] == app:
                return items_of(step), step["recipes"]
        return None, ()

    def _application(self, app: str) -> None:
        items, erased = self._of_app(app)
        graph = self.store.graph(app)
        blocks = iter_blocks(graph, [ref.block_id for ref in graph.blocks()])
        count = sum(self.texts.in_block(block, items) for block in blocks)
        if count:
            self.add("lineage", app, f"{count:,} texts are stored")
        for message in self.store.messages(app, *TYPES, "recipe"):
            current_budget().check()
            for reason in self.texts.in_message(message, erased):
                self.add("lineage", app, reason)
        # A view that was made after the erasure may have texts of rows that were in their files then.
        shown = sum(
            items is not None or self.texts.hold(text) for text in view_texts(self.store, app)
        )
        if shown:
            self.add(
                "lineage", app, f"{shown:,} texts are in its view: lineage records remove {app}"
            )

    def _folder(self, step: Step) -> None:
        match step["kind"]:
            case "kept rows":
                for path in filter(os.path.exists, step["files"]):
                    self.add("lineage", path, "kept rows")
            case "spool" if os.path.isdir(step["folder"]):
                self.add("lineage", step["folder"], "a spool")
            case "staging" if store_path(self.place.staging).exists():
                with open_embedded(self.place.staging) as store:
                    if step["app"] in store.application_ids():
                        self.add("lineage", step["app"], "a copy waits beside the lake")
            case _:
                pass

    def _file(self, path: Path, why: str) -> None:
        if not path.exists():
            return
        looked_for = dict.fromkeys(self.texts.keys, why)
        add = partial(self.add, "lineage")
        FileSearch(self.reader, canonical(str(path)), looked_for, add, self.unseen).run()

    def _topics(self) -> None:
        if self.place.topics is None:
            self.unseen(f"dead letters and other records in Kafka: {NOT_KNOWN}")
            return
        apps = [step["app"] for step in self.steps if step["kind"] == "store"]
        of_app = {app: self._of_app(app) for app in apps}
        with self.place.topics() as topics:
            held, unknown = records_with_texts(topics, self.texts, of_app)
        for where, what, count in held:
            self.add("records", where, f"{count:,} {what}")
        for where, what, count in unknown:
            self.unseen(f"records in Kafka, {where}: {count:,} {what}")

    def _spools(self) -> None:
        for kept in kept_of(self.store, (), (), self.place):
            if kept.kind == "spool":
                self.unseen(f"spool: {kept.where} ({kept.holds})")
