"""Ids of applications that hold others' materialised lineage."""

from __future__ import annotations

import pytest

from lineage_store.materialised import SUFFIX, stands_for

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("app", "base"),
    [("local-1.rows", "local-1"), ("local-1", None), (SUFFIX, None), ("a.rows.rows", "a.rows")],
)
def test_an_id_says_for_which_application_it_stands(app: str, base: str | None) -> None:
    assert stands_for(app) == base
