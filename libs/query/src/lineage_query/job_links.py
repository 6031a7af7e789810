"""Where a trace continues from files: nodes of other applications, copies, and applications that are refused with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lineage_core.recipe.names import DATABASE_URL
from lineage_query.answers import Item, NotQueried
from lineage_query.file_parts import location_of_part
from lineage_query.rows.places import Location, LocationError, parse_location

NAMED_MAX = 20
"""Maximum number of applications that are named for one file."""


@dataclass(frozen=True, slots=True)
class FileNode:
    """A node of an application that read or wrote a file."""

    app: str
    node: str


@dataclass(frozen=True, slots=True)
class FileCopy:
    """A file of another path or time with the checksum of the file that the trace is at, or else its name, size and time.

    ``exact``: checksum, size and time are equal, so that it is the same file, moved. Otherwise its content is equal, and whether
    one was copied from the other, or both from a third one, is not known; without checksums, not even that. ``text``: says so.
    """

    node: FileNode
    path: str
    exact: bool
    text: str


@dataclass(frozen=True, slots=True)
class JobLinks:
    """Where a trace continues from a file of one node. ``refused``: applications with another version, with both versions.

    ``unsure``: applications that may have written a record of a topic, unless a node is known to have done so.
    """

    nodes: tuple[FileNode, ...] = ()
    refused: tuple[NotQueried, ...] = ()
    copies: tuple[FileCopy, ...] = ()
    unsure: tuple[NotQueried, ...] = ()


def refused_links(nodes: Iterable[FileNode], reason: str) -> JobLinks:
    """No links: the applications of nodes, each with the reason."""
    apps = list(dict.fromkeys(node.app for node in nodes))
    reason += others_text(len(apps))
    return JobLinks(refused=tuple(NotQueried(app, reason) for app in apps[:NAMED_MAX]))


def others_text(number: int) -> str:
    """What the reason of a named application says of those that are not named."""
    return f" (the same holds for {number - NAMED_MAX:,} more)" if number > NAMED_MAX else ""


def location_of(item: Item) -> Location | None:
    """Where an item of an answer lies in a file; None: in none."""
    if item.location is None or item.location.startswith(DATABASE_URL):
        return None
    part = location_of_part(item.address, item.location)
    if part is not None:
        return part
    try:
        return parse_location(item.location)
    except LocationError:
        return None
