"""Whose rows the files of a table of Delta Lake hold, by its log."""

from __future__ import annotations

from pathlib import Path

from lineage_core.tracing.budget import current_budget
from lineage_query.rows.delta_log import DeltaCommit, read_commits, union
from lineage_query.rows.row_tracking import RowTracking
from lineage_query.rows.table_log import LogReader
from lineage_store.paths import RowsError

BEFORE_LOG = -1
"""Stands for the versions that a table's log does not list any more."""


class FileOrigins:
    """Which versions' rows each file of a table may hold that was ever in it, by the path in the table's folder."""

    def __init__(self, *, is_whole: bool) -> None:
        """``is_whole``: whether the log begins with the table's first version."""
        self._is_whole = is_whole
        self.held: dict[str, frozenset[int]] = {}
        """By file the versions; `BEFORE_LOG` among them where they are not known."""
        self.own: set[int] = set()
        """Versions whose files hold rows of no other."""
        self.first_added: dict[str, int] = {}
        self.added: dict[int, frozenset[str]] = {}
        """By version the files that it added first."""
        self.tracking = RowTracking()
        self.renumbered: dict[str, frozenset[int]] = {}
        """By file the versions whose rows it may hold under other ids than theirs."""
        self.computed: dict[str, frozenset[int]] = {}
        """By file the versions that may have made rows of it from other rows of the table."""
        self.tracked: set[int] = set()
        """Versions that the table was in while it tracked rows."""

    def apply(self, version: int, commit: DeltaCommit | None) -> None:
        """Take the next version into account.

        Raises:
            RowsError: what it did is not known.
        """
        current_budget().check()
        if commit is None:
            raise RowsError(f"version {version} in its log is too large")
        new = frozenset(path for path in commit.added if path not in self.held)
        unlisted = commit.removed - self.held.keys()
        if not self._is_whole and not commit.own:
            # One that is added again looks like a new one.
            unlisted |= new
        carried = union(self.held.get(path, frozenset()) for path in commit.removed | commit.added)
        if unlisted:
            carried |= {BEFORE_LOG}
        # One set for all of them: a log may be of very many files.
        own = frozenset([version])
        held = own if commit.own else carried if commit.moves else carried | own
        self._track(version, commit, new, carried)
        # One that is added again has other deletions, ids or figures, or was restored: its rows are those that it had.
        for path in new:
            self.held[path] = held
            self.first_added[path] = version
        self.added[version] = new
        if commit.own:
            self.own.add(version)

    def _track(
        self, version: int, commit: DeltaCommit, new: frozenset[str], carried: frozenset[int]
    ) -> None:
        """Take the ids of rows into account. ``new``: the files that may hold rows of others, ``carried``: of which versions."""
        self.tracking.apply(version, commit.tracking, commit.ids)
        if self.tracking.is_enabled:
            self.tracked.add(version)
        none = frozenset[int]()
        renumbered = computed = none
        if not commit.own:
            sources = commit.removed | commit.added
            keeps_ids = commit.preserves_ids and self.tracking.is_enabled
            renumbered = (
                union(self.renumbered.get(path, none) for path in sources) if keeps_ids else carried
            )
            computed = union(self.computed.get(path, none) for path in sources)
            computed |= none if commit.leaves else {version}
        for path in new:
            self.renumbered[path], self.computed[path] = renumbered, computed


def file_origins(files: LogReader, folder: Path, until: int | None = None) -> FileOrigins:
    """Which versions' rows the files of a table may hold.

    Args:
        files: reads the log.
        folder: the table's.
        until: the version after which nothing counts; None: none.

    Raises:
        RowsError: the log does not list the version, or not what a version did.
    """
    commits = read_commits(files, folder)
    if until is not None and until not in commits:
        raise RowsError(f"its log does not list version {until}")
    origins = FileOrigins(is_whole=min(commits) == 0)
    for version, read_commit in commits.items():
        if until is not None and version > until:
            break
        origins.apply(version, read_commit())
    return origins
