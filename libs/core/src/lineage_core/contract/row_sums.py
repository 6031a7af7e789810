"""Checksums of the rows of text that a task read: what binds a row's text to what the task saw.

Rows are summed in blocks of :data:`BLOCK_ROWS`, counted from the first row of the split; each row with a newline
behind it, whatever ended it in the file. A block's sum is XXH3 of 64 bits in sixteen hexadecimal digits: a fifth of
the cost of CRC-32. Spark's workers import this.
"""

from __future__ import annotations

from xxhash import xxh3_64, xxh3_64_hexdigest

BLOCK_ROWS = 1024
"""Rows of a block: its sum costs a look at about 100 kB of text, and 16 bytes of a commit."""
BLOCKS_MAX = 1 << 15
"""Blocks of a split that are summed (33 million rows): a commit stays below a message of Kafka."""
DIGITS = 16
PIECE_ROWS_MAX = 256
PIECE_BYTES = 1 << 18
"""Rows wait in memory until so many, or so many bytes, are summed together."""


def sum_of(rows: bytes) -> str:
    """The sum of the rows of a block that end in a newline each."""
    return xxh3_64_hexdigest(rows)


class RowSums:
    """Sums rows as they are read: the reader appends each to :attr:`pending`, without its end.

    After :attr:`pending_max` of them :meth:`add_pending` is called, which holds none then.
    """

    __slots__ = ("_closed", "_has_all_texts", "_in_block", "_limit", "_open", "_rows", "pending")

    def __init__(self) -> None:
        self.pending: list[bytes] = []
        self._rows = 0
        self._closed: list[str] = []
        self._open = xxh3_64()
        self._in_block = 0
        self._limit = 1
        self._has_all_texts = True

    @property
    def rows(self) -> int:
        """Rows so far."""
        return self._rows + len(self.pending)

    @property
    def pending_max(self) -> int:
        """How many rows are to be held before they are added."""
        return min(self._limit, BLOCK_ROWS - self._in_block)

    def add_null(self) -> None:
        """Add a row that has no text: from there on no checksums are computed."""
        self.pending.append(b"")
        self._has_all_texts = False

    def add_pending(self) -> None:
        """Sum the rows that are held."""
        joined, count = _joined(self.pending), len(self.pending)
        self.pending = []
        self._open.update(joined)
        self._rows += count
        self._in_block += count
        if self._in_block == BLOCK_ROWS:
            if len(self._closed) < BLOCKS_MAX:
                self._closed.append(self._open.hexdigest())
            self._open.reset()
            self._in_block = 0
        if len(joined) > PIECE_BYTES:
            self._limit = max(1, self._limit // 2)
        elif len(joined) < PIECE_BYTES // 2 and self._limit < PIECE_ROWS_MAX:
            self._limit *= 2

    def text(self) -> str:
        """The sums of all blocks, the last of which may be of fewer rows; empty where there are none."""
        if not self._has_all_texts:
            return ""
        sums = list(self._closed)
        if self._in_block or self.pending:
            last = self._open.copy()
            last.update(_joined(self.pending))
            sums.append(last.hexdigest())
        return "".join(sums[:BLOCKS_MAX])


def _joined(rows: list[bytes]) -> bytes:
    return b"\n".join([*rows, b""])


def sums_in(text: str) -> list[str]:
    """The sums that :meth:`RowSums.text` wrote, one of each block."""
    return [text[at : at + DIGITS] for at in range(0, len(text), DIGITS)]
