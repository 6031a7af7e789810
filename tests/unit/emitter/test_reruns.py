"""Programs that are run again."""

from __future__ import annotations

import pytest

from lineage_emitter.driver.saving import SAVES
from lineage_emitter.driver.sources import SOURCES
from lineage_query.reruns import SAVE_OPERATORS, SOURCE_OPERATORS

pytestmark = pytest.mark.unit


def test_queries_know_the_sources_and_saves_of_capture() -> None:
    assert set(SOURCES) == SOURCE_OPERATORS
    assert {"saveAsTextFile", *SAVES} == SAVE_OPERATORS
