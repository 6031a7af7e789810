"""`scripts/node.sh`: the machine's Node.js where it fits, else one from the package index, else what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("chmod", "dirname", "ln", "rm", "sed", "sh")
"""Programs that the script calls; node is none of them."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the script, on a machine whose path has no Node.js."""
    (tmp_path / "scripts").mkdir()
    for name in ("node.sh", "node.lock.txt"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    (tmp_path / "bin").mkdir()
    for name in NEEDED:
        found = shutil.which(name)
        assert found is not None
        (tmp_path / "bin" / name).symlink_to(found)
    return tmp_path


def program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def node(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(checkout / "scripts" / "node.sh"), *words],
        env=os.environ | {"PATH": str(checkout / "bin")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_machines_own_is_taken_where_it_fits(checkout: Path) -> None:
    program(checkout / "bin" / "node", "exit 0")
    program(checkout / "bin" / "npm", "exit 0")
    assert node(checkout, "home").stdout == f"{checkout}/bin\n"
    assert node(checkout, "ensure").returncode == 0
    assert not (checkout / ".tools").exists()


@pytest.mark.parametrize("lacking", ["node", "npm"])
def test_without_one_it_says_what_to_do(checkout: Path, lacking: str) -> None:
    for name in ("node", "npm"):
        program(checkout / "bin" / name, "exit 1" if name == lacking else "exit 0")
    assert node(checkout, "home").returncode == 1
    refused = node(checkout, "ensure")
    assert refused.returncode == 1
    assert "The web page needs Node.js" in refused.stderr
    assert "put it on the path" in refused.stderr
    assert "`make page` installs one" in node(checkout, "exec", "npm", "--version").stderr


def test_one_is_installed_where_there_is_none(checkout: Path) -> None:
    pip = ROOT / ".tools" / "bin" / "python"
    program(checkout / ".tools" / "bin" / "python", f'exec "{pip}" "$@"')
    made = node(checkout, "ensure")
    assert made.returncode == 0, made.stderr
    said = node(checkout, "exec", "npm", "--version")
    assert said.returncode == 0, said.stderr
    assert int(said.stdout.split(".")[0]) >= 10
