"""Spaces, positions and item addresses.

A space is an ordered set of items; an item's address is ``<space>#<position>``.

======================  ===============  ==================================================
kind                    text             position
======================  ===============  ==================================================
partition               ``4#0``          row ordinal; a source or sink partition
partition, incarnation  ``4#0.17``       row ordinal as numbered by task attempt 17
keys                    ``4@3``          64-bit hash of the key, in reduce partition 3
names                   ``4@0``          64-bit hash of a DataFrame's row, of a source of its rows
exchange                ``4#*``          ``incarnation << 36 | ordinal``: a record that
                                         carries its address through a shuffle
opaque                  ``*@0``          64-bit hash of an opaque string of the SDK
======================  ===============  ==================================================

The name before ``#`` or ``@`` is capture's counter of the node (digits) or an SDK's node name.
Positions are unsigned 64-bit integers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from lineage_core.errors import AddressError

POSITION_MAX = 2**64 - 1
ORDINAL_BITS = 36
"""Bits of an exchange position that hold the ordinal: 68 billion records in one task."""
INCARNATION_MAX = 2 ** (64 - ORDINAL_BITS) - 1
OPAQUE_SPACE = "*@0"

_SPACE = re.compile(
    r"(?P<name>\*|[A-Za-z0-9_][A-Za-z0-9_.:-]{0,254})"
    r"(?:#(?P<all>\*)|#(?P<partition>0|[1-9]\d{0,9})(?:\.(?P<incarnation>0|[1-9]\d{0,18}))?"
    r"|@(?P<keys>0|[1-9]\d{0,9}))",
    re.ASCII,
)


class SpaceKind(Enum):
    """How positions of a space are made."""

    PARTITION = "partition"
    KEYS = "keys"
    EXCHANGE = "exchange"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True)
class Space:
    """A space, read from its text by :func:`parse_space`."""

    name: str
    kind: SpaceKind
    partition: int = 0
    incarnation: int | None = None

    def __str__(self) -> str:
        match self.kind:
            case SpaceKind.PARTITION:
                tail = "" if self.incarnation is None else f".{self.incarnation}"
                return f"{self.name}#{self.partition}{tail}"
            case SpaceKind.EXCHANGE:
                return f"{self.name}#*"
            case _:
                return f"{self.name}@{self.partition}"


def parse_space(text: str) -> Space:
    """Read a space from its text.

    Raises:
        AddressError: the text is not a space.
    """
    match = _SPACE.fullmatch(text)
    if match is None:
        raise AddressError(f"{text[:80]!r} is not a space (like 4#0, 4#0.17, 4@3 or 4#*)")
    name = match["name"]
    if text == OPAQUE_SPACE:
        return Space("*", SpaceKind.OPAQUE)
    if name == "*":
        raise AddressError(f"{text!r}: only {OPAQUE_SPACE} may be named '*'")
    if match["all"]:
        return Space(name, SpaceKind.EXCHANGE)
    if match["keys"] is not None:
        return Space(name, SpaceKind.KEYS, int(match["keys"]))
    incarnation = None if match["incarnation"] is None else int(match["incarnation"])
    return Space(name, SpaceKind.PARTITION, int(match["partition"]), incarnation)


def named_space(source: str) -> str:
    """The space of a source whose records are rows of a DataFrame: they are identified by hashes of the rows."""
    return f"{source}@0"


ROW_FILE_SUFFIX = ".parquet"


def row_file_name(space: str) -> str:
    """The name of the file that keeps a run's rows: of the partition ``4#0.17`` it is ``4-0-17.parquet``."""
    name = parse_space(space)
    return f"{name.name}-{name.partition}-{name.incarnation}{ROW_FILE_SUFFIX}"


def row_file_space(path: str) -> str:
    """The space of the rows that a file of such a name keeps.

    Raises:
        AddressError: it has another name.
    """
    parts = path.rpartition("/")[2].removesuffix(ROW_FILE_SUFFIX).rsplit("-", 2)
    if len(parts) != 3:
        raise AddressError(f"{path[-80:]!r} does not keep rows of a partition")
    space = f"{parts[0]}#{parts[1]}.{parts[2]}"
    parse_space(space)
    return space


def parse_position(text: str) -> int:
    """Read a position: decimal digits, no sign, no leading zero, at most 2**64 - 1.

    Raises:
        AddressError: the text is not a position.
    """
    if not (text.isascii() and text.isdigit()) or (len(text) > 1 and text[0] == "0"):
        raise AddressError(f"{text[:80]!r} is not a position (a whole number from 0)")
    value = int(text) if len(text) <= 20 else POSITION_MAX + 1
    if value > POSITION_MAX:
        raise AddressError(f"position {text[:80]} does not fit 64 bits")
    return value


def split_range(text: str) -> tuple[str, int, int]:
    """Split the address of an item, or of a range of them (``4#0#6-9``), into the text of its space, the first and the last position.

    Raises:
        AddressError: the text is neither.
    """
    start, dash, end = text.rpartition("-")
    if not dash or not end.isdecimal() or "#" not in start:
        space, position = split_address(text)
        return space, position, position
    space, first = split_address(start)
    last = parse_position(end)
    if last <= first:
        raise AddressError(f"{text[:80]!r}: a range ends behind its first position")
    return space, first, last


def split_address(text: str) -> tuple[str, int]:
    """Split an item address into the text of its space and its position.

    Raises:
        AddressError: the text is not an item address.
    """
    space, mark, position = text.rpartition("#")
    if not mark:
        raise AddressError(f"{text[:80]!r} is not an address (like 4#0#6)")
    parse_space(space)
    return space, parse_position(position)
