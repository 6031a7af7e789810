"""Mutations of bytes, and of values of JSON."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

NUMBERS = (0, 1, -1, 2, 127, 128, 255, 256, 2**15, 2**16, 2**20, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62,
           2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**31), -(2**63), 10**30)  # fmt: skip
TEXTS = (
    "", "0", "-", "#", "#0", "4#0", "*@0", "4@3", "\0", "\n", "\r\n", '"', "`", "'; --", "a" * 600, "\ud800", "é☃\U0001f600",
    "../../etc/passwd", "file:/etc/passwd", "${env:HOME}", "java_method", "1e400", "NaN", "0-18446744073709551615",
    "int", "array<int", "decimal(99,99)", "2**64", "18446744073709551616", "[" * 2_000, "%00", "%ff", "9" * 5_000,
)  # fmt: skip
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0.5,
    -0.0,
    1e308,
    [],
    {},
    [[]],
    [None],
    {"": None},
    *NUMBERS,
    *TEXTS,
)
GROWTH_MAX = 3_000
"""Times that a part is repeated at most."""


def mutated_bytes(draw: random.Random, sample: bytes, other: bytes) -> bytes:
    """A sample with one to some mutations; ``other``: another sample, to take parts of."""
    found = bytearray(sample)
    for _ in range(_some(draw)):
        _mutate(draw, found, other)
    return bytes(found)


def _some(draw: random.Random) -> int:
    return min(1 + int(draw.expovariate(1.2)), 8)


def _mutate(draw: random.Random, found: bytearray, other: bytes) -> None:
    start = draw.randrange(len(found) + 1)
    stop = min(len(found), start + int(draw.expovariate(0.1)))
    match draw.randrange(9):
        case 0 if start < len(found):
            found[start] ^= 1 << draw.randrange(8)
        case 1:
            found[start:stop] = draw.randbytes(stop - start)
        case 2:
            del found[start:stop]
        case 3:
            del found[start:]
        case 4:
            found[start:start] = found[start:stop] * draw.choice((1, 2, 3, 50))
        case 5:
            size = draw.choice((1, 2, 4, 8))
            number = draw.choice(NUMBERS) % (1 << 8 * size)
            found[start : start + size] = number.to_bytes(size, draw.choice(("little", "big")))
        case 6:
            at = draw.randrange(len(other) + 1)
            found[start:stop] = other[at : at + int(draw.expovariate(0.05))]
        case 7:
            found[start:stop] = str(draw.choice(NUMBERS)).encode()
        case _:
            found[start:start] = draw.choice(TEXTS).encode("utf-8", "surrogatepass")


def mutated_text(draw: random.Random, sample: str, other: str) -> str:
    """A text, mutated by its bytes."""
    found = mutated_bytes(
        draw, sample.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass")
    )
    return found.decode("utf-8", draw.choice(("replace", "surrogateescape", "ignore")))


def mutated_json(draw: random.Random, sample: Any, other: Any) -> Any:
    """A value of JSON of which some parts are others; ``other``: another one, to take parts of."""
    found = [copy.deepcopy(sample)]
    for _ in range(_some(draw)):
        # A part that was taken out of the value is looked for anew.
        holder, key = draw.choice(list(_places(found)))
        _mutate_at(draw, holder, key, other)
    return found[0]


def _mutate_at(draw: random.Random, holder: Any, key: Any, other: Any) -> None:
    part = holder[key]
    match draw.randrange(9):
        case 0 if isinstance(holder, dict):
            del holder[key]
        case 1 if isinstance(part, list) and part:
            del part[draw.randrange(len(part)) :]
        case 2 if isinstance(part, list) and part:
            part += [copy.deepcopy(draw.choice(part)) for _ in range(draw.choice((1, 2, 40)))]
        case 3 if isinstance(part, str):
            holder[key] = mutated_text(draw, part, draw.choice(TEXTS))
        case 4 if type(part) is int:
            holder[key] = part + draw.choice((-1, 1, draw.choice(NUMBERS)))
        case 5:
            taken, at = draw.choice(list(_places([other])))
            holder[key] = copy.deepcopy(taken[at])
        case 6 if isinstance(part, dict):
            part[draw.choice(TEXTS)] = draw.choice(ODD_VALUES)
        case 7:
            holder[key] = copy.deepcopy(draw.choice(list(_parts(holder))))
        case _:
            holder[key] = copy.deepcopy(draw.choice(ODD_VALUES))


def _parts(holder: Any) -> Iterator[Any]:
    return iter(holder.values() if isinstance(holder, dict) else holder)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Holders and keys of all parts of a value."""
    todo = [value]
    while todo:
        holder = todo.pop()
        for key, part in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            yield holder, key
            if isinstance(part, dict | list) and part:
                todo.append(part)


def nested(draw: random.Random, sample: Any) -> Any:
    """A value in which one part holds itself, level below level."""
    found = [copy.deepcopy(sample)]
    inner = [
        (holder, key) for holder, key in _places(found) if isinstance(holder[key], dict | list)
    ]
    holder, key = draw.choice(inner)
    below = [(h, k) for h, k in _places([holder[key]]) if isinstance(h[k], type(holder[key]))][1:]
    if below:
        level = json.dumps(holder[key])
        in_holder, in_key = draw.choice(below)
        in_holder[in_key] = "\0here"
        around = json.dumps(holder[key])
        for _ in range(draw.choice((3, 30, 150, 300))):
            level = around.replace('"\\u0000here"', level)
            if len(level) > 1 << 20:
                break
        holder[key] = _Raw(level)
    return found[0]


class _Raw:
    """Text of JSON that is too deep to be made of values."""

    def __init__(self, text: str) -> None:
        self.text = text


def json_text(draw: random.Random, value: Any) -> str:
    """A value as JSON: in ASCII, or with lone surrogates as they are."""
    raws: list[str] = []

    def told(raw: object) -> str:
        assert isinstance(raw, _Raw)
        raws.append(raw.text)
        return f"\0raw{len(raws) - 1}"

    text = json.dumps(value, ensure_ascii=draw.random() < 0.8, default=told)
    for number, raw in enumerate(raws):
        text = text.replace(f'"\\u0000raw{number}"', raw)
    return text


def as_bytes(text: str) -> bytes:
    """Text as whoever means harm may send it."""
    return text.encode("utf-8", "surrogatepass")
