"""Many files of one folder are spelled as each by itself, and its links are followed once."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from lineage_core.tracing.budget import Budget, TimeUpError, use_budget
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


def test_links_are_followed_as_the_system_follows_them(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "a" / "file").touch()
    for link, target in {
        "to": f"{tmp_path}/a/b", "one": "two", "two": "one", "a/gone": "no/x", "a/b/up": "../out",
        "a/out": "..", "self": "self",
    }.items():  # fmt: skip
        (tmp_path / link).symlink_to(target)
    names = [
        "a",
        "b",
        "c",
        "file",
        "to",
        "one",
        "two",
        "gone",
        "up",
        "out",
        "self",
        "x",
        "..",
        ".",
        "",
    ]
    chosen = random.Random(7)
    for _ in range(5_000):
        below = "/".join(chosen.choices(names, k=chosen.randrange(8)))
        path = f"{chosen.choice(['', '/'])}{tmp_path}/{below}"
        found = canonical(path)
        # Behind links that lead to each other is no file.
        if not {"one", "two", "self"} & set(path.split("/")):
            assert found == os.path.realpath(path), path


@pytest.mark.parametrize(("links", "is_followed"), [(40, True), (41, False)])
def test_as_many_links_are_followed_as_the_system_follows(
    links: int, is_followed: bool, tmp_path: Path
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/file").touch()
    (tmp_path / "deep/again").symlink_to(tmp_path / "deep")
    path = f"{tmp_path}/deep{'/again' * links}/file"
    assert os.path.exists(path) is is_followed
    assert (canonical(path) == f"{tmp_path.resolve()}/deep/file") is is_followed


def test_links_to_deep_folders_are_followed_within_the_time_of_the_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = f"{tmp_path}/{'d/' * 900}"
    os.makedirs(deep)
    (tmp_path / "again").symlink_to(deep)
    Path(deep, "again").symlink_to(deep)
    path = f"{tmp_path}{'/again' * 1_000}/x"
    with use_budget(Budget(seconds=0.0)), pytest.raises(TimeUpError):
        canonical(path)
    looked_at = list[str]()
    lstat = os.lstat

    def counted(name: str) -> os.stat_result:
        looked_at.append(name)
        return lstat(name)

    monkeypatch.setattr(os, "lstat", counted)
    canonical(path)
    assert len(looked_at) < 42 * 1_000


def test_nothing_is_looked_for_below_a_folder_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path that somebody recorded may have thousands of folders."""
    looked_at = list[str]()
    lstat = os.lstat

    def counted(path: str, *, dir_fd: int | None = None) -> os.stat_result:
        looked_at.append(path)
        return lstat(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "lstat", counted)
    deep = f"{tmp_path}/gone{'/a' * 1_000}"
    assert canonical(f"{deep}/./f") == f"{deep}/f"
    assert len(looked_at) <= len(tmp_path.parts) + 1
