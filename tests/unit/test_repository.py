import tomllib
from importlib.metadata import distribution, entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
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
