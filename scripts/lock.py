"""Write or check requirements.lock: universal, with hashes, free of addresses.

Needs nothing but the standard library and uv (the one under .tools), so it runs before any package is
installed. The members and their names are read from the workspace; nothing is listed twice.
"""

from __future__ import annotations

import argparse
import difflib
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
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


def resolve(lock: Path, members: Sequence[str], groups: Sequence[str]) -> None:
    """Bring a lock in line with what members and groups require, keeping every pin that still fits."""
    uv(
        "pip", "compile", "--quiet", "--universal", "--python-version", OLDEST_PYTHON,
        "--generate-hashes", *BARE,
        *(f"--group=pyproject.toml:{group}" for group in groups),
        *(f"--no-emit-package={name}" for name in workspace()["names"]),
        *(f"{member}/pyproject.toml" for member in members),
        "--output-file", str(lock),
    )  # fmt: skip


def keep() -> None:
    """Bring the lock in line with the whole workspace."""
    resolve(LOCK, workspace()["members"], workspace()["groups"])


def check() -> None:
    """Exit with an error when the lock no longer fits the members, or holds an address."""
    locked = LOCK.read_text(encoding="utf-8")
    if "://" in locked:
        sys.exit("requirements.lock holds an address; make it again: make lock")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / LOCK.name
        copy.write_text(locked, encoding="utf-8")
        resolve(copy, workspace()["members"], workspace()["groups"])
        wanted = copy.read_text(encoding="utf-8")
    if wanted != locked:
        changes = difflib.unified_diff(
            locked.splitlines(), wanted.splitlines(), LOCK.name, "wanted", n=0, lineterm=""
        )
        print("\n".join(changes))
        sys.exit("requirements.lock does not fit what the members require; renew it: make lock")


def closure(member: str) -> list[str]:
    """A member and the members that it needs, in the workspace's order."""
    found = workspace()
    if member not in found["members"]:
        sys.exit(f"no member is called {member!r}; there are {', '.join(found['members'])}")
    folder_of = dict(zip(found["names"], found["members"], strict=True))
    needed: set[str] = set()
    waiting = [member]
    while waiting:
        folder = waiting.pop()
        needed.add(folder)
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))
        names = (re.split(r"[^A-Za-z0-9._-]", one)[0] for one in project["project"]["dependencies"])
        waiting += {folder_of[name] for name in names if name in folder_of} - needed
    return [folder for folder in found["members"] if folder in needed]


def subset(member: str, groups: Sequence[str]) -> None:
    """Print the part of the lock that one member and some groups need; an image installs no more.

    Exits with an error when the lock lacks something: an image holds what was tested, or is not built.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / LOCK.name
        copy.write_text(LOCK.read_text(encoding="utf-8"), encoding="utf-8")
        resolve(copy, closure(member), groups)
        part = copy.read_text(encoding="utf-8")
    strange = sorted(_pins(part) - _pins(LOCK.read_text(encoding="utf-8")))
    if strange:
        sys.exit(f"requirements.lock lacks {', '.join(strange)}; renew it: make lock")
    print(part, end="")


def _pins(lock: str) -> set[str]:
    """Name and version of each package, and each hash."""
    return set(re.findall(r"^[^\s#-]\S*==\S+|--hash=\S+", lock, re.MULTILINE))


def main() -> None:
    """Do what the words say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["check", "keep", "upgrade", "members", "subset"])
    parser.add_argument(
        "member",
        nargs="?",
        help="folder of one member: subset prints its part of the lock, members what it needs",
    )
    parser.add_argument("groups", nargs="*", help="of pyproject.toml, besides the member")
    given = parser.parse_args()
    action: str = given.action
    if action == "subset" and not given.member:
        parser.error("subset needs a member, for example services/linker")
    if action == "check":
        check()
    elif action == "keep":
        keep()
    elif action == "upgrade":
        upgrade()
    elif action == "subset":
        subset(given.member, given.groups)
    else:
        print(*(closure(given.member) if given.member else workspace()["members"]))


if __name__ == "__main__":
    main()
