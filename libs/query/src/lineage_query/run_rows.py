"""The rows of the trace of one run, with what is known of each: its place, and the text that the run read or wrote there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeAlias

from lineage_core.contract.graph import RECIPE_NODE_KINDS, NodeRecord
from lineage_core.tracing.budget import TooMuchError, current_budget
from lineage_query.answers import Answer, Group, Item
from lineage_query.rows.cut_texts import is_cut
from lineage_query.rows.places import LocationError, parse_location
from lineage_store.materialised import stands_for
from lineage_store.paths import RowsError, Spellings
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FileQuery, FileVersion

PLAN_ROWS = "plan:"
"""Begins the address of a row that is a constant of a plan."""
_Place: TypeAlias = tuple[str, int | None, str]
"""Canonical path, number and unit of a row."""


@dataclass(frozen=True, slots=True)
class TracedRun:
    """The trace of one run. ``app``: as the query names it; ``answer``: lists all rows; ``store``: has what the run recorded."""

    app: str
    answer: Answer
    store: GraphStore


@dataclass(frozen=True, slots=True)
class RunRow:
    """A row of a trace.

    ``place``: None where it has none. ``is_recorded``: its node recorded the file there. ``text``: None unless it is known to
    be the whole text of the row that the run read or wrote.
    """

    group: Group
    item: Item
    place: _Place | None
    is_recorded: bool
    text: str | None


class RunRows:
    """The rows of the trace of one run, each once, and the versions of files that the run recorded."""

    def __init__(self, run: TracedRun, *, wrote: bool) -> None:
        self.answer = run.answer
        self._store = run.store
        self.wrote = wrote
        self._spellings = Spellings()
        self._versions: dict[str, dict[str, set[FileVersion]]] = {}
        self.apps = tuple(dict.fromkeys((run.app, run.answer.app)))
        self.is_materialised = any(stands_for(app) for app in run.answer.apps or (run.answer.app,))
        nodes = chain.from_iterable(
            run.store.graph(app).nodes()
            for app in dict.fromkeys(group.app or run.answer.app for group in run.answer.groups)
        )
        self.nodes: Mapping[str, NodeRecord] = {node.node: node for node in nodes}
        self.rows = list(self._all_rows())

    def _all_rows(self) -> Iterator[RunRow]:
        known: set[_Place] = set()
        for group in self.answer.groups:
            if len(group.items) != group.count:
                raise TooMuchError(
                    f"{group.count:,} rows of {group.path or group.node} are more than are listed",
                    "ask for fewer rows",
                )
            for item in group.items:
                current_budget().check()
                place = self._place_of(item)
                if place is None:
                    yield RunRow(group, item, None, False, self._text_of(group, item, False))
                    continue
                states = {version[:2] for version in self.versions(place[0])}
                if place in known and len(states) < 2:
                    # Two nodes read one row.
                    continue
                known.add(place)
                is_recorded = group.node in self._recorded(place[0])
                yield RunRow(
                    group, item, place, is_recorded, self._text_of(group, item, is_recorded)
                )

    def _text_of(self, group: Group, item: Item, is_recorded: bool) -> str | None:
        """The text of a row, if it is the whole one: texts that capture stored are shortened."""
        if item.binding is not None:
            is_bound = item.binding != "now"
        else:
            # Recomputed from files whose versions were checked, or a constant of the plan. Rows of databases are as they are now,
            # and of rows of outputs in no file some values may not be known.
            node = self.nodes.get(group.node)
            is_computed = node is not None and node.kind in RECIPE_NODE_KINDS
            is_constant = item.location is None and item.address.startswith(PLAN_ROWS)
            is_bound = is_computed and (is_recorded or is_constant)
        return item.text if is_bound and not is_cut(item.text) else None

    def _place_of(self, item: Item) -> _Place | None:
        try:
            location = parse_location(item.location or "")
            return self._spellings.of(location.path), location.number, location.unit
        except (LocationError, RowsError):
            return None

    def versions(self, path: str) -> frozenset[FileVersion]:
        """The versions of a file (its canonical path) that the run recorded."""
        return frozenset(chain.from_iterable(self._recorded(path).values()))

    def _recorded(self, path: str) -> dict[str, set[FileVersion]]:
        """Versions of a file, by the node that recorded them; none if they are more than one query reads."""
        if path not in self._versions:
            query = FileQuery(path, self._spellings)
            recorded = [self._store.recorded_files(replace(query, app=app)) for app in self.apps]
            by_node = self._versions.setdefault(path, {})
            if not any(files.unread for files in recorded):
                for file in chain.from_iterable(files.items for files in recorded):
                    if file.wrote == self.wrote:
                        by_node.setdefault(file.node, set()).add(file.version)
        return self._versions[path]

    def dataset(self, group: Group) -> str:
        """The canonical path of what a node reads or writes; empty: it has none."""
        try:
            return "" if group.path is None else self._spellings.of(group.path)
        except RowsError:
            return group.path or ""


def rows_by_dataset(side: RunRows) -> dict[tuple[str, str], list[RunRow]]:
    """Rows by the path of their node or, without one, by the node."""
    by_dataset: dict[tuple[str, str], list[RunRow]] = {}
    for row in side.rows:
        path = side.dataset(row.group)
        by_dataset.setdefault((path, "" if path else row.group.node), []).append(row)
    return by_dataset
