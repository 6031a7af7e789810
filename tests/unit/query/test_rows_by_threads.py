"""Several threads of a server read rows by one reader."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from lineage_query.rows import reader as reader_module
from lineage_query.rows.reader import RowReader

pytestmark = pytest.mark.unit

TURN_S = 0.5
"""For another thread to read a file; it may have to wait for this one."""


def test_an_index_may_be_dropped_by_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Just when this one has found it."""
    monkeypatch.setattr(reader_module, "OPEN_INDEXES", 1)
    one, other = (tmp_path / name for name in ("one.txt", "other.txt"))
    one.write_text("a\n")
    other.write_text("b\nc\n")
    reader, threads = RowReader(), list[threading.Thread]()

    class Interrupted(OrderedDict[str, Any]):
        def move_to_end(self, key: str, last: bool = True) -> None:
            if not threads:
                threads.append(threading.Thread(target=reader.index, args=(str(other),)))
                threads[0].start()
                threads[0].join(TURN_S)
            super().move_to_end(key, last)

    monkeypatch.setattr(reader, "_cached", Interrupted())
    assert reader.index(str(one)).rows == 1
    threads[0].join()
    assert reader.index(str(other)).rows == 2
