"""An image of others that is named by its tag alone is found, however a file names it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from scripts import base_images
from scripts.base_images import Image, images_of, wrong

ROOT = Path(__file__).resolve().parents[2]
DIGEST = "sha256:" + "0a" * 32
OTHER = "sha256:" + "0b" * 32

pytestmark = pytest.mark.security


def named(folder: Path, name: str, text: str) -> list[str]:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return [image.reference for image in images_of([file])]


def test_each_image_of_others_here_has_a_digest() -> None:
    images = list(images_of(base_images.with_images()))
    assert wrong(images) == []
    files = {image.file.relative_to(ROOT).as_posix() for image in images}
    assert files >= {
        "charts/lineage-master/values.yaml", "infra/compose/compose.yaml", "infra/images/spark/Dockerfile",
        "services/linker/Dockerfile", "services/query-api/Dockerfile", "services/writer/Dockerfile",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Dockerfile", "FROM evil:1"),
        ("Dockerfile", f"ARG BASE=evil:1\nFROM --platform=linux/amd64 $BASE AS a\nFROM python:3@{DIGEST}\n"),
        ("Dockerfile", "ARG BASE\nFROM ${BASE}"),
        ("Dockerfile", f"FROM python:3@{DIGEST}\nCOPY --chown=1:1 --from=evil:1 /bin /bin"),
        ("Dockerfile", f"FROM python:3@{DIGEST}\nRUN --mount=type=bind,from=evil:1,target=/x true"),
        ("Dockerfile", f"# syntax=evil/frontend:1\nFROM python:3@{DIGEST}"),
        ("Dockerfile", f"FROM python:3@{DIGEST[:-1]}"),
        ("Dockerfile", f"FROM python:3@{DIGEST} AS a\nFROM b"),
        ("compose.yaml", "services: {a: {image: 'evil:1'}}"),
        ("values.yaml", "a: [{image: {registry: '', repository: evil, tag: '1'}}]"),
        ("pods.yaml", "kind: A\n---\nspec: {containers: [{image: evil}]}"),
        ("templates/a.yaml", "spec:\n  {{ if true }}\n  - image: evil:1\n"),
    ],
)  # fmt: skip
def test_an_image_by_tag_alone_is_found(tmp_path: Path, name: str, text: str) -> None:
    found = wrong(Image(Path(name), one) for one in named(tmp_path, name, text))
    assert len(found) == 1
    assert "has no digest" in found[0]


def test_stages_and_images_of_ours_need_none(tmp_path: Path) -> None:
    text = f"FROM scratch AS a\nFROM python:3@{DIGEST} AS b\nFROM b\nCOPY --from=a / /\nCOPY --from=1 / /"
    assert named(tmp_path, "Dockerfile", text) == [f"python:3@{DIGEST}"]
    assert not named(tmp_path, "a.yaml", "image: lineage-master/spark:0.1.0")
    assert not named(tmp_path, "templates/b.yaml", "image: {{ .Values.image }}")


def test_one_tag_with_two_digests_is_found() -> None:
    twice = [Image(Path("a"), f"python:3@{DIGEST}"), Image(Path("b"), f"python:3@{OTHER}")]
    assert wrong(twice) == [f"b: python:3@{OTHER} has another digest elsewhere"]


def docker(folder: Path, script: str) -> dict[str, str]:
    program = folder / "docker"
    program.write_text("#!/bin/sh\n" + script, encoding="utf-8")
    program.chmod(0o700)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "repository"
    (root / "a").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", root], check=True)
    (root / "a/Dockerfile").write_text(f"FROM python:3@{DIGEST}\n", encoding="utf-8")
    (root / "README.md").write_text(f"As of {DIGEST}.\n", encoding="utf-8")
    monkeypatch.setattr(base_images, "ROOT", root)
    return root


def test_digests_are_renewed_wherever_they_stand(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = docker(tmp_path, f'[ "$6" = python:3 ] && echo {OTHER}')
    monkeypatch.setenv("PATH", given["PATH"])
    base_images.renew()
    assert (repository / "a/Dockerfile").read_text() == f"FROM python:3@{OTHER}\n"
    assert OTHER in (repository / "README.md").read_text()


@pytest.mark.parametrize("script", ["echo no such host >&2; exit 1", "echo latest"])
def test_nothing_is_written_while_a_registry_does_not_say(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setenv("PATH", docker(tmp_path, script)["PATH"])
    with pytest.raises(SystemExit, match=r"no such host|names no digest"):
        base_images.renew()
    assert (repository / "a/Dockerfile").read_text() == f"FROM python:3@{DIGEST}\n"


def test_what_has_no_registry_builds_from_the_same_tags(tmp_path: Path) -> None:
    program = tmp_path / "cluster"
    program.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    program.chmod(0o700)
    said = subprocess.run(
        ["scripts/images.sh", "build", "query-api"],
        cwd=ROOT, env={**os.environ, "CLUSTER_PROGRAM": str(program)}, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert (
        "--build-arg PYTHON_IMAGE=python:3.11-slim-bookworm --build-arg NODE_IMAGE=node:22-bookworm-slim"
        in said
    )
    given = docker(tmp_path, 'echo "$@"')
    given.pop("CLUSTER_PROGRAM", None)
    said = subprocess.run(
        ["scripts/images.sh", "build", "query-api"],
        cwd=ROOT, env=given | {"ENGINE": "docker"}, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert "build -t lineage-master/query-api:0.1.0 -f services/query-api/Dockerfile" in said
    assert "_IMAGE=" not in said
