"""Packages of the query API hold the web page; without it nothing is packed, and `lineage ui` says so."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lineage.main import app
from lineage_query_api import page

pytestmark = pytest.mark.integration

MEMBER = Path(__file__).resolve().parents[2] / "services" / "query-api"
BUILD = "import sys; from hatchling import build; print(getattr(build, sys.argv[1])('dist'))"


@pytest.fixture
def member(tmp_path: Path) -> Path:
    """The query API as a checkout has it before the page is built."""
    copy = tmp_path / "query-api"
    ignored = shutil.ignore_patterns("static", "node_modules", "__pycache__", "out")
    shutil.copytree(MEMBER, copy, ignore=ignored)
    (copy / "dist").mkdir()
    return copy


def build(member: Path, what: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BUILD, what], cwd=member, capture_output=True, text=True, check=False
    )


def test_packages_hold_the_page(member: Path) -> None:
    static = member / "src" / "lineage_query_api" / "web" / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text("<html>")
    (static / "assets" / "index-1.js").write_text("go()")
    built = build(member, "build_wheel")
    assert built.returncode == 0, built.stderr
    with zipfile.ZipFile(member / "dist" / built.stdout.strip()) as wheel:
        assert wheel.read("lineage_query_api/web/static/assets/index-1.js") == b"go()"
        assert "lineage_query_api/web/static/index.html" in wheel.namelist()
    built = build(member, "build_sdist")
    assert built.returncode == 0, built.stderr
    with tarfile.open(member / "dist" / built.stdout.strip()) as source:
        names = [name.partition("/")[2] for name in source.getnames()]
    assert "src/lineage_query_api/web/static/index.html" in names
    assert not [name for name in names if name.startswith("web/")]


@pytest.mark.parametrize("what", ["build_wheel", "build_sdist"])
def test_without_the_page_nothing_is_packed(member: Path, what: str) -> None:
    built = build(member, what)
    assert built.returncode != 0
    assert "build the web page first (`make page`" in built.stderr
    assert not list((member / "dist").iterdir())


def test_a_checkout_is_installed_before_the_page_is_built(member: Path) -> None:
    built = build(member, "build_editable")
    assert built.returncode == 0, built.stderr


def test_the_page_is_asked_for_before_anything_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "FOLDER", tmp_path)
    asked = CliRunner().invoke(app, ["ui", "--store", f"sqlite:///{tmp_path}/lineage.db"])
    assert asked.exit_code == 2
    assert asked.stderr.startswith("lineage: the web page is not built: run `make page`")
