"""Triples of events of OpenLineage, one a line: which fields of datasets a job computed from which.

They are those of the facet ``columnLineage`` of outputs (https://openlineage.io/docs/spec/facets/dataset-facets/column_lineage_facet). What the facet
says of the dataset (joins, filters, order) goes into each of its fields. An item is namespace, name and field with blanks between.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from lineage_store.errors import StoreError
from lineage_store.triples.json_reading import list_of, object_of, parsed, text_of, whole_text

EVENT_BYTES: Final = 16 << 20
FACET: Final = "columnLineage"


def openlineage_triples(path: Path) -> Iterator[tuple[str, str, str]]:
    """The triples of a file of events: source, destination, and the job.

    Args:
        path: of the file.

    Raises:
        StoreError: a line is too long, or is no event of a job.
        OSError: it can't be read.
    """
    with path.open("rb") as stream:
        number = 0
        while line := stream.readline(EVENT_BYTES + 1):
            number += 1
            where = f"{path}: line {number:,}"
            if len(line) > EVENT_BYTES:
                raise StoreError(f"{where} has more than {EVENT_BYTES >> 20} MiB")
            if line.strip():
                yield from _of_event(
                    object_of(parsed(line.rstrip(), str(path), number), where), where
                )


def _of_event(event: dict[str, Any], where: str) -> Iterator[tuple[str, str, str]]:
    if "job" not in event:
        raise StoreError(f"{where} is no event of OpenLineage with a job")
    job = _named(event["job"], where, "job")
    for output in list_of(event.get("outputs"), f"{where}: outputs"):
        dataset = _named(output, where, "an output")
        facets = object_of(output.get("facets") or {}, f"{where}: facets")
        facet = facets.get(FACET)
        if facet is None:
            continue
        at = f"{where}: {FACET}"
        fields = object_of(object_of(facet, at).get("fields", {}), f"{at}: fields")
        for field, lineage in fields.items():
            inputs = object_of(lineage, f"{at}: {field!r:.80}").get("inputFields")
            for source in list_of(inputs, f"{at}: inputFields"):
                yield _field(source, at), f"{dataset} {_part(field, at)}", job
        # The schema has fields that were computed of nothing, but of rows that were chosen.
        known = dict.fromkeys([*fields, *_schema_fields(facets, where)])
        for source in list_of(facet.get("dataset"), f"{at}: dataset"):
            item = _field(source, at)
            if not known:
                raise StoreError(f"{at}: no field of {dataset!r:.80} is named")
            for field in known:
                yield item, f"{dataset} {_part(field, at)}", job


def _schema_fields(facets: dict[str, Any], where: str) -> list[str]:
    schema = object_of(facets.get("schema") or {}, f"{where}: schema")
    fields = list_of(schema.get("fields"), f"{where}: schema")
    return [text_of(field, "name", f"{where}: schema") for field in fields]


def _field(source: object, where: str) -> str:
    return (
        f"{_named(source, where, 'an input field')} {_part(text_of(source, 'field', where), where)}"
    )


def _named(value: object, where: str, what: str) -> str:
    at = f"{where}: {what}"
    return " ".join(_part(text_of(value, key, at), at) for key in ("namespace", "name"))


def _part(text: str, where: str) -> str:
    """A part of a name that has no blank, so that no two names are written alike."""
    if not text:
        raise StoreError(f"{where}: a field has no name")
    return whole_text(text, where).replace("%", "%25").replace(" ", "%20")
