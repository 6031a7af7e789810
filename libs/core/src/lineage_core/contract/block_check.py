"""Checks and counts of flow blocks: what every encoder and decoder holds to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lineage_core.contract.address import OPAQUE_SPACE, SpaceKind, parse_space
from lineage_core.contract.block import I64, U64, BlockId, FlowBlock, Relation, Section
from lineage_core.errors import AddressError, BlockError

FLOWS_PER_BLOCK = 2**16
RUNS_PER_BLOCK = 2**18
"""Writers cut blocks at so many flows or runs, whichever comes first."""
BLOCK_ROWS_MAX = 2**20
BLOCK_RUNS_MAX = 2**22
"""Readers refuse more than these, so that no input makes them allocate without bound."""
SECTIONS_MAX = 2**16
TEXT_CHARS_MAX = 2**16
"""Longest application name or reason in characters."""


def check_name(app: str, block_id: BlockId, in_space: str, reason: str) -> None:
    """Check what names a block.

    Raises:
        BlockError: a name can't be written or read back; ``where`` names the field.
    """
    _check_text(app, "app")
    _check_text(reason, "reason")
    check_space(f"{block_id.node}#0", "node")
    _check_number(block_id.partition, 2**31, "partition")
    _check_number(block_id.attempt, 2**63, "attempt")
    _check_number(block_id.seq, 2**63, "seq")
    check_space(in_space, "in_space")


def check_space(text: str, where: str) -> None:
    """Check that a text is a space as the contract writes it.

    Raises:
        BlockError: it is not; ``where`` is given on.
    """
    try:
        if isinstance(text, str) and len(text) < 512 and str(parse_space(text)) == text:
            return
    except AddressError as error:
        raise BlockError(str(error), where=where) from error
    raise BlockError(f"{text!r:.80} is not a space in its usual form", where=where)


def check_sections(out: Sequence[Section], rows: int) -> None:
    """Check that the directory of output spaces covers all rows in order.

    Raises:
        BlockError: it does not; ``where`` names the section.
    """
    if len(out) > SECTIONS_MAX:
        raise BlockError(f"more than {SECTIONS_MAX} sections", where="out")
    at = 0
    for index, section in enumerate(out):
        where = f"out[{index}]"
        check_space(section.space, where)
        if section.row_first != at or section.row_stop < at:
            raise BlockError(
                f"covers rows {section.row_first} to {section.row_stop}, must begin at {at}",
                where=where,
            )
        at = section.row_stop
    if at != rows:
        raise BlockError(f"covers {at} of {rows} rows", where="out")


def check_block(block: FlowBlock) -> None:
    """Check every invariant that :class:`FlowBlock` states.

    Raises:
        BlockError: the block breaks one; ``where`` names the field, or row and column.
    """
    check_name(block.app, block.block_id, block.in_space, block.reason)
    rows = block.rows
    if rows > BLOCK_ROWS_MAX:
        raise BlockError(f"more than {BLOCK_ROWS_MAX} rows", where="rows")
    check_sections(block.out, rows)
    _check_columns(block)
    _check_regions(block)
    _check_outputs(block)
    _check_texts(block)
    _check_attempts(block)


def _check_columns(block: FlowBlock) -> None:
    runs = len(block.in_first)
    if runs > BLOCK_RUNS_MAX:
        raise BlockError(f"more than {BLOCK_RUNS_MAX} runs", where="in_first")
    lengths: dict[str, tuple[npt.NDArray[np.generic] | None, type, int]] = {
        "in_first": (block.in_first, np.uint64, runs),
        "in_last": (block.in_last, np.uint64, runs),
        "out_first": (block.out_first, np.uint64, block.rows),
        "out_last": (block.out_last, np.uint64, block.rows),
        "in_ptr": (block.in_ptr, np.int64, block.rows + 1),
    }
    for name, (column, kind, length) in lengths.items():
        if column is None:
            continue
        if column.dtype != kind or column.shape != (length,):
            actual = f"{column.dtype} of shape {column.shape}"
            raise BlockError(f"{actual} is not {length} of {kind.__name__}", where=name)
    pointer = block.in_ptr
    if pointer is None:
        if runs != block.rows:
            raise BlockError(f"{runs} runs for {block.rows} rows without in_ptr", where="in_first")
    elif pointer[0] != 0 or pointer[-1] != runs or bool((pointer[1:] < pointer[:-1]).any()):
        raise BlockError("must rise from 0 to the number of runs", where="in_ptr")


def _check_attempts(block: FlowBlock) -> None:
    if block.attempts_read is None:
        return
    kind = parse_space(block.in_space).kind
    if kind is not SpaceKind.KEYS or block.relation is not Relation.ROWS:
        raise BlockError("is of rows from a space of keys only", where="attempts_read")


def _check_regions(block: FlowBlock) -> None:
    first, last, pointer = block.in_first, block.in_last, block.in_ptr
    if last is not None:
        _refuse(_row_of_run(block, last < first), "hashIn", "a run ends before it begins")
    else:
        last = first
    if pointer is not None and len(first) > 1:
        separated = first[1:] > last[:-1]
        separated &= first[1:] - last[:-1] > 1
        heads = pointer[:-1]
        heads = heads[(heads > 0) & (heads < len(first))]
        separated[heads - 1] = True
        if not separated.all():
            broken = np.concatenate(([False], ~separated))
            message = "runs of a region must be in order, disjoint and not adjacent"
            _refuse(_row_of_run(block, broken), "hashIn", message)
    if block.relation is Relation.IDENTITY:
        _check_identity(block, last)


def _check_identity(block: FlowBlock, last: U64) -> None:
    if block.in_ptr is not None:
        _refuse(np.diff(block.in_ptr) != 1, "hashIn", "identity takes one run a row")
    out_last = block.out_first if block.out_last is None else block.out_last
    uneven = last - block.in_first != out_last - block.out_first
    _refuse(uneven, "hashOut", "identity takes runs of one length")


def _check_outputs(block: FlowBlock) -> None:
    if block.out_last is not None:
        backward = block.out_last < block.out_first
        _refuse(backward, "hashOut", "the run ends before it begins")


def _check_texts(block: FlowBlock) -> None:
    rows = block.rows
    opaque_in = block.in_space == OPAQUE_SPACE
    _check_presence(block.in_text, opaque_in, rows, "in_text")
    opaque_out = [section for section in block.out if section.space == OPAQUE_SPACE]
    _check_presence(block.out_text, bool(opaque_out), rows, "out_text")
    if block.values is not None and len(block.values) != rows:
        raise BlockError(f"{len(block.values)} for {rows} rows", where="values")
    if opaque_in:
        if block.in_ptr is not None:
            _refuse(np.diff(block.in_ptr) > 1, "hashIn", "one opaque string a row")
        if block.in_last is not None:
            _refuse(_row_of_run(block, block.in_last != block.in_first), "hashIn", "not one string")
    if block.out_last is not None:
        wide = block.out_last != block.out_first
        for section in opaque_out:
            part = wide[section.row_first : section.row_stop]
            _refuse(part, "hashOut", "not one string", section.row_first)


def _check_presence(texts: Sequence[str] | None, must_exist: bool, rows: int, where: str) -> None:
    if (texts is not None) != must_exist:
        raise BlockError(f"must be given if, and only if, the space is {OPAQUE_SPACE}", where=where)
    if texts is not None and len(texts) != rows:
        raise BlockError(f"{len(texts)} for {rows} rows", where=where)


def _row_of_run(block: FlowBlock, broken: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """A mask over runs as a mask over rows."""
    if block.in_ptr is None or not broken.any():
        return broken
    rows = np.zeros(block.rows, np.bool_)
    rows[np.searchsorted(block.in_ptr, np.flatnonzero(broken), side="right") - 1] = True
    return rows


def _refuse(broken: npt.NDArray[np.bool_], column: str, message: str, offset: int = 0) -> None:
    if broken.any():
        raise BlockError(message, where=cell_name(int(broken.argmax()) + offset, column))


def cell_name(row: int, column: str) -> str:
    """How errors name a cell; rows count from 0 without the header row."""
    return f"row {row}, column {column}"


def _check_text(text: str, where: str) -> None:
    if not isinstance(text, str) or len(text) > TEXT_CHARS_MAX:
        raise BlockError(f"must be a text of at most {TEXT_CHARS_MAX} characters", where=where)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise BlockError(f"not UTF-8: {error}", where=where) from error


def _check_number(number: int, stop: int, where: str) -> None:
    if type(number) is not int or not 0 <= number < stop:
        raise BlockError(f"must be a whole number from 0 to below {stop}", where=where)


def run_counts(block: FlowBlock) -> I64 | None:
    """Runs of each row, or None when every row has one."""
    if block.in_ptr is None:
        return None
    counts = np.diff(block.in_ptr)
    return None if bool((counts == 1).all()) else counts


def associations(block: FlowBlock) -> int:
    """Number of (input position, output position) pairs of a block that holds its invariants."""
    if block.relation is Relation.ALL:
        return _associations_of_all(block)
    out_wide = block.out_last is not None and block.relation is Relation.ROWS
    if block.in_last is None and not out_wide:
        return len(block.in_first)
    if block.in_last is None:
        sizes = np.ones(len(block.in_first), np.uint64)
    else:
        sizes = block.in_last - block.in_first
        if float(sizes.sum(dtype=np.float64)) >= 2.0**62:
            return _associations_unbounded(block)
        sizes = sizes + np.uint64(1)
    if not out_wide or block.out_last is None:
        return int(sizes.sum(dtype=np.uint64))
    outputs = block.out_last - block.out_first
    if block.in_ptr is not None:
        totals = np.concatenate((np.zeros(1, np.uint64), np.cumsum(sizes, dtype=np.uint64)))
        sizes = np.diff(totals[block.in_ptr])
    if float(sizes.astype(np.float64) @ (outputs.astype(np.float64) + 1.0)) >= 2.0**62:
        return _associations_unbounded(block)
    return int((sizes * (outputs + np.uint64(1))).sum(dtype=np.uint64))


def _associations_unbounded(block: FlowBlock) -> int:
    """The same in numbers without bound; such blocks have few rows in practice."""
    first, last = block.in_first.tolist(), (_column_or(block.in_last, block.in_first)).tolist()
    pointer = range(block.rows + 1) if block.in_ptr is None else block.in_ptr.tolist()
    outputs = [1] * block.rows
    if block.relation is Relation.ROWS and block.out_last is not None:
        ends = zip(block.out_first.tolist(), block.out_last.tolist(), strict=True)
        outputs = [b - a + 1 for a, b in ends]
    return sum(
        outputs[row] * sum(last[j] - first[j] + 1 for j in range(pointer[row], pointer[row + 1]))
        for row in range(block.rows)
    )


def _associations_of_all(block: FlowBlock) -> int:
    """Distinct inputs times distinct outputs."""
    from lineage_core.contract.runs import count_positions, normalise

    inputs = count_positions(normalise(block.in_first, _column_or(block.in_last, block.in_first)))
    last = _column_or(block.out_last, block.out_first)
    parts: dict[str, list[Section]] = {}
    for section in block.out:
        parts.setdefault(section.space, []).append(section)
    outputs = 0
    for sections in parts.values():
        rows = [slice(section.row_first, section.row_stop) for section in sections]
        first = np.concatenate([block.out_first[row] for row in rows])
        outputs += count_positions(normalise(first, np.concatenate([last[row] for row in rows])))
    return inputs * outputs


def _column_or(column: U64 | None, default: U64) -> U64:
    return default if column is None else column
