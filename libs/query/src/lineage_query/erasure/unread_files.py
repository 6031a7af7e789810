"""Files in and beside a source and outputs that no reader reads, and which may hold rows of a plan: no row of the plan names them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lineage_core.tracing.budget import current_budget
from lineage_query.erasure.reached import ReachedRow, topic_record
from lineage_query.erasure.source_files import files_of_no_version, passed_over_in
from lineage_query.rows.reader import RowReader
from lineage_query.showing import names_text
from lineage_store.paths import RowsError, canonical, plain_path

NAMED_MAX = 20


@dataclass
class UnreadFiles:
    """What is found. ``unknown``: folders of which it is not known, and why."""

    uncommitted: dict[str, None] = field(default_factory=dict)
    hidden: dict[str, None] = field(default_factory=dict)
    of_no_version: dict[str, None] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)

    def look_at(self, reader: RowReader, path: str) -> None:
        """Look at a folder or a file, by canonical path."""
        current_budget().check()
        try:
            passed_over = passed_over_in(reader, path)
            self.uncommitted.update(dict.fromkeys(passed_over.uncommitted))
            self.hidden.update(dict.fromkeys(map(plain_path, passed_over.hidden)))
            unnamed = files_of_no_version(reader, path)
            self.of_no_version.update(dict.fromkeys(map(plain_path, unnamed)))
        except (RowsError, OSError) as problem:
            self.unknown[f"{plain_path(path)} ({problem})"] = None

    def lines(self) -> Iterator[str]:
        """What an erasure leaves of it, for people."""
        if self.uncommitted:
            yield (
                f"Files that a job did not commit, which may hold the rows: {names_text([*self.uncommitted], NAMED_MAX)}. Delete these folders when no job writes there."
            )
        if self.of_no_version:
            yield (
                f"{len(self.of_no_version):,} files of tables of Delta Lake that no version has, as a write that failed left them; they may hold the rows: "
                f"{names_text([*self.of_no_version], NAMED_MAX)}. VACUUM deletes them when they are as old as the table keeps files."
            )
        if self.hidden:
            yield (
                f"{len(self.hidden):,} hidden files, which no reader reads and which may hold the rows: {names_text([*self.hidden], NAMED_MAX)}. "
                "`lineage erase --verify` reads them for values."
            )
        if self.unknown:
            yield f"Files that no reader reads, where it is not known whether there are some: {names_text([*self.unknown], NAMED_MAX)}."


def unread_files(source: str, rows: Iterable[ReachedRow], reader: RowReader) -> Iterator[str]:
    """Lines that name the files which no reader reads, of a source and of the outputs of rows.

    Args:
        source: a file or folder, as it was named.
        rows: of a plan.
        reader: reads the files; where it may not, nothing is said.
    """
    found = UnreadFiles()
    for path in dict.fromkeys(map(canonical, dict.fromkeys(_paths(source, rows)))):
        if reader.may_read(path):
            found.look_at(reader, path)
    yield from found.lines()


def _paths(source: str, rows: Iterable[ReachedRow]) -> Iterator[str]:
    yield source
    for row in rows:
        is_topic = row.place is not None and topic_record(row.place) is not None
        if row.path is not None and not row.kept and not row.is_cell and not is_topic:
            yield row.path
