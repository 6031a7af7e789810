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
from lineage_emitter.program.choosing import Which, one_of, step_to, way_to
from lineage_emitter.program.drawing import ProgramGraph
from lineage_emitter.program.lookups import (
    Items,
    LineageView,
    by_node,
    by_split,
    continues_warning,
    joined,
    looking,
)
from lineage_emitter.program.moving import NavigationStep, Navigator
from lineage_emitter.program.numbering import SourceRows, numbered
from lineage_emitter.program.recipes import Source, recipe_of, upstream
from lineage_emitter.program.replaying import (
    Rows,
    replayed,
    replayed_with_lineage,
    rows_alone,
    without,
)
from lineage_emitter.program.selecting import Records, at_ordinals, counted, in_order, ordinals_of
from lineage_emitter.showing import Showing, Shown, html_of, print_text

if TYPE_CHECKING:
    from lineage_emitter.dataframes.in_program import FrameRows
    from lineage_emitter.driver.captured import CapturedRDD
    from lineage_emitter.session.session import Session

Chosen: TypeAlias = "TracedItems | Callable[[Any], Any] | SupportsIndex | Iterable[int]"
"""Items, or what :meth:`TracedItems.filter` takes."""
SHOWN = 20


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


class TracedItems:
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
        whole: SourceRows | None = None,
        reasons: Iterable[str] = (),
        gaps: Iterable[str] = (),
        within: frozenset[str] | None = None,
    ) -> None:
        self._session = session
        self._known = None if items is None else {s: r for s, r in items.items() if r}
        self._whole = whole
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
        return counted(self._items)

    @property
    def nodes(self) -> tuple[TracedNode, ...]:
        """The nodes of the items, in the order of the program."""
        here = set(self._nodes)
        with self._look() as look:
            return tuple(_node(look, node) for node in look.nodes if node in here)

    @property
    def node(self) -> TracedNode:
        """The node of the items.

        Raises:
            ChoiceError: there are several.
        """
        with self._look() as look:
            return _node(look, one_of(look, self._session, self._nodes, None))

    # -- moves -------------------------------------------------------------------------------

    def goBack(self, which: Which | None = None) -> TracedItems:
        """One step back, to the nearest node with items of its own.

        ``which``, where there are several: the RDD, the id or alias of the node, or its operator;
        also of one that lies behind it.
        """
        with self._look() as look:
            return self._step(look, Navigator(look).back(self._items), which, back=True)

    def goNext(self, which: Which | None = None) -> TracedItems:
        """One step forward; ``which`` as for :meth:`goBack`."""
        with self._look() as look:
            return self._step(look, Navigator(look).forth(self._items), which, back=False)

    def goBackAll(self, which: Which | None = None) -> TracedItems:
        """All the way to the rows of every source, or to the items of one node on the way."""
        with self._look() as look:
            until = None if which is None else self._way(look, which, back=True)
            moved = Navigator(look).back_all(self._items, until)
            if until is None:
                return self._moved(look, moved, self._sources(look))
            is_source = look.topology.is_source(until)
            return self._moved(look, moved, frozenset({until}) if is_source else None)

    def goNextAll(self, which: Which | None = None) -> TracedItems:
        """All the way to the items of every sink, or to the items of one node on the way."""
        with self._look() as look:
            until = None if which is None else self._way(look, which, back=False)
            moved = Navigator(look).forth_all(self._items, until)
            real = {n: items for n, items in moved.items.items() if not look.is_numbering(n)}
            if until is None and real:
                moved.items = real
            return self._moved(look, moved)

    def at(self, which: Which) -> TracedItems:
        """The items of one of the nodes."""
        with self._look() as look:
            node = one_of(look, self._session, self._nodes, which)
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
        with self._look() as look:
            # A Row can be called, too.
            if isinstance(chosen, tuple) or not callable(chosen):
                found = at_ordinals(in_order(look, self._items), ordinals_of(chosen))
                return self._with(found, within=self._within)
            some: dict[str, Region] = {}
            records = Records(look, self._session)
            for node, spaces in by_node(self._uncounted).items():
                some |= records.choose(node, spaces, chosen)
            return self._with(some, within=self._within)

    # -- what it holds -----------------------------------------------------------------------

    def collect(self) -> list[TracedItem]:
        """All items with their values, in the order of the program's nodes and their partitions."""
        found: list[TracedItem] = []
        with self._look() as look:
            records = Records(look, self._session)
            for node, spaces in self._by_node(look):
                values = records.values(node, spaces)
                group = records.group(node, spaces, None, texts=values is None)
                for at, item in enumerate(group.items):
                    value = values[at] if values is not None else item.shown or item.address
                    found.append(TracedItem(group.label, item.address, item.location, value))
        return found

    def show(self, n: int = SHOWN) -> None:
        """Print the first ``n`` items of each node, as ``lineage back`` prints them."""
        print_text(self._showing(n))

    def graph(self) -> ProgramGraph:
        """The program's graph with the nodes of these items marked; a notebook draws it."""
        with self._look() as look:
            marked = {look.rdd_node(node) for node in self._nodes}
            return ProgramGraph.of(tuple(look.nodes.values()), look.links, marked)

    def rows(self, which: Which | None = None) -> RDD[Any]:
        """The source rows behind the items: a plain RDD of the very records, in their partitions.

        ``which`` names the source where there are several.
        """
        rows = self.goBackAll()
        with self._look() as look:
            node = one_of(look, self._session, rows._nodes, which)
            kept = by_split(by_node(rows._items)[node])
            source = self._session.records.get(node)
            if not isinstance(source, Source):
                raise TracingError(
                    f"the rows of {look.text(node)} can't be read again: the program has dropped "
                    "the RDDs that were made from it"
                )
            Records(look, self._session).refuse_changed(node, kept)
            return rows_alone(source, kept)

    def frame_rows(self, which: Which | None = None) -> FrameRows:
        """The source rows behind the items that came by way of a DataFrame (``df.rdd``), by a query.

        ``which`` names the RDD of the DataFrame's rows where there are several. Raises, besides what
        all questions do, ``RefusedError`` where the plan allows no sound trace, and
        ``ChangedSourceError`` where a source is not what it was.
        """
        from lineage_emitter.program.source_rows import rows_behind

        self._session.frames.settle()
        records = self.goBackAll()
        with self._look() as look:
            return rows_behind(look, self._session, records._items, which, records.reasons)

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
        left_out = None
        if exclude is not None:
            chosen = exclude if isinstance(exclude, TracedItems) else rows.filter(exclude)
            left_out = chosen.goBackAll()
        with self._look() as look:
            goal = self._goal(look, until)
            kept = rows._by_source(look)
            if left_out is not None:
                kept = without(kept, left_out._by_source(look))
            return replayed_with_lineage(goal, kept) if capture else replayed(goal, kept)

    def unpersist(self) -> None:
        """Drop the numbered records of the RDD: the next ``getLineage`` runs it again."""
        origin = self._origin
        found = getattr(origin, "numbered", None)
        if found is not None:
            if found.kept is not origin:
                found.kept.unpersist()
            origin.numbered = None  # type: ignore[union-attr]

    # -- a notebook's view -------------------------------------------------------------------

    def __repr__(self) -> str:
        if self._known is None:
            return f"<TracedItems: all rows of node {self._nodes[0]}>"
        exact = "exact" if self.exact else "superset"
        return f"<TracedItems: {self.count:,} at node {', '.join(self._nodes) or '-'}, {exact}>"

    def _repr_html_(self) -> str:
        return html_of(self._showing(SHOWN))

    def _showing(self, limit: int) -> Showing:
        groups: list[Shown] = []
        warnings: dict[str, None] = {}
        with self._look() as look:
            records = Records(look, self._session)
            for node, spaces in self._by_node(look):
                shown, warned = records.shown(node, spaces, limit)
                groups.append(shown)
                warnings |= warned
            warnings |= continues_warning(look, self._items)
        return Showing(groups, self.reasons, self.gaps, tuple(warnings))

    # -- inside ------------------------------------------------------------------------------

    @contextmanager
    def _look(self) -> Iterator[LineageView]:
        with looking(self._session, self._timeout_s) as look:
            yield look

    @property
    def _items(self) -> Items:
        """By space. The rows of a whole source are counted when they are first needed."""
        if self._known is None:
            assert self._whole is not None
            self._known = self._whole.items()
        return self._known

    @property
    def _uncounted(self) -> Items:
        """The items, or more than there are of a source whose rows are not counted."""
        if self._known is None and self._whole is not None:
            return self._whole.whole()
        return self._items

    @property
    def _nodes(self) -> list[str]:
        if self._known is None and self._whole is not None:
            return [self._whole.source.node]
        return list(by_node(self._items))

    def _by_node(self, look: LineageView) -> list[tuple[str, Items]]:
        found = by_node(self._items)
        return [(node, found[node]) for node in look.nodes if node in found]

    def _sources(self, look: LineageView) -> frozenset[str]:
        """The sources whose rows behind the items are all told by going back."""
        if self._within is not None:
            return self._within
        starts = self._nodes
        if not starts and self._origin is not None:
            starts = [_captured_node(self._origin)]
        above: set[str] = set()
        for node in starts:
            above |= look.topology.reachable_from(node, upstream=True)
        return frozenset(node for node in above if look.topology.is_source(node))

    def _by_source(self, look: LineageView) -> Rows:
        found = by_node(self._items)
        rows = {node: by_split(found.get(node, {})) for node in self._sources(look)}
        for node, kept in rows.items():
            Records(look, self._session).refuse_changed(node, kept)
        return rows

    def _goal(self, look: LineageView, until: RDD[Any] | str | None) -> RDD[Any]:
        if isinstance(until, RDD):
            if recipe_of(until) is None:
                raise TracingError("the RDD is not captured: it can't be made again")
            return until
        if self._origin is None:
            raise TracingError("say up to which RDD: replay(until=RDD)")
        if until is None:
            return self._origin
        named = look.called(until)
        found = [one for one in upstream(self._origin) if _captured_node(one) in named]
        if len(found) != 1:
            raise TracingError(f"{until!r} names {len(found)} RDDs on the way: give the RDD itself")
        return found[0]

    def _way(self, look: LineageView, which: Which, *, back: bool) -> str:
        return way_to(look, self._session, self._nodes, which, back=back)

    def _step(
        self, look: LineageView, moved: NavigationStep, which: Which | None, *, back: bool
    ) -> TracedItems:
        node = step_to(look, self._session, self._nodes, moved.items, which, back=back)
        moved.items = {} if node is None else {node: moved.items[node]}
        return self._moved(look, moved)

    def _moved(
        self, look: LineageView, moved: NavigationStep, within: frozenset[str] | None = None
    ) -> TracedItems:
        items = {s: r for spaces in moved.items.values() for s, r in spaces.items()}
        reasons = (*self.reasons, *moved.reasons)
        return self._with(items, within=within, reasons=reasons, gaps=look.gaps())

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
    if isinstance(source, Source) and source.lasting and source.whole is None:
        rdd.session.files.note_sources([rdd.node])
        rows = SourceRows(source)
        return TracedItems(rdd.session, None, origin=rdd, timeout_s=timeout_s, whole=rows)
    items = numbered(rdd).items()
    return TracedItems(rdd.session, items, origin=rdd, timeout_s=timeout_s)


def lineage_at(session: Session, places: Iterable[str], timeout_s: float) -> TracedItems:
    """The items that places (``path:line`` or addresses) name.

    Raises:
        LocationError, AddressError, RowsError: a place names none, or can't be looked at.
    """
    with looking(session, timeout_s) as look:
        items = joined(look.at(place) for place in places)
        return TracedItems(session, items, origin=None, timeout_s=timeout_s, gaps=look.gaps())


def _node(look: LineageView, node: str) -> TracedNode:
    node = look.rdd_node(node)
    record = look.nodes[node]
    label, operator = look.names.label(node), record.name or record.op
    return TracedNode(node, label, operator, record.call_site)


def _captured_node(rdd: RDD[Any]) -> str:
    node = getattr(rdd, "node", None)
    return "" if node is None else str(node.name)
