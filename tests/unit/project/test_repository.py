import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from functools import partial
from importlib.metadata import distribution, entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MEMBERS: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "uv"
]["workspace"]["members"]

pytestmark = pytest.mark.unit


def test_every_folder_with_a_project_file_is_a_member() -> None:
    project_files = {
        *ROOT.glob("libs/*/pyproject.toml"),
        *ROOT.glob("services/*/pyproject.toml"),
        ROOT / "cli" / "pyproject.toml",
    }
    assert {file.parent.relative_to(ROOT).as_posix() for file in project_files} == set(MEMBERS)


@pytest.mark.parametrize("member", MEMBERS)
def test_member_is_installed_and_ships_its_types(member: str) -> None:
    project = tomllib.loads((ROOT / member / "pyproject.toml").read_text(encoding="utf-8"))
    assert distribution(project["project"]["name"]).version == project["project"]["version"]
    packages: list[str] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert [
        package for package in packages if not (ROOT / member / package / "py.typed").exists()
    ] == []


def test_lineage_is_a_command() -> None:
    (command,) = entry_points(group="console_scripts", name="lineage")
    assert command.value == "lineage.main:app"


def test_lock_holds_hashes_and_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in lock
    pins = [line for line in lock.splitlines() if line and not line.startswith((" ", "#"))]
    assert pins
    assert [pin for pin in pins if not pin.endswith("\\")] == []


INSTALLERS = re.compile(r"\b(?:pip3?|uv|uvx|pipx|poetry|pdm|conda|mamba|hatch)\b[^\n|;&]*")
INSTALLING = re.compile(r"\b(?:install|add|run|tool|uvx|inject|require)\b")
TEXTS = (
    "*.md",
    "*.py",
    "*.sh",
    "*.txt",
    "*.html",
    "*.tpl",
    "*.yaml",
    "*.yml",
    "*.tsx",
    "*.ts",
    "Makefile",
    "*Dockerfile",
)


def told_to_install(text: str, names: Iterable[str]) -> list[str]:
    """Commands in a text that have an installer look for one of the distributions where it finds packages."""
    one = "|".join(re.escape(name).replace("\\-", "[-_.]") for name in names)
    # What stands below a folder is installed from there.
    of_ours = re.compile(rf"(?<![\w./-])(?:{one})(?![\w/-])", re.IGNORECASE)
    found = [match[0] for match in INSTALLERS.finditer(text)]
    return [command for command in found if INSTALLING.search(command) and of_ours.search(command)]


def test_nobody_is_told_to_install_our_names_from_a_registry() -> None:
    """They are not there: whoever takes such a name could give people anything."""
    names = {
        tomllib.loads(file.read_text(encoding="utf-8"))["project"]["name"]
        for file in (ROOT / "pyproject.toml", *(ROOT / one / "pyproject.toml" for one in MEMBERS))
    }
    assert {"lineage", "lineage-master", "lineage-dataframes"} <= names
    for wrong in (
        "`pip install 'lineage-dataframes[connect]'`", "uv add lineage", "pipx install lineage_master>=1", "uvx lineage back",
        "uv pip install -U pyarrow lineage-store", "python -m pip install \\\n  lineage",
    ):  # fmt: skip
        assert told_to_install(joined(wrong), names), wrong
    for right in (
        "pip install --no-deps ./libs/core ./cli",
        "uv run pytest",
        "pip install pyarrow; lineage ui",
    ):
        assert not told_to_install(joined(right), names), right
    files = list(texts_below(ROOT))
    assert len(files) > 100
    told = {
        str(file.relative_to(ROOT)): commands
        for file in files
        if file != Path(__file__)
        and (commands := told_to_install(joined(file.read_text("utf-8")), names))
    }
    assert not told


def texts_below(folder: Path) -> Iterator[Path]:
    """The files that people read, and those that hold what they are told."""
    for home, folders, names in os.walk(folder):
        folders[:] = [
            one for one in folders if one[0] != "." and one not in {"node_modules", "static"}
        ]
        yield from (Path(home, name) for name in names if any(map(partial(fnmatch, name), TEXTS)))


def joined(text: str) -> str:
    """A text whose commands stand in one line each."""
    return re.sub(r"\\\s*\n", " ", text)
