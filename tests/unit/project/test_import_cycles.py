"""The check of circles among imports finds what it says it finds."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CONFIG = ROOT / "scripts/import_cycles.toml"
PACKAGES = sorted(
    folder.name
    for member in ("cli/src", "libs/*/src", "services/*/src")
    for source in ROOT.glob(member)
    for folder in source.iterdir()
    if (folder / "__init__.py").exists()
)

pytestmark = pytest.mark.unit


def check(folder: Path, modules: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The check, of a package ``sample`` of these modules alone."""
    for name, text in {"__init__.py": "", **modules}.items():
        file = folder / "sample" / name
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(text)
    names = "\n".join(f'    "{name}",' for name in PACKAGES)
    config = CONFIG.read_text().replace(names, '    "sample",')
    assert config.count('"sample"') == 2
    (folder / "cycles.toml").write_text(config)
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    words = ("--no-logo", "--no-cache", "--config", "cycles.toml")
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=folder,
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_circle_that_an_import_within_a_function_closes_is_found(tmp_path: Path) -> None:
    inner = "def function():\n    from sample import first\n"
    done = check(tmp_path, {"first.py": "import sample.second\n", "second.py": inner})
    assert done.returncode == 1, done.stderr
    assert "No cycles are allowed in sample" in done.stdout


def test_a_circle_through_a_package_beside_is_found(tmp_path: Path) -> None:
    modules = {
        "first.py": "import sample.room.one\n",
        "room/__init__.py": "",
        "room/one.py": "",
        "room/two.py": "import sample.first\n",
    }
    (tmp_path / "sample/room").mkdir(parents=True)
    done = check(tmp_path, modules)
    assert done.returncode == 1, done.stderr
    assert "No cycles are allowed in sample" in done.stdout


def test_imports_for_types_alone_close_none(tmp_path: Path) -> None:
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import sample.first\n"
    done = check(tmp_path, {"first.py": "import sample.second\n", "second.py": typed})
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_package_is_checked_and_nothing_is_left_out() -> None:
    told = tomllib.loads(CONFIG.read_text())["tool"]["importlinter"]
    (contract,) = told["contracts"]
    assert told["root_packages"] == contract["ancestors"] == PACKAGES
    assert contract.keys() == {"name", "type", "ancestors"}
