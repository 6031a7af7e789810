"""What tasks report of the records that they watch: a file of a run and condition, written at once."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lineage_core.environment.private_files import private_opener
from lineage_store.watch_folder import HIT_BYTES_MAX, LOST


@dataclass(slots=True)
class Hits:
    """The file of what one run reports of a condition. Where it can't be written, a file without content says that reports are missing.

    ``counts_tests``: at the end it says how many records were tested, even where it has none to report.
    """

    path: str
    facts: dict[str, Any]
    limit: int
    counts_tests: bool = False
    count: int = 0
    tested: int = 0
    bytes: int = 0
    beyond: int = 0
    failed: int = 0
    _descriptor: int | None = field(default=None)
    _is_lost: bool = False

    @property
    def is_full(self) -> bool:
        """Whether further records are only counted."""
        return self.count >= self.limit or self.bytes >= HIT_BYTES_MAX

    def fail(self, problem: Exception) -> None:
        """The condition failed on a record."""
        self.failed += 1
        if self.failed == 1:
            # Its type alone: what it says may hold the record.
            self.write({"error": type(problem).__name__})

    def write(self, document: dict[str, Any]) -> None:
        """Write a line at once."""
        if self._is_lost:
            return
        line = json.dumps(self.facts | document).encode() + b"\n"
        try:
            if self._descriptor is None:
                flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
                if self.bytes == 0:
                    flags |= os.O_EXCL
                self._descriptor = private_opener(self.path, flags)
            self._is_lost = os.write(self._descriptor, line) < len(line)
        except OSError:
            self._is_lost = True
        if self._is_lost:
            # Without the folder nobody watches any more.
            with contextlib.suppress(OSError):
                Path(self.path).with_suffix(LOST).touch(mode=0o600)
        self.bytes += len(line)

    def close(self) -> None:
        """Write the counts, and close the file."""
        if self.beyond or self.failed or self.counts_tests:
            self.write(self.counts)
        self.leave()

    @property
    def counts(self) -> dict[str, Any]:
        """What was counted only."""
        return {"beyond": self.beyond, "failed": self.failed, "tested": self.tested}

    def leave(self) -> None:
        """Close the file until there is more to write."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
