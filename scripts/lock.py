"""Write or check requirements.lock: universal, with hashes, free of addresses.

requirements-spark35.lock holds the pins that stand in the place of others where Spark is 3.5.

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
SPARK_35 = ROOT / "requirements-spark35.lock"
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
    SPARK_35.write_text(wanted_35(LOCK.read_text(encoding="utf-8")), encoding="utf-8")


def resolve(lock: Path, members: Sequence[str], groups: Sequence[str], *more: str) -> None:
    """Bring a lock in line with what members and groups require, keeping every pin that still fits.

    ``more``: further words for ``uv pip compile``.
    """
    uv(
        "pip", "compile", "--quiet", "--universal", "--python-version", OLDEST_PYTHON,
        "--generate-hashes", *BARE,
        *(f"--group=pyproject.toml:{group}" for group in groups),
        *(f"--no-emit-package={name}" for name in workspace()["names"]),
        *(f"{member}/pyproject.toml" for member in members), *more,
        "--output-file", str(lock),
    )  # fmt: skip


def keep() -> None:
    """Bring the locks in line with the whole workspace."""
    resolve(LOCK, workspace()["members"], workspace()["groups"])
    SPARK_35.write_text(wanted_35(with_spark_35()), encoding="utf-8")


def with_spark_35() -> str:
    """The lock where Spark is 3.5."""
    pins = _by_package(LOCK) | (_by_package(SPARK_35) if SPARK_35.exists() else {})
    return "".join(pins[name] for name in sorted(pins))


def wanted_35(locked: str) -> str:
    """The pins that differ from the lock's where Spark is 3.5; those of ``locked`` are kept that still fit."""
    with tempfile.TemporaryDirectory() as folder:
        copy, bound = Path(folder) / LOCK.name, Path(folder) / "spark35.txt"
        copy.write_text(locked, encoding="utf-8")
        bound.write_text("pyspark<3.6", encoding="utf-8")
        members = workspace()
        resolve(copy, members["members"], members["groups"], "--constraints", str(bound))
        pins_35, usual = _by_package(copy), _by_package(LOCK)
    return "".join(pins for name, pins in pins_35.items() if pins != usual.get(name))


def check() -> None:
    """Exit with an error when a lock no longer fits the members, or holds an address."""
    locked = LOCK.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / LOCK.name
        copy.write_text(locked, encoding="utf-8")
        resolve(copy, workspace()["members"], workspace()["groups"])
        expected = copy.read_text(encoding="utf-8")
    _compare(LOCK, expected)
    _compare(SPARK_35, wanted_35(with_spark_35()))


def _compare(lock: Path, expected: str) -> None:
    """Exit with an error when a lock is not what is wanted, or holds an address."""
    locked = lock.read_text(encoding="utf-8")
    if "://" in locked:
        sys.exit(f"{lock.name} holds an address; make it again: make lock")
    if expected != locked:
        changes = difflib.unified_diff(
            locked.splitlines(), expected.splitlines(), lock.name, "wanted", n=0, lineterm=""
        )
        print("\n".join(changes))
        sys.exit(f"{lock.name} does not fit what the members require; renew it: make lock")


def closure(member: str) -> list[str]:
    """A member and the members that it needs, in the workspace's order."""
    members = workspace()
    if member not in members["members"]:
        sys.exit(f"no member is called {member!r}; there are {', '.join(members['members'])}")
    folder_of = dict(zip(members["names"], members["members"], strict=True))
    needed: set[str] = set()
    waiting = [member]
    while waiting:
        folder = waiting.pop()
        needed.add(folder)
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))
        names = (
            re.split(r"[^A-Za-z0-9._-]", requirement)[0]
            for requirement in project["project"]["dependencies"]
        )
        waiting += {folder_of[name] for name in names if name in folder_of} - needed
    return [folder for folder in members["members"] if folder in needed]


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


def _by_package(lock: Path) -> dict[str, str]:
    """The lock's text in parts: for each package its pins, of several Pythons there may be several."""
    parts: dict[str, str] = {}
    for part in re.split(r"(?m)^(?=\S)", lock.read_text(encoding="utf-8")):
        name = part.partition("==")[0]
        parts[name] = parts.get(name, "") + part
    parts.pop("", None)
    return parts


def _pins(lock: str) -> set[str]:
    """Name and version of each package, and each hash."""
    return set(re.findall(r"^[^\s#-]\S*==\S+|--hash=\S+", lock, re.MULTILINE))


def main() -> None:
    """Do what the words say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "action", choices=["check", "keep", "upgrade", "members", "subset", "spark35"]
    )
    parser.add_argument(
        "member",
        nargs="?",
        help="folder of one member: subset prints its part of the lock, members what it needs",
    )
    parser.add_argument("groups", nargs="*", help="of pyproject.toml, besides the member")
    options = parser.parse_args()
    action: str = options.action
    if action == "subset" and not options.member:
        parser.error("subset needs a member, for example services/linker")
    if action == "check":
        check()
    elif action == "keep":
        keep()
    elif action == "upgrade":
        upgrade()
    elif action == "spark35":
        print(with_spark_35(), end="")
    elif action == "subset":
        subset(options.member, options.groups)
    else:
        print(*(closure(options.member) if options.member else workspace()["members"]))


if __name__ == "__main__":
    main()
