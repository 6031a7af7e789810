"""What the images are made from. That they run is seen on a cluster: tests/kube."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import lock

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILES = [
    *ROOT.glob("services/*/Dockerfile"),
    *ROOT.glob("infra/images/*/Dockerfile"),
]

pytestmark = pytest.mark.unit


def test_the_part_of_a_member_is_what_it_needs_and_nothing_of_its_siblings() -> None:
    assert lock.closure("libs/core") == ["libs/core"]
    assert lock.closure("services/writer") == [
        "libs/core",
        "libs/kafka",
        "libs/openlineage",
        "libs/service",
        "libs/store",
        "services/writer",
    ]
    # By way of another member, and with extras in the requirement.
    assert {"libs/store", "services/emitter"} < set(lock.closure("cli"))


def test_a_part_that_the_lock_does_not_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    locked = "known==1.0 \\\n    --hash=sha256:aa\nmoved==1.0 \\\n    --hash=sha256:bb\n"
    monkeypatch.setattr(lock, "LOCK", tmp_path / "requirements.lock")
    lock.LOCK.write_text(locked, encoding="utf-8")

    def resolved(copy: Path, members: list[str], groups: list[str]) -> None:
        found = locked.split("moved", maxsplit=1)[0] + moved
        copy.write_text(found, encoding="utf-8")

    monkeypatch.setattr(lock, "resolve", resolved)
    moved = ""
    lock.subset("services/linker", [])
    assert capsys.readouterr().out == "known==1.0 \\\n    --hash=sha256:aa\n"
    moved = "moved==2.0 \\\n    --hash=sha256:cc\n"
    with pytest.raises(SystemExit, match=r"lacks --hash=sha256:cc, moved==2\.0"):
        lock.subset("services/linker", [])
    assert capsys.readouterr().out == ""


def test_there_is_an_image_of_each_service_that_runs_by_itself() -> None:
    named = {file.parent.name for file in DOCKERFILES}
    runs = {file.parents[2].name for file in ROOT.glob("services/*/src/*/__main__.py")}
    # The emitter runs inside Spark.
    assert named == runs | {"spark"}


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.parent.name)
def test_an_image_is_no_users_root_and_has_no_compiler(file: Path) -> None:
    final = file.read_text(encoding="utf-8").rsplit("\nFROM ", 1)[1]
    assert re.findall(r"^USER (.*)$", final, re.MULTILINE) == ["10001:10001"]
    assert "org.opencontainers.image.revision" in final
    assert re.search(r"\b(gcc|g\+\+|build-essential|pip|uv|npm)\b", final) is None


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.parent.name)
def test_what_an_image_copies_is_in_its_context(file: Path) -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    sent = [ROOT / line[1:] for line in ignored if line.startswith("!")]
    copied = [
        ROOT / source
        for words in re.findall(r"^COPY (?!--from)(.*)$", file.read_text("utf-8"), re.MULTILINE)
        for source in words.split()[:-1]
    ]
    assert copied
    for path in copied:
        assert path.exists(), path
        assert any(path.is_relative_to(one) for one in sent), f"{path} is not sent to the builder"
