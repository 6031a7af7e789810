"""Triples of a document of W3C PROV-JSON (https://www.w3.org/submissions/prov-json/).

``wasDerivedFrom`` gives a triple. ``used`` and ``wasGeneratedBy`` give one for each pair of an entity that an activity used and one that it
generated: a superset of what the generated one was derived from. They are left out where a derivation names the activity and the entity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lineage_store.errors import StoreError
from lineage_store.triples.json_reading import object_of, parsed, text_of

DOCUMENT_BYTES: Final = 256 << 20
"""A document is in memory as a whole, some ten times its size."""
DERIVED: Final = "http://www.w3.org/ns/prov#wasDerivedFrom"
KNOWN: Final[Mapping[str, str]] = {
    "prov": "http://www.w3.org/ns/prov#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}


@dataclass(slots=True)
class _Statements:
    """What a document says. ``derived``: triples, in order; ``explained``: entities and the activity a derivation of them names."""

    derived: list[tuple[str, str, str]] = field(default_factory=list)
    explained: set[tuple[str, str]] = field(default_factory=set)
    used: dict[str, dict[str, None]] = field(default_factory=dict)
    generated: dict[str, dict[str, None]] = field(default_factory=dict)


def prov_triples(path: Path) -> Iterator[tuple[str, str, str]]:
    """The triples of a document: source, destination and operation.

    Names are written with the namespace that their prefix stands for.

    Args:
        path: of the document.

    Raises:
        StoreError: it is too large, no PROV-JSON, or a statement lacks something.
        OSError: it can't be read.
    """
    with path.open("rb") as stream:
        text = stream.read(DOCUMENT_BYTES + 1)
    if len(text) > DOCUMENT_BYTES:
        raise StoreError(
            f"{path} has more than {DOCUMENT_BYTES >> 20} MiB; give it in several documents"
        )
    document = object_of(parsed(text, str(path)), str(path))
    statements = _Statements()
    _read_bundle(document, {}, statements, str(path))
    bundles = object_of(document.get("bundle", {}), f"{path}: bundle")
    prefixes = _prefixes(document, {}, str(path))
    for name, bundle in bundles.items():
        where = f"{path}: bundle {name!r:.80}"
        _read_bundle(object_of(bundle, where), prefixes, statements, where)
    yield from statements.derived
    for activity, sources in statements.used.items():
        for entity in statements.generated.get(activity, ()):
            if (entity, activity) not in statements.explained:
                for source in sources:
                    yield source, entity, activity


def _prefixes(bundle: Mapping[str, Any], outer: Mapping[str, str], where: str) -> dict[str, str]:
    given = object_of(bundle.get("prefix", {}), f"{where}: prefix")
    return {**KNOWN, **outer, **{name: text_of(given, name, f"{where}: prefix") for name in given}}


def _read_bundle(
    bundle: Mapping[str, Any], outer: Mapping[str, str], statements: _Statements, where: str
) -> None:
    prefixes = _prefixes(bundle, outer, where)

    def name(statement: object, key: str, at: str) -> str:
        return _expanded(text_of(statement, f"prov:{key}", at), prefixes, at)

    for statement, at in _statements(bundle, "wasDerivedFrom", where):
        generated = name(statement, "generatedEntity", at)
        operation = DERIVED
        if "prov:activity" in statement:
            operation = name(statement, "activity", at)
            statements.explained.add((generated, operation))
        statements.derived.append((name(statement, "usedEntity", at), generated, operation))
    for kind, of_activity in (("used", statements.used), ("wasGeneratedBy", statements.generated)):
        for statement, at in _statements(bundle, kind, where):
            # PROV lets both lack one: then they connect nothing.
            if "prov:activity" in statement and "prov:entity" in statement:
                entities = of_activity.setdefault(name(statement, "activity", at), {})
                entities[name(statement, "entity", at)] = None


def _statements(
    bundle: Mapping[str, Any], kind: str, where: str
) -> Iterator[tuple[dict[str, Any], str]]:
    """The statements of a kind, and how messages name them; those with one name are a list."""
    for name, given in object_of(bundle.get(kind, {}), f"{where}: {kind}").items():
        at = f"{where}: {kind} {name!r:.80}"
        for statement in given if isinstance(given, list) else [given]:
            yield object_of(statement, at), at


def _expanded(name: str, prefixes: Mapping[str, str], where: str) -> str:
    """A qualified name with its namespace, so that prefixes of two documents do not mix."""
    prefix, colon, local = name.partition(":")
    if not colon:
        prefix, local = "default", name
    if prefix in prefixes:
        return prefixes[prefix] + local
    if local.startswith("//"):
        return name
    if prefix == "_":
        raise StoreError(f"{where}: {name!r:.80} is no name outside of its document")
    raise StoreError(f"{where}: the prefix {prefix!r:.80} of {name!r:.80} is not declared")
