"""Which applications' rows a file of a table of Delta Lake may hold, and who read rows of a version in other files, by the table's log."""

from __future__ import annotations

from collections.abc import Iterator

from lineage_core.recipe.names import DELTA, DELTA_LOG
from lineage_query.answers import NotQueried
from lineage_query.finding import UNREAD_REASON
from lineage_query.rows.file_origins import BEFORE_LOG, FileOrigins, file_origins
from lineage_query.rows.reader import RowReader
from lineage_query.rows.table_log import opened_log
from lineage_query.table_versions import TableVersion, UnknownCommit, outputs, unknown_commit
from lineage_store.paths import RowsError, Spellings, plain_path
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FileQuery, RecordedFile

LOOKUPS_MAX = 500
"""Maximum number of files of one table that are looked up for one file."""

LOGS_MAX = 4
"""Maximum number of logs in memory: one may name very many files."""


def unknown_writer(app: str, read: object, path: str, problem: object) -> NotQueried:
    """What is said where it is not known whose rows a file holds. ``read``: the version of a table that an application read."""
    return NotQueried(
        app,
        f"{app} read {read}; whether {path} holds rows that another application wrote is not known: {problem}",
    )


def unknown_reader(app: str, wrote: object, path: str, problem: object) -> NotQueried:
    """What is said where it is not known who read rows of a file. ``wrote``: the version of a table that an application wrote."""
    return NotQueried(
        app,
        f"{app} wrote {wrote}; whether another application read rows of {path} in other files is not known: {problem}",
    )


class DeltaLinks:
    """What the logs of tables of Delta Lake say about files of one query. Caches what it found.

    Args:
        store: has the applications.
        reader: decides which logs may be read.
        spellings: whose links are followed now.
    """

    def __init__(self, store: GraphStore, reader: RowReader, spellings: Spellings) -> None:
        self._store = store
        self._reader = reader
        self._spellings = spellings
        self._unknown_commits: dict[str, tuple[UnknownCommit, ...]] = {}
        self._origins: dict[tuple[str, str, int | None], FileOrigins] = {}

    def written_before(
        self,
        table: TableVersion,
        app: str,
        path: str,
        file: str | None = None,
    ) -> Iterator[NotQueried]:
        """Applications whose rows a file may hold that an application read, and that no captured application wrote.

        Args:
            table: the version that it read.
            app: the application.
            path: of the file.
            file: the file of the table in which the rows were before that; None: this one.

        Raises:
            RowsError: they are not known.
        """
        origins = self.origins(app, table.path, int(table.version))
        file = file or self.within(table, path)
        held = origins.held.get(file)
        if held is None or BEFORE_LOG in held:
            raise RowsError("its log does not list which version wrote the file")
        if len(held) > LOOKUPS_MAX:
            raise RowsError(f"it may hold rows of {len(held):,} versions")
        writer = origins.first_added[file]
        folder = plain_path(table.path)
        for version in sorted(held, reverse=True):
            writers = self.writers(table.path, origins, version)
            if not writers:
                for commit in self._unknown_commits_of(table.path):
                    if commit.first <= version <= commit.last:
                        yield NotQueried(
                            commit.app,
                            f"it wrote {commit}, others were made meanwhile, and {app} read version {table.version}: "
                            f"{path} holds rows of version {version}",
                        )
            for other in writers if version != writer else ():
                yield NotQueried(
                    other,
                    f"it wrote version {version} of {folder}, and {app} read version {table.version}: "
                    f"{path} holds rows that version {writer} took from other files",
                )

    def read_of_unknown(self, commit: UnknownCommit) -> Iterator[NotQueried]:
        """Applications that read files with rows of versions that a write may have made.

        Raises:
            RowsError: they are not known.
        """
        origins = self.origins(commit.app, commit.path, None)
        versions = range(commit.first, commit.last + 1)
        if len(versions) > LOOKUPS_MAX:
            raise RowsError(f"it made one of {len(versions):,} versions")
        if any(version not in origins.added for version in versions):
            raise RowsError(
                f"its log does not list all versions from {commit.first} to {commit.last}"
            )
        own = {v for v in versions if not self.writers(commit.path, origins, v)}
        files = [file for file, held in origins.held.items() if not held.isdisjoint(own)]
        if len(files) > LOOKUPS_MAX:
            raise RowsError(f"its rows may be in {len(files):,} files")
        for file in files:
            for reader in self.recorded(commit.path, file, wrote=False):
                yield NotQueried(
                    reader.app,
                    f"{commit.app} wrote {commit}, others were made meanwhile, and it read a file that may hold these rows",
                )

    def writers(self, table_path: str, origins: FileOrigins, version: int) -> list[str]:
        """The applications that recorded that they wrote a version.

        Raises:
            RowsError: they are not known.
        """
        # A captured write has all files that its version added.
        files = sorted(origins.added[version])[:1]
        return [item.app for file in files for item in self.recorded(table_path, file, wrote=True)]

    def _unknown_commits_of(self, table_path: str) -> tuple[UnknownCommit, ...]:
        """The writes to a table of which it is not known which version they made."""
        if table_path not in self._unknown_commits:
            logs = self.recorded(table_path, DELTA_LOG, wrote=True)
            nodes = dict.fromkeys((log.app, log.node) for log in logs)
            if len(nodes) > LOOKUPS_MAX:
                raise RowsError(f"which versions {len(nodes):,} writes made is not known")
            self._unknown_commits[table_path] = tuple(
                commit
                for app, node in nodes
                for output in outputs(self._store.graph(app), [node])
                if (commit := unknown_commit(app, output)) is not None
            )
        return self._unknown_commits[table_path]

    def read_after(self, table: TableVersion, app: str, path: str) -> Iterator[NotQueried]:
        """Applications that may have read rows of a file that an application wrote in other files of the table.

        Raises:
            RowsError: they are not known.
        """
        origins = self.origins(app, table.path, None)
        for file in self.other_files(table, origins, path):
            for reader in self.recorded(table.path, file, wrote=False):
                yield self.read_elsewhere(table, app, origins, file, reader)

    def other_files(self, table: TableVersion, origins: FileOrigins, path: str) -> list[str]:
        """Files, other than those that a version added, that may hold rows of a file of it.

        Raises:
            RowsError: they are not known, or too many.
        """
        version = int(table.version)
        if self.within(table, path) not in origins.added.get(version, ()):
            raise RowsError(f"its log does not list version {version} as it was written")
        others = [
            file
            for file, held in origins.held.items()
            if version in held and file not in origins.added[version]
        ]
        if len(others) > LOOKUPS_MAX:
            raise RowsError(f"its rows may be in {len(others):,} other files")
        return others

    @staticmethod
    def read_elsewhere(
        table: TableVersion, app: str, origins: FileOrigins, file: str, reader: RecordedFile
    ) -> NotQueried:
        """What is said of an application that read a file which may hold rows of a version."""
        return NotQueried(
            reader.app,
            f"{app} wrote {table}, and it read a file that holds rows which version {origins.first_added[file]} took from other files",
        )

    def origins(self, app: str, path: str, until: int | None) -> FileOrigins:
        """Whose rows the files of a table hold that an application used, up to a version; None: up to the latest.

        Raises:
            RowsError: that is not known.
        """
        key = app, path, until
        if key not in self._origins:
            with opened_log(self._reader.of_application(app), path) as log:
                if log.kind != DELTA:
                    raise RowsError("it is a table of another kind now")
                origins = file_origins(log.files, log.folder, until)
            if len(self._origins) >= LOGS_MAX:
                del self._origins[next(iter(self._origins))]
            self._origins[key] = origins
        return self._origins[key]

    def within(self, table: TableVersion, path: str) -> str:
        """The path of a file in a table's folder."""
        folder = self._spellings.of(table.path).rstrip("/")
        return self._spellings.of(path).removeprefix(f"{folder}/")

    def recorded(self, table_path: str, file: str, *, wrote: bool) -> list[RecordedFile]:
        """The uses of a file of a table: who ``wrote`` it, or else who read it.

        Raises:
            RowsError: they are not known.
        """
        path = file if ":/" in file else f"{table_path}/{file}"
        recorded = self._store.recorded_files(FileQuery(path, self._spellings))
        if recorded.unread:
            raise RowsError(f"whether {recorded.unread[0]} used it is not known: {UNREAD_REASON}")
        return [item for item in recorded.items if item.wrote == wrote]
