"""What services log of their libraries."""

from __future__ import annotations

import logging

import pytest

from lineage_service.logs import Seldom

pytestmark = pytest.mark.unit


def test_libraries_repeat_themselves_seldom() -> None:
    seldom = Seldom(["aiokafka"])

    def passes(name: str, text: str, at: float) -> bool:
        record = logging.LogRecord(name, logging.ERROR, "", 0, text, (), None)
        record.created = at
        return seldom.filter(record)

    assert [passes("aiokafka.conn", "Unable to connect", at) for at in (0, 1, 29, 31)] == [
        True,
        False,
        False,
        True,
    ]
    assert passes("aiokafka.conn", "Something else", 1)
    assert all(passes("lineage_writer.service", "event", at) for at in (0, 1))
