"""The header of a block: the facts that its CSV rows do not hold, as JSON beside the payload."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.block_check import (
    BLOCK_ROWS_MAX,
    associations,
    check_name,
    check_sections,
    check_space,
)
from lineage_core.contract.region import Region
from lineage_core.errors import BlockError, RegionError, VersionError

HEADER_VERSION = 1
HEADER_VERSIONS = frozenset({HEADER_VERSION})
"""Versions that are read: the current one and the one before (there is none yet)."""
HEADER_BYTES_MAX = 2**20


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """Everything of a block but its columns.

    ``rows`` counts flows, ``associations`` pairs of an input and an output position; both guard
    against payloads that lost something. ``task``: the node of the task that sends the block (the
    last of its segment), empty where it is the block's own. ``attempts_read``: as in
    :class:`~lineage_core.contract.block.FlowBlock`.
    """

    app: str
    block_id: BlockId
    relation: Relation
    in_space: str
    out: tuple[Section, ...]
    rows: int
    associations: int
    exact: bool = True
    reason: str = ""
    task: str = ""
    attempts_read: Region | None = None

    def to_json(self) -> bytes:
        """JSON in UTF-8, without a line end."""
        return json.dumps(self.to_fields(), ensure_ascii=False, separators=(",", ":")).encode()

    def to_fields(self) -> dict[str, object]:
        """The fields of the JSON object."""
        fields: dict[str, object] = {
            "v": HEADER_VERSION,
            "app": self.app,
            "node": self.block_id.node,
            "partition": self.block_id.partition,
            "attempt": self.block_id.attempt,
            "seq": self.block_id.seq,
            "relation": self.relation.value,
            "in_space": self.in_space,
            "out": [[part.space, part.row_first, part.row_stop] for part in self.out],
            "rows": self.rows,
            "associations": self.associations,
            "exact": self.exact,
            "reason": self.reason,
        }
        if self.task:
            fields["task"] = self.task
        if self.attempts_read is not None:
            fields["attempts_read"] = self.attempts_read.to_text()
        return fields

    @property
    def task_node(self) -> str:
        """The node that names the task."""
        return self.task or self.block_id.node

    @classmethod
    def from_json(cls, text: bytes | str) -> BlockHeader:
        """Read a header; unknown fields are ignored.

        Raises:
            VersionError: the header is of a version that this reader does not support.
            BlockError: anything else is wrong; ``where`` names the field.
        """
        return cls.from_fields(_object(text))

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> BlockHeader:
        """Read a header from the fields of its JSON object; raises as :meth:`from_json`."""
        version = _natural(fields, "v")
        if version not in HEADER_VERSIONS:
            readable = ", ".join(map(str, sorted(HEADER_VERSIONS)))
            raise VersionError(f"version {version} is not known (known: {readable})", where="v")
        header = cls(
            app=_text(fields, "app"),
            block_id=BlockId(
                _text(fields, "node"),
                _natural(fields, "partition"),
                _natural(fields, "attempt"),
                _natural(fields, "seq"),
            ),
            relation=_relation(fields),
            in_space=_text(fields, "in_space"),
            out=_sections(fields),
            rows=_natural(fields, "rows"),
            associations=_natural(fields, "associations"),
            exact=_exact(fields),
            reason=_text(fields, "reason"),
            task=_text(fields, "task") if "task" in fields else "",
            attempts_read=_attempts(fields) if "attempts_read" in fields else None,
        )
        check_header(header)
        return header


def header_of(block: FlowBlock) -> BlockHeader:
    """The header of a block."""
    return BlockHeader(
        app=block.app,
        block_id=block.block_id,
        relation=block.relation,
        in_space=block.in_space,
        out=tuple(block.out),
        rows=block.rows,
        associations=associations(block),
        exact=block.exact,
        reason=block.reason,
        attempts_read=block.attempts_read,
    )


def check_header(header: BlockHeader) -> None:
    """Check names, bounds and the directory of output spaces.

    Raises:
        BlockError: something is wrong; ``where`` names the field.
    """
    check_name(header.app, header.block_id, header.in_space, header.reason)
    if not 0 <= header.rows <= BLOCK_ROWS_MAX:
        raise BlockError(f"{header.rows} is not 0 to {BLOCK_ROWS_MAX}", where="rows")
    check_sections(header.out, header.rows)
    if header.task:
        check_space(f"{header.task}#0", "task")


def _object(text: bytes | str) -> dict[str, Any]:
    if len(text) > HEADER_BYTES_MAX:
        raise BlockError(f"longer than {HEADER_BYTES_MAX} bytes", where="header")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BlockError(f"not JSON: {error}", where="header") from error
    if not isinstance(fields, dict):
        raise BlockError("not a JSON object", where="header")
    return fields


def _field(fields: dict[str, Any], name: str, kind: type, expected: str) -> Any:
    value = fields.get(name)
    if type(value) is not kind:
        problem = "is missing" if name not in fields else f"{value!r:.80} is not {expected}"
        raise BlockError(problem, where=name)
    return value


def _text(fields: dict[str, Any], name: str) -> str:
    text: str = _field(fields, name, str, "a text")
    return text


def _natural(fields: dict[str, Any], name: str) -> int:
    number: int = _field(fields, name, int, "a whole number")
    if number < 0:
        raise BlockError(f"{number} is negative", where=name)
    return number


def _exact(fields: dict[str, Any]) -> bool:
    exact: bool = _field(fields, "exact", bool, "true or false")
    return exact


def _relation(fields: dict[str, Any]) -> Relation:
    text = _text(fields, "relation")
    try:
        return Relation(text)
    except ValueError as error:
        relations = ", ".join(relation.value for relation in Relation)
        raise BlockError(f"{text!r:.80} is not one of: {relations}", where="relation") from error


def _attempts(fields: dict[str, Any]) -> Region:
    try:
        return Region.from_text(_text(fields, "attempts_read"))
    except RegionError as error:
        raise BlockError(str(error), where="attempts_read") from error


def _sections(fields: dict[str, Any]) -> tuple[Section, ...]:
    sections = []
    for index, part in enumerate(_field(fields, "out", list, "a list")):
        if not (isinstance(part, list) and [type(item) for item in part] == [str, int, int]):
            raise BlockError("is not [space, first row, stop row]", where=f"out[{index}]")
        sections.append(Section(*part))
    return tuple(sections)
