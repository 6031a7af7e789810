"""What is captured is readable by its user alone, whatever the umask, and never kept where others can get at it."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lineage.stack import processes
from lineage_core.environment.private_files import ForeignOwnerError, ensure_private_folder
from lineage_emitter.dispatch.driver_spool import DriverSpool, claim_folder
from lineage_emitter.dispatch.spool import BlockFile
from lineage_query.rows.checksum_cache import save_columns
from lineage_store.errors import StoreError
from lineage_store.sqlite.store import SqliteStore
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
APP = "app-1"


@pytest.fixture(params=[0o000, 0o002, 0o022])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode)
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.usefixtures("umask")
def test_the_embedded_default_is_of_its_user_alone(tmp_path: Path) -> None:
    root = tmp_path / ".lineage"
    spool = DriverSpool(root / "spool", claim_folder(root / "spool", APP))
    spool.open()
    BlockFile(str(spool.blocks_dir / "1-0-0.lmf")).close()
    spool.close()
    save_columns(root / "index" / "a.npz", {"ends": np.zeros(1)})
    store_run(f"sqlite:///{root}/lineage.db", tmp_path)
    store = SqliteStore(root / "lineage.db")
    found = modes(tmp_path)
    store.close()
    assert {"lineage.db", "lineage.db-wal", "lineage.db-shm"} <= {Path(one).name for one in found}
    ours = {name: mode for name, mode in found.items() if name.startswith(".lineage")}
    assert len(ours) >= 10
    for name, mode in ours.items():
        assert mode == (0o700 if (tmp_path / name).is_dir() else 0o600), name


def test_what_was_open_to_others_is_closed_to_them_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root, file = tmp_path / ".lineage", tmp_path / ".lineage" / "lineage.db"
    store_run(f"sqlite:///{file}", tmp_path)
    root.chmod(0o755)
    file.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        SqliteStore(file).close()
        told = len(caplog.messages)
        SqliteStore(file).close()
    assert modes(tmp_path)[".lineage/lineage.db"] == 0o600
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert len(caplog.messages) == told > 0
    assert all("was open to other users" in said for said in caplog.messages)


def test_a_file_that_is_no_store_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database at all\n" * 100)
    (tmp_path / "notes.txt").chmod(0o644)
    tmp_path.chmod(0o755)
    for place in ("notes.txt", "."):
        with pytest.raises(StoreError):
            SqliteStore(tmp_path / place)
    assert modes(tmp_path) == {"notes.txt": 0o644}
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else made the folder first, to read what will be kept there."""
    for name in ("spool", ".lineage"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
    _as_another_user(tmp_path, monkeypatch)
    for name in ("spool", ".lineage"):
        with pytest.raises(ForeignOwnerError, match="another user"):
            claim_folder(tmp_path / name, APP)
    with pytest.raises(StoreError, match="another user"):
        SqliteStore(tmp_path / ".lineage" / "lineage.db")


def test_a_folder_that_is_shared_with_a_group_stays_so(tmp_path: Path) -> None:
    """Executors that run as another user write into the folders that the driver makes."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2770)
    spool = DriverSpool(shared, claim_folder(shared, APP))
    spool.open()
    BlockFile(str(spool.blocks_dir / "1-0-0.lmf")).close()
    spool.close()
    SqliteStore(shared / "lineage.db").close()
    found = modes(shared)
    assert {found[APP], found[f"{APP}/blocks"]} == {0o2770}
    assert {found[f"{APP}/blocks/1-0-0.lmf"], found[f"{APP}/driver.jsonl"]} == {0o660}
    assert found["lineage.db"] == 0o660
    # The folder of the default is of one user, wherever it lies.
    assert stat.S_IMODE(ensure_private_folder(shared / ".lineage").stat().st_mode) == 0o700


@pytest.mark.usefixtures("umask")
def test_servers_of_the_stack_write_for_their_user_alone(tmp_path: Path) -> None:
    log, made = tmp_path / "server.log", tmp_path / "made"
    command = ["/bin/sh", "-c", f"echo started; : > {made}; mkdir {tmp_path}/folder"]
    process = processes.start(command, environment={}, folder=tmp_path, log=log)
    assert process.wait(60)
    assert modes(tmp_path) == {"server.log": 0o600, "made": 0o600, "folder": 0o700}


def _as_another_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is of a user who owns nothing below ``folder``, and is not root."""
    if os.geteuid() == 0:
        for path in folder.iterdir():
            os.chown(path, 4712, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
