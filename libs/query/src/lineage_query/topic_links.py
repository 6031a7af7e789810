"""Where a trace continues from a record of a topic: forward in who read its offset, back in who wrote among such offsets.

Kafka does not say who wrote a record. A write has recorded the offsets by which the topic grew while it ran, so it may have written those among
them, and a trace of the record by its key and value tells whether it did. Offsets are compared between topics of the same id: a topic that
was made anew under its name has another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from lineage_core.contract.message import Begin
from lineage_core.errors import RecipeError, VersionError
from lineage_core.recipe.names import KAFKA
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import NotQueried
from lineage_query.job_links import FileNode, JobLinks
from lineage_query.rows.places import ValuedPlace, partition_and_offset
from lineage_query.unfiled_links import unread_uses
from lineage_query.unfiled_uses import UnfiledUse, UnfiledUses, shown_dataset
from lineage_query.verdicts import verdict_of
from lineage_store.dataset_paths import ANY_TOPIC, UnfiledDataset, unfiled_dataset
from lineage_store.errors import UNREAD
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


@dataclass(frozen=True, slots=True)
class _Others:
    """Uses that any application made of topics with one name. ``by_rows``: writes whose rows name their topics. ``unread``: applications whose uses can't be read."""

    by_app: Mapping[str, Sequence[UnfiledUse]]
    by_rows: Sequence[UnfiledUse]
    unread: dict[str, None]


class TopicLinks:
    """Which nodes may have written a record that others read, or read one that others wrote. Caches what it found for one query.

    Args:
        store: has the applications.
        direction: backward, who wrote what was read; forward, who read what was written.
        uses: what applications recorded.
    """

    def __init__(self, store: GraphStore, direction: Direction, uses: UnfiledUses) -> None:
        self._store = store
        self._is_backward = direction is Direction.BACKWARD
        self._uses = uses
        self._own: dict[tuple[str, UnfiledDataset], list[UnfiledUse]] = {}
        self._others: dict[UnfiledDataset, _Others] = {}
        self._ids: dict[tuple[FileNode, str, bool], frozenset[str]] = {}
        self._of_nothing: dict[FileNode, bool] = {}
        self._unfinished: dict[str, float | None] = {}

    def find(self, origin: FileNode, place: ValuedPlace, *, is_end: bool) -> JobLinks:
        """The nodes among whose offsets a record is.

        Args:
            origin: read the record (backward), or wrote it.
            place: the record, with the servers of its topic.
            is_end: whether ``origin`` is known to have read or written it. If False and it has not, there are no links.

        Returns:
            Backward, the nodes that may have written it; ``unsure`` applications of which it is not known whether they did.
        """
        record = _Record.of(place)
        own = self._own_uses(origin, record)
        if not own:
            if not is_end:
                return JobLinks()
            verb, other_verb = ("read", "wrote") if self._is_backward else ("wrote", "read")
            reason = f"at which offsets it {verb} {place.of} is not recorded: whether another application {other_verb} its records is not known"
            return JobLinks(refused=(NotQueried(origin.app, reason),))
        others = self._others_of(record.topic)
        nodes: dict[FileNode, None] = {}
        unsure: list[NotQueried] = []
        for other in chain.from_iterable(others.by_app.values()):
            current_budget().check()
            has_offset = other.has_offset(record.partition, record.offset)
            is_same = has_offset is not False and self._is_same_topic(own, other)
            if is_same is False:
                continue
            if is_same and has_offset:
                nodes[FileNode(other.app, other.node)] = None
            elif has_offset:
                reason = f"it {other.text}: whether that is the topic of {record} is not known"
                unsure.append(NotQueried(other.app, reason))
            elif self._is_in_order(own, other) and not self._is_of_nothing(other):
                reason = f"it {other.text}, at offsets that are not known: whether {record} is among them is not known"
                unsure.append(NotQueried(other.app, reason))
        if self._is_backward:
            unsure += self._written_by_rows(own, record, others)
            unsure += self._written_besides(own, record, others)
        unsure += unread_uses(own[0].path, others.unread, wrote=self._is_backward)
        if self._is_backward:
            return JobLinks(tuple(nodes), unsure=tuple(unsure))
        return JobLinks(tuple(nodes), refused=tuple(unsure))

    def _own_uses(self, origin: FileNode, record: _Record) -> list[UnfiledUse]:
        """The uses of a record by a node; by its application, where the node has none: a plan may have read the topic several times."""
        key = origin.app, record.topic
        if key not in self._own:
            self._own[key] = [
                use
                for use in self._uses.of_app(origin.app)
                if use.wrote != self._is_backward and unfiled_dataset(use.path) == record.topic
            ]
        own = [use for use in self._own[key] if use.has_offset(record.partition, record.offset)]
        return [use for use in own if use.node == origin.node] or own

    def _others_of(self, topic: UnfiledDataset) -> _Others:
        if topic not in self._others:
            unread: dict[str, None] = {}
            wrote = self._is_backward
            by_app: dict[str, list[UnfiledUse]] = {}
            has_name = partial(_has_parts, topic.parts)
            for use in self._uses.named(topic, has_name, unread, wrote=wrote):
                by_app.setdefault(use.app, []).append(use)
            by_rows = list[UnfiledUse]()
            if wrote:
                named_by_rows = UnfiledDataset(topic.address, (ANY_TOPIC,))
                is_one = partial(_has_parts, named_by_rows.parts)
                by_rows += self._uses.named(named_by_rows, is_one, unread, wrote=True)
            self._others[topic] = _Others(by_app, by_rows, unread)
        return self._others[topic]

    def _written_by_rows(
        self, own: list[UnfiledUse], record: _Record, others: _Others
    ) -> Iterator[NotQueried]:
        """Writes whose rows name their topics themselves, to any servers: one Kafka may be listed in several ways."""
        for other in others.by_rows:
            if self._is_in_order(own, other):
                reason = f"it {other.text}, topics that its rows name: whether {record} is one of its records is not known"
                yield NotQueried(other.app, reason)

    def _written_besides(
        self, own: list[UnfiledUse], record: _Record, others: _Others
    ) -> Iterator[NotQueried]:
        """Applications that wrote to the topic and whose lineage is not complete: a batch that was cut short, or is under way, has written records, too."""
        read_at = max(use.at for use in own)
        for app, uses in others.by_app.items():
            began_at = self._unfinished_since(app)
            if began_at is None or began_at > read_at:
                continue
            if any(self._is_same_topic(own, use) is not False for use in uses):
                name = shown_dataset(uses[0].path)
                reason = f"it wrote to {name}, and its lineage is not complete: whether it wrote {record}, too, is not known"
                yield NotQueried(app, reason)

    def _unfinished_since(self, app: str) -> float | None:
        """When an application began whose lineage is not complete (0: not known); None: it is complete, or the application was deleted."""
        if app not in self._unfinished:
            since: float | None = None
            with suppress(KeyError):
                try:
                    if not verdict_of(self._store, app).complete:
                        begins = self._store.messages(app, "begin")
                        times = [one.started_at for one in begins if isinstance(one, Begin)]
                        since = min(times, default=0.0)
                except UNREAD:
                    since = 0.0
            self._unfinished[app] = since
        return self._unfinished[app]

    def _is_in_order(self, own: list[UnfiledUse], other: UnfiledUse) -> bool:
        """Whether the one read when the other had begun to write."""
        if self._is_backward:
            return other.at <= max(use.at for use in own)
        return min(use.at for use in own) <= other.at

    def _is_same_topic(self, own: list[UnfiledUse], other: UnfiledUse) -> bool | None:
        """Whether both used one topic: by its id where both recorded it, else by its servers and name; None: other servers, and no ids."""
        other_ids = self._ids_of(other)
        is_same: bool | None = False
        for use in own:
            ids = self._ids_of(use)
            if ids and other_ids:
                if not ids.isdisjoint(other_ids):
                    return True
            elif unfiled_dataset(use.path) == unfiled_dataset(other.path):
                return True
            else:
                is_same = None
        return is_same

    def _ids_of(self, use: UnfiledUse) -> frozenset[str]:
        """The ids of the topic of a use, as its recipes have them."""
        node = FileNode(use.app, use.node)
        if (node, use.path, use.wrote) not in self._ids:
            dataset = unfiled_dataset(use.path)
            assert dataset is not None
            ids = set[str]()
            for recipe in self._recipes(node, of_readers=not use.wrote):
                for used in (recipe.output,) if use.wrote else recipe.reads():
                    if used.format == KAFKA and used.options.get("topic") == dataset.parts[-1]:
                        ids.add(used.options.get("id", ""))
            self._ids[node, use.path, use.wrote] = frozenset(filter(None, ids))
        return self._ids[node, use.path, use.wrote]

    def _is_of_nothing(self, use: UnfiledUse) -> bool:
        """Whether a write is known to have added no record to its topic."""
        node = FileNode(use.app, use.node)
        if node not in self._of_nothing:
            self._of_nothing[node] = use.wrote and any(
                recipe.output.format == KAFKA and recipe.output.version == ""
                for recipe in self._recipes(node, of_readers=False)
            )
        return self._of_nothing[node]

    def _recipes(self, node: FileNode, *, of_readers: bool) -> Iterator[Recipe]:
        """Those of an output, or of what read a source, that can be read; none where the application was deleted meanwhile."""
        with suppress(KeyError, *UNREAD):
            graph = self._store.graph(node.app)
            outputs = [node.node]
            if of_readers:
                outputs = [link.dest for link in graph.links() if link.src == node.node]
            for output in outputs:
                current_budget().check()
                with suppress(RecipeError, VersionError):
                    recipe = read_recipe(graph, output)
                    if recipe is not None:
                        yield recipe


def _has_parts(parts: tuple[str, ...], named: UnfiledDataset) -> bool:
    return named.parts == parts
