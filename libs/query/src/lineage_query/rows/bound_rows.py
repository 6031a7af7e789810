"""Rows of a file as an answer shows them, each text with what binds it to the row that the job saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lineage_core.contract.block import U64
from lineage_core.contract.graph import Unit
from lineage_query.rows.file_status import Binding, FileStatus, has_changed
from lineage_query.rows.places import shown


@dataclass(frozen=True, slots=True, eq=False)
class LocatedRows:
    """Items of one partition in a file.

    ``positions``: uint64, which items. ``path``: as the engine wrote it, without ``file:``.
    ``numbers``: uint64, lines from 1 or records from 0, or None if unknown (and for items that are whole
    files). ``texts``: one for each requested row, None if it can't be read; ``bindings``: the evidence that
    each is the text of the row that the job read. ``file_status``: of the file. ``note``: why lines or texts are missing,
    or another remark; may be empty. ``last_numbers``: the last line of each row, where it may be another than the first.
    """

    positions: U64
    path: str
    unit: Unit
    numbers: U64 | None
    texts: Sequence[str | None]
    bindings: Sequence[Binding | None]
    file_status: FileStatus
    note: str = ""
    last_numbers: U64 | None = None

    @property
    def lines(self) -> Sequence[int]:
        """How many lines each row takes, from that of its number on."""
        if self.last_numbers is None or self.numbers is None:
            return [1] * len(self.positions)
        lines: Sequence[int] = (self.last_numbers - self.numbers + np.uint64(1)).tolist()
        return lines

    @property
    def changed(self) -> bool:
        """Whether the file has changed since the job used it."""
        return has_changed(self.file_status)

    @property
    def unbound(self) -> bool:
        """Whether a text is the current one at the position, and may be another row's."""
        return "now" in self.bindings

    def places(self, path: str) -> list[str | None]:
        """Each item as people read it, with the file called ``path``."""
        if self.unit == "file":
            return [path] * len(self.positions)
        if self.numbers is None:
            return [None] * len(self.positions)
        return [shown(path, number, self.unit) for number in self.numbers.tolist()]


@dataclass(frozen=True, slots=True)
class InFile:
    """The rows' positions. ``path``: plain. ``has_file_checksum``: the file's status comes from a checksum of the whole file."""

    path: str
    unit: Unit
    file_status: FileStatus
    has_file_checksum: bool = False

    def rows(
        self,
        positions: U64,
        numbers: U64 | None,
        texts: Sequence[str | None],
        note: str = "",
        checked: Sequence[bool | None] | None = None,
        last_numbers: U64 | None = None,
    ) -> LocatedRows:
        """Rows with what binds each text.

        ``checked``: whether the checksum of the block of rows around each confirms the row; None: there
        is no such checksum, and the status of the file decides. ``last_numbers``: see :class:`LocatedRows`.
        """
        by_file: Binding = "checksum" if self.has_file_checksum else "state"
        of_check: dict[bool | None, Binding] = {
            True: "checksum",
            False: "now",
            None: by_file if self.file_status in {"same", "touched"} else "now",
        }
        bindings = [
            None if text is None else of_check[is_same]
            for text, is_same in zip(texts, checked or [None] * len(texts), strict=True)
        ]
        return LocatedRows(
            positions,
            self.path,
            self.unit,
            numbers,
            texts,
            bindings,
            self.file_status,
            note,
            last_numbers,
        )
