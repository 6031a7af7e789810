"""Which line each row is that pandas makes of a text: the line by itself makes the same row."""

from __future__ import annotations

import io
from typing import Any

import pandas as pd
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lineage_emitter.sdk.dask_frame_lines import lines_of_rows

pytestmark = pytest.mark.property

NAMES = ["a", "b"]


def parsed(content: bytes, **options: Any) -> list[tuple[Any, ...]]:
    try:
        frame = pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False, **options)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError):
        assume(False)
    return list(frame.itertuples(index=False, name=None))


@given(
    content=st.lists(st.sampled_from(["x", "1", ",", '"', "\n", "\n", "\r\n", "\r", " ", "#"])).map(
        lambda parts: "".join(parts).encode()
    ),
    keeps_empty=st.booleans(),
    comment=st.sampled_from([None, "#"]),
    skipped=st.integers(0, 2),
)
@example(b"x,1\n\n1,x\n", False, None, 0)
@example(b'x,1\n"1\n",x\n', False, None, 0)
@example(b"x,1\r1,x\n\n", False, None, 0)
def test_a_row_is_what_its_line_makes(
    content: bytes, keeps_empty: bool, comment: str | None, skipped: int
) -> None:
    options: dict[str, Any] = {"names": NAMES, "header": None, "usecols": [0, 1]}
    options |= {"skip_blank_lines": not keeps_empty, "comment": comment}
    rows = parsed(content, skiprows=skipped, **options)
    lines = lines_of_rows(content, len(rows), skipped, not keeps_empty and not skipped)
    if lines is None:
        return
    assert len(lines) == len(rows)
    texts = content.splitlines(keepends=True)
    for line, row in zip(lines, rows, strict=True):
        if (
            texts[line].count(b'"') % 2 == 0
        ):  # else the parser takes the end of the text for its end
            assert parsed(texts[line], **options) == [row]


@given(st.lists(st.sampled_from(["x,1", "", "y"]), min_size=1))
def test_plain_texts_are_lines(texts: list[str]) -> None:
    content = "".join(f"{text}\n" for text in texts).encode()
    kept = [number for number, text in enumerate(texts) if text]
    assert list(lines_of_rows(content, len(kept), 0, skips_empty=True) or []) == kept
