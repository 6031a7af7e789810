"""What the Spark that traces leaves for the process beside it, which is not confined: no link there leads anywhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lineage.replaying import copy_rows
from lineage_core.tracing.trace_result import TraceError
from lineage_dataframes.spark import class_archive

pytestmark = pytest.mark.security


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file outside of what Spark may read."""
    path = tmp_path.resolve() / "outside" / "secret"
    path.parent.mkdir()
    path.write_text("of somebody else")
    path.chmod(0o640)
    return path


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Rows of a replay."""
    path = tmp_path.resolve() / "scratch" / "rows"
    path.mkdir(parents=True)
    (path / "part-00000.csv").write_text("a\n1\n")
    return path


def test_rows_of_a_replay_are_copied(written: Path, tmp_path: Path) -> None:
    copy_rows(written, tmp_path / "to" / "again")
    assert (tmp_path / "to" / "again" / "part-00000.csv").read_text() == "a\n1\n"


@pytest.mark.parametrize("place", ["file", "link to a folder", "folder", "pipe", "rows", "above"])
def test_a_replay_copies_nothing_that_a_link_leads_to(
    place: str, written: Path, secret: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    match place:
        case "file":
            (written / "part-00001.csv").symlink_to(secret)
        case "link to a folder":
            (written / "part-00001.csv").symlink_to(secret.parent)
        case "folder":
            (written / "more").mkdir()
            (written / "more" / "part-00001.csv").symlink_to(secret)
        case "pipe":
            os.mkfifo(written / "part-00001.csv")
        case "rows":
            written.rename(written.with_name("moved"))
            written.symlink_to(secret.parent)
        case _:
            written.parent.rename(tmp_path / "moved")
            (secret.parent / "rows").mkdir()
            (secret.parent / "rows" / "part-00000.csv").write_text("of somebody else")
            written.parent.symlink_to(secret.parent)
    with pytest.raises(TraceError, match="is no file of Spark's"):
        copy_rows(written, to)
    assert not [file for file in to.rglob("*") if "somebody" in file.read_text()]


def test_a_file_in_the_new_folder_is_not_overwritten(
    written: Path, secret: Path, tmp_path: Path
) -> None:
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "part-00000.csv").symlink_to(secret)
    with pytest.raises(FileExistsError):
        copy_rows(written, tmp_path / "to")
    assert secret.read_text() == "of somebody else"


def test_no_link_becomes_the_archive_of_classes(
    secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, confined = tmp_path / "cache" / "a.jsa", tmp_path / "confined"
    file.parent.mkdir()
    confined.mkdir()
    monkeypatch.setattr(class_archive, "archive_file", lambda *, confined: file)
    (confined / f"{file.name}.{os.getpid()}").symlink_to(secret)
    class_archive.store_archive(confined)
    assert list(file.parent.iterdir()) == []
    assert secret.stat().st_mode & 0o777 == 0o640
    (confined / f"{file.name}.{os.getpid()}").write_text("classes")
    class_archive.store_archive(confined)
    assert file.read_text() == "classes"
