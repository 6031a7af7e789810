"""The result of a query: one type for records, for rows of DataFrames, and for several applications together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lineage_core.contract.address import named_space
from lineage_core.contract.region import Region
from lineage_core.tracing.trace_result import Direction, NodeItems
from lineage_query.answers import Answer, Group, Item, order_of
from lineage_query.listing import CursorError, Listing, Page
from lineage_query.record_trace import RecordTrace
from lineage_query.rows.places import parse_valued
from lineage_query.trace_query import TraceQuery


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The result of a query; at least one of ``records`` and ``recomputed`` is set.

    ``records``: the trace looked up in the graph of one application. ``recomputed``: the answer computed by
    recipes of DataFrames, or merged from several applications; with ``records`` it continues from these.
    """

    query: TraceQuery
    records: RecordTrace | None = None
    recomputed: Answer | None = None

    @property
    def _facts(self) -> Answer | RecordTrace:
        facts = self.records if self.recomputed is None else self.recomputed
        assert facts is not None
        return facts

    # -- facts -------------------------------------------------------------------------------

    @property
    def app(self) -> str:
        """The application that answered, the latest of several."""
        return self._facts.app

    @property
    def direction(self) -> Direction:
        """Which way it was traced."""
        return self.query.direction

    @property
    def exact(self) -> bool:
        """Whether the items are just those that took part; else a superset of them."""
        if self.recomputed is not None:
            return self.recomputed.exact
        return self._records.result.exact

    @property
    def complete(self) -> bool:
        """Whether no item is missing, as far as is known."""
        return self._facts.complete

    @property
    def changed(self) -> bool:
        """Whether a checked file has changed."""
        return self._facts.changed

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings known so far; reading files may add more."""
        return self._facts.warnings

    @property
    def count(self) -> int:
        """Number of items that were found."""
        if self.recomputed is not None:
            return sum(group.count for group in self.recomputed.groups)
        return self._records.result.count

    @property
    def runs(self) -> int:
        """Runs of positions that it holds."""
        if self.records is None:
            return 0
        passed = self.records.result.passed.values()
        return sum(region.runs for items in passed for region in items.spaces.values())

    @property
    def has_steps(self) -> bool:
        """Whether there are items on the way, and derivations between them: a recomputation has none."""
        return self.records is not None

    @property
    def continues(self) -> bool:
        """Whether it continues from records through DataFrames."""
        return self.records is not None and self.recomputed is not None

    @property
    def by_values(self) -> bool:
        """Whether the query names rows of DataFrames by their values."""
        places = self.query.places
        valued = bool(self.query.where) or (bool(places) and parse_valued(places[0]) is not None)
        return valued and not self.has_steps

    @property
    def _records(self) -> RecordTrace:
        assert self.records is not None
        return self.records

    # -- items -------------------------------------------------------------------------------

    def answer(self, limit: int | None, *, texts: bool, at_once: bool = False) -> Answer:
        """The first ``limit`` items (None: all that are known) of each node, with lines and texts.

        ``at_once``: it was traced just now, so its files need no new check.
        """
        if self.recomputed is None:
            return self._records.answer(limit, texts=texts, at_once=at_once)
        answer = self.recomputed if texts else self.recomputed.without_texts()
        start, groups = (
            tuple(replace(group, items=group.items[:limit]) for group in groups)
            for groups in (answer.start, answer.groups)
        )
        containers = answer.containers[:limit]
        return replace(answer, start=start, groups=groups, containers=containers)

    def items_read(self, limit: int | None) -> int:
        """How many items :meth:`answer` reads from files, at most of each node; those of a recomputation are there."""
        if self.recomputed is not None:
            return 0
        return self._records.items_listed if limit is None else limit

    @property
    def items_streamed(self) -> int:
        """How many items :meth:`result_pages` reads from files."""
        return 0 if self.recomputed is not None else self._records.result.count

    def items_exported(self, *, in_between: bool) -> int:
        """How many records an export reads from files. ``in_between``: with those of the query and in between."""
        if self.records is None:
            return 0
        return sum(self.records.counts().values()) if in_between else self.records.result.count

    @property
    def missing(self) -> bool:
        """Whether the recomputation does not list all results, and no records replace the missing ones."""
        listed_nodes = set() if self.records is None else set(self.records.result.found)
        listed_nodes -= self._outgrown()
        return any(group.node not in listed_nodes for group in self._cut_groups())

    @property
    def is_cut(self) -> bool:
        """Whether the recomputation lists only the first of its items."""
        return any(True for _ in self._cut_groups())

    def _cut_groups(self) -> Iterator[Group]:
        groups = () if self.recomputed is None else self.recomputed.groups
        return (group for group in groups if group.count > len(group.items))

    def items_by_node(self) -> dict[str, NodeItems]:
        """The records that take part, by node; without the names of rows where a recomputation has the rows."""
        if self.records is None:
            return {}
        passed = self.records.result.passed
        if self.recomputed is None:
            return dict(passed)
        ends, outgrown = {group.node for group in self.recomputed.groups}, self._outgrown()
        return {
            node: items if node in ends else NodeItems(node, _unnamed(items))
            for node, items in passed.items()
            if node not in outgrown
        }

    def _outgrown(self) -> set[str]:
        if self.records is None or self.recomputed is None:
            return set()
        return self.records.outgrown_by(self.recomputed)

    def beyond(self) -> list[Group]:
        """Rows of a recomputation, which no record of the trace represents."""
        if self.recomputed is None:
            return []
        items_by_node = self.items_by_node()
        groups = (*self.recomputed.start, *self.recomputed.groups)
        return [group for group in groups if group.node not in items_by_node]

    def page(
        self, listing: Listing, node: str, limit: int, *, cursor: str | None, texts: bool
    ) -> Page | None:
        """Items of one node that take part, from a cursor on (None: the first).

        Args:
            listing: of the trace's application.
            node: its id.
            limit: how many items, at most.
            cursor: `Page.following` of the previous page.
            texts: include the texts of rows.

        Returns:
            None where no item of the node takes part.

        Raises:
            CursorError: no page of these items gave the cursor.
        """
        items = self._items_of(node)
        if items is not None:
            return listing.page(in_partition_order(items.once()), limit, cursor=cursor, texts=texts)
        answer = self.recomputed
        groups = () if answer is None else (*answer.groups, *answer.start)
        group = next((group for group in groups if group.node == node), None)
        return None if group is None else _page(group, limit, cursor, texts=texts)

    def _items_of(self, node: str) -> NodeItems | None:
        """Records of a node that take part."""
        items_by_node = self.items_by_node()
        if self.recomputed is None:
            items_by_node |= self._records.result.found
            items_by_node = {items.node: items for items in self._records.starts()} | items_by_node
        return items_by_node.get(node)

    def result_pages(
        self, listing: Listing, at_once: int, *, texts: bool
    ) -> Iterator[tuple[str, Sequence[Item]]]:
        """All items that were found and are known, by node, so many at a time."""
        if self.recomputed is not None:
            for group in self.answer(None, texts=texts).groups:
                yield group.node, group.items
            return
        for node, items in self._records.result.found.items():
            ordered, cursor = in_partition_order(items), None
            while True:
                page = listing.page(ordered, at_once, cursor=cursor, texts=texts)
                yield node, page.items
                cursor = page.following
                if cursor is None:
                    break

    # -- other forms of the result -----------------------------------------------------------

    def of_places(self, query: TraceQuery) -> Trace:
        """The same, as the result of a query whose folders were replaced by their files."""
        records, recomputed = self.records, self.recomputed
        if records is not None:
            records = replace(records, requested_places=query.places)
        if recomputed is not None:
            recomputed = replace(recomputed, requested_places=query.places)
        return replace(self, query=query, records=records, recomputed=recomputed)

    def with_typed_places(self, places: Sequence[str]) -> Trace:
        """The same, of places as they were typed."""
        return replace(
            self,
            records=self.records and self.records.with_typed_places(places),
            recomputed=self.recomputed and self.recomputed.with_typed_places(places),
        )

    def warned(self, warnings: Sequence[str]) -> Trace:
        """The same with more warnings."""
        records, recomputed = self.records, self.recomputed
        if records is not None:
            all_warnings = tuple(dict.fromkeys((*records.warnings, *warnings)))
            records = replace(records, warnings=all_warnings)
        if recomputed is not None:
            all_warnings = tuple(dict.fromkeys((*recomputed.warnings, *warnings)))
            recomputed = replace(recomputed, warnings=all_warnings)
        return replace(self, records=records, recomputed=recomputed)

    def as_answer_of(self, app: str, limit: int, *, texts: bool) -> Trace:
        """The same without its records: of materialised flows, whose addresses are none of the application's.

        Args:
            app: the application that the flows are of.
            limit: items listed of each node.
            texts: include the texts of rows.
        """
        answer = self.answer(limit, texts=texts)

        def named(group: Group) -> Group:
            # The addresses in the trace are those of the flows.
            items = (replace(item, address=item.location or item.address) for item in group.items)
            return replace(group, items=tuple(items))

        answer = replace(
            answer,
            app=app,
            start=tuple(map(named, answer.start)),
            groups=tuple(map(named, answer.groups)),
        )
        return Trace(self.query, recomputed=answer)


def in_partition_order(items: NodeItems) -> NodeItems:
    """The same items, spaces in the order of partitions."""
    ordered = sorted(items.spaces, key=order_of)
    return NodeItems(items.node, {space: items.spaces[space] for space in ordered})


def _unnamed(items: NodeItems) -> Mapping[str, Region]:
    named = named_space(items.node)
    return {space: region for space, region in items.spaces.items() if space != named}


def _page(group: Group, limit: int, cursor: str | None, *, texts: bool) -> Page:
    first = 0 if cursor is None else int(cursor) if cursor.isdecimal() else -1
    if not 0 <= first <= len(group.items):
        raise CursorError(f"cursor {cursor!r:.40} was not given by a page of this node")
    last = first + limit
    shown = group if texts else group.without_texts()
    items = shown.items[first:last]
    following = str(last) if last < len(group.items) else None
    return Page(group.count, items, following, len(items), group.file_status)
