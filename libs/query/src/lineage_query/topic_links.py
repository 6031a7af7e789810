"""Where a trace continues from a record of a topic: forward in who read its offset, back in who wrote among such offsets.

Kafka does not say who wrote a record. A write has recorded the offsets by which the topic grew while it ran, so it may have written those among
them, and a trace of the record by its key and value tells whether it did. Offsets are compared between topics of the same id: a topic that
was made anew under its name has another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineage_core.contract.graph import FlowGraph
from lineage_core.errors import RecipeError, VersionError
from lineage_core.recipe.names import KAFKA
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import NotQueried
from lineage_query.job_links import FileNode, JobLinks
from lineage_query.rows.places import ValuedPlace, partition_and_offset
from lineage_query.unfiled_links import unread_uses
from lineage_query.unfiled_uses import UnfiledUse, UnfiledUses, shown_dataset
from lineage_store.dataset_paths import ANY_TOPIC, UnfiledDataset, unfiled_dataset
from lineage_store.port import GraphStore
from lineage_store.recipes import read_recipe

if TYPE_CHECKING:
    from lineage_core.recipe.document import Recipe


@dataclass(frozen=True, slots=True)
class _Record:
    """A record. ``topic``: it with its servers."""

    topic: UnfiledDataset
    partition: int
    offset: int

    @classmethod
    def of(cls, place: ValuedPlace) -> _Record:
        servers, _, topic = place.of.rpartition("/")
        return cls(UnfiledDataset(servers, (topic,)), *partition_and_offset(place))

    def __str__(self) -> str:
        return f"{shown_dataset(self.topic.path)}[{self.partition}]@{self.offset}"


class TopicLinks:
    """Which nodes may have written a record that others read, or read one that others wrote.

    Args:
        store: has the applications.
        direction: backward, who wrote what was read; forward, who read what was written.
        uses: what applications recorded.
    """

    def __init__(self, store: GraphStore, direction: Direction, uses: UnfiledUses) -> None:
        self._store = store
        self._is_backward = direction is Direction.BACKWARD
        self._uses = uses
        self._ids: dict[tuple[FileNode, bool], frozenset[str]] = {}

    def find(self, origin: FileNode, place: ValuedPlace, *, is_end: bool) -> JobLinks:
        """The nodes among whose offsets a record is.

        Args:
            origin: read the record (backward), or wrote it.
            place: the record, with the servers of its topic.
            is_end: whether ``origin`` is known to have read or written it. If False and it has not, there are no links.

        Returns:
            Backward, the nodes that may have written it; ``unsure`` those of which no offsets are known, in the order of time.
        """
        record = _Record.of(place)
        own = [
            use
            for use in self._uses.of_app(origin.app)
            if use.wrote != self._is_backward
            and unfiled_dataset(use.path) == record.topic
            and use.has_offset(record.partition, record.offset)
        ]
        if not own:
            if not is_end:
                return JobLinks()
            verb, other_verb = ("read", "wrote") if self._is_backward else ("wrote", "read")
            reason = f"at which offsets it {verb} {place.of} is not recorded: whether another application {other_verb} its records is not known"
            return JobLinks(refused=(NotQueried(origin.app, reason),))
        nodes: dict[FileNode, None] = {}
        unsure: list[NotQueried] = []
        unread: dict[str, None] = {}
        origin = FileNode(origin.app, own[0].node)
        for other in self._uses.named(
            record.topic,
            lambda named: named.parts == record.topic.parts,
            unread,
            wrote=self._is_backward,
        ):
            node = FileNode(other.app, other.node)
            has_offset = other.has_offset(record.partition, record.offset)
            if has_offset is False or not self._is_same_topic(own[0], other):
                continue
            if has_offset:
                nodes[node] = None
            elif self._is_in_order(own, other) and not self._is_of_nothing(node):
                reason = f"it {other.text}, at offsets that are not known: whether {record} is among them is not known"
                unsure.append(NotQueried(other.app, reason))
        if self._is_backward:
            unsure += self._written_by_rows(own, record, unread)
        unsure += unread_uses(own[0].path, unread, wrote=self._is_backward)
        if self._is_backward:
            return JobLinks(tuple(nodes), unsure=tuple(unsure))
        return JobLinks(tuple(nodes), refused=tuple(unsure))

    def _written_by_rows(
        self, own: list[UnfiledUse], record: _Record, unread: dict[str, None]
    ) -> Iterator[NotQueried]:
        """Writes whose rows name their topics themselves. ``unread``: as of `UnfiledUses.named`."""
        topics = UnfiledDataset(record.topic.address, (ANY_TOPIC,))
        for other in self._uses.named(topics, topics.__eq__, unread, wrote=True):
            if self._is_in_order(own, other):
                reason = f"it {other.text}, topics that its rows name: whether {record} is one of its records is not known"
                yield NotQueried(other.app, reason)

    def _is_in_order(self, own: list[UnfiledUse], other: UnfiledUse) -> bool:
        """Whether the one read when the other had begun to write."""
        if self._is_backward:
            return other.at <= max(use.at for use in own)
        return min(use.at for use in own) <= other.at

    def _is_same_topic(self, own: UnfiledUse, other: UnfiledUse) -> bool:
        """Whether both used one topic: by its id where both recorded it, else by its servers and name."""
        ids = self._ids_of(own)
        other_ids = self._ids_of(other)
        if ids and other_ids:
            return not ids.isdisjoint(other_ids)
        return unfiled_dataset(own.path) == unfiled_dataset(other.path)

    def _ids_of(self, use: UnfiledUse) -> frozenset[str]:
        """The ids of the topic of a use, as its recipes have them."""
        node = FileNode(use.app, use.node)
        if (node, use.wrote) not in self._ids:
            dataset = unfiled_dataset(use.path)
            assert dataset is not None
            graph = self._store.graph(use.app)
            readers = [link.dest for link in graph.links() if link.src == use.node]
            ids = set[str]()
            for recipe in self._recipes(graph, [use.node] if use.wrote else readers):
                for used in (recipe.output,) if use.wrote else recipe.reads():
                    if used.format == KAFKA and used.options.get("topic") == dataset.parts[-1]:
                        ids.add(used.options.get("id", ""))
            self._ids[node, use.wrote] = frozenset(filter(None, ids))
        return self._ids[node, use.wrote]

    def _is_of_nothing(self, node: FileNode) -> bool:
        """Whether a write is known to have added no record to its topic."""
        return any(
            recipe.output.format == KAFKA and recipe.output.version == ""
            for recipe in self._recipes(self._store.graph(node.app), [node.node])
        )

    @staticmethod
    def _recipes(graph: FlowGraph, nodes: Sequence[str]) -> Iterator[Recipe]:
        """Those of some outputs that can be read."""
        for node in nodes:
            current_budget().check()
            with suppress(RecipeError, VersionError):
                recipe = read_recipe(graph, node)
                if recipe is not None:
                    yield recipe
