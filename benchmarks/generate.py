"""Deterministic text whose words follow Zipf's law, and the flights tables at a size.

python -m benchmarks.generate TARGET --size 100MB
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import numpy.typing as npt

VOCABULARY = 8_000
EXPONENT = 2.0
WORDS_MIN, WORDS_MAX = 8, 12
LETTERS = (5, 4, 5, 6)
"""Letters of a word by its rank: 59 bytes a line, so 1.7 million lines in 100 MB."""
SEED = 20130101
CHUNK_LINES = 100_000
COMMON_A_LINE = 8
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KB|MB|GB)?", re.IGNORECASE)
_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}


def parse_size(text: str) -> int:
    """``100MB`` -> 100,000,000 bytes.

    Raises:
        ValueError: the text is not a size.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size (like 100MB or 1GB)")
    return int(float(match[1]) * _UNITS[(match[2] or "B").upper()])


def vocabulary() -> npt.NDArray[np.object_]:
    """``VOCABULARY`` distinct words (bytes), the most frequent first."""
    generator = np.random.default_rng(SEED)
    words: dict[bytes, None] = {}
    while len(words) < VOCABULARY:
        count = LETTERS[len(words) % len(LETTERS)]
        words[generator.integers(97, 123, count, dtype=np.uint8).tobytes()] = None
    return np.array(list(words), dtype=object)


def probabilities() -> npt.NDArray[np.float64]:
    """Chance of each word of the vocabulary: 1 / rank ** exponent, summing to 1."""
    weights = np.arange(1, VOCABULARY + 1, dtype=np.float64) ** -EXPONENT
    shares: npt.NDArray[np.float64] = weights / weights.sum()
    return shares


def write_text(target: Path, size: int, seed: int = SEED) -> None:
    """Write at least ``size`` bytes of whole lines; the same bytes for the same arguments."""
    generator = np.random.default_rng(seed)
    words, cumulated = vocabulary(), probabilities().cumsum()
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.with_suffix(".part")
    written = 0
    with half.open("wb") as out:
        while written < size:
            chunk = _lines(generator, words, cumulated)
            if written + len(chunk) > size:
                chunk = chunk[: chunk.index(b"\n", size - written - 1) + 1]
            written += out.write(chunk)
    half.rename(target)


def _lines(
    generator: np.random.Generator,
    words: npt.NDArray[np.object_],
    cumulated: npt.NDArray[np.float64],
) -> bytes:
    """``CHUNK_LINES`` lines of 8 to 12 words."""
    counts = generator.integers(WORDS_MIN, WORDS_MAX + 1, CHUNK_LINES)
    drawn = np.minimum(
        np.searchsorted(cumulated, generator.random(int(counts.sum()))), VOCABULARY - 1
    )
    text = words[drawn].tolist()
    ends = np.cumsum(counts).tolist()
    starts = [0, *ends[:-1]]
    return b"\n".join(b" ".join(text[i:j]) for i, j in zip(starts, ends, strict=True)) + b"\n"


def write_rare_words(path: Path, lines: int, words: int, seed: int = 7) -> None:
    """Lines of common words, among which each other word stands once."""
    draw = np.random.default_rng(seed)
    common = draw.zipf(EXPONENT, (lines, COMMON_A_LINE)) % min(VOCABULARY, words)
    others = defaultdict[int, list[str]](list)
    for number, line in enumerate(draw.integers(0, lines, max(words - VOCABULARY, 0)).tolist()):
        others[line].append(f"x{number}")
    with path.open("w", encoding="utf-8") as file:
        for number, ranks in enumerate(common.tolist()):
            file.write(" ".join([*(f"w{rank}" for rank in ranks), *others[number]]) + "\n")


def write_flights(folder: Path, size: int) -> None:
    """The flights tables with the flights repeated until they hold ``size`` bytes."""
    from examples.flights.prepare import prepare

    tables = prepare(folder / "once")
    target = folder / "flights.csv"
    header, _, rows = tables["flights"].read_bytes().partition(b"\n")
    half = target.with_suffix(".part")
    with half.open("wb") as out:
        written = out.write(header + b"\n")
        while written < size:
            chunk = rows
            if written + len(chunk) > size:
                chunk = rows[: rows.index(b"\n", size - written - 1) + 1]
            written += out.write(chunk)
    for name in ("airlines", "airports", "planes", "weather"):
        (folder / f"{name}.csv").write_bytes(tables[name].read_bytes())
    half.rename(target)


def main() -> None:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path)
    parser.add_argument("--size", type=parse_size, default=parse_size("100MB"))
    arguments = parser.parse_args()
    write_text(arguments.target, arguments.size)


if __name__ == "__main__":
    main()
