"""The threat model names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/guide/threat-model.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`((?:tests|charts)/[\w./-]+\.(?:py|yaml))(?:::(\w+))?`", PAGE)

pytestmark = pytest.mark.unit


def test_tests_that_hold_a_boundary_exist() -> None:
    assert len(NAMED) > 20
    for file, name in NAMED:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not name or f"def {name}(" in text, f"{file} has no {name}"


def test_each_boundary_has_a_test_or_says_that_it_has_none() -> None:
    table = PAGE.partition("## Boundaries")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    for row in rows:
        assert "`tests/" in row or "`charts/" in row or "**not held" in row, row
