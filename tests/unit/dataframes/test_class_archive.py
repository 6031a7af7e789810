"""The archive of Java's classes: used where it is this user's and nobody has said otherwise."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lineage_dataframes.spark.class_archive import (
    JAVA_OPTION_VARIABLES,
    OPTIONS,
    archive_file,
    class_archive,
    store_archive,
)

pytestmark = pytest.mark.unit


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java of version 17, and a cache that is empty."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch()
    (home / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.15"\n')
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("LINEAGE_CACHE", str(tmp_path / "cache"))
    for name in JAVA_OPTION_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return home


def options(*, archived: bool) -> str | None:
    with class_archive(archived=archived):
        return os.environ.get(OPTIONS)


def test_who_is_to_write_it_does_so_once_and_then_all_read_it(
    java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OPTIONS, "-Dmine=1")
    file = archive_file()
    assert file is not None
    assert options(archived=False) == "-Dmine=1"
    writes = options(archived=True) or ""
    assert writes.startswith(f"-Dmine=1 -XX:ArchiveClassesAtExit={file}.{os.getpid()} ")
    Path(f"{file}.{os.getpid()}").write_bytes(b"classes")
    store_archive()
    assert file.read_bytes() == b"classes"
    assert file.stat().st_mode & 0o777 == 0o600
    for archived in (True, False):
        assert f"-XX:SharedArchiveFile={file} " in (options(archived=archived) or "")
    assert os.environ[OPTIONS] == "-Dmine=1"
    # Where Java wrote none, nothing is taken for it; what it wrote for a process that is gone is removed.
    file.unlink()
    store_archive()
    assert not file.exists()
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    left, own = (Path(f"{file}.{pid}") for pid in (gone.pid, os.getpid()))
    for draft in (left, own):
        draft.touch()
    options(archived=True)
    assert (left.exists(), own.exists()) == (False, True)


def test_an_archive_that_others_may_write_is_not_read(java: Path) -> None:
    file = archive_file()
    assert file is not None
    assert options(archived=True) is not None
    file.touch(mode=0o600)
    assert options(archived=False) is not None
    for place in (file, file.parent):
        before = place.stat().st_mode
        place.chmod(before | 0o020)
        assert options(archived=False) is None, place
        place.chmod(before)


def test_another_java_has_another_one_and_old_ones_none(java: Path) -> None:
    first = archive_file()
    (java / "release").write_text('JAVA_VERSION="21.0.2"\n')
    assert archive_file() not in {first, None}
    for release in ('JAVA_VERSION="1.8.0_1"\n', 'JAVA_VERSION="11.0.1"\n', ""):
        (java / "release").write_text(release)
        assert archive_file() is None
        assert options(archived=True) is None


@pytest.mark.parametrize("said", ["-Xshare:off", "-XX:SharedArchiveFile=/mine"])
@pytest.mark.parametrize("where", JAVA_OPTION_VARIABLES)
def test_who_says_how_classes_are_shared_is_left_alone(
    java: Path, monkeypatch: pytest.MonkeyPatch, where: str, said: str
) -> None:
    monkeypatch.setenv(where, said)
    before = os.environ.get(OPTIONS)
    assert options(archived=True) == before
