"""A recorded workflow as bytes, and back.

The content is ``LMAR``, the version of the format and the length of the head (little-endian), the head as JSON, the columns
that it refers to, and the SHA-256 of all before. It has no values of arrays: shapes, types, positions and places in programs.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lineage_arrays.errors import RecordingError
from lineage_arrays.operators.operator import Operator, named_operators
from lineage_arrays.saved.columns import ColumnReader, ColumnWriter
from lineage_arrays.saved.mapping_packing import packed_mapping
from lineage_arrays.saved.mapping_reading import MappingReader, shape_of
from lineage_arrays.workflow import ArrayFile, Edge, Node, Output, Workflow
from lineage_core.contract.collected import CollectedRows

FORMAT = 1
"""Version of the format as it is written, and the latest that is read."""
CONTENT_BYTES_MAX = 512 << 20
"""Longest content: what a reader holds in memory."""
NODES_MAX = 1_000_000
_HEAD = struct.Struct("<4sIQ")
_MAGIC = b"LMAR"
_DIGEST_BYTES = 32


@dataclass(frozen=True)
class Unpacked:
    """What a recording holds. ``costs``: of the strategies of its operators, as they were packed; None: they were not measured."""

    flow: Workflow
    costs: object = None


def pack_workflow(flow: Workflow, costs: object = None) -> bytes:
    """A workflow as bytes.

    Args:
        flow: the workflow.
        costs: of the strategies of its operators, as JSON.

    Raises:
        RecordingError: it is too large, or a mapping can't be stored.
        ModeError: an operator that must be run for its mapping gives another output.
    """
    if len(flow.nodes) > NODES_MAX:
        raise RecordingError(
            f"{len(flow.nodes):,} arrays; at most {NODES_MAX:,} are stored: make several recordings of the program"
        )
    columns = ColumnWriter()
    nodes = [_packed_node(node, columns) for node in flow.nodes]
    head = {
        "nodes": nodes,
        "leaks": flow.leaks,
        "read": [[number, _packed_file(file)] for number, file in flow.files_read.items()],
        "outputs": [
            [
                output.name,
                output.node.number,
                None if output.file is None else _packed_file(output.file),
            ]
            for output in flow.outputs
        ],
        "columns": [len(part) for part in columns.parts],
    }
    if flow.rows_collected:
        # Readers that know nothing of rows leave it out: to them these are arrays from outside.
        head["rows"] = [
            [number, rows.app, rows.node, rows.counts]
            for number, rows in flow.rows_collected.items()
        ]
    if costs is not None:
        head["costs"] = costs
    packed = json.dumps(head, separators=(",", ":")).encode()
    content = b"".join([_HEAD.pack(_MAGIC, FORMAT, len(packed)), packed, *columns.parts])
    if len(content) > CONTENT_BYTES_MAX:
        raise RecordingError(
            f"the recording takes {len(content) >> 20:,} MiB; at most {CONTENT_BYTES_MAX >> 20} are stored: choices (sorts, masks) "
            "over large arrays take most of it"
        )
    return content + hashlib.sha256(content).digest()


def _packed_node(node: Node, columns: ColumnWriter) -> dict[str, Any]:
    packed = {
        "op": node.operator,
        "shape": list(node.shape),
        "dtype": str(node.dtype),
        "name": node.name,
        "site": node.call_site,
        "constants": node.constants,
        "leaks": node.after_leaks,
        # Readers that know nothing of it don't say that the array may hold rows.
        "rows": node.may_hold,
        "in": [
            [edge.node.number, edge.superset, packed_mapping(edge.mapping, columns)]
            for edge in node.inputs
        ],
    }
    return {key: value for key, value in packed.items() if value or key in ("op", "shape")}


def _packed_file(file: ArrayFile) -> list[Any]:
    return [file.path, file.size, file.mtime, file.checksum, file.member]


def unpack_workflow(content: bytes, operators: Sequence[Operator] = ()) -> Workflow:
    """The workflow that was packed, as :func:`unpack_recording`."""
    return unpack_recording(content, operators).flow


def unpack_recording(content: bytes, operators: Sequence[Operator] = ()) -> Unpacked:
    """What was packed. The nodes of the workflow have no values.

    Args:
        content: what :func:`pack_workflow` gave.
        operators: those of the program whose own functions may be called.

    Raises:
        RecordingError: it is damaged, or of a later version.
    """
    if len(content) < _HEAD.size + _DIGEST_BYTES:
        raise RecordingError("a stored recording of arrays ends too early")
    magic, version, length = _HEAD.unpack_from(content)
    if magic != _MAGIC:
        raise RecordingError("a stored recording of arrays begins as none does")
    if version > FORMAT:
        raise RecordingError(
            f"a stored recording of arrays is of format {version}; this version reads up to {FORMAT}: update Lineage Master"
        )
    body, digest = memoryview(content)[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise RecordingError("a stored recording of arrays is damaged: its checksum is another one")
    try:
        head = json.loads(bytes(body[_HEAD.size : _HEAD.size + length]))
        columns = ColumnReader(body[_HEAD.size + length :], head["columns"])
        flow = _workflow(head, MappingReader(columns, named_operators(operators)))
        return Unpacked(flow, head.get("costs"))
    except (KeyError, TypeError, ValueError, IndexError, RecursionError) as error:
        raise RecordingError(f"a stored recording of arrays can't be read: {error}") from error


def _workflow(head: dict[str, Any], mappings: MappingReader) -> Workflow:
    flow = Workflow(leaks=[str(leak) for leak in head["leaks"]])
    for number, packed in enumerate(head["nodes"]):
        shape = shape_of(packed["shape"])
        edges = []
        for before, superset, mapping in packed.get("in", ()):
            # An input has a lower number: traces rely on it.
            if type(before) is not int or not 0 <= before < number:
                raise ValueError(f"array {number} is made from array {before!r}")
            node = flow.nodes[before]
            edges.append(Edge(node, mappings.read(mapping, node.shape, shape), str(superset)))
        flow.nodes.append(
            Node(
                number=number,
                operator=str(packed["op"]),
                shape=shape,
                dtype=_dtype(str(packed.get("dtype", ""))),
                inputs=tuple(edges),
                name=str(packed.get("name", "")),
                call_site=str(packed.get("site", "")),
                constants=bool(packed.get("constants", False)),
                after_leaks=_count(packed.get("leaks", 0), len(flow.leaks)),
                may_hold=str(packed.get("rows", "")),
            )
        )
    for number, file in head["read"]:
        flow.files_read[_count(number, len(flow.nodes) - 1)] = _file(*file)
    for name, number, file in head["outputs"]:
        node = flow.nodes[_count(number, len(flow.nodes) - 1)]
        flow.outputs.append(Output(str(name), node, None if file is None else _file(*file)))
    for number, app, sink, counts in head.get("rows", ()):
        node = flow.nodes[_count(number, len(flow.nodes) - 1)]
        flow.rows_collected[node.number] = _rows(node, app, sink, counts)
    return flow


def _rows(node: Node, app: object, sink: object, counts: Sequence[object]) -> CollectedRows:
    most = node.shape[0] if node.shape else 0
    rows = CollectedRows(str(app), str(sink), tuple(_count(count, most) for count in counts))
    if not node.shape or rows.total != most:
        raise ValueError(f"{rows.total} rows made an array of the shape {node.shape}")
    return rows


def _count(number: object, most: int) -> int:
    if type(number) is not int or not 0 <= number <= most:
        raise ValueError(f"{number!r} is not from 0 to {most}")
    return number


def _file(path: object, size: object, mtime: object, checksum: object, member: object) -> ArrayFile:
    if type(size) is not int or not isinstance(mtime, float) or not math.isfinite(mtime):
        raise ValueError("a file without size and time")
    return ArrayFile(str(path), size, mtime, str(checksum), str(member))


def _dtype(text: str) -> np.dtype[Any]:
    try:
        return np.dtype(text)
    except TypeError:
        # Of records: it is shown alone.
        return np.dtype(np.void)
