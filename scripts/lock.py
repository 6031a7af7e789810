"""Write or check requirements.lock: universal, with hashes, free of addresses.

Needs nothing but the standard library and uv (the one under .tools), so it runs before any package is
installed. The members and their names are read from the workspace; nothing is listed twice.
"""

from __future__ import annotations

import argparse
import difflib
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
UV = ROOT / ".tools" / "bin" / "uv"
OLDEST_PYTHON = "3.11"

# Without comments `export` and `pip compile` write the same form, so the check compares bytes. (Pins that
# `keep` adds may also list the hashes of wheels for Pythons older than ours; the next `upgrade` drops them.)
BARE = ["--no-header", "--no-annotate"]


def workspace() -> dict[str, list[str]]:
    """The workspace's members (folders), their distribution names, and the dependency groups."""
    root = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    members: list[str] = root["tool"]["uv"]["workspace"]["members"]
    projects = [
        tomllib.loads((ROOT / m / "pyproject.toml").read_text(encoding="utf-8")) for m in members
    ]
    return {
        "members": members,
        "names": [project["project"]["name"] for project in projects],
        "groups": list(root["dependency-groups"]),
    }


def uv(*arguments: str) -> None:
    """Run uv in the root; its own message is the error message."""
    finished = subprocess.run([str(UV), *arguments], cwd=ROOT, check=False)
    if finished.returncode:
        sys.exit(finished.returncode)


def upgrade() -> None:
    """Resolve anew: the newest versions that fit."""
    uv("lock", "--quiet", "--upgrade")
    uv(
        "export", "--quiet", "--all-packages", "--all-groups", "--no-emit-workspace",
        "--format", "requirements-txt", *BARE, "--output-file", str(LOCK),
    )  # fmt: skip


def resolve(lock: Path) -> None:
    """Bring a lock in line with what the members require, keeping every pin that still fits."""
    found = workspace()
    uv(
        "pip", "compile", "--quiet", "--universal", "--python-version", OLDEST_PYTHON,
        "--generate-hashes", *BARE,
        *(f"--group=pyproject.toml:{group}" for group in found["groups"]),
        *(f"--no-emit-package={name}" for name in found["names"]),
        *(f"{member}/pyproject.toml" for member in found["members"]),
        "--output-file", str(lock),
    )  # fmt: skip


def check() -> None:
    """Exit with an error when the lock no longer fits the members, or holds an address."""
    locked = LOCK.read_text(encoding="utf-8")
    if "://" in locked:
        sys.exit("requirements.lock holds an address; make it again: make lock")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / LOCK.name
        copy.write_text(locked, encoding="utf-8")
        resolve(copy)
        wanted = copy.read_text(encoding="utf-8")
    if wanted != locked:
        changes = difflib.unified_diff(
            locked.splitlines(), wanted.splitlines(), LOCK.name, "wanted", n=0, lineterm=""
        )
        print("\n".join(changes))
        sys.exit("requirements.lock does not fit what the members require; renew it: make lock")


def main() -> None:
    """Do what the one argument says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["check", "keep", "upgrade", "members"])
    action: str = parser.parse_args().action
    if action == "check":
        check()
    elif action == "keep":
        resolve(LOCK)
    elif action == "upgrade":
        upgrade()
    else:
        print(*workspace()["members"])


if __name__ == "__main__":
    main()
