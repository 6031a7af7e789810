"""Files of a lake that fail to be read: what passes is no damage, and what changed is never read as if it had been written."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_core.contract.block import FlowBlock
from lineage_query.verdicts import verdict_of, with_files_read
from lineage_store.errors import DamagedError, StoreUnavailableError
from lineage_store.lake import file_writing
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.columns import Kind, application_key
from lineage_store.lake.files import LakeReader
from lineage_store.lake.footers import footer_bytes, read_footer
from lineage_store.lake.opening import FileOpener
from lineage_store.lake.store import LakeStore
from lineage_store.lake.table import LakeFile
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import open_store
from tests.support.lake_writer import write_application

pytestmark = pytest.mark.unit

APP = "app-1"


class Storage:
    """The files of a table, whose opening fails as often as it is said."""

    def __init__(self, files: Any) -> None:
        self._files = files
        self.failures: list[Exception] = []

    def open_input_file(self, path: str) -> pa.NativeFile:
        if self.failures:
            raise self.failures.pop()
        stream: pa.NativeFile = self._files.open_input_file(path)
        return stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LakeStore]:
    with LakeStore(LakeAddress(str(tmp_path / "lake"))) as store:
        write_application(store, APP, 0)
        store.reader = LakeReader(store.table)
        yield store


def failing(store: LakeStore, error: Exception, times: int) -> None:
    storage: Any = Storage(store.table.files)
    storage.failures = [error] * times
    store.table.files = storage


def only_file(store: LakeStore, app: str = APP) -> tuple[LakeFile, Path]:
    """The file of an application, and where it is."""
    (file,) = store.reader.files(application_key(app))
    return file, Path(store.address.location) / file.path


def loaded(store: LakeStore) -> int:
    """How many blocks can be read."""
    graph = store.graph(APP)
    return len(graph.load(ref.block_id for ref in graph.blocks()))


def flip_flows(path: Path) -> None:
    """One bit of a packed block."""
    described = pq.ParquetFile(path).metadata
    names = described.schema.names
    groups = (described.row_group(at) for at in range(described.num_row_groups))
    (group,) = (
        group
        for group in groups
        if (stats := group.column(names.index("kind")).statistics) is not None
        and stats.min == Kind.BLOCK
    )
    column = group.column(names.index("data"))
    data = bytearray(path.read_bytes())
    data[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("error", [OSError(5, "503 SlowDown"), FileNotFoundError(2, "not yet")])
def test_a_failure_that_passes_is_none(store: LakeStore, error: Exception) -> None:
    failing(store, error, 1)
    (record,) = store.applications()
    assert (record.app, record.damage) == (APP, "")
    assert loaded(store) == 3


@pytest.mark.parametrize("error", [OSError(5, "503 SlowDown"), FileNotFoundError(2, "not yet")])
def test_a_storage_that_gives_nothing_is_away_and_not_damaged(
    store: LakeStore, error: Exception
) -> None:
    failing(store, error, 100)
    with pytest.raises(StoreUnavailableError, match="can't read"):
        store.applications()


def test_bytes_that_change_once_on_their_way_are_read_again(store: LakeStore) -> None:
    file, _ = only_file(store)
    calls = list[int]()

    def work(stream: pa.NativeFile) -> int:
        calls.append(stream.size())
        if len(calls) == 1:
            raise OSError("could not verify page integrity, CRC checksum verification failed")
        return stream.size()

    assert store.reader.opener.read(file, work) == file.size
    assert calls == [file.size] * 2


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (pa.ArrowMemoryError("malloc of size 64 failed"), StoreUnavailableError),
        (pa.ArrowCancelled("cancelled"), pa.ArrowCancelled),
        (AttributeError("a fault of this program"), AttributeError),
        (pa.ArrowInvalid("its bytes"), DamagedError),
        (pa.ArrowNotImplementedError("an encoding that no file here has"), DamagedError),
    ],
)
def test_only_what_is_of_the_bytes_is_damage(
    store: LakeStore, error: Exception, said: type[Exception]
) -> None:
    file, _ = only_file(store)

    def work(_: pa.NativeFile) -> None:
        raise error

    with pytest.raises(said) as raised:
        store.reader.opener.read(file, work)
    assert type(raised.value) is said


def test_all_that_a_lake_has_is_read_behind_a_database_too(
    store: LakeStore, tmp_path: Path
) -> None:
    with SqliteStore(tmp_path / "lineage.db"):
        pass
    with open_store(f"sqlite:///{tmp_path}/lineage.db,{store.address}") as both:
        verdict = verdict_of(both, APP)
        assert with_files_read(both, APP, verdict) == verdict
        _, path = only_file(store)
        flip_flows(path)
    with open_store(f"sqlite:///{tmp_path}/lineage.db,{store.address}") as both:
        # No count needs the flows.
        assert verdict_of(both, APP).status == verdict.status != "damaged"
        found = with_files_read(both, APP, verdict)
    assert (found.status, found.complete) == ("damaged", False)
    assert path.name in found.reasons[0]


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


@pytest.mark.parametrize("harm", [_cut, flip_flows])
def test_a_file_of_object_storage_that_is_put_back_is_read(
    store: LakeStore, harm: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileOpener, "is_remote", property(lambda _: True))
    _, path = only_file(store)
    whole = path.read_bytes()
    harm(path)
    with pytest.raises(DamagedError, match=f"{APP} is damaged"):
        loaded(store)
    path.write_bytes(whole)
    assert loaded(store) == 3
    assert store.reader.opener.held_bytes == len(whole)


def test_no_bit_of_a_footer_changes_without_notice(store: LakeStore) -> None:
    """Without the digest some of these bits end the process, and others change what is found."""
    file, path = only_file(store)
    whole = path.read_bytes()
    with path.open("rb") as opened:
        length = len(footer_bytes(pa.PythonFile(opened)))
    data = bytearray(whole)
    bits = random.Random(1).sample(range(8 * length), 300)
    for bit in [*bits, *range(8 * length - 64, 8 * length)]:
        data = bytearray(whole)
        data[len(whole) - length + bit // 8] ^= 1 << bit % 8
        with pytest.raises(pa.ArrowInvalid, match="footer"):
            read_footer(pa.BufferReader(pa.py_buffer(data)), file.path)
    path.write_bytes(data)
    (record,) = store.applications()
    assert "footer" in record.damage
    assert compactable(store) == [file.path]


def compactable(store: LakeStore) -> list[str]:
    return [file.path for files in store.table.snapshot().files.values() for file in files]


@pytest.fixture
def older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LakeStore]:
    """A lake of a version before, whose files' names say nothing about their footers, nor of whom they are."""
    monkeypatch.setattr(
        file_writing,
        "new_path",
        lambda key, _app, footer: f"app={key}/{footer}.parquet",
    )
    with LakeStore(LakeAddress(str(tmp_path / "older"))) as store:
        write_application(store, APP, 0)
        store.reader = LakeReader(store.table)
        yield store


def test_files_of_versions_before_are_read(older: LakeStore) -> None:
    assert [(record.app, record.damage) for record in older.applications()] == [(APP, "")]
    assert loaded(older) == 3


def test_statistics_of_them_that_are_no_text_are_damage(older: LakeStore) -> None:
    _, path = only_file(older)
    data = path.read_bytes()
    # The last of them are the statistics of a row group's column.
    at = data.rindex(b"application")
    path.write_bytes(data[:at] + b"\xff" + data[at + 1 :])
    (record,) = older.applications()
    assert "is damaged" in record.damage


@pytest.mark.parametrize("kind", ["store", "older"])
def test_the_name_of_a_folder_is_no_id_of_an_application_that_has_one(
    kind: str, request: pytest.FixtureRequest
) -> None:
    store: LakeStore = request.getfixturevalue(kind)
    alias = f"app={application_key(APP)}"
    with pytest.raises(KeyError, match="there is no application"):
        store.graph(alias)
    store.delete(alias)
    assert loaded(store) == 3


def test_an_erasure_of_a_damaged_application_names_it_and_leaves_nothing(
    store: LakeStore,
) -> None:
    write_application(store, APP, 1)
    files = store.reader.files(application_key(APP))
    folder = Path(store.address.location)
    # The files before it are written again by then.
    flip_flows(folder / files[-1].path)
    before = set(folder.rglob("*.parquet"))

    def rewrite(block: FlowBlock) -> FlowBlock:
        return block

    with pytest.raises(DamagedError, match=f"{APP} is damaged: .*lineage rm {APP}"):
        store.erase(APP, rewrite, [])
    assert set(folder.rglob("*.parquet")) == before
