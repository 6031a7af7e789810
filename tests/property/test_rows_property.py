r"""Rows and lines of files equal those of grep -n and of a line reader written out plainly."""

import gzip
import subprocess
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lineage_query.rows import line_index
from lineage_query.rows import reader as rows
from lineage_query.rows.reader import RowReader

pytestmark = pytest.mark.property

PIECES = st.sampled_from([b"\n", b"\r\n", b"\r", b"a", b"bcd", "\u00fc".encode(), b"0123456789"])
FILES = st.builds(
    lambda bom, pieces: (b"\xef\xbb\xbf" if bom else b"") + b"".join(pieces),
    st.booleans(),
    st.lists(PIECES, max_size=30),
)


@pytest.fixture(autouse=True)
def short_strides(monkeypatch: pytest.MonkeyPatch) -> None:
    """So short that every file spans several."""
    monkeypatch.setattr(line_index, "STRIDE", 8)
    monkeypatch.setattr(rows, "STRIDE", 8)
    monkeypatch.setattr(rows, "WINDOW_STRIDES", 3)


def read_line(content: bytes, at: int) -> tuple[bytes, int]:
    r"""The line at ``at`` and the bytes it takes up: ends at ``\n``, ``\r\n`` or ``\r``."""
    stop = at
    while stop < len(content) and content[stop] not in b"\r\n":
        stop += 1
    line = content[at:stop]
    if content[stop : stop + 2] == b"\r\n":
        return line, stop + 2 - at
    return line, min(stop + 1, len(content)) - at


def hadoop_rows(content: bytes, start: int, length: int) -> list[bytes]:
    """What Hadoop's LineRecordReader gives for a split, step by step as it goes."""
    at, end, found = start, start + length, []
    if start != 0:
        at += read_line(content, at)[1]
    while at <= end:
        line, taken = read_line(content, at)
        if at == 0 and line.startswith(b"\xef\xbb\xbf"):
            line = line[3:]
            if taken == 3:
                break
        if taken == 0:
            break
        at += taken
        found.append(line)
    return found


def start_lines(content: bytes) -> list[int]:
    """The grep line on which each row begins."""
    at, lines = 0, []
    for _ in hadoop_rows(content, 0, len(content)):
        lines.append(content.count(b"\n", 0, at) + 1)
        at += read_line(content, at)[1]
    return lines


slow = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=60,
)


@slow
@given(FILES, st.data())
def test_rows_as_hadoop_reads_them(tmp_path: Path, content: bytes, data: st.DataObject) -> None:
    path = str(tmp_path / "file.txt")
    Path(path).write_bytes(content)
    wanted = hadoop_rows(content, 0, len(content))
    reader = RowReader()
    assert reader.index(path).rows == len(wanted)
    chosen = sorted(data.draw(st.sets(st.integers(0, len(wanted) + 1))))
    texts = [w.decode() for w in wanted] + [None, None]
    assert reader.rows(path, np.array(chosen, np.uint64)) == [texts[row] for row in chosen]
    inside = [row for row in chosen if row < len(wanted)]
    lines = start_lines(content)
    got = reader.lines_of_rows(path, np.array(inside, np.uint64))
    assert got.tolist() == [lines[row] for row in inside]
    for line in range(content.count(b"\n") + 3):
        assert list(reader.rows_of_line(path, line)) == [
            row for row, at in enumerate(lines) if at == line
        ]


@slow
@given(FILES, st.lists(st.integers(0, 80), max_size=4))
def test_splits_share_the_rows_out(tmp_path: Path, content: bytes, cuts: list[int]) -> None:
    path = str(tmp_path / "file.txt")
    Path(path).write_bytes(content)
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(content)}), len(content)]
    reader = RowReader()
    counts = []
    for start, stop in pairwise(edges):
        counts.append(reader.rows_in_split(path, start, stop - start))
        assert counts[-1] == len(hadoop_rows(content, start, stop - start))
    assert sum(counts) == reader.index(path).rows


@slow
@given(FILES, st.data(), st.booleans())
def test_lines_as_grep_counts_them(
    tmp_path: Path, content: bytes, data: st.DataObject, packed: bool
) -> None:
    path = str(tmp_path / ("file.txt.gz" if packed else "file.txt"))
    Path(path).write_bytes(gzip.compress(content, 1) if packed else content)
    reader = RowReader()
    printed = subprocess.run(
        ["grep", "-an", ""], input=content, stdout=subprocess.PIPE, check=False
    ).stdout
    wanted = [line.partition(b":")[2].decode() for line in printed.split(b"\n")[:-1]]
    assert reader.index(path).lines == len(wanted)
    first = sorted(data.draw(st.sets(st.integers(1, len(wanted)), max_size=5))) if wanted else []
    last = [min(a + 1, b - 1) for a, b in zip(first, [*first[1:], len(wanted) + 1], strict=False)]
    got = reader.lines(path, np.array(first, np.uint64), np.array(last, np.uint64))
    assert got == ["\n".join(wanted[a - 1 : b]) for a, b in zip(first, last, strict=True)]
