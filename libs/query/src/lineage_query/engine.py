"""Questions as people ask them: where do these lines or items come from, where did they go?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from lineage_core.contract.address import OPAQUE_SPACE, parse_space
from lineage_core.contract.graph import Unit
from lineage_core.contract.positions import text_position
from lineage_core.contract.region import Region
from lineage_core.contract.verdict import Verdict
from lineage_core.tracing.trace_result import Direction, TraceError, TraceResult
from lineage_core.tracing.walk import NOT_RECORDED
from lineage_query.answers import Answer
from lineage_query.blocks import outputs_of
from lineage_query.finding import (
    FileUse,
    NotFoundError,
    find_application,
    find_uses,
    other_readers,
)
from lineage_query.names import Names, looks_like_address
from lineage_query.opaque import find_opaque
from lineage_query.recipe_rows import RecipePlace, RecipeRowError, node_of, recipe_nodes_among
from lineage_query.rows.locations import Locations
from lineage_query.rows.places import FolderError, LocationError, parse_location
from lineage_query.rows.reader import RowReader
from lineage_query.snapshot import ApplicationCache, ApplicationSnapshot
from lineage_query.trace import Trace
from lineage_store.paths import RowsError, Spellings
from lineage_store.port import GraphStore

OTHERS_NAMED = 3
PUT_OUT = ("operator", "shuffle")
"""Kinds of nodes all of whose items were put out by blocks."""


@dataclass(frozen=True, slots=True)
class TraceQuery:
    """What is asked.

    ``places``: ``path:line``, ``path#record``, paths of files that are items as a whole, item
    addresses or opaque strings. ``regions``: more items to begin at, by space (with node ids).
    ``limit`` bounds the items listed of each node. ``as_now``: DataFrames whose files are not any more what they were
    are traced over them as they are now, and the answer says so.
    """

    direction: Direction
    places: tuple[str, ...]
    app: str | None = None
    until: str | None = None
    steps: int | None = None
    limit: int | None = None
    texts: bool = True
    regions: Mapping[str, Region] = field(default_factory=dict)
    as_now: bool = False


class QueryEngine:
    """Answers questions over a store; ``opener`` keeps what it opened of applications."""

    def __init__(
        self, store: GraphStore, reader: RowReader, opener: ApplicationCache | None = None
    ) -> None:
        self._store = store
        self._reader = reader
        self._opener = opener or ApplicationCache(store, reader)

    def ask(self, question: TraceQuery) -> Answer:
        """Trace what a question names, and list what was found; raises as :meth:`trace`."""
        traced = self.trace(question)
        return traced.answer(question.limit, texts=question.texts, at_once=True)

    def trace(self, question: TraceQuery) -> Trace:
        """Trace what a question names.

        Raises:
            NotFoundError: no such application, or none knows the file.
            LocationError: a place names no row.
            AddressError: an address can't be read, or names no node.
            RowsError: rows must be counted in a file that can't be read.
            NotedRowError: a place is a row of a DataFrame, which has to be traced by its recipe.
            TraceError: ``until`` does not lie that way.
            BudgetError: it costs more than the question may.
        """
        spellings = Spellings()
        uses = self._all_uses(question, spellings)
        opened = self._opener.open(self._application(question, uses))
        opened = replace(opened, locations=opened.locations.as_now(spellings))
        begun = self._begin(opened, question, uses)
        beside = tuple(_beside(opened, uses, question.direction))
        until = "ends" if question.until is None else opened.names.node(question.until)
        trace = partial(
            opened.tracer.trace, question.direction, begun, until=until, steps=question.steps
        )
        result = trace()
        if opened.verdict.complete:
            _refuse_unheard_of(begun, result, opened.names)
        if question.until is not None and not result.found:
            _refuse_itemless(opened, until, result)
        return Trace(
            app=opened.app,
            direction=question.direction,
            asked=question.places,
            graph=opened.graph,
            names=opened.names,
            locations=opened.locations,
            begun=begun,
            result=result,
            complete=opened.verdict.complete and not beside,
            superset=opened.verdict.superset,
            changed=_any_changed(uses),
            warnings=tuple(dict.fromkeys(self._warnings(opened, question, uses))),
            along_exact=partial(trace, exact_only=True),
            known=opened.nodes,
            beside=beside,
        )

    def again(self, question: TraceQuery, traced: Trace) -> Trace:
        """The answer to a question that was traced before, with what is to be said of its files now.

        Raises:
            LineageError: as :meth:`trace`.
        """
        uses = self._all_uses(question, Spellings())
        opened = self._opener.open(traced.app)
        warnings = tuple(dict.fromkeys(self._warnings(opened, question, uses)))
        return replace(traced, changed=_any_changed(uses), warnings=warnings)

    def locations(self, app: str) -> Locations:
        """Rows of the files of an application, as they are now.

        Raises:
            KeyError: there is no such application.
        """
        return self._opener.open(app).locations.as_now()

    def _warnings(
        self, opened: ApplicationSnapshot, question: TraceQuery, uses: dict[str, list[FileUse]]
    ) -> Iterator[str]:
        for place, found in uses.items():
            yield from _warnings_of_use(place, found[0], question.direction)
        if question.direction is Direction.FORWARD and question.app is None:
            for place in uses:
                path = parse_location(place).path
                others = other_readers(self._store, self._reader, path, opened.app)
                if others:
                    yield also_read_warning(place, opened.app, others)
        verdict = opened.verdict
        if not verdict.complete:
            yield incomplete_warning(opened.app, verdict)

    def _begin(
        self, opened: ApplicationSnapshot, question: TraceQuery, uses: dict[str, list[FileUse]]
    ) -> dict[str, Region]:
        start: dict[str, list[Region]] = {s: [region] for s, region in question.regions.items()}
        for space, region in question.regions.items():
            _check_region(opened, space, region)
        for place in question.places:
            for space, region in self._start(opened, place, uses.get(place)).items():
                start.setdefault(space, []).append(region)
        return {space: Region.union(regions) for space, regions in start.items()}

    def _all_uses(self, question: TraceQuery, spellings: Spellings) -> dict[str, list[FileUse]]:
        """Uses of the files that places name; those that name a string of an SDK have none."""
        found: dict[str, list[FileUse]] = {}
        for place in question.places:
            if not looks_like_address(place):
                try:
                    found[place] = self._uses(place, question, spellings)
                except (LocationError, NotFoundError, RowsError):
                    if not self._is_opaque(place, question):
                        raise
        return found

    def _is_opaque(self, place: str, question: TraceQuery) -> bool:
        opened = self._opener.open(find_application(self._store, question.app))
        return find_opaque(opened.graph, place) is not None

    def _uses(self, place: str, question: TraceQuery, spellings: Spellings) -> list[FileUse]:
        app = question.app and find_application(self._store, question.app)
        path = self._file_of(place)
        back = question.direction is Direction.BACKWARD
        return find_uses(self._store, self._reader, path, wrote=back, app=app, spellings=spellings)

    def _application(self, question: TraceQuery, uses: dict[str, list[FileUse]]) -> str:
        apps = {found[0].app: place for place, found in uses.items()}
        if len(apps) > 1:
            named = ", ".join(f"{place} belongs to {app}" for app, place in apps.items())
            raise NotFoundError(f"one application at a time: {named}; --app chooses one")
        return next(iter(apps), "") or find_application(self._store, question.app)

    def _start(
        self, opened: ApplicationSnapshot, place: str, uses: list[FileUse] | None
    ) -> dict[str, Region]:
        if uses is None and looks_like_address(place):
            named = opened.names.find(place, opened.graph)
            noted = recipe_nodes_among(opened.nodes, map(node_of, named))
            if noted:
                raise RecipeRowError(place, opened.app, noted)
            for space, region in named.items():
                opened.locations.check(space, region, opened.names.space(space))
            return named
        if uses is None:
            return {OPAQUE_SPACE: Region.from_positions([text_position(place)])}
        noted = recipe_nodes_among(opened.nodes, (use.node for use in uses))
        if len(noted) == len({use.node for use in uses}):
            raise RecipeRowError(place, opened.app, noted)
        typed = parse_location(place)
        where = replace(typed, path=opened.locations.spelled(typed.path))
        units = {use.node: opened.locations.unit(use.node, where.path) for use in uses}
        if where.unit not in units.values():
            raise LocationError(f"{place} names no row: give {_forms(units.values())}")
        found: dict[str, Region] = {}
        for node, unit in units.items():
            if unit == where.unit:
                found |= opened.locations.items_at(node, where)
        return found

    def _file_of(self, place: str) -> str:
        """The file that a place names.

        Raises:
            LocationError: the text has another form, or names a folder.
        """
        for text in (place, place.rpartition(":")[0], place.rpartition("#")[0]):
            if text and self._reader.is_folder(text):
                raise FolderError(
                    f"{text} is a folder; name a row of one of its files as PATH:LINE (PATH#RECORD "
                    f"where records are no lines), such as {text.rstrip('/')}/part-00000:1"
                )
        return parse_location(place).path


def _check_region(opened: ApplicationSnapshot, space: str, region: Region) -> None:
    """Refuse items that a node is known not to have.

    Raises:
        LocationError: there are no such items.
        BudgetError: to know it costs more than the question may.
    """
    shown = opened.names.space(space)
    opened.locations.check(space, region, shown)
    node = opened.record(parse_space(space).name)
    if node is None or node.kind not in PUT_OUT or not opened.verdict.complete or not region:
        return
    refs = opened.graph.blocks_into(space, int(region.first[0]), int(region.last[-1]))
    beyond = region - outputs_of(opened.graph, space, refs)
    if beyond:
        raise LocationError(f"there is no item {shown}#{int(beyond.first[0])} in this application")


def continues_in(question: TraceQuery, traced: Trace) -> bool:
    """Whether what a question came to are rows of DataFrames, and it asks where these come from, or went, too."""
    return question.until is None and question.steps is None and traced.crosses


def _beside(
    opened: ApplicationSnapshot, uses: Mapping[str, Sequence[FileUse]], direction: Direction
) -> Iterator[RecipePlace]:
    """Rows of DataFrames among those that places name, in the direction that is asked."""
    for place, found in uses.items():
        wanted = [use.node for use in found if use.wrote == (direction is Direction.BACKWARD)]
        nodes = tuple(record.node for record in recipe_nodes_among(opened.nodes, wanted))
        if nodes:
            yield RecipePlace(opened.app, nodes, place)


def _any_changed(uses: Mapping[str, Sequence[FileUse]]) -> bool:
    return any(use.changed for found in uses.values() for use in found)


def _forms(units: Iterable[Unit | None]) -> str:
    """How items of a file are named."""
    forms: dict[Unit, str] = {
        "line": "PATH:LINE as grep -n prints it",
        "record": "PATH#RECORD, records counted from 0",
        "file": "PATH, for the file was read as a whole",
    }
    return ", or ".join(form for unit, form in forms.items() if unit in set(units))


def _refuse_itemless(opened: ApplicationSnapshot, node: str, result: TraceResult) -> None:
    """Nodes in the middle of a segment keep no items: an empty answer would say something else.

    Raises:
        TraceError: the node keeps none.
    """
    record = next(one for one in opened.graph.nodes() if one.node == node)
    if record.kind == "operator" and not opened.graph.spaces_of(node):
        others = ", ".join(opened.names.label(other) for other in result.passed)
        raise TraceError(
            f"node {node} ({record.name or record.op}) keeps no items of its own; "
            f"nodes on the way that do: {others}"
        )


def _refuse_unheard_of(begun: dict[str, Region], result: TraceResult, names: Names) -> None:
    """Where all lineage is there, an item that no block puts out is none.

    Raises:
        LocationError: an item that was asked for does not exist.
    """
    for end in result.dead_ends:
        if end.space in begun and end.reason == NOT_RECORDED:
            position = int(end.region.first[0])
            shown = f"{names.space(end.space)}#{position}"
            raise LocationError(f"there is no item {shown} in this application")


def also_read_warning(place: str, app: str, others: Sequence[str]) -> str:
    """The warning that a trace forward is just of one application."""
    named = ", ".join(others[:OTHERS_NAMED]) + (", ..." if len(others) > OTHERS_NAMED else "")
    return f"{place}: this is what {app} made of it; {named} read it, too (--app chooses)"


def incomplete_warning(app: str, verdict: Verdict) -> str:
    """The warning that items may be missing."""
    first = verdict.reasons[0] if verdict.reasons else "see lineage verify"
    return f"the lineage of {app} is incomplete: {first}"


def end_warning(place: str, app: str, direction: Direction) -> str:
    """The warning that a trace begins where it would end."""
    if direction is Direction.BACKWARD:
        return f"{place} is an input of {app}: nothing lies before it"
    return f"{place} is an output of {app}: nothing lies after it"


def _warnings_of_use(place: str, use: FileUse, direction: Direction) -> Iterator[str]:
    if use.changed:
        verb = "wrote" if use.wrote else "read"
        what = "is not there any more" if use.gone else f"has changed since {use.app} {verb} it"
        yield f"{place}: the file {what}; the answer is about the row that was there then"
    if direction is Direction.BACKWARD and not use.wrote:
        yield end_warning(place, use.app, direction)
    if direction is Direction.FORWARD and use.wrote:
        yield end_warning(place, use.app, direction)
