"""Check or renew the digests of the images of others that ours are built from and run beside.

    base_images.py check     each image of others in Dockerfiles, compose and chart has a digest, the same everywhere
    base_images.py renew     the digests that the registries have for those tags now; asks by `docker buildx`

A tag may name something else tomorrow, a digest names the same bytes for ever.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parent.parent
OURS = re.compile(r"lineage-master/|lineage-query-api$")
"""Built here."""
_PINNED = re.compile(r"(?P<name>[a-z0-9][\w./:-]*)@(?P<digest>sha256:[0-9a-f]{64})")
_ARGUMENT = re.compile(r"^ARG\s+(\w+)=(\S+)", re.MULTILINE)
_STAGE = re.compile(r"^FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.MULTILINE | re.IGNORECASE)
_TAKEN_FROM = re.compile(
    r"(?:^COPY\s+(?:--\S+\s+)*?--|,)from=([^\s,]+)", re.MULTILINE | re.IGNORECASE
)
_FRONTEND = re.compile(r"^#\s*syntax\s*=\s*(\S+)", re.MULTILINE | re.IGNORECASE)
_IN_TEMPLATE = re.compile(r"^\s*(?:- )?image:\s*(\S.*?)\s*$", re.MULTILINE)


class Image(NamedTuple):
    """An image that a file names, as it names it."""

    file: Path
    reference: str


def images_of(files: Iterable[Path]) -> Iterator[Image]:
    """The images of others in Dockerfiles and in YAML files."""
    for file in files:
        text = file.read_text(encoding="utf-8")
        if file.name.startswith("Dockerfile"):
            names = _of_dockerfile(text)
        elif "templates" in file.parts:
            # What it takes from the values is found there.
            names = (image for image in _IN_TEMPLATE.findall(text) if not image.startswith("{{"))
        else:
            names = (image for document in yaml.safe_load_all(text) for image in _of_yaml(document))
        yield from (Image(file, image) for image in names if not OURS.match(image))


def _of_dockerfile(text: str) -> Iterator[str]:
    arguments = dict(_ARGUMENT.findall(text))
    stages = {"scratch"}
    yield from _FRONTEND.findall(text)
    for image, name in _STAGE.findall(text):
        if image not in stages:
            yield re.sub(r"\$\{?(\w+)\}?", lambda match: arguments.get(match[1], match[0]), image)
        stages.add(name)
    # Stages by number are those of the file.
    yield from (
        image
        for image in _TAKEN_FROM.findall(text)
        if image not in stages and not image.isdecimal()
    )


def _of_yaml(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for part in value:
            yield from _of_yaml(part)
    elif isinstance(value, dict):
        image = value.get("image")
        if isinstance(image, str):
            yield image
        elif isinstance(image, dict) and image.get("repository"):
            yield f"{image['repository']}:{image.get('tag', '')}"
        for name, part in value.items():
            if name != "image":
                yield from _of_yaml(part)


def wrong(images: Iterable[Image]) -> list[str]:
    """What is wrong with images: those without a digest, and tags that have two."""
    problems: list[str] = []
    digests: dict[str, str] = {}
    for file, reference in images:
        pinned = _PINNED.fullmatch(reference)
        if pinned is None:
            problems.append(f"{file}: {reference} has no digest: name it as NAME:TAG@sha256:...")
        elif digests.setdefault(pinned["name"], pinned["digest"]) != pinned["digest"]:
            problems.append(f"{file}: {reference} has another digest elsewhere")
    return problems


def tracked(*patterns: str) -> list[Path]:
    """Files of the repository."""
    output = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return [
        ROOT / path for path in sorted(set(output.split("\0"))) if path and (ROOT / path).is_file()
    ]


def with_images() -> list[Path]:
    """The files that name images; what the chart's own tests make up is none that runs."""
    files = tracked("*Dockerfile*", "*.yaml", "*.yml", "*.tpl")
    return [file for file in files if not file.is_relative_to(ROOT / "charts/lineage-master/tests")]


def renewed(images: Iterable[Image]) -> dict[str, str]:
    """For each digest the one that its tag has now.

    Raises:
        CalledProcessError: a registry does not answer, or does not have the tag.
    """
    digests = {}
    for pinned in {
        match[0]: match for _, name in images if (match := _PINNED.fullmatch(name))
    }.values():
        now = subprocess.run(
            ["docker", "buildx", "imagetools", "inspect", "--format", "{{.Manifest.Digest}}", pinned["name"]],
            check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip
        if not re.fullmatch(r"sha256:[0-9a-f]{64}", now):
            sys.exit(f"base_images: {pinned['name']}: docker names no digest but {now[:80]!r}")
        digests[pinned["digest"]] = now
    return digests


def renew() -> None:
    """Write the digests of now over those of then: also into tests and texts that repeat them."""
    try:
        digests = renewed(images_of(with_images()))
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or error
        sys.exit(f"base_images: nothing is changed, a registry can't be asked: {reason}")
    for file in tracked("*Dockerfile*", "*.yaml", "*.yml", "*.md"):
        before = file.read_bytes()
        after = before
        for then, now in digests.items():
            after = after.replace(then.encode(), now.encode())
        if after != before:
            file.write_bytes(after)
            print(file.relative_to(ROOT))


def main() -> None:
    """Do what the words say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["check", "renew"])
    if parser.parse_args().action == "renew":
        renew()
    elif problems := wrong(images_of(with_images())):
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
