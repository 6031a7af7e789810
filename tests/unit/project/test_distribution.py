"""The distribution that users install, against the members that it holds."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from lineage_core.environment.extras import EXTRAS

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[3]


def read(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


WHOLE = read(ROOT)
MEMBERS = [ROOT / member for member in WHOLE["tool"]["uv"]["workspace"]["members"]]
EXTRA: dict[str, list[str]] = WHOLE["project"]["optional-dependencies"]


def name_of(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement)[0]


def theirs(requirements: list[str]) -> set[str]:
    """Requirements but for those of our own members."""
    return {one for one in requirements if not name_of(one).startswith("lineage-")}


def test_it_holds_every_member() -> None:
    packed = {ROOT / one for one in WHOLE["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]}
    packages = {
        member / package
        for member in MEMBERS
        for package in read(member)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    }
    assert packed == packages


def test_it_requires_what_members_require() -> None:
    wanted: set[str] = set()
    for member in MEMBERS:
        project = read(member)["project"]
        wanted |= theirs(project["dependencies"])
        for extra, requirements in project.get("optional-dependencies", {}).items():
            # A server of Spark Connect is whose it is: nothing of ours needs its packages otherwise.
            wanted |= theirs(requirements) if extra != "connect" else set()
    assert theirs(WHOLE["project"]["dependencies"]) | theirs(EXTRA["all"]) == wanted


def test_all_is_the_sum_of_the_extras_and_none_names_the_distribution_itself() -> None:
    assert set(EXTRA["all"]) == {
        one for extra, listed in EXTRA.items() if extra != "all" for one in listed
    }
    assert not {one for listed in EXTRA.values() for one in listed} - theirs(EXTRA["all"])
    assert not set(WHOLE["project"]["dependencies"]) & set(EXTRA["all"])


@pytest.mark.parametrize("extra", EXTRAS)
def test_what_is_said_to_bring_a_module_does(extra: str) -> None:
    brought = {name_of(one).replace("-", "_") for one in EXTRA[extra]}
    known_as = {
        "pyjwt": "jwt",
        "openlineage_python": "openlineage",
        "faust_streaming": "faust",
        "pillow": "PIL",
    }
    named = {known_as.get(one, one) for one in brought}
    # What these bring in turn.
    in_turn = {"arro3", "py4j", "attr", "requests", "starlette", "anyio", "h11", "mode"}
    assert set(EXTRAS[extra]) - in_turn <= named
