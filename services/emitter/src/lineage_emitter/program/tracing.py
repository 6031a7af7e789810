"""Tracing from inside the program, in the terms of Titian.

Interlandi et al., "Titian: Data Provenance Support in Spark", VLDB 2015: ``getLineage`` of an RDD,
``goBack``, ``goBackAll``, ``goNext``, ``goNextAll``, ``filter``, ``show``, and replays from what was
found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

from pyspark import RDD

from lineage_core.contract.region import Region
from lineage_emitter.errors import TracingError
from lineage_emitter.program.drawing import ProgramGraph
from lineage_emitter.program.lookups import (
    Items,
    LineageView,
    by_node,
    by_split,
    continues_warning,
    merge_items,
    open_view,
)
from lineage_emitter.program.navigation import NavigationStep, Navigator
from lineage_emitter.program.node_choice import NodeChoice, choose_node, choose_step, node_on_way
from lineage_emitter.program.numbering import SourceRows, number_records
from lineage_emitter.program.recipes import SourceRecipe, recipe_of, upstream_rdds
from lineage_emitter.program.replaying import (
    OrdinalsBySource,
    exclude_rows,
    replay_captured,
    replay_plain,
    select_rows,
)
from lineage_emitter.program.selecting import (
    RecordReader,
    at_ordinals,
    count_items,
    ordered_spaces,
    ordinals_of,
)
from lineage_emitter.program.source_lines import LinesBySplit, lines_of
from lineage_query.showing import ItemGroup, NotebookDisplay, Showing

if TYPE_CHECKING:
    from lineage_emitter.dataframes.traced_frames import FrameRows
    from lineage_emitter.driver.captured import CapturedRDD
    from lineage_emitter.session.session import Session

Chosen: TypeAlias = "TracedItems | Callable[[Any], Any] | SupportsIndex | Iterable[int]"
"""Items, or what :meth:`TracedItems.filter` takes."""


@dataclass(frozen=True, slots=True)
class TracedItem:
    """One item. ``value``: its record where it can be had, else its line's text, else its address.

    ``location``: ``path:line`` where it is a row of a text file.
    """

    node: str
    address: str
    location: str | None
    value: Any


@dataclass(frozen=True, slots=True)
class TracedNode:
    """Where items are: the node's id, what it is called in addresses, its operator, ``file:line``."""

    id: str
    label: str
    operator: str
    call_site: str


class TracedItems(NotebookDisplay):
    """Items of a program's lineage, mostly of one node; after ``goBackAll`` of every source.

    Moves give new ones and leave this as it is. ``reasons`` says why the items are a superset
    (``exact`` is False then), ``gaps`` why lineage is missing altogether. Questions raise

    - ``TracingError`` (``ChoiceError``, ``NotLinkedError``) where there is no answer,
    - ``AddressError``, ``LocationError``, ``TraceError`` where a name, an address or a place is none,
    - ``StoreError``, ``RowsError``, ``OSError`` where the store or a file can't be read.
    """

    def __init__(
        self,
        session: Session,
        items: Items | None,
        *,
        origin: RDD[Any] | None,
        timeout_s: float,
        source_rows: SourceRows | None = None,
        reasons: Iterable[str] = (),
        gaps: Iterable[str] = (),
        within: frozenset[str] | None = None,
    ) -> None:
        self._session = session
        self._counted_items = None if items is None else {s: r for s, r in items.items() if r}
        self._source_rows = source_rows
        self._origin = origin
        self._timeout_s = timeout_s
        self._within = within
        self.reasons = tuple(dict.fromkeys(reasons))
        self.gaps = tuple(gaps)

    # -- what it is --------------------------------------------------------------------------

    @property
    def exact(self) -> bool:
        """Whether the items are just those that were used (made); else a superset of them."""
        return not self.reasons

    @property
    def complete(self) -> bool:
        """Whether all lineage of the program so far is there; else items may be missing."""
        return not self.gaps

    @property
    def count(self) -> int:
        """Number of items."""
        return count_items(self._items)

    @property
    def nodes(self) -> tuple[TracedNode, ...]:
        """The nodes of the items, in the order of the program."""
        held = set(self._nodes)
        with self._view() as view:
            return tuple(_node(view, node) for node in view.nodes if node in held)

    @property
    def node(self) -> TracedNode:
        """The node of the items.

        Raises:
            ChoiceError: there are several.
        """
        with self._view() as view:
            return _node(view, choose_node(view, self._session, self._nodes, None))

    # -- moves -------------------------------------------------------------------------------

    def goBack(self, which: NodeChoice | None = None) -> TracedItems:
        """One step back, to the nearest node with items of its own.

        ``which``, where there are several: the RDD, the id or alias of the node, or its operator;
        also of one that lies behind it.
        """
        with self._view() as view:
            return self._step(view, Navigator(view).back(self._items), which, back=True)

    def goNext(self, which: NodeChoice | None = None) -> TracedItems:
        """One step forward; ``which`` as for :meth:`goBack`."""
        with self._view() as view:
            return self._step(view, Navigator(view).forth(self._items), which, back=False)

    def goBackAll(self, which: NodeChoice | None = None) -> TracedItems:
        """All the way to the rows of every source, or to the items of one node on the way."""
        with self._view() as view:
            until = None if which is None else self._node_on_way(view, which, back=True)
            moved = Navigator(view).back_all(self._items, until)
            if until is None:
                return self._items_after(view, moved, self._sources(view))
            is_source = view.topology.is_source(until)
            return self._items_after(view, moved, frozenset({until}) if is_source else None)

    def goNextAll(self, which: NodeChoice | None = None) -> TracedItems:
        """All the way to the items of every sink, or to the items of one node on the way."""
        with self._view() as view:
            until = None if which is None else self._node_on_way(view, which, back=False)
            moved = Navigator(view).forth_all(self._items, until)
            real = {n: items for n, items in moved.items.items() if not view.is_numbering(n)}
            if until is None and real:
                moved.items = real
            return self._items_after(view, moved)

    def at(self, which: NodeChoice) -> TracedItems:
        """The items of one of the nodes."""
        with self._view() as view:
            node = choose_node(view, self._session, self._nodes, which)
            within = None if self._within is None else self._within & {node}
            return self._with(by_node(self._items)[node], within=within)

    def filter(self, chosen: Callable[[Any], Any] | SupportsIndex | Iterable[int]) -> TracedItems:
        """Some of the items: those that a function holds of, or those at some ordinals (from 0).

        The function gets each item's value, as :meth:`collect` gives it: the record (then it runs
        on the executors), else the text of its line, else its address. Ordinals count in the order
        of ``collect``.

        Raises:
            IndexError: there is no such ordinal.
            TypeError: it is neither a function nor ordinals. A tuple is a record, say, and no list of ordinals.
        """
        with self._view() as view:
            # A Row can be called, too.
            if isinstance(chosen, tuple) or not callable(chosen):
                selected = at_ordinals(ordered_spaces(view, self._items), ordinals_of(chosen))
                return self._with(selected, within=self._within)
            selected_items: dict[str, Region] = {}
            records = RecordReader(view, self._session)
            for node, spaces in by_node(self._possible_items).items():
                selected_items |= records.choose(node, spaces, chosen)
            return self._with(selected_items, within=self._within)

    # -- what it holds -----------------------------------------------------------------------

    def collect(self) -> list[TracedItem]:
        """All items with their values, in the order of the program's nodes and their partitions."""
        items: list[TracedItem] = []
        with self._view() as view:
            records = RecordReader(view, self._session)
            for node, spaces in self._by_node(view):
                values = records.values(node, spaces)
                group = records.group(node, spaces, None, texts=values is None)
                for at, item in enumerate(group.items):
                    value = values[at] if values is not None else item.shown or item.address
                    items.append(TracedItem(group.label, item.address, item.location, value))
        return items

    def graph(self) -> ProgramGraph:
        """The program's graph with the nodes of these items marked; a notebook draws it."""
        with self._view() as view:
            marked = {view.rdd_node(node) for node in self._nodes}
            return ProgramGraph.of(tuple(view.nodes.values()), view.links, marked)

    def rows(self, which: NodeChoice | None = None) -> RDD[Any]:
        """The source rows behind the items: a plain RDD of the very records, in their partitions.

        ``which`` names the source where there are several.
        """
        rows = self.goBackAll()
        with self._view() as view:
            node = choose_node(view, self._session, rows._nodes, which)
            ordinals = by_split(by_node(rows._items)[node])
            source = self._session.records.get(node)
            if not isinstance(source, SourceRecipe):
                raise TracingError(
                    f"the rows of {view.text(node)} can't be read again: the program has dropped "
                    "the RDDs that were made from it"
                )
            RecordReader(view, self._session).refuse_changed(node, ordinals)
            return select_rows(source, ordinals)

    def frame_rows(self, which: NodeChoice | None = None) -> FrameRows:
        """The source rows behind the items that came by way of a DataFrame (``df.rdd``), by a query.

        ``which`` names the RDD of the DataFrame's rows where there are several. Raises, besides what
        all questions do, ``RefusedError`` where the plan allows no sound trace, and
        ``ChangedSourceError`` where a source is not what it was.
        """
        from lineage_emitter.program.source_rows import source_rows_of

        self._session.frames.wait_until_recorded()
        records = self.goBackAll()
        with self._view() as view:
            return source_rows_of(view, self._session, records._items, which, records.reasons)

    # -- replay ------------------------------------------------------------------------------

    def replay(
        self,
        until: RDD[Any] | str | None = None,
        *,
        exclude: Chosen | None = None,
        capture: bool = False,
    ) -> RDD[Any]:
        """The program from just the source rows behind these items, as plain PySpark makes it.

        Args:
            until: the RDD that is wanted, or a name of its node; that whose ``getLineage`` was
                called when left out.
            exclude: rows that are left out: items (then the rows behind them), or what
                :meth:`filter` takes, of the rows.
            capture: whether the result is captured, too.

        Every source that the items may come from is cut down to their rows, in the partitions
        where they are; others are read whole.
        """
        rows = self.goBackAll()
        excluded = None
        if exclude is not None:
            chosen = exclude if isinstance(exclude, TracedItems) else rows.filter(exclude)
            excluded = chosen.goBackAll()
        with self._view() as view:
            goal = self._goal(view, until)
            rows_by_source = rows._rows_by_source(view)
            if excluded is not None:
                rows_by_source = exclude_rows(rows_by_source, excluded._rows_by_source(view))
            if capture:
                return replay_captured(goal, rows_by_source)
            return replay_plain(goal, rows_by_source, self._lines(view, rows_by_source))

    def unpersist(self) -> None:
        """Drop the numbered records of the RDD: the next ``getLineage`` runs it again."""
        origin = self._origin
        numbered = getattr(origin, "numbered", None)
        if numbered is not None:
            if numbered.persisted is not origin:
                numbered.persisted.unpersist()
            origin.numbered = None  # type: ignore[union-attr]

    # -- a notebook's view -------------------------------------------------------------------

    def __repr__(self) -> str:
        if self._counted_items is None:
            return f"<TracedItems: all rows of node {self._nodes[0]}>"
        exact = "exact" if self.exact else "superset"
        return f"<TracedItems: {self.count:,} at node {', '.join(self._nodes) or '-'}, {exact}>"

    def _showing(self, limit: int) -> Showing:
        groups: list[ItemGroup] = []
        warnings: dict[str, None] = {}
        with self._view() as view:
            records = RecordReader(view, self._session)
            for node, spaces in self._by_node(view):
                shown, warned = records.shown(node, spaces, limit)
                groups.append(shown)
                warnings |= warned
            warnings |= continues_warning(view, self._items)
        return Showing(groups, self.reasons, self.gaps, tuple(warnings))

    # -- inside ------------------------------------------------------------------------------

    @contextmanager
    def _view(self) -> Iterator[LineageView]:
        with open_view(self._session, self._timeout_s) as view:
            yield view

    @property
    def _items(self) -> Items:
        """By space. The rows of a whole source are counted when they are first needed."""
        if self._counted_items is None:
            assert self._source_rows is not None
            self._counted_items = self._source_rows.items()
        return self._counted_items

    @property
    def _possible_items(self) -> Items:
        """The items, or more than there are of a source whose rows are not counted."""
        if self._counted_items is None and self._source_rows is not None:
            return self._source_rows.all_possible()
        return self._items

    @property
    def _nodes(self) -> list[str]:
        if self._counted_items is None and self._source_rows is not None:
            return [self._source_rows.source.node]
        return list(by_node(self._items))

    def _by_node(self, view: LineageView) -> list[tuple[str, Items]]:
        items_by_node = by_node(self._items)
        return [(node, items_by_node[node]) for node in view.nodes if node in items_by_node]

    def _sources(self, view: LineageView) -> frozenset[str]:
        """The sources whose rows behind the items are all found by going back."""
        if self._within is not None:
            return self._within
        starts = self._nodes
        if not starts and self._origin is not None:
            starts = [_captured_node(self._origin)]
        above: set[str] = set()
        for node in starts:
            above |= view.topology.reachable_from(node, upstream=True)
        return frozenset(node for node in above if view.topology.is_source(node))

    def _rows_by_source(self, view: LineageView) -> OrdinalsBySource:
        items_by_node = by_node(self._items)
        rows = {node: by_split(items_by_node.get(node, {})) for node in self._sources(view)}
        for node, ordinals in rows.items():
            RecordReader(view, self._session).refuse_changed(node, ordinals)
        return rows

    def _lines(self, view: LineageView, rows: OrdinalsBySource) -> dict[str, LinesBySplit]:
        """Of sources whose rows are lines that can be read here, these."""
        sources = {node: self._session.records.get(node) for node in rows}
        lines = {
            node: lines_of(view, source, rows[node])
            for node, source in sources.items()
            if isinstance(source, SourceRecipe) and source.repeatable
        }
        return {node: of_source for node, of_source in lines.items() if of_source is not None}

    def _goal(self, view: LineageView, until: RDD[Any] | str | None) -> RDD[Any]:
        if isinstance(until, RDD):
            if recipe_of(until) is None:
                raise TracingError("the RDD is not captured: it can't be made again")
            return until
        if self._origin is None:
            raise TracingError("say up to which RDD: replay(until=RDD)")
        if until is None:
            return self._origin
        named = view.called(until)
        rdds = [rdd for rdd in upstream_rdds(self._origin) if _captured_node(rdd) in named]
        if len(rdds) != 1:
            raise TracingError(f"{until!r} names {len(rdds)} RDDs on the way: give the RDD itself")
        return rdds[0]

    def _node_on_way(self, view: LineageView, which: NodeChoice, *, back: bool) -> str:
        return node_on_way(view, self._session, self._nodes, which, back=back)

    def _step(
        self, view: LineageView, moved: NavigationStep, which: NodeChoice | None, *, back: bool
    ) -> TracedItems:
        node = choose_step(view, self._session, self._nodes, moved.items, which, back=back)
        moved.items = {} if node is None else {node: moved.items[node]}
        return self._items_after(view, moved)

    def _items_after(
        self, view: LineageView, moved: NavigationStep, within: frozenset[str] | None = None
    ) -> TracedItems:
        items = {s: r for spaces in moved.items.values() for s, r in spaces.items()}
        reasons = (*self.reasons, *moved.reasons)
        return self._with(items, within=within, reasons=reasons, gaps=view.gaps())

    def _with(
        self,
        items: Items,
        *,
        within: frozenset[str] | None = None,
        reasons: Iterable[str] | None = None,
        gaps: Iterable[str] | None = None,
    ) -> TracedItems:
        return TracedItems(
            self._session,
            items,
            origin=self._origin,
            timeout_s=self._timeout_s,
            reasons=self.reasons if reasons is None else reasons,
            gaps=self.gaps if gaps is None else gaps,
            within=within,
        )


def lineage_of(rdd: CapturedRDD, timeout_s: float) -> TracedItems:
    """The records of a captured RDD as items; see ``LineageRDD.getLineage``.

    Raises:
        TracingError: capture has ended.
    """
    source = rdd.recipe
    if isinstance(source, SourceRecipe) and source.repeatable and source.full_rdd is None:
        rdd.session.files.record_sources([rdd.node])
        rows = SourceRows(source)
        return TracedItems(rdd.session, None, origin=rdd, timeout_s=timeout_s, source_rows=rows)
    items = number_records(rdd).items()
    return TracedItems(rdd.session, items, origin=rdd, timeout_s=timeout_s)


def lineage_at(session: Session, places: Iterable[str], timeout_s: float) -> TracedItems:
    """The items that places (``path:line`` or addresses) name.

    Raises:
        LocationError, AddressError, RowsError: a place names none, or can't be read.
    """
    with open_view(session, timeout_s) as view:
        items = merge_items(view.resolve(location) for location in places)
        return TracedItems(session, items, origin=None, timeout_s=timeout_s, gaps=view.gaps())


def _node(view: LineageView, node: str) -> TracedNode:
    node = view.rdd_node(node)
    record = view.nodes[node]
    label, operator = view.names.label(node), record.name or record.op
    return TracedNode(node, label, operator, record.call_site)


def _captured_node(rdd: RDD[Any]) -> str:
    node = getattr(rdd, "node", None)
    return "" if node is None else str(node.name)
