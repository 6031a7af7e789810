"""Loading one application into the SQLite store, event by event; the caller cuts transactions."""

from __future__ import annotations

import dataclasses
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_core.codec.packing import PackedBlock
from lineage_core.contract.address import Space, parse_space
from lineage_core.contract.block import BlockId
from lineage_core.contract.block_header import BlockHeader
from lineage_core.contract.message import Commit, End, Message, Register, parse_message
from lineage_core.linking.linker import Linker, LinkResult, TaskId
from lineage_store.spool.reader import DRIVER_FILE, Damage, Line
from lineage_store.sqlite.connection import has_rows
from lineage_store.sqlite.link_state import SqliteLinkState
from lineage_store.sqlite.writing import SqliteWriter, TaskRow

if TYPE_CHECKING:
    from lineage_store.sqlite.ingest import IngestReport


@dataclasses.dataclass(slots=True)
class _OpenFile:
    """The file that is being read."""

    row: TaskRow
    path: Path | None
    received: set[BlockId] = dataclasses.field(default_factory=set)
    damage: Damage | None = None


class Loader:
    """Applies lines and blocks to the store; construct and use it within transactions.

    ``offset``: bytes of the driver's file that are done. ``sources``: nodes that read files.
    """

    def __init__(
        self, connection: sqlite3.Connection, app: str, report: IngestReport, heard_at: float
    ) -> None:
        self._db = connection
        self._app = app
        self._report = report
        self._writer = SqliteWriter(connection, app, heard_at)
        self._rows = {row.file: row for row in self._writer.tasks() if row.file}
        self._claims_read: dict[str, tuple[int, frozenset[str]]] = {}
        self._file: _OpenFile | None = None
        self.sources: set[str] = set()
        for (body,) in connection.execute(
            # Those of batches of streams are no sources of records.
            "SELECT body FROM message WHERE app = ? AND type = 'register' AND base IS NULL",
            (self._writer.app_id,),
        ):
            self.collect_source(parse_message(body))
        self._state = SqliteLinkState(connection, self._writer, self.sources.__contains__)
        self._linker = Linker(self._state)
        row = connection.execute(
            "SELECT spool_bytes, status FROM application WHERE id = ?", (self._writer.app_id,)
        ).fetchone()
        self.offset: int = row[0]
        self.ended: bool = row[1] != "running"

    # -- what is known -----------------------------------------------------------------------

    def is_done(self, file: str) -> bool:
        """Whether all that the commit of a file promised is stored."""
        row = self._rows.get(file)
        return row is not None and row.done

    def is_committed(self, file: str) -> bool:
        """Whether a commit named the file."""
        row = self._rows.get(file)
        return row is not None and row.committed

    def open_tasks(self) -> list[TaskRow]:
        """Committed tasks whose file could not be read whole."""
        return [row for row in self._rows.values() if row.committed and not row.done]

    def commit_of(self, task: TaskId) -> Commit | None:
        """The stored commit of a task; None when its message is not stored yet."""
        row = self._db.execute(
            "SELECT body FROM message WHERE app = ? AND type = 'commit' "
            "AND json_extract(body, '$.node') = ? AND json_extract(body, '$.partition') = ? "
            "AND json_extract(body, '$.attempt') = ?",
            (self._writer.app_id, *task),
        ).fetchone()
        message = None if row is None else parse_message(row[0])
        return message if isinstance(message, Commit) else None

    def claimant(self, file: str, size: int, header: BlockHeader) -> TaskId | None:
        """The task whose records of a file without a commit were read; None when nothing is new.

        ``header`` is the file's first. Each answer is given once.
        """
        attempt = header.block_id.attempt
        claims = self._claims(attempt)
        row = self._rows.get(file)
        if row is not None:
            task = row.task
        else:
            outs = {part.space for part in header.out}
            own_claims = [
                space for space in claims if str(space) in outs or _is_named_after(file, space)
            ]
            if not own_claims:
                return None
            task = TaskId(own_claims[0].name, own_claims[0].partition, attempt)
        file_state = (size, frozenset(map(str, claims)))
        if self._claims_read.get(file) == file_state:
            return None
        is_unchanged = file not in self._claims_read and row is not None and row.file_bytes == size
        self._claims_read[file] = file_state
        # An earlier call read the file as it is: just a space without blocks can be news.
        return None if is_unchanged and all(map(self._has_blocks, file_state[1])) else task

    def _claims(self, attempt: int) -> list[Space]:
        rows = self._db.execute(
            "SELECT text FROM space WHERE app = ? AND claimed AND text LIKE ? ORDER BY text",
            (self._writer.app_id, f"%.{attempt}"),
        )
        return [parse_space(text) for (text,) in rows]

    def _has_blocks(self, space: str) -> bool:
        return has_rows(self._db, "FROM section WHERE space = ?", self._writer.space(space))

    # -- events ------------------------------------------------------------------------------

    def collect_source(self, message: Message) -> None:
        """Collect sources, which are never linked, for decoding ahead."""
        if isinstance(message, Register) and message.kind == "source":
            self.sources.add(message.node)

    def line(self, line: Line) -> None:
        """Store one line of the driver's file."""
        message = line.message
        if message is None or message.app != self._app:
            reason = line.reason if message is None else f"of application {message.app}"
            self._record_problem(f"{DRIVER_FILE}, byte {line.start}", reason)
        else:
            self._writer.message(message)
            self._report.messages += 1
            if isinstance(message, End):
                self.ended = True
        self.offset = line.stop

    def begin_file(self, task: TaskId, commit: Commit | None, path: Path | None) -> None:
        """The blocks that follow are from a file of ``task``."""
        if commit is not None:
            row = self._writer.commit(commit)
            claim = self._rows.get(row.file)
            if claim is not None and not claim.committed and claim.id != row.id:
                self._writer.adopt(claim, row)
        else:
            stored_row = self._rows.get(path.name) if path is not None else None
            row = stored_row or self._writer.claim(task, path.name if path is not None else "")
        if row.committed:
            self._linker.commit(task)
        self._file = _OpenFile(row, path)

    def block(self, outcome: PackedBlock | Damage) -> int:
        """A block of the file; how many bytes were stored for it."""
        file = self._file
        assert file is not None
        if isinstance(outcome, Damage):
            self.damage(outcome)
            return 0
        self._state.offer(outcome, file.row.id)
        linked = self._linker.receive(file.row.task, outcome.entry)
        self._store(linked, outcome)
        if not linked.visible and not self._state.is_visible(outcome.block_id):
            return 0
        file.received.add(outcome.block_id)
        return len(outcome.data)

    def damage(self, damage: Damage) -> None:
        """Something of the file can't be read."""
        assert self._file is not None
        if self._file.damage is None or self._file.damage.truncated:
            self._file.damage = damage

    def end_file(self, size: int) -> Path | None:
        """The file is over, ``size`` bytes or -1 (missing); its path when it is not needed now."""
        file = self._file
        assert file is not None
        self._file = None
        row = file.row
        received = max(row.received, len(file.received))
        is_complete = row.committed and received >= row.expected
        problem_location = (
            row.file or f"task {row.task.node}#{row.task.partition}.{row.task.attempt}"
        )
        if row.committed and not is_complete:
            reason = "the commit names no file" if file.path is None else "the file is missing"
            if size >= 0:
                reason = "blocks are missing" if file.damage is None else file.damage.reason
            self._record_problem(
                problem_location, f"{reason} ({received} of {row.expected} blocks)"
            )
        elif not is_complete and file.damage is not None and not file.damage.truncated:
            self._record_problem(problem_location, file.damage.reason)
        else:
            self._writer.clear_problem(problem_location)
        self._writer.finish(row.task, received=received, file_bytes=size, done=is_complete)
        if row.committed:
            self._writer.mark_recomputed(row.task)
            self._report.tasks += 1
        if row.file:
            self._rows[row.file] = dataclasses.replace(
                row, received=received, file_bytes=size, done=is_complete
            )
        return file.path if is_complete and size >= 0 else None

    def recount_unmatched(self) -> None:
        """Bring counts and seals up to date: the last act in a transaction."""
        self._linker.recount_unmatched()
        self._writer.seals(self._linker.seal())
        self._state.clear_added()
        self._db.execute(
            "UPDATE application SET spool_bytes = ? WHERE id = ?",
            (self.offset, self._writer.app_id),
        )

    # -- within ------------------------------------------------------------------------------

    def _store(self, linked: LinkResult, packed: PackedBlock) -> None:
        self._writer.edges(linked.edges)
        self._report.edges += sum(edge.pairs for edge in linked.edges)
        if linked.visible:
            self._report.blocks += 1
            self._report.flows += packed.rows
            self._report.associations += packed.associations

    def _record_problem(self, location: str, reason: str) -> None:
        self._report.problems[location] = reason
        self._writer.store_problem(location, reason)


def _is_named_after(file: str, space: Space) -> bool:
    return file.startswith(f"{space.name}-{space.partition}-")
