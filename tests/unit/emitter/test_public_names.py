"""Names that ``lineage_emitter`` offers are where it says."""

from __future__ import annotations

import pytest

import lineage_emitter

pytestmark = pytest.mark.unit


def test_every_public_name_is_there_once() -> None:
    assert sorted(lineage_emitter.__all__) == sorted(lineage_emitter._HOMES)
    for name in lineage_emitter.__all__:
        assert getattr(lineage_emitter, name).__name__ == name


def test_what_questions_of_frames_give_is_public() -> None:
    given = {"FrameRows", "OutputRows", "ReplayedRows", "SmallestRows"}
    assert given <= set(lineage_emitter.__all__)
