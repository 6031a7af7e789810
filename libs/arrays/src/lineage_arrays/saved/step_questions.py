"""Steps of a trace through several recordings, each answered by plain values in a confined process.

Sets of cells are runs of positions: the bytes of their first and of their last positions, as unsigned numbers of 64 bits.
"""

from __future__ import annotations

import math
from typing import IO, Any

import numpy as np

from lineage_arrays.cells import Cells, Shape
from lineage_arrays.claims import TraceClaims
from lineage_arrays.errors import ArrayLineageError, RecordingError
from lineage_arrays.saved.address import parse_address
from lineage_arrays.saved.plain_values import rows_plain
from lineage_arrays.saved.questions import (
    NAME_MAX,
    Parts,
    check_names,
    described,
    distinct,
    ids_of,
    refusing,
)
from lineage_arrays.saved.reading import StoredRecording, recording_of_parts
from lineage_core.contract.region import Region

NAMED_MAX = 10_000
"""Named arrays of a recording, at most: programs store no more."""
RUNS_MAX = 1_000_000
"""Runs of positions of one answer, at most."""
Runs = tuple[bytes, bytes]


@refusing
def list_whole_names(_: IO[bytes], app: str, parts: Parts) -> dict[str, Any]:
    """All named arrays of a recording, with the numbers of their nodes and whole names: links between files are made of these."""
    recording = recording_of_parts(app, parts)
    check_names(recording)
    named = ids_of(recording)
    if len(named) > NAMED_MAX:
        raise RecordingError(f"{app} has {len(named):,} named arrays, more than {NAMED_MAX:,}")
    for one in named.values():
        texts = [one.name] if one.file is None else [one.name, one.file.path, one.file.member]
        if any(len(text) > NAME_MAX for text in texts):
            raise RecordingError(f"{app} has a name of more than {NAME_MAX:,} characters")
    return {
        "arrays": [
            described(key, one) | {"number": one.node.number, "rows": rows_plain(one.rows)}
            for key, one in named.items()
        ]
    }


@refusing
def cells_at(_: IO[bytes], app: str, parts: Parts, number: int, address: str) -> dict[str, Any]:
    """The cells of an array that an address names."""
    shape = _recording(app, parts).flow.nodes[number].shape
    return {"cells": _runs(Cells.of(shape, parse_address(address).where))}


@refusing
def back_to_sources(
    _: IO[bytes], app: str, parts: Parts, number: int, runs: Runs, choices: bool
) -> dict[str, Any]:
    """The cells of sources that cells of an array were made from, by the sources' places among all."""
    recording = _recording(app, parts)
    cells = _cells(recording.flow.nodes[number].shape, runs)
    found, claims = recording.back_to_sources(number, cells, choices=choices)
    places = {id(one.node): at for at, one in enumerate(recording.sources)}
    return {
        "found": [[places[id(one.node)], _runs(of_one)] for one, of_one in found],
        **_claims(claims),
    }


@refusing
def forward_to_outputs(
    _: IO[bytes], app: str, parts: Parts, number: int, runs: Runs, to: str | None, choices: bool
) -> dict[str, Any]:
    """The cells of outputs that cells of an array went into, by the outputs' places among all."""
    recording = _recording(app, parts)
    cells = _cells(recording.flow.nodes[number].shape, runs)
    places = {(one.name, one.file): at for at, one in enumerate(recording.outputs)}
    reached = recording.forward_to_outputs(number, cells, to, choices=choices)
    found = [
        {"place": places[one.name, one.file], "cells": _runs(of_one), **_claims(claims)}
        for one, of_one, claims in reached
    ]
    return {"found": found}


def _recording(app: str, parts: Parts) -> StoredRecording:
    recording = recording_of_parts(app, parts)
    check_names(recording)
    return recording


def _cells(shape: Shape, runs: Runs) -> Cells:
    first, last = (np.frombuffer(side, np.uint64) for side in runs)
    region = Region(first, last)
    if region.count == math.prod(shape) and region.runs == 1:
        return Cells.whole(shape)
    return Cells.of_region(shape, region)


def _runs(cells: Cells) -> Runs:
    region = cells.region()
    if region.runs > RUNS_MAX:
        raise ArrayLineageError(
            f"the trace leads through {region.runs:,} runs of cells of an array, more than {RUNS_MAX:,}: ask for fewer cells"
        )
    return region.first.tobytes(), region.last.tobytes()


def _claims(claims: TraceClaims) -> dict[str, list[str]]:
    return {
        "superset_reasons": distinct([claims.superset_reasons]),
        "incomplete_reasons": distinct([claims.incomplete_reasons]),
        "chosen_by": distinct([claims.chosen_by]),
    }
