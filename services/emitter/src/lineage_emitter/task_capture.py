"""A task of a program that tells its lineage by :class:`lineage_emitter.api.LineageApi`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from lineage_core.address import OPAQUE_SPACE, parse_space
from lineage_core.block import BlockId, FlowBlock, Relation, Section
from lineage_core.csv_codec import clean_value
from lineage_core.errors import BlockError, ConflictError, RegionError
from lineage_core.positions import text_position
from lineage_core.region import Region
from lineage_emitter.errors import CaptureFailedError, DeliveryError
from lineage_emitter.recorders import FLOWS_MAX, RUNS_MAX

if TYPE_CHECKING:
    from lineage_core.block import I64, U64
    from lineage_emitter.api import LineageApi

_ADDRESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*(?:#\d+(?:\.\d+)?|@\d+|#\*)#[\d -]*", re.ASCII)


@dataclass
class _Buffer:
    """Flows of one input space, and of opaque or of addressed outputs."""

    ptr: list[int] = field(default_factory=lambda: [0])
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    outs: list[tuple[str, int]] = field(default_factory=list)
    values: list[str | None] = field(default_factory=list)
    in_text: list[str] = field(default_factory=list)
    out_text: list[str] = field(default_factory=list)


class TaskCapture:
    """One attempt at one partition of a node. Use it in one thread, as a context manager."""

    def __init__(self, api: LineageApi, node: str, partition: int, attempt: int) -> None:
        self.ended = False
        self._api = api
        self._node = node
        self._partition = partition
        self._attempt = attempt
        self._out = api.open_task(node, partition, attempt)
        self._buffers: dict[tuple[str, bool], _Buffer] = {}
        self._seen: dict[str, int] = {}
        self._digest = 0

    def capture(self, flow_id: str, hash_in: str, hash_out: str, value: str | None = None) -> None:
        """Note one flow.

        Args:
            flow_id: names the flow in this task: told again with the same content, it is no
                second flow.
            hash_in: an item address (``read#0#6``), a region (``read#0#0-3 7``) or any other,
                opaque string.
            hash_out: an item address or an opaque string.
            value: what the record looked like.

        Raises:
            ConflictError: the same flow id with other content.
            AddressError, RegionError: an address that can't be read.
            OSError: the spool can't be written.
        """
        self._check_open()
        content = hash((hash_in, hash_out, value))
        told = self._seen.get(flow_id)
        if told == content:
            return
        if told is not None:
            raise ConflictError(f"flow {flow_id!r} was told before with other content")
        in_space, region, in_text = _item(hash_in)
        out_space, outs, out_text = _item(hash_out)
        if outs.count != 1:
            raise RegionError("a flow has one output", where="hash_out")
        self._seen[flow_id] = content
        buffer = self._buffers.setdefault((in_space, out_text is not None), _Buffer())
        buffer.first += region.first.tolist()
        buffer.last += region.last.tolist()
        buffer.ptr.append(len(buffer.first))
        buffer.outs.append((out_space, int(outs.first[0])))
        buffer.values.append(None if value is None else clean_value(value))
        if in_text is not None:
            buffer.in_text.append(in_text)
        if out_text is not None:
            buffer.out_text.append(out_text)
        if len(buffer.outs) >= FLOWS_MAX or len(buffer.first) >= RUNS_MAX:
            self._flush(in_space, buffer)
            del self._buffers[(in_space, out_text is not None)]

    def capture_columns(
        self,
        in_space: str,
        in_first: U64,
        out_space: str,
        out: U64,
        *,
        in_ptr: I64 | None = None,
        in_last: U64 | None = None,
        values: Sequence[str | None] | None = None,
    ) -> None:
        """Note many flows at once, in columns.

        Args:
            in_space: the one input space.
            in_first: uint64[r], first position of each run.
            out_space: the one output space.
            out: uint64[n], output position of each flow.
            in_ptr: int64[n + 1], flow ``i`` has the runs ``in_ptr[i]:in_ptr[i + 1]`` (in order,
                disjoint, not adjacent); None: one run a flow.
            in_last: uint64[r], last position of each run; None: runs of one position.
            values: n strings or None.

        Raises:
            BlockError: the columns do not fit each other.
            OSError: the spool can't be written.
        """
        self._check_open()
        rows = len(out)
        ptr = np.arange(rows + 1) if in_ptr is None else np.asarray(in_ptr, dtype=np.int64)
        _check_fit(ptr, in_first, in_last, rows, values)
        start = 0
        while start < rows:
            stop = int(np.searchsorted(ptr, ptr[start] + RUNS_MAX, side="right")) - 1
            stop = min(stop, start + FLOWS_MAX, rows)
            low, high = int(ptr[start]), int(ptr[stop])
            self._write(
                in_space,
                [Section(out_space, 0, stop - start)],
                in_ptr=None if in_ptr is None else ptr[start : stop + 1] - low,
                in_first=np.asarray(in_first[low:high], dtype=np.uint64),
                in_last=None if in_last is None else np.asarray(in_last[low:high], dtype=np.uint64),
                out_first=np.asarray(out[start:stop], dtype=np.uint64),
                values=None if values is None else list(values[start:stop]),
            )
            start = stop

    def commit(self) -> None:
        """Make the flows durable, then visible.

        Raises:
            CaptureFailedError: the task has ended.
            OSError: the spool can't be written.
        """
        self._end()
        out = self._out
        try:
            for (in_space, _), buffer in self._buffers.items():
                self._flush(in_space, buffer)
        except BaseException:
            out.discard()
            raise
        out.sync()
        if out.spooled and self._api.settings.on_error == "fail":
            raise DeliveryError(f"{out.spooled} blocks could not be sent: {out.spooled_reason}")
        self._api.committed(
            {
                "node": self._node,
                "partition": self._partition,
                "attempt": self._attempt,
                "file": out.file if out.blocks else "",
                "spooled": out.spooled,
                "spooled_reason": out.spooled_reason[:500],
                "blocks": out.blocks,
                "flows": out.flows,
                "associations": out.associations,
                "bytes": out.bytes,
                "rows": out.flows,
                "digest": f"{self._digest:016x}",
            }
        )

    def fail(self, reason: str = "") -> None:
        """Drop what was captured."""
        self._end()
        self._out.discard()
        self._api.failed(self._node, self._partition, self._attempt, reason)

    def _end(self) -> None:
        self._check_open()
        self.ended = True

    def _check_open(self) -> None:
        if self.ended:
            raise CaptureFailedError("the task has ended")

    def _flush(self, in_space: str, buffer: _Buffer) -> None:
        sections: list[Section] = []
        for row, (space, _) in enumerate(buffer.outs):
            if sections and sections[-1].space == space:
                sections[-1] = Section(space, sections[-1].row_first, row + 1)
            else:
                sections.append(Section(space, row, row + 1))
        self._write(
            in_space,
            sections,
            in_ptr=np.array(buffer.ptr, dtype=np.int64),
            in_first=np.array(buffer.first, dtype=np.uint64),
            in_last=np.array(buffer.last, dtype=np.uint64),
            out_first=np.array([position for _, position in buffer.outs], dtype=np.uint64),
            values=buffer.values if any(v is not None for v in buffer.values) else None,
            in_text=buffer.in_text or None,
            out_text=buffer.out_text or None,
        )

    def _write(self, in_space: str, sections: list[Section], **columns: Any) -> None:
        with np.errstate(over="ignore"):
            told = int(columns["out_first"].sum(dtype=np.uint64))
        self._digest = (self._digest + told) & (2**64 - 1)
        seq = self._out.next_seq()
        self._out.write(
            FlowBlock(
                block_id=BlockId(self._node, self._partition, self._attempt, seq),
                relation=Relation.ROWS,
                in_space=in_space,
                out=tuple(sections),
                app=self._api.app,
                **columns,
            ),
            self._node,
        )

    def __enter__(self) -> TaskCapture:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.ended:
            return
        if problem is None:
            self.commit()
        else:
            self.fail(f"{type(problem).__name__}: {problem}")


def _check_fit(
    ptr: I64, first: U64, last: U64 | None, rows: int, values: Sequence[str | None] | None
) -> None:
    if len(ptr) != rows + 1:
        raise BlockError(f"{len(ptr)} entries for {rows} flows", where="in_ptr")
    sizes = np.diff(ptr)
    if rows and (ptr[0] != 0 or ptr[-1] != len(first) or bool((sizes < 0).any())):
        raise BlockError(f"does not divide {len(first)} runs among {rows} flows", where="in_ptr")
    if not rows and len(first):
        raise BlockError(f"{len(first)} runs for no flow", where="in_first")
    if rows and int(sizes.max()) > RUNS_MAX:
        raise BlockError(f"a flow has more than {RUNS_MAX} runs; tell it in pieces", where="in_ptr")
    if last is not None and len(last) != len(first):
        raise BlockError(f"{len(last)} entries for {len(first)} runs", where="in_last")
    if values is not None and len(values) != rows:
        raise BlockError(f"{len(values)} entries for {rows} flows", where="values")


def _item(text: str) -> tuple[str, Region, str | None]:
    """Space, positions and, when the text is opaque, the text itself."""
    if _ADDRESS.fullmatch(text):
        space, _, region = text.rpartition("#")
        parse_space(space)
        return space, Region.from_text(region), None
    position = np.array([text_position(text)], dtype=np.uint64)
    return OPAQUE_SPACE, Region.from_positions(position), text
