"""What stands in Python 3.10 for what newer ones have gives what they give."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from lineage_core.contract.iso_times import iso_time, written_out
from lineage_core.environment import module_programs
from lineage_core.recipe.imported import distributions_by_files
from lineage_core.text_enum import StrEnum

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-26",
        "2026-11-26T04:10",
        "2026-11-26 04:10:00",
        "2026-11-26T04:10:00Z",
        "2026-11-26T04:10:00.2Z",
        "2026-11-26T04:10:00.25+02:00",
        "2026-11-26T04:10:00.250001-05:30",
        "2026-11-26 04:10:00.1234",
    ],
)
def test_times_written_out_are_the_same_times(text: str) -> None:
    plain = written_out(text)
    assert iso_time(plain) == iso_time(text) == datetime.fromisoformat(plain)
    assert not plain.endswith("Z")
    assert "." not in plain or len(plain.partition(".")[2]) >= 6


def test_no_time_is_refused() -> None:
    for text in ("yesterday", "2026-13-26T04:10:00Z", "Z", ""):
        with pytest.raises(ValueError, match=r"."):
            iso_time(text)


class Side(StrEnum):
    LEFT = "left"


def test_members_are_their_texts() -> None:
    assert (f"{Side.LEFT}", str(Side.LEFT), Side.LEFT.value) == ("left", "left", "left")
    assert Side("left") is Side.LEFT


def test_files_tell_of_distributions_what_python_tells() -> None:
    told = {name: set(owners) for name, owners in distributions_by_files().items()}
    known = importlib.metadata.packages_distributions()
    for name in ("pandas", "numpy", "pyarrow", "pytest", "pydantic"):
        assert told[name] == set(known[name])


PROGRAM = """
import json, sys
from lineage_core.environment.module_programs import has_safe_path
print(json.dumps([sys.argv[1:], __name__, has_safe_path(), "HERE" in dir(json)]))
"""


@pytest.mark.parametrize("older", [False, True])
def test_a_module_is_run_without_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, older: bool
) -> None:
    """By the words of Python 3.10 in this one, too."""
    packages, here = tmp_path / "packages", tmp_path / "here"
    packages.mkdir()
    here.mkdir()
    (packages / "a_program.py").write_text(PROGRAM, encoding="ascii")
    for name in ("json", "runpy", "a_program"):
        (here / f"{name}.py").write_text("HERE = print('RUN FROM HERE')\n", encoding="ascii")
    if older:
        monkeypatch.setattr(module_programs, "_HAS_OPTION", False)
    command = module_programs.module_command("a_program", "a b", "-c")
    monkeypatch.setenv("PYTHONPATH", f"{packages}:{':'.join(filter(None, sys.path))}")
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    assert done.stdout == f'[["a b", "-c"], "__main__", {str(not older).lower()}, false]\n'
