"""Which bytes lines of a file are, and which lines bytes are of, against the whole file in memory."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from lineage_core.contract.region import Region
from lineage_core.tracing.budget import TooMuchError
from lineage_query.rows import line_bytes
from lineage_query.rows.line_bytes import lines_in_bytes
from lineage_query.rows.line_index import BOM
from lineage_query.rows.reader import RowReader
from lineage_store.paths import RowsError

pytestmark = pytest.mark.unit


def spans_of(content: bytes, *, written: bool) -> dict[int, tuple[int, int]]:
    """By line the first and the last byte."""
    spans, at = {}, 0
    for number, line in enumerate(content.split(b"\n"), 1):
        first, end = at, at + len(line)
        if number == 1 and not written and content.startswith(BOM):
            first += len(BOM)
        text_end = end - line.endswith(b"\r") if end < len(content) else end
        has_end = end < len(content)
        stop = end + 1 if has_end and (written or text_end == first) else text_end
        if stop > first:
            spans[number] = first, stop - 1
        at = end + 1
    return spans


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_lines_and_bytes_name_each_other(tmp_path: Path, seed: int, written: bool) -> None:
    draw = random.Random(seed)
    lengths = draw.choice([(0, 3), (0, 400), (0, 40_000)])
    lines = [
        b"x" * draw.randint(*lengths) + draw.choice([b"\n", b"\n", b"\r\n"])
        for _ in range(draw.randint(1, 60))
    ]
    content = draw.choice([b"", BOM]) + b"".join(lines) + draw.choice([b"", b"last"])
    (tmp_path / "file").write_bytes(content)
    spans = spans_of(content, written=written)
    with lines_in_bytes(RowReader(), str(tmp_path / "file"), written=written) as of_file:
        for line in (*spans, 0, len(spans) + 2):
            expected = [spans[line]] if line in spans else []
            assert list(of_file.bytes_of([line])) == expected
        assert of_file.bytes_of(spans).count == sum(
            last - first + 1 for first, last in spans.values()
        )
        for _ in range(60):
            first = draw.randrange(len(content) + 3)
            last = min(first + draw.choice([0, 1, 2, 500]), len(content) + 5)
            region = Region.from_positions(range(first, last + 1))
            assert of_file.lines_of(region) == [
                line for line, (low, high) in spans.items() if low <= last and high >= first
            ]


def test_files_whose_lines_are_no_bytes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress(b"a\nb\n"))
    (tmp_path / "returns").write_bytes(b"a\rb\nc\n")
    (tmp_path / "large").write_bytes(b"a\n" * 9)
    (tmp_path / "empty").write_bytes(b"")
    monkeypatch.setattr(line_bytes, "BYTES_MAX", 15)
    monkeypatch.setattr(line_bytes, "LINES_MAX", 3)
    for name, words in {
        "packed.gz": "is compressed",
        "returns": "carriage returns",
        "large": "has 18 bytes",
        "gone": "no such file",
    }.items():
        with (
            pytest.raises(RowsError, match=words),
            lines_in_bytes(RowReader(), str(tmp_path / name), written=True),
        ):
            pass
    with lines_in_bytes(RowReader(), str(tmp_path / "empty"), written=True) as of_file:
        assert not of_file.bytes_of([1])
        assert of_file.lines_of(Region.from_positions([0])) == []
    (tmp_path / "many").write_bytes(b"a\n" * 6)
    with (
        lines_in_bytes(RowReader(), str(tmp_path / "many"), written=True) as of_file,
        pytest.raises(TooMuchError),
    ):
        of_file.lines_of(Region.from_positions(range(12)))
    with (
        pytest.raises(RowsError, match="is being written"),
        lines_in_bytes(RowReader(), str(tmp_path / "many"), written=True),
    ):
        (tmp_path / "many").write_bytes(b"b\n" * 7)
