"""Flows captured one by one, until they are put in columns."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lineage_core.contract.address import parse_space
from lineage_core.contract.region import Region
from lineage_core.errors import ConflictError, RegionError
from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.sdk.flow_columns import (
    CapturedFlows,
    FlowColumns,
    FlowContent,
    RunLists,
    by_space,
    concatenated,
)
from lineage_emitter.sdk.flow_id_index import FlowIdIndex
from lineage_emitter.worker.recorders import FLOWS_MAX

if TYPE_CHECKING:
    from lineage_core.contract.block import I64, U64

_RUN = r"(?:0|[1-9]\d{0,18})(?:-[1-9]\d{0,18})?"
_SHORT_REGION = re.compile(rf"{_RUN}(?: {_RUN}){{0,99}}", re.ASCII)
"""A region as texts mostly have it: read one by one, without the overhead of columns."""
ADDRESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*(?:#\d+(?:\.\d+)?|@\d+|#\*)#[\d -]*", re.ASCII)
WAITING_TEXT_MAX = 1 << 24
"""Characters of values and opaque strings that wait to be put in columns."""
COLUMNED_FLOWS_MAX = 4 * FLOWS_MAX
"""Flows in columns that wait for more of their input space."""
SPACES_MAX = 1 << 16
_HASH_MASK = 2**64 - 1


class FlowBuffer(ABC):
    """Takes flows, each id once, and gives them on in columns.

    Captured flows wait as they are until there are 65,536 flows, then all of it is put in columns at
    once: a single call only looks at its texts. Memory is bounded: by about
    200 MB, of which the latest texts take the most. Older ids lie in a file
    in ``folder``. Not thread-safe.
    """

    def __init__(self, folder: Path) -> None:
        self.ended = False
        self._spaces: set[str] = set()
        """Spaces that were captured and can be read; empty when the task has ended."""
        self._pending: dict[str, FlowContent] = {}
        """Flows that wait, in the order captured; their ids name them."""
        self._previous: dict[str, FlowContent] = {}
        """Those that waited before them, and the hashes of their ids."""
        self._previous_ids = np.zeros(0, np.uint64)
        self._older = FlowIdIndex(folder)
        self._text_room = WAITING_TEXT_MAX
        self._regions: dict[int, RunLists] = {}
        self._opaque: tuple[list[int], list[int]] = ([], [])
        self._columned: dict[tuple[str, bool], list[FlowColumns]] = {}
        self._columned_flows = 0

    def capture(self, flow_id: str, hash_in: str, hash_out: str, value: str | None = None) -> None:
        """Capture one flow.

        Args:
            flow_id: names the flow in this task: captured again with the same content, it is no
                second flow, however long ago it was.
            hash_in: an item address (``read#0#6``), a region (``read#0#0-3 7``) or any other,
                opaque string.
            hash_out: an item address or an opaque string.
            value: what the record looked like.

        Raises:
            ConflictError: the same flow id with other content. At this call when the id was among
                the last 65,536 captured; else at a later call or at the commit, when flows are put in
                columns. The flow captured first stands.
            AddressError, RegionError: an address that can't be read.
            OSError: the spool can't be written.
        """
        in_space, _, in_at = hash_in.rpartition("#")
        out_space, _, out_at = hash_out.rpartition("#")
        spaces, pending = self._spaces, self._pending
        # Half a million calls a second: the usual form of a flow is recognised with as few checks as possible.
        if not (
            in_space in spaces
            and out_space in spaces
            and (in_at >= "1" or in_at == "0")
            and (out_at >= "1" or out_at == "0")
            and (digits := in_at + out_at).isdigit()
            and digits.isascii()
            and len(in_at) < 20 > len(out_at)
        ):
            self._capture_other(flow_id, hash_in, hash_out, value)
            return
        if value is not None:
            self._text_room -= _length(value)
        content = (hash_in, hash_out, value)
        if flow_id in self._previous or pending.setdefault(flow_id, content) is not content:
            self._check_same(flow_id, content)
            return
        if len(pending) >= FLOWS_MAX or self._text_room < 0:
            self._build_columns()

    def _capture_other(self, flow_id: str, hash_in: str, hash_out: str, value: str | None) -> None:
        """Capture a flow with regions, opaque strings, or new spaces."""
        self._check_open()
        content = (hash_in, hash_out, value)
        if flow_id in self._previous or flow_id in self._pending:
            self._check_same(flow_id, content)
            return
        inputs, output = self._runs(hash_in), self._runs(hash_out)
        if output is not None and not _is_single(output):
            raise RegionError("a flow has one output", where="hash_out")
        chars = 0 if value is None else _length(value)
        row = len(self._pending)
        self._pending[flow_id] = content
        if inputs is None:
            self._opaque[0].append(row)
            chars += len(hash_in)
        elif not _is_single(inputs):
            self._regions[row] = inputs
            chars += 64 * len(inputs[0])
        if output is None:
            self._opaque[1].append(row)
            chars += len(hash_out)
        self._text_room -= chars
        if len(self._pending) >= FLOWS_MAX or self._text_room < 0:
            self._build_columns()

    def _runs(self, text: str) -> RunLists | None:
        """The positions that an address names; None of an opaque string.

        Raises:
            AddressError, RegionError: the address can't be read.
        """
        if "#" not in text or not ADDRESS.fullmatch(text):
            return None
        space, _, region = text.rpartition("#")
        if space not in self._spaces:
            parse_space(space)
            if len(self._spaces) >= SPACES_MAX:
                self._spaces.clear()
            self._spaces.add(space)
        return runs_of(region)

    def _check_same(self, flow_id: str, content: FlowContent) -> None:
        earlier = self._previous.get(flow_id) or self._pending[flow_id]
        if earlier != content:
            raise ConflictError(f"flow {flow_id!r} was captured before with other content")

    # -- columns -----------------------------------------------------------------------------

    def _build_columns(self) -> None:
        """Take all that waits, and write what makes a block.

        Raises:
            ConflictError: some of it was captured long ago with other content.
        """
        pending = self._pending
        rows = list(pending.values())
        ids = _hashes(pending)
        repeated, conflicting = self._captured_before(ids, rows)
        new_rows = np.delete(np.arange(len(rows)), repeated) if len(repeated) else None
        for in_space, opaque, flows in by_space(
            CapturedFlows(rows, self._regions, *self._opaque), new_rows
        ):
            self._add_columns(in_space, flows, opaque_out=opaque)
        conflicts = [flow_id for row, flow_id in enumerate(pending) if row in conflicting]
        for flow_id in conflicts:
            del pending[flow_id]
        self._previous, self._pending = pending, {}
        self._previous_ids = np.delete(ids, list(conflicting))
        full = self._columned_flows > COLUMNED_FLOWS_MAX or self._text_room < 0
        self._regions, self._opaque, self._text_room = {}, ([], []), WAITING_TEXT_MAX
        self._write_columned(0 if full else FLOWS_MAX)
        if conflicts:
            more = f" (and {len(conflicts) - 1} more)" if conflicts[1:] else ""
            raise ConflictError(
                f"flow {conflicts[0]!r}{more} was captured before with other content; the flow "
                "captured first stands"
            )

    def _add_columns(self, in_space: str, flows: FlowColumns, *, opaque_out: bool) -> None:
        self._columned.setdefault((in_space, opaque_out), []).append(flows)
        self._columned_flows += len(flows.outs)

    def _captured_before(self, ids: U64, rows: list[FlowContent]) -> tuple[I64, set[int]]:
        """Which rows were captured long ago, and which of these with other content then."""
        if self._previous:
            self._older.add(self._previous_ids, _hashes(self._previous.values()))
        repeated, contents = self._older.find(ids)
        captured = zip(repeated.tolist(), contents.tolist(), strict=True)
        return repeated, {
            row for row, content in captured if hash(rows[row]) & _HASH_MASK != content
        }

    def _write_columned(self, least: int) -> None:
        """Write the flows of input spaces that have at least so many."""
        for key, parts in list(self._columned.items()):
            rows = sum(len(part.outs) for part in parts)
            if rows >= least:
                del self._columned[key]
                self._columned_flows -= rows
                self._write(key[0], concatenated(parts))

    @abstractmethod
    def _write(self, in_space: str, flows: FlowColumns) -> None:
        """Take flows of one input space."""

    # -- end ---------------------------------------------------------------------------------

    def _write_all(self) -> None:
        """Write all that waits.

        Raises:
            ConflictError: some of it was captured long ago with other content.
        """
        if self._pending:
            self._build_columns()
        self._write_columned(0)

    def _check_open(self) -> None:
        if self.ended:
            raise CaptureFailedError("the task has ended")

    def _end(self) -> None:
        self._check_open()
        self.ended = True
        # No space is known any more: every capture goes where it is checked.
        self._spaces = set()


def runs_of(region: str) -> RunLists:
    """Firsts and lasts of the runs of a region.

    Raises:
        RegionError: the text is no region.
    """
    if _SHORT_REGION.fullmatch(region):
        first, last, below = [], [], -2
        for run in region.split(" "):
            first_text, _, last_text = run.partition("-")
            low, high = int(first_text), int(last_text or first_text)
            if low <= below + 1 or (last_text and high <= low):
                break
            first.append(low)
            last.append(high)
            below = high
        else:
            return first, last
    parsed = Region.from_text(region)
    return parsed.first.tolist(), parsed.last.tolist()


def _is_single(runs: RunLists) -> bool:
    return len(runs[0]) == 1 and runs[0] == runs[1]


def _length(value: str) -> int:
    """Characters of a value.

    Raises:
        TypeError: it is no text.
    """
    if not isinstance(value, str):
        raise TypeError(f"a value is a text, not {type(value).__name__}")
    return len(value)


def _hashes(values: Collection[object]) -> U64:
    """Python's hashes as uint64: of ids and contents in this process alone."""
    return np.fromiter(map(hash, values), np.int64, len(values)).view(np.uint64)
