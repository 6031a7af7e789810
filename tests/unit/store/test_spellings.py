"""Many files of one folder are spelled as each by itself, and its links are followed once."""

from __future__ import annotations

from pathlib import Path

import pytest

from lineage_store import paths
from lineage_store.paths import Spellings, canonical

pytestmark = pytest.mark.unit


def test_spellings_are_the_canonical_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, other = tmp_path / "folder", tmp_path / "other"
    folder.mkdir()
    (folder / "a%20b").touch()
    (folder / "c d").touch()
    (folder / "file").symlink_to(folder / "c d")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "gone").symlink_to(folder / "nothing")
    other.symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    spelled = [
        *(f"{other}/{name}" for name in ("a%20b", "c%20d", "c d", "file", "loop", "gone", "new")),
        *(f"file:{other}//c d", f"file://{other}/c d", f"{other}/", f"{other}/..", f"{other}/../x"),
        *("other/file", "/", "//x", "/x", f"{other}/loop/x", f"{other}/file/x", "s3a://b//c/d"),
    ]
    spellings = Spellings()
    assert [spellings.of(one) for one in spelled] == [canonical(one) for one in spelled]


def test_a_folder_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    followed = list[str]()

    def counted(path: str) -> str:
        followed.append(path)
        return canonical(path)

    monkeypatch.setattr(paths, "canonical", counted)
    spellings = Spellings()
    for part in range(100):
        assert spellings.of(f"{tmp_path}/part-{part}") == str(tmp_path.resolve() / f"part-{part}")
    assert followed == [str(tmp_path)]
