"""Named queries as they are built, and what their rows name."""

from __future__ import annotations

from dataclasses import dataclass

from lineage_core.recipe.plan import Attribute


@dataclass(frozen=True)
class Leaf:
    """What rows of ``a<n>`` are made from: rows of a source, or groups that a next query traces.

    ``of``: the node (of a subquery: its last). ``columns``: the columns that name it, all of which are NULL
    for rows that were not made from it: file and row of a source; a mark, then the keys of a group. ``inexact_reason``: it names
    nothing; its one column is true in rows of which others of ``of``'s leaves name too much, for this reason.
    """

    of: int
    columns: tuple[str, ...]
    subquery: bool = False
    inexact_reason: str = ""

    @property
    def stored(self) -> bool:
        """Whether it names rows of a source (or of the plan itself)."""
        return not self.subquery and self.columns[0].startswith("p")

    @property
    def grouped(self) -> bool:
        """Whether it names a group, which a next query traces."""
        return not self.stored and not self.inexact_reason


@dataclass(frozen=True)
class NamedQuery:
    """A named query. ``leaves``: what its rows name; ``unknown``: columns that can't be computed anew."""

    name: str
    columns: tuple[Attribute, ...]
    leaves: tuple[Leaf, ...] = ()
    unknown: frozenset[int] = frozenset()

    @property
    def ids(self) -> list[str]:
        return [column for leaf in self.leaves for column in leaf.columns]

    @property
    def names(self) -> list[str]:
        """The columns' names, each once."""
        return list(dict.fromkeys(f"c{column.id}" for column in self.columns))
