"""Who may have written what was read of datasets without files, and who may have read what was written: by name, time and offsets.

A table of a database has no versions: whoever may write to it can change any row at any time. So that a row was read that one
application wrote is never known, and a trace ends there; it is known which applications wrote to the table before it was read.
Of rows of topics that have no place, offsets may tell that they were not read; records are followed by themselves (`topic_links`).
"""

from __future__ import annotations

from collections.abc import Iterator

from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import NotQueried
from lineage_query.unfiled_uses import UnfiledUse, UnfiledUses, shown_dataset
from lineage_store.dataset_paths import unfiled_dataset

USES_MAX = 100
"""Maximum number of uses of one node that are compared with those of others."""


class UnfiledLinks:
    """Applications that used the same tables of databases and topics.

    Args:
        uses: what applications recorded.
        direction: backward, who wrote what was read; forward, who read what was written.
    """

    def __init__(self, uses: UnfiledUses, direction: Direction) -> None:
        self._uses = uses
        self._is_backward = direction is Direction.BACKWARD

    def users(self, app: str, node: str) -> Iterator[NotQueried]:
        """Who may have written what a node read, or have read what it wrote; those that did so last come first."""
        own = [
            use
            for use in self._uses.of_app(app)
            if use.node == node and use.wrote != self._is_backward
        ]
        last: dict[str, tuple[UnfiledUse, UnfiledUse]] = {}
        for use in own[:USES_MAX]:
            unread = dict[str, None]()
            for other in self._others(use, unread):
                known = last.get(other.app)
                if known is None or known[1].at < other.at:
                    last[other.app] = use, other
            yield from unread_uses(use.path, unread, wrote=self._is_backward)
        for use, other in sorted(last.values(), key=lambda uses: uses[1].at, reverse=True):
            reason = f"it {other.text}, and {app} {use.text}: whether these are the same rows is not known"
            yield NotQueried(other.app, reason)

    def _others(self, use: UnfiledUse, unread: dict[str, None]) -> Iterator[UnfiledUse]:
        """Uses of others, in the order of time that leads from one to the other, of what may be the same rows.

        ``unread``: gets the applications whose uses of it can't be read.
        """
        dataset = unfiled_dataset(use.path)
        assert dataset is not None
        for other in self._uses.named(dataset, dataset.may_be, unread, wrote=self._is_backward):
            read, written = (use, other) if self._is_backward else (other, use)
            is_own = (use.app, use.node) == (other.app, other.node)
            if not is_own and written.at <= read.at and _may_overlap(read, written):
                yield other


def unread_uses(path: str, apps: dict[str, None], *, wrote: bool) -> Iterator[NotQueried]:
    """Applications of which it can't be read whether they wrote, or read, a dataset."""
    verb = "wrote to" if wrote else "read"
    for app in apps:
        yield NotQueried(app, f"whether it {verb} {shown_dataset(path)} is not known")


def _may_overlap(read: UnfiledUse, written: UnfiledUse) -> bool:
    """Whether some offset was both read and written, as far as the ranges are known."""
    if read.ranges is None or written.ranges is None:
        return True
    ranges = read.ranges
    return any(
        first < ranges[partition][1] and ranges[partition][0] < end
        for partition, (first, end) in written.ranges.items()
        if partition in ranges
    )
