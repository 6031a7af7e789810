"""Generated flow blocks, and a plain CSV writer to hold the columnar one against."""

from __future__ import annotations

import csv
import io
import itertools

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.positions import text_positions

TOP = 2**64 - 1
SPACES = ("1#0", "4#0.17", "4@3", "12#*", "read:x-y#7", "*@0")

Run = tuple[int, int]


def u64(numbers: list[int]) -> npt.NDArray[np.uint64]:
    """A column of positions."""
    return np.array(numbers, np.uint64)


positions = st.one_of(
    st.integers(0, 40),
    st.integers(0, TOP),
    st.integers(TOP - 40, TOP),
    st.integers(1, 20).map(lambda digits: min(10**digits, TOP)),
)
texts = st.text(
    st.one_of(
        st.sampled_from(',"\n\r -#aé☃'),
        st.characters(codec="utf-8", exclude_characters="\0"),
    ),
    max_size=8,
)
block_ids = st.builds(
    BlockId,
    st.sampled_from(("4", "12", "word-count.1", "a:b")),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
)


@st.composite
def regions(draw: st.DrawFn, most: int = 4) -> list[Run]:
    """Runs in order, disjoint and not adjacent."""
    ends = sorted(draw(st.sets(positions, max_size=2 * most)))
    runs: list[Run] = []
    at = 0
    while at < len(ends):
        wide = at + 1 < len(ends) and draw(st.booleans())
        run = (ends[at], ends[at + 1] if wide else ends[at])
        at += 2 if wide else 1
        if not runs or run[0] > runs[-1][1] + 1:
            runs.append(run)
    return runs


@st.composite
def outputs(draw: st.DrawFn) -> Run:
    """One output position, or a run of them."""
    first, last = sorted((draw(positions), draw(positions)))
    return (first, last) if draw(st.booleans()) else (first, first)


@st.composite
def blocks(draw: st.DrawFn) -> FlowBlock:
    """Any block that holds the invariants; optional columns are given or not, as it may be."""
    rows = draw(st.integers(0, 6))
    relation = draw(st.sampled_from(Relation))
    plain = relation is Relation.IDENTITY
    in_space = draw(st.sampled_from(SPACES[:-1] if plain else SPACES))
    ins = [draw(regions()) for _ in range(rows)]
    outs = [draw(outputs()) for _ in range(rows)]
    if plain:
        width = [draw(st.integers(0, TOP - max(run[0], 0))) for run in outs]
        starts = [draw(st.integers(0, TOP - size)) for size in width]
        ins = [[(start, start + size)] for start, size in zip(starts, width, strict=True)]
        outs = [(run[0], run[0] + size) for run, size in zip(outs, width, strict=True)]
    in_text = out_text = None
    if in_space == "*@0":
        in_text = [draw(texts) for _ in range(rows)]
        filled = [draw(st.booleans()) for _ in range(rows)]
        hashes = text_positions(in_text).tolist()
        ins = [[(p, p)] if has else [] for p, has in zip(hashes, filled, strict=True)]
        in_text = [text if has else "" for text, has in zip(in_text, filled, strict=True)]
    cuts = sorted(draw(st.lists(st.integers(0, rows), max_size=2)))
    bounds = [0, *cuts, rows]
    names = SPACES[:-1] if plain else SPACES
    out = tuple(Section(draw(st.sampled_from(names)), a, b) for a, b in itertools.pairwise(bounds))
    if any(section.space == "*@0" for section in out):
        out_text = [""] * rows
        for section in out:
            if section.space == "*@0":
                for row in range(section.row_first, section.row_stop):
                    out_text[row] = draw(texts)
                    position = int(text_positions([out_text[row]])[0])
                    outs[row] = (position, position)
    runs = [run for region in ins for run in region]
    counts = [len(region) for region in ins]
    first, last = u64([run[0] for run in runs]), u64([run[1] for run in runs])
    out_first, out_last = u64([run[0] for run in outs]), u64([run[1] for run in outs])
    implied = all(count == 1 for count in counts) and draw(st.booleans())
    exact = draw(st.booleans())
    return FlowBlock(
        block_id=draw(block_ids),
        relation=relation,
        in_space=in_space,
        out=out,
        in_first=first,
        out_first=out_first,
        in_ptr=None if implied else np.cumsum([0, *counts], dtype=np.int64),
        in_last=None if np.array_equal(first, last) and draw(st.booleans()) else last,
        out_last=None if np.array_equal(out_first, out_last) and draw(st.booleans()) else out_last,
        exact=exact,
        reason="" if exact else draw(texts),
        values=draw(st.none() | st.lists(st.none() | texts, min_size=rows, max_size=rows)),
        in_text=in_text,
        out_text=out_text,
        app=draw(texts),
    )


def regions_of(block: FlowBlock) -> list[list[Run]]:
    """Input runs, row by row."""
    last = block.in_first if block.in_last is None else block.in_last
    runs = list(zip(block.in_first.tolist(), last.tolist(), strict=True))
    pointer = range(block.rows + 1) if block.in_ptr is None else block.in_ptr.tolist()
    return [runs[pointer[row] : pointer[row + 1]] for row in range(block.rows)]


def outputs_of(block: FlowBlock) -> list[tuple[str, Run]]:
    """Output space and run, row by row."""
    last = block.out_first if block.out_last is None else block.out_last
    runs = list(zip(block.out_first.tolist(), last.tolist(), strict=True))
    spaces = [part.space for part in block.out for _ in range(part.row_first, part.row_stop)]
    return list(zip(spaces, runs, strict=True))


def plain_cells(block: FlowBlock) -> list[list[str]]:
    """The cells of a block's CSV, made one by one."""
    cells = [["flowId", "hashIn", "hashOut", "value"]]
    ends = zip(regions_of(block), outputs_of(block), strict=True)
    for row, (region, (space, output)) in enumerate(ends):
        hash_in = f"{block.in_space}#{' '.join(map(_run, region))}"
        if block.in_text is not None:
            hash_in = block.in_text[row]
        hash_out = f"{space}#{_run(output)}"
        if space == "*@0":
            assert block.out_text is not None
            hash_out = block.out_text[row]
        value = None if block.values is None else block.values[row]
        cells.append([f"{block.block_id}/{row}", hash_in, hash_out, value or ""])
    return cells


def _run(run: Run) -> str:
    return str(run[0]) if run[0] == run[1] else f"{run[0]}-{run[1]}"


def read_cells(payload: bytes) -> list[list[str]]:
    """The cells of CSV, read with Python's own reader.

    Raises:
        csv.Error: it is not CSV.
    """
    return list(csv.reader(io.StringIO(payload.decode(), newline=""), strict=True))


def same_flows(left: FlowBlock, right: FlowBlock) -> bool:
    """Whether two blocks say the same, however their optional columns are given."""
    return _named(left) == _named(right) and all(
        np.array_equal(a, b) for a, b in zip(_columns(left), _columns(right), strict=True)
    )


def _named(block: FlowBlock) -> tuple[object, ...]:
    texts = (block.values, block.in_text, block.out_text)
    values = tuple(None if text is None else list(text) for text in texts)
    blank = block.values is None or not any(value is not None for value in block.values)
    return (
        *(block.app, block.block_id, block.relation, block.in_space, block.out),
        *(block.exact, block.reason, None if blank else values[0], *values[1:]),
    )


def _columns(block: FlowBlock) -> tuple[npt.NDArray[np.generic], ...]:
    pointer = np.arange(block.rows + 1) if block.in_ptr is None else block.in_ptr
    in_last = block.in_first if block.in_last is None else block.in_last
    out_last = block.out_first if block.out_last is None else block.out_last
    return pointer, block.in_first, in_last, block.out_first, out_last
