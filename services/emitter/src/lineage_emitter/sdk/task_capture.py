"""A task of a program that reports its lineage by :class:`lineage_emitter.sdk.api.LineageApi`."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from lineage_core.contract.block import BlockId, FlowBlock, Relation
from lineage_core.errors import BlockError
from lineage_emitter.errors import DeliveryError
from lineage_emitter.failures import in_words
from lineage_emitter.sdk.flow_buffer import FlowBuffer
from lineage_emitter.sdk.flow_columns import FlowColumns
from lineage_emitter.worker.recorders import RUNS_MAX

if TYPE_CHECKING:
    from lineage_core.contract.block import I64, U64
    from lineage_emitter.sdk.api import LineageApi


class TaskCapture(FlowBuffer):
    """One attempt at one partition of a node. Use it in one thread, as a context manager."""

    def __init__(self, api: LineageApi, node: str, partition: int, attempt: int) -> None:
        super().__init__(api.dispatcher.folder)
        self._api = api
        self._node = node
        self._partition = partition
        self._attempt = attempt
        self._out = api.open_task(node, partition, attempt)
        self._digest = 0

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
        reason: str = "",
    ) -> None:
        """Capture many flows at once, in columns.

        Args:
            in_space: the one input space.
            in_first: uint64[r], first position of each run.
            out_space: the one output space.
            out: uint64[n], output position of each flow.
            in_ptr: int64[n + 1], flow ``i`` has the runs ``in_ptr[i]:in_ptr[i + 1]`` (in order,
                disjoint, not adjacent); None: one run a flow.
            in_last: uint64[r], last position of each run; None: runs of one position.
            values: n strings or None.
            reason: why inputs may be too many; empty where they are exact.

        Raises:
            BlockError: the columns do not fit each other.
            OSError: the spool can't be written.
        """
        self._check_open()
        rows = len(out)
        ptr = np.arange(rows + 1) if in_ptr is None else np.asarray(in_ptr, dtype=np.int64)
        _check_columns(ptr, in_first, in_last, rows, values)
        flows = FlowColumns(
            [(out_space, rows)],
            np.asarray(out, dtype=np.uint64),
            np.asarray(in_first, dtype=np.uint64),
            None if in_ptr is None else ptr,
            None if in_last is None else np.asarray(in_last, dtype=np.uint64),
            values,
        )
        self._write(in_space, flows, reason)

    def commit(self) -> None:
        """Make the flows durable, then visible.

        Raises:
            CaptureFailedError: the task has ended.
            OSError: the spool can't be written.
        """
        self._end()
        out = self._out
        try:
            self._write_all()
        except BaseException:
            out.discard()
            raise
        finally:
            self._older.close()
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
        self._older.close()
        self._out.discard()
        self._api.failed(self._node, self._partition, self._attempt, reason)

    def _write(self, in_space: str, flows: FlowColumns, reason: str = "") -> None:
        for part in flows.blocks():
            with np.errstate(over="ignore"):
                total = int(part.outs.sum(dtype=np.uint64))
            self._digest = (self._digest + total) & (2**64 - 1)
            seq = self._out.next_seq()
            self._out.write(
                FlowBlock(
                    block_id=BlockId(self._node, self._partition, self._attempt, seq),
                    relation=Relation.ROWS,
                    in_space=in_space,
                    out=part.directory(),
                    in_first=part.first,
                    out_first=part.outs,
                    in_ptr=part.ptr,
                    in_last=part.last,
                    values=part.values,
                    in_text=part.in_text,
                    out_text=part.out_text,
                    exact=not reason,
                    reason=reason,
                    app=self._api.app,
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
            self.fail(in_words(problem))


def _check_columns(
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
