"""A Spark of a command's own, when it ends."""

from __future__ import annotations

import subprocess
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from lineage.background_process import StartedSpark
from lineage_dataframes.spark import class_archive


@pytest.mark.parametrize(("end", "stored"), [("exit 0", [None]), ("kill -9 $$", [])])
def test_what_a_java_that_was_killed_has_written_is_no_archive(
    end: str, stored: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []
    monkeypatch.setattr(class_archive, "store_archive", found.append)
    spark = object.__new__(StartedSpark)
    spark._thread = threading.Thread()
    spark._thread.start()
    with subprocess.Popen(["sh", "-c", end], stdin=subprocess.PIPE) as java:
        gateway = SimpleNamespace(proc=java)
        context = SimpleNamespace(_gateway=gateway)
        session: Any = SimpleNamespace(sparkContext=context, stop=lambda: None)
        spark._session = session
        spark.stop()
    assert found == stored
