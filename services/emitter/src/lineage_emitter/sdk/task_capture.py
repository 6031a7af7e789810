"""A task of a program that reports its lineage by :class:`lineage_emitter.sdk.api.LineageApi`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from lineage_core.contract.address import parse_space
from lineage_core.contract.block import BlockId, FlowBlock, Relation
from lineage_core.errors import BlockError
from lineage_emitter.errors import DeliveryError
from lineage_emitter.failures import in_words
from lineage_emitter.sdk.flow_buffer import COLUMNED_FLOWS_MAX, FlowBuffer
from lineage_emitter.sdk.flow_columns import FlowColumns
from lineage_emitter.sdk.paired_buffer import INPUT, OUTPUT, RESET, PairedBuffer, column_events
from lineage_emitter.sdk.pairing import Pairing, Spaces
from lineage_emitter.worker.recorders import FLOWS_MAX, RUNS_MAX

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
        self._number = api.task_began()
        self._digest = 0
        self._failure = ""
        """Why capture of this task has ended; then nothing of it counts."""
        self.superset_reason = ""
        """Why inputs may be too many, of all flows of the task; empty where they are exact."""
        self._files_read: set[str] = set()
        self._files_written: set[str] = set()
        """Nodes of files of which it read, and wrote, parts."""
        self._paired: PairedBuffer | None = None
        """None before the first item and when the task has ended."""

    def capture(self, flow_id: str, hash_in: str, hash_out: str, value: str | None = None) -> None:
        """Capture one flow (see :meth:`FlowBuffer.capture`).

        Raises:
            LineageError, OSError: as there, where ``on_error`` is ``fail``. Otherwise capture of this task ends: nothing of it
                counts, and the verdict says why.
        """
        if self._failure:
            return
        try:
            FlowBuffer.capture(self, flow_id, hash_in, hash_out, value)
        except Exception as problem:
            self.end_capture(problem)

    # -- paired ----------------------------------------------------------------------------------

    def add_input(self, item: str, tag: Hashable = "", *, reset: bool = False) -> None:
        """An input that the program works on now: outputs of its tag that come later are made from it.

        Args:
            item: an item address, a region or an opaque string.
            tag: any hashable value; inputs and outputs of different tags have nothing to do with each other.
            reset: begin anew with this input: earlier inputs of the tag have no part in outputs that come later.

        Raises:
            LineageError, OSError: the input, or one that was added before, can't be captured, and ``on_error`` is ``fail``.
        """
        if self._failure:
            return
        try:
            (self._paired or self._pairs()).add(item, tag, INPUT + RESET if reset else INPUT)
        except Exception as problem:
            self.end_capture(problem)

    def add_output(
        self, item: str, tag: Hashable = "", *, reset: bool = False, value: str | None = None
    ) -> None:
        """An output: it is made from all inputs of its tag since the last reset of the tag.

        Args:
            item: an item address, a region that is one run, or an opaque string.
            tag: as of inputs.
            reset: begin anew behind this output: inputs so far have no part in outputs that come later.
            value: what the record looked like.

        Raises:
            LineageError, OSError: as for :meth:`add_input`.
        """
        if self._failure:
            return
        try:
            kind = OUTPUT + RESET if reset else OUTPUT
            (self._paired or self._pairs()).add(item, tag, kind, value)
        except Exception as problem:
            self.end_capture(problem)

    def add_inputs(
        self,
        space: str | Spaces,
        first: U64,
        *,
        last: U64 | None = None,
        tags: I64 | None = None,
        reset: bool = False,
    ) -> None:
        """Add many inputs at once, in columns.

        Args:
            space: of all of them, or of each.
            first: uint64[n], the position of each, or the first one.
            last: uint64[n], the last position of each; None: each has one.
            tags: int64[n], the tag of each; None: the tag "".
            reset: begin anew before the batch, with the tags in it.

        Raises:
            LineageError, OSError: as for :meth:`add_input`.
        """
        self._add_columns_paired(space, first, last, tags, None, is_output=False, reset=reset)

    def add_outputs(
        self,
        space: str,
        first: U64,
        *,
        last: U64 | None = None,
        tags: I64 | None = None,
        reset: bool = False,
        values: Sequence[str | None] | None = None,
    ) -> None:
        """Add many outputs at once, in columns: each as by :meth:`add_output`.

        Args:
            space: of all of them.
            first: uint64[n], the position of each, or the first one.
            last: uint64[n], the last position of each; None: each has one.
            tags: int64[n], the tag of each; None: the tag "".
            reset: begin anew behind the batch, with the tags in it.
            values: n strings or None.

        Raises:
            LineageError, OSError: as for :meth:`add_input`.
        """
        self._add_columns_paired(space, first, last, tags, values, is_output=True, reset=reset)

    def _add_columns_paired(
        self,
        space: str | Spaces,
        first: U64,
        last: U64 | None,
        tags: I64 | None,
        values: Sequence[str | None] | None,
        *,
        is_output: bool,
        reset: bool,
    ) -> None:
        if self._failure:
            return
        try:
            events = column_events(
                space, first, last, tags, values, is_output=is_output, reset=reset
            )
            self._pairs().add_columns(events)
        except Exception as problem:
            self.end_capture(problem)

    def _pairs(self) -> PairedBuffer:
        self._check_open()
        if self._paired is None:
            own_space = f"{self._node}#{self._partition}"
            self._paired = PairedBuffer(
                Pairing(self._take_paired, self._write_numbered, self._number_inputs, own_space)
            )
        return self._paired

    def _take_paired(self, in_space: str, flows: FlowColumns) -> None:
        if len(flows.first) >= FLOWS_MAX:
            self._write(in_space, flows)
            return
        self._add_columns(in_space, flows, opaque_out=flows.out_text is not None)
        self._write_columned(0 if self._columned_flows > COLUMNED_FLOWS_MAX else FLOWS_MAX)

    def _number_inputs(self) -> str:
        return f"{self._api.number_inputs(self._node)}#{self._partition}.{self._attempt}"

    def _write_numbered(self, in_space: str, flows: FlowColumns) -> None:
        self._link_file_read(in_space)
        self._write_blocks(parse_space(flows.sections[0][0]).name, in_space, flows, "")

    # -- columns ---------------------------------------------------------------------------------

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
            LineageError, OSError: the columns do not fit each other, or the spool can't be written, and ``on_error``
                is ``fail``. Otherwise capture of this task ends.
        """
        if self._failure:
            return
        try:
            self._write_columns(in_space, in_first, out_space, out, in_ptr, in_last, values, reason)
        except Exception as problem:
            self.end_capture(problem)

    def _write_columns(
        self,
        in_space: str,
        in_first: U64,
        out_space: str,
        out: U64,
        in_ptr: I64 | None,
        in_last: U64 | None,
        values: Sequence[str | None] | None,
        reason: str,
    ) -> None:
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

    # -- end -------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Make the flows durable, then visible.

        Where capture of the task ended early nothing of it counts, and the verdict says why.

        Raises:
            LineageError, OSError: flows that waited can't be captured, the task has ended, or the spool can't be
                written, and ``on_error`` is ``fail``: nothing is committed.
        """
        try:
            self._commit()
        except Exception as problem:
            self._api.problem(f"task {self._name}", problem)

    def _commit(self) -> None:
        self._end()
        counts, is_whole = self._api.settle(self._node, self._partition, self._attempt), False
        try:
            if self._failure or not counts:
                self._out.discard()
            else:
                is_whole = self._write_out()
        finally:
            self._older.close()
            self._paired = None
        if not counts:
            return
        if is_whole:
            self._api.parts_committed(sorted(self._files_read), sorted(self._files_written))
        self._api.committed(
            {
                "node": self._node,
                "partition": self._partition,
                "attempt": self._attempt,
                **(self._written() if is_whole else {"failed": self._failure[:500]}),
            }
        )

    def _write_out(self) -> bool:
        """Write all that waits; whether nothing is missing."""
        out = self._out
        try:
            if self._paired is not None:
                self._paired.pair()
            self._write_all()
            self._api.check_parts_read(sorted(self._files_read), self._number)
        except BaseException as problem:
            out.discard()
            if not isinstance(problem, Exception) or self._api.raising:
                raise
            self._failure = in_words(problem)
            return False
        out.sync()
        if out.spooled and self._api.settings.on_error == "fail":
            raise DeliveryError(f"{out.spooled} blocks could not be sent: {out.spooled_reason}")
        return True

    def _written(self) -> dict[str, Any]:
        out = self._out
        return {
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

    def end_capture(self, problem: Exception) -> None:
        """Something can't be captured: a part of the flows would be taken for all of them, so none count.

        Raises:
            Exception: the problem, where ``on_error`` is ``fail``.
        """
        if self._api.raising:
            raise problem
        if self.ended:
            # Too late for the commit to say so.
            self._api.problem(f"task {self._name}", problem)
        else:
            self._failure = in_words(problem)

    def fail(self, reason: str = "", inputs: Sequence[str] = ()) -> None:
        """Drop what was captured.

        The inputs that the task worked on last are kept as those of a sink named ``crash``, so that a trace of it
        leads to the rows of the sources.

        Args:
            reason: why it failed.
            inputs: items; when left out, the paired inputs that were added last.

        Raises:
            LineageError, OSError: as for :meth:`commit`.
        """
        try:
            self._end()
            self._older.close()
            self._out.discard()
            paired, self._paired = self._paired, None
            if not self._api.settle(self._node, self._partition, self._attempt):
                return
            self._api.failed(self._node, self._partition, self._attempt, reason)
            last_inputs = list(inputs) or ([] if paired is None else paired.last_inputs())
            if last_inputs:
                self._api.keep_crash(self._node, self._partition, last_inputs)
        except Exception as problem:
            self._api.problem(f"task {self._name}", problem)

    @property
    def _name(self) -> str:
        return f"{self._node}#{self._partition}.{self._attempt}"

    def _write(self, in_space: str, flows: FlowColumns, reason: str = "") -> None:
        self._link_files(in_space, flows)
        self._write_blocks(self._node, in_space, flows, reason or self.superset_reason)

    def _link_files(self, in_space: str, flows: FlowColumns) -> None:
        api, node = self._api, self._node
        if len(flows.first):
            self._link_file_read(in_space)
        for name in dict.fromkeys(space.partition("#")[0] for space, _ in flows.sections):
            if api.is_file(name):
                api.link_written(node, name)
                self._files_written.add(name)

    def _link_file_read(self, in_space: str) -> None:
        name = in_space.partition("#")[0]
        if self._api.is_file(name):
            self._api.link_once(name, self._node)
            self._files_read.add(name)

    def _write_blocks(self, node: str, in_space: str, flows: FlowColumns, reason: str) -> None:
        for part in flows.blocks():
            with np.errstate(over="ignore"):
                total = int(part.outs.sum(dtype=np.uint64))
                if part.out_last is not None:
                    total += int(part.out_last.sum(dtype=np.uint64))
            self._digest = (self._digest + total) & (2**64 - 1)
            seq = self._out.next_seq()
            self._out.write(
                FlowBlock(
                    block_id=BlockId(node, self._partition, self._attempt, seq),
                    relation=Relation.ROWS,
                    in_space=in_space,
                    out=part.directory(),
                    in_first=part.first,
                    out_first=part.outs,
                    in_ptr=part.ptr,
                    in_last=part.last,
                    out_last=part.out_last,
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
