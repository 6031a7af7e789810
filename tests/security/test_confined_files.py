"""Attacks: files of rows that are small and take gigabytes, or for ever, to read; the process that reads them is bounded."""

from __future__ import annotations

import io
import os
import pickle
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lineage_core.tracing.budget import (
    Budget,
    ClientGoneError,
    TimeUpError,
    TooMuchError,
    use_budget,
)
from lineage_query.rows import confined
from lineage_query.rows.confined import ConfinedFormats
from lineage_query.rows.formats import FormatsHere
from lineage_query.rows.reader import RowReader
from lineage_query.rows.typed_values import RequestedValue, UnsureError
from lineage_query_api.app import create_app
from lineage_query_api.settings import read_settings
from lineage_query_api.visibility import VisibleApplication
from lineage_query_api.visible_store import ComputingReader, VisibleReader
from lineage_store.url import open_store

ROWS = np.array([0, 2, 5], np.uint64)


@pytest.fixture(scope="module")
def formats() -> Iterator[ConfinedFormats]:
    formats = ConfinedFormats()
    yield formats
    formats.close()


def _varint(number: int) -> bytes:
    groups = []
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])


def _parquet_of(columns: int, *, listed: int, groups: int = 1) -> bytes:
    """A file of nothing but a footer whose row groups list so many columns of three bytes each, and say they list ``listed``."""
    footer = b"\x15\x02\x19\x1c\x48\x01a\x15\x00\x00\x16\x00"
    footer += b"\x19\xfc" + _varint(groups)
    for _ in range(groups):
        footer += (
            b"\x19\xfc" + _varint(listed) + b"\x26\x00\x00" * columns + b"\x16\x00\x16\x00\x00"
        )
    footer += b"\x00"
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _pages(length: int) -> bytes:
    """One value of a length, of which few bytes remain when it is packed."""
    file = io.BytesIO()
    table = pa.table({"a": pa.array([bytes(length)], pa.binary())})
    pq.write_table(table, file, compression="lz4", use_dictionary=False, write_statistics=False)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        lambda: _parquet_of(0, listed=1_000_000),
        lambda: _parquet_of(90_000, listed=90_000, groups=28),
        lambda: _pages(400 << 20),
    ],
    ids=["parts that are said to be there", "parts of three bytes", "a page"],
)
def test_a_small_file_that_takes_gigabytes_is_an_error(
    content: Callable[[], bytes], formats: ConfinedFormats
) -> None:
    file = io.BytesIO(content())
    assert len(file.getvalue()) < 8 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(OSError, match=r"of memory|Exceeded size limit"):
        formats.read("parquet texts", file, ROWS)
    # In kB: nothing of it was read here.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10
    # The next question is answered.
    assert formats.read("parquet texts", _file(), ROWS) == FormatsHere().read(
        "parquet texts", _file(), ROWS
    )


def _file() -> io.BytesIO:
    file = io.BytesIO()
    pq.write_table(pa.table({"a": ["x", None, "\ud7ff\n", "y", "z", "x"], "n": range(6)}), file)
    return file


def test_answers_are_those_of_this_process(formats: ConfinedFormats) -> None:
    here = FormatsHere()
    columns = [("a", "string"), ("n", "bigint")]
    packed = io.BytesIO()
    orc.write_table(pq.read_table(_file()), packed)
    for operation, file, *arguments in (
        ("parquet texts", _file(), ROWS),
        ("parquet texts", _file(), np.array([1, 9], np.uint64)),
        ("parquet values", _file(), 3, 2, columns),
        ("parquet rows", _file(), {"a": RequestedValue("string", "x")}),
        (
            "parquet rows",
            _file(),
            {"a": RequestedValue("string", None), "n": RequestedValue("bigint", 1)},
        ),
        ("orc rows", packed, {"a": RequestedValue("string", "x")}),
        ("parquet row ids", _file(), "n", "version", ROWS),
        ("parquet rows with ids", _file(), "n", "version", np.array([2, 4], np.uint64)),
        ("parquet ids held", _file(), "n", "version", [(2, 4)], np.array([1], np.uint64)),
    ):
        found, wanted = (one.read(operation, file, *arguments) for one in (formats, here))
        assert list(found) == list(wanted)
        assert len(found)
    with pytest.raises(UnsureError):
        formats.read("parquet values", _file(), 3, 1, [("b", "string")])
    with pytest.raises(OSError, match="8 MiB"):
        formats.read("parquet texts", io.BytesIO(b"PAR1" * 9), ROWS)


def test_a_question_ends_with_its_budget(formats: ConfinedFormats) -> None:
    with use_budget(Budget(seconds=-1)), pytest.raises(TimeUpError):
        formats.read("parquet texts", _file(), ROWS)
    with use_budget(Budget(seconds=60, text_bytes=3)) as budget, pytest.raises(TooMuchError):
        formats.read("parquet texts", _file(), ROWS)
    assert budget.text_bytes_used > 3
    with use_budget(Budget(seconds=60, text_bytes=1000)) as budget:
        formats.read("parquet texts", _file(), ROWS)
    assert 3 < budget.text_bytes_used < 1000


@pytest.mark.parametrize("gone", [False, True])
def test_a_process_that_reads_for_ever_is_ended(gone: bool) -> None:
    formats, budget = ConfinedFormats(), Budget(seconds=None if gone else 0.2)
    formats.read("parquet texts", _file(), ROWS)
    (process,) = formats._free
    os.kill(process._process.pid, signal.SIGSTOP)

    class Left(io.BytesIO):
        def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
            if gone:
                budget.abandon()
            return super().seek(offset, whence)

    file = Left(_file().getvalue())
    with use_budget(budget), pytest.raises(ClientGoneError if gone else TimeUpError):
        formats.read("parquet texts", file, ROWS)
    assert not formats._free
    assert process._process.poll() == -signal.SIGKILL


def test_no_more_processes_run_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    formats, start = ConfinedFormats(), confined._Process

    def counted(options: tuple[str, ...]) -> Any:
        started.append(start(options))
        return started[-1]

    monkeypatch.setattr(confined, "_Process", counted)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(formats.read("parquet texts", _file(), ROWS)))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    formats.close()
    assert len(found) == 12
    assert 1 <= len(started) <= confined.PROCESSES_MAX
    assert all(one._process.poll() is not None for one in started)


def test_what_the_process_says_is_no_code(tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {tmp_path}/made",)

    with pytest.raises(pickle.UnpicklingError):
        confined._Plain(io.BytesIO(pickle.dumps(("found", Attack(), 0)))).load()
    assert not list(tmp_path.iterdir())
    plain = ("found", (1, "a", None, Decimal("1.5"), b"x", 2.5), 3)
    assert confined._Plain(io.BytesIO(pickle.dumps(plain))).load() == plain


def test_the_process_knows_no_secret_and_ends_with_this_one(
    formats: ConfinedFormats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEAGE_API_TOKEN", "secret")
    process = confined._Process()
    assert list(process.read("parquet texts", _file(), (ROWS,)))
    held = Path(f"/proc/{process._process.pid}/environ").read_bytes()
    assert b"secret" not in held
    process._connection.close()
    assert process._process.wait(30) == 0


def test_servers_read_files_in_processes(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/store", create=True) as store:
        reader = RowReader()
        create_app(
            store, read_settings(store=f"sqlite:///{tmp_path}/store", api_token="t" * 20), reader
        )
    assert isinstance(reader.formats, ConfinedFormats)
    # Those of a caller of whom something is hidden, too.
    for kind in (VisibleReader, ComputingReader):
        assert kind(reader, cast("VisibleApplication", None)).formats is reader.formats
