"""Where parts of files go on in other applications, byte by byte: whoever used the same bytes of the version, or the lines that they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from lineage_core.contract.address import split_range
from lineage_core.contract.positions import is_file_node
from lineage_core.contract.region import Region
from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer, Item, NotQueried
from lineage_query.file_parts import bytes_text, location_of_part, part_address, region_of_parts
from lineage_query.job_links import FileNode
from lineage_query.rows.locations import Locations
from lineage_query.rows.places import Location, LocationError, part_of_file
from lineage_query.rows.reader import RowReader
from lineage_store.port import GraphStore

PARTS_OF_ARRAYS = "which cells of its array parts of the file are is not known"


class NotUsedError(LineageError):
    """An application did not use the bytes of rows, so that these end before it: nothing is missing."""


class PartUses:
    """Which bytes of files applications used. Reads each application once.

    Args:
        store: has the applications.
        reader: reads the files.
        direction: backward, to who wrote bytes; forward, to who read them.
    """

    def __init__(self, store: GraphStore, reader: RowReader, direction: Direction) -> None:
        self._store = store
        self._reader = reader
        self._is_backward = direction is Direction.BACKWARD
        self._locations: dict[str, Locations] = {}

    def of(self, node: FileNode, region: Region) -> Region:
        """Those of some bytes of a file that a node used; all of them where it counts the file in lines."""
        if not is_file_node(node.node):
            return region
        if node.app not in self._locations:
            graph = self._store.graph(node.app)
            self._locations[node.app] = Locations(graph, self._reader.of_application(node.app))
        used = self._locations[node.app].bytes_used(node.node, wrote=self._is_backward)
        return region & used

    def unwritten(self, node: FileNode, origin: str, path: str, region: Region) -> NotQueried:
        """That an application wrote a file whose bytes another one read, and not these bytes."""
        return NotQueried(
            node.app, f"it wrote {path}, but not {bytes_text(region)}, which {origin} read"
        )


def parts_of(items: Sequence[Item], region: Region) -> Iterator[tuple[Location | None, Item]]:
    """A region of bytes of a file as items, each with its place. ``items``: parts of the same file."""
    known = {item.address: item for item in items}
    space, _, _ = split_range(items[0].address)
    like = next((item for item in items if item.location is not None), items[0])
    whole = like.location and location_of_part(like.address, like.location)
    for first, last in region:
        address = part_address(space, first, last)
        place = part_of_file(whole.path, first, last) if whole else None
        item = known.get(address)
        location = None if place is None else str(place)
        yield place, item or Item(address, location, None)


def merged_parts(items: Sequence[Item]) -> tuple[Item, ...]:
    """Parts of one file, each byte in one of them."""
    region = region_of_parts(item.address for item in items)
    return tuple(item for _, item in parts_of(items, region))


def lines_of_part(locations: Locations, node: str, row: Location) -> list[Location]:
    """A place as a DataFrame counts it: a part of a file as its lines.

    Raises:
        RowsError: it is of another version of the file than the one that is there, or that can't be read.
    """
    if row.unit != "byte":
        return [row]
    canonical = replace(row, path=locations.spelled(row.path))
    return [Location(row.path, line) for line in locations.lines_at(node, canonical)]


def trace_in_parts(
    locations: Locations,
    node: FileNode,
    rows: Sequence[Location],
    direction: Direction,
    trace: Callable[[dict[str, Region]], Answer],
) -> Iterator[tuple[Sequence[Location], Callable[[], Answer]]]:
    """Trace rows of a file of which an application used some bytes.

    Args:
        locations: of the application.
        node: the file.
        rows: lines or parts of it.
        direction: of the trace.
        trace: traces items of the application.

    Yields:
        Rows, with what traces them: those that can be traced together at once.
    """
    is_backward = direction is Direction.BACKWARD
    used = locations.bytes_used(node.node, wrote=is_backward)
    together: dict[Location, Region] = {}
    unwritten: list[Region] = []
    for row in rows:
        canonical = replace(row, path=locations.spelled(row.path))
        try:
            if not locations.names(node.node, canonical):
                raise LocationError(f"{node.node} counts the rows of {row.path} in another unit")
            region = Region.union(locations.items_at(node.node, canonical).values())
        except LineageError as problem:
            yield (row,), partial(refuse, problem)
            continue
        if region & used:
            together[row] = region & used
            unwritten.append(region - used)
        elif is_backward:
            yield (row,), partial(refuse, LocationError(f"it wrote {row.path}, but not {row}"))
        else:
            yield (row,), partial(refuse, NotUsedError(f"it did not read {row}"))
    if not together:
        return
    missing = Region.union(unwritten)

    def trace_together() -> Answer:
        answer = trace({f"{node.node}#0": Region.union(together.values())})
        if not missing or not is_backward:
            return answer
        path = next(iter(together)).path
        gap = NotQueried(node.app, f"it wrote {path}, but not {bytes_text(missing)}", node.node)
        return replace(
            answer,
            complete=False,
            not_queried=(*answer.not_queried, gap),
            warnings=(*answer.warnings, gap.warning()),
        )

    yield list(together), trace_together


def refuse(problem: LineageError) -> Answer:
    """Refuse to trace rows.

    Raises:
        LineageError: the problem.
    """
    raise problem
