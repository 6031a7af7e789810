"""The part of the graph of jobs and datasets around one of them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from lineage_core.contract.times import JsonTime
from lineage_core.text_enum import StrEnum
from lineage_core.tracing.budget import current_budget
from lineage_query.dataset_index import DatasetIndex
from lineage_query.dataset_uses import READ, WROTE
from lineage_query.finding import NotFoundError
from lineage_query.jobs import full_dataset_name, job_of_run


class GraphSide(StrEnum):
    """What of a graph is followed from its start."""

    UPSTREAM = "upstream"
    DOWNSTREAM = "downstream"
    BOTH = "both"


class GraphName(NamedTuple):
    """A job or a dataset; ``namespace``: of a dataset, None of a job."""

    namespace: str | None
    name: str


@dataclass(frozen=True, slots=True)
class JobGraphNode:
    """A job or a dataset.

    ``upstream`` and ``downstream``: how many neighbours it has on each side, in the answer or not: datasets that a job reads and writes, jobs that
    write and read a dataset. ``runs``: of a job, or that used the dataset. ``last_app``: the latest of them, which began at
    ``last_started_at``; None where none is known.
    """

    kind: Literal["job", "dataset"]
    namespace: str | None
    name: str
    full_name: str
    upstream: int
    downstream: int
    runs: int
    last_app: str | None
    last_started_at: JsonTime | None


@dataclass(frozen=True, slots=True)
class JobGraphLink:
    """Data goes from one node to another: places in the list of nodes."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Jobs and datasets around the first of ``nodes``.

    ``truncated``: nodes that are in reach are left out. ``runs``: of ``runs_total`` runs so many were looked at; ``runs_withheld`` of these do not
    say what they read and wrote.
    """

    nodes: tuple[JobGraphNode, ...]
    links: tuple[JobGraphLink, ...]
    truncated: bool
    runs: int
    runs_total: int
    runs_withheld: int


def find_neighbours(
    index: DatasetIndex,
    start: GraphName,
    listed: Collection[str],
    visible: Mapping[str, Hashable] | None = None,
    *,
    revisions: Mapping[str, Hashable] | None = None,
    side: GraphSide = GraphSide.BOTH,
    depth: int = 1,
    limit: int = 100,
) -> Neighbourhood:
    """Jobs and datasets up to a distance from one of them: what leads to it, and what it leads to.

    Args:
        index: the runs of the store.
        start: the job or dataset.
        listed: the runs that are looked at, by id.
        visible: of those whose reads and writes may be shown, the revision of which that is known; None: all.
        revisions: of the listed runs now; one of which the index knows another counts as not looked at. None: all are as the index
            knows them.
        side: what is followed.
        depth: the distance, in links.
        limit: nodes in the answer, the nearest first.

    Raises:
        NotFoundError: all runs were looked at, and there is no such job or dataset.
        BudgetError: it takes more time than the query has.
    """
    with index.reading():
        finder = _Finder(index, frozenset(listed), visible, revisions)
        return finder.find(start, side, depth, limit)


class _Finder:
    """Reads one state of an index for one caller."""

    def __init__(
        self,
        index: DatasetIndex,
        listed: frozenset[str],
        visible: Mapping[str, Hashable] | None,
        revisions: Mapping[str, Hashable] | None,
    ) -> None:
        self._index = index
        self._uses = index.uses
        self._ranks = {
            app: rank for rank, app in enumerate(app for app in index.records if app in listed)
        }
        """The runs that are looked at, the latest first."""
        self._known = {
            app
            for app in self._ranks
            if revisions is None or revisions.get(app) == index.revisions[app]
        }
        """Of these, those that are no others by now: an id may have been given to another run."""
        self._shown = {
            app
            for app in self._known
            if app in self._uses.by_run
            and (visible is None or visible.get(app) == index.read_revisions[app])
        }
        self._is_dataset = cache(self._names_dataset)
        self._neighbours = cache(self._find_neighbours)

    def find(self, start: GraphName, side: GraphSide, depth: int, limit: int) -> Neighbourhood:
        """The neighbourhood of a node."""
        read = [app for app in self._known if app in self._uses.by_run or app in self._index.unread]
        is_known = self._exists(start)
        if not is_known and len(read) == len(self._ranks):
            raise NotFoundError(
                f"there is no job or dataset {_text_of(start)!r:.200}; `lineage jobs` and `lineage datasets` list them"
            )
        nodes = dict.fromkeys([start] if is_known else [])
        truncated = False
        for way, left_out in ((0, GraphSide.DOWNSTREAM), (1, GraphSide.UPSTREAM)):
            if side is left_out:
                continue
            room = len(nodes) + ((limit - 1) // 2 if side is GraphSide.BOTH else limit - 1)
            frontier = list(nodes)[:1]
            seen = set(frontier)
            for _ in range(depth):
                reached = []
                for node in frontier:
                    current_budget().check()
                    for neighbour in self._neighbours(node)[way]:
                        if neighbour in seen:
                            continue
                        if neighbour not in nodes and len(nodes) >= room:
                            truncated = True
                            continue
                        seen.add(neighbour)
                        nodes[neighbour] = None
                        reached.append(neighbour)
                frontier = reached
        places = {node: at for at, node in enumerate(nodes)}
        links = [
            JobGraphLink(places[node], places[target])
            for node in nodes
            for target in self._neighbours(node)[1]
            if target in places
        ]
        return Neighbourhood(
            tuple(map(self._node, nodes)),
            tuple(links),
            truncated,
            len(read),
            len(self._ranks),
            len([app for app in read if app not in self._shown]),
        )

    def _exists(self, node: GraphName) -> bool:
        if node.namespace is None:
            return bool(self._runs_of(node))
        return self._is_dataset((node.namespace, node.name))

    def _names_dataset(self, dataset: tuple[str, str]) -> bool:
        return not self._shown.isdisjoint(self._uses.named_by.get(dataset, ()))

    def _runs_of(self, node: GraphName) -> Sequence[str]:
        """The runs of a job, or of a dataset, the latest first."""
        if node.namespace is None:
            runs = self._index.runs_by_job.get(node.name, ())
            return [app for app in runs if app in self._known]
        users = self._uses.by_dataset.get((node.namespace, node.name), {})
        return sorted(self._shown.intersection(users), key=self._ranks.__getitem__)

    def _find_neighbours(
        self, node: GraphName
    ) -> tuple[Collection[GraphName], Collection[GraphName]]:
        """What is before a node, and what is behind it, by name."""
        upstream: set[GraphName] = set()
        downstream: set[GraphName] = set()
        if node.namespace is None:
            for app in self._index.runs_by_job.get(node.name, ()):
                if app not in self._shown:
                    continue
                current_budget().check()
                for dataset, how in self._uses.by_run[app].uses.items():
                    if self._is_dataset(dataset):
                        _add(how, GraphName(*dataset), read=upstream, wrote=downstream)
        else:
            dataset = node.namespace, node.name
            for app, how in self._uses.by_dataset.get(dataset, {}).items():
                if app in self._shown:
                    job = GraphName(None, job_of_run(self._index.records[app]))
                    _add(how, job, read=downstream, wrote=upstream)
        return tuple(sorted(upstream, key=_key)), tuple(sorted(downstream, key=_key))

    def _node(self, node: GraphName) -> JobGraphNode:
        runs = self._runs_of(node)
        last = self._index.records[runs[0]] if runs else None
        upstream, downstream = self._neighbours(node)
        return JobGraphNode(
            "job" if node.namespace is None else "dataset",
            node.namespace,
            node.name,
            _text_of(node),
            len(upstream),
            len(downstream),
            len(runs),
            None if last is None else last.app,
            None if last is None else last.started_at,
        )


def _add(how: int, node: GraphName, *, read: set[GraphName], wrote: set[GraphName]) -> None:
    if how & READ:
        read.add(node)
    if how & WROTE:
        wrote.add(node)


def _key(node: GraphName) -> tuple[str, str]:
    return node.namespace or "", node.name


def _text_of(node: GraphName) -> str:
    return node.name if node.namespace is None else full_dataset_name(node.namespace, node.name)
