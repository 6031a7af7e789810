"""The web page's types are made of the API's schemas."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import api_schema

pytestmark = pytest.mark.unit


def test_the_pages_types_are_of_the_schemas_of_now() -> None:
    assert api_schema.main("check") == 0


def test_types_of_other_schemas_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(api_schema, "TYPES", tmp_path / "schema.ts")
    api_schema.TYPES.write_text("export type App = string;\n", encoding="utf-8")
    assert api_schema.main("check") == 1
    assert "make page-types" in capsys.readouterr().out
    api_schema.main("stamp")
    assert api_schema.main("check") == 0
