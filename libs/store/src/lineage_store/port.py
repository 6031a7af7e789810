"""The graph-store port: what every store of lineage offers (SQLite and Neo4j)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.graph import EdgeBatch, FlowGraph
from lineage_core.contract.message import Message
from lineage_core.contract.sealing import Seal
from lineage_core.contract.times import JsonTime
from lineage_core.contract.verdict import StoreCounts
from lineage_core.linking.linker import TaskId
from lineage_store.recorded_files import FileQuery, RecordedFiles

if TYPE_CHECKING:
    from typing_extensions import Self


Rewrite: TypeAlias = "Callable[[FlowBlock], FlowBlock | None]"
"""Gives the block that takes the place of another, with the same flows and other texts; None: it stays as it is."""


@dataclass(frozen=True, slots=True)
class ApplicationRecord:
    """One application. Times in unix seconds (in JSON as text); ``status``: running, ok, failed, abandoned or damaged.

    ``recipes``: outputs of DataFrames that can be traced by one. ``damage``: of one that is damaged, which file of the store is
    missing or damaged; it began then at ``started_at`` or before.
    """

    app: str
    name: str
    started_at: JsonTime
    ended_at: JsonTime | None
    status: str
    flows: int
    associations: int
    recipes: int = 0
    damage: str = ""


class GraphStore(Protocol):
    """Writing is idempotent: the same block, edge or message twice changes nothing."""

    def write(
        self,
        app: str,
        messages: Iterable[Message] = (),
        blocks: Iterable[FlowBlock] = (),
        edges: Iterable[EdgeBatch] = (),
        *,
        tasks: Mapping[BlockId, TaskId] | None = None,
        unmatched: Mapping[BlockId, int] | None = None,
        seals: Iterable[Seal] = (),
    ) -> None:
        """Store all of it in one durable transaction, visible at once.

        ``tasks``: whose commit makes a block visible, where that is no task of the block's own
        node. ``unmatched``: input positions of stored blocks that no block puts out. ``seals``: all
        edges between the blocks that they are of are stored, by now or by this.

        Raises:
            KeyError: an edge names a block that is not in the store.
            StoreError: the store can't be written.
        """

    def applications(self) -> Sequence[ApplicationRecord]:
        """All applications, the latest first. One that is damaged is listed as that, and harms no other."""

    def application_ids(self) -> Sequence[str]:
        """The ids of :meth:`applications`, in the same order, without counting anything."""

    def revision(self, app: str) -> Hashable:
        """A value that changes with each message of an application, and if the id is later given to another run.

        Raises:
            KeyError: there is no such application.
        """

    def revisions(self, apps: Collection[str]) -> Mapping[str, Hashable]:
        """What :meth:`revision` returns for each of some applications, in one query; those that do not exist are left out."""

    def recorded_files(self, query: FileQuery) -> RecordedFiles:
        """Versions of a file that applications read or wrote.

        Those of the latest applications come first, and those of each in the order of its messages.

        Raises:
            RowsError: it can't be the name of a file.
        """

    def names(self) -> Mapping[str, frozenset[str]]:
        """All names that messages give each application, in one question; none of one whose beginning is on its way."""

    def messages(self, app: str, *kinds: str) -> Sequence[Message]:
        """Messages of an application in the order written, of some types or (none given) all."""

    def graph(self, app: str) -> FlowGraph:
        """The lineage of one application.

        Raises:
            KeyError: there is no such application.
        """

    def counts(self, app: str) -> StoreCounts:
        """The counts of the store for the completeness verdict (see lineage_core.contract.verdict).

        Raises:
            KeyError: there is no such application.
        """

    def delete(self, app: str) -> None:
        """Remove all that belongs to an application and give the space back."""

    def close(self) -> None:
        """Release the store."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class ErasableStore(GraphStore, Protocol):
    """A store that can replace texts which it has, and keeps no copy of them in its files."""

    def erase(self, app: str, rewrite: Rewrite, messages: Iterable[Message]) -> int:
        """Replace texts of blocks and recipes of an application, and leave its flows, edges and seals as they are.

        May be repeated after an interruption at any point; what is done already changes nothing.

        Args:
            app: the application; nobody else writes to it.
            rewrite: is called with each stored block, visible or not.
            messages: recipes that take the place of those of their nodes, and others that are added.

        Returns:
            How many blocks were replaced.

        Raises:
            KeyError: there is no such application.
            StoreError: the store can't be written.
        """


@runtime_checkable
class CheckingStore(Protocol):
    """A store of files, which may be damaged where no question reads them."""

    def check_files(self, app: str) -> None:
        """Read all that is stored of an application.

        Raises:
            KeyError: there is no such application.
            DamagedError: something of it is damaged or missing.
            StoreError: the store can't be read.
            BudgetError: the query has no time left.
        """


@runtime_checkable
class ViewingStore(Protocol):
    """A store that keeps record-level views, which may have texts of rows."""

    def view_texts(self, app: str) -> Iterator[str]:
        """The texts in the view of an application; none where it has no view, or one without texts."""

    def remove_view(self, app: str) -> int:
        """Remove the view of an application, if there is one, and return how many flows it had."""
