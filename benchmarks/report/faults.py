"""The table of how faulty actors rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.report.rows import Row
from benchmarks.report.tables import NO_ROWS, NOTHING, table


def ranks(rows: Sequence[Row]) -> str:
    """A table a run: by magnitude and query the percentile rank, and how often a faulty actor came first, alone."""
    parts = []
    for row in rows:
        magnitudes = row.at("magnitudes")
        queries = list(dict.fromkeys(query for of in magnitudes.values() for query in of))
        lead = (
            f"{row.at('actors')} actors, {row.at('trials')} runs of each magnitude, measured at "
            f"{row.provenance['commit']} (`{row.command}`):"
        )
        parts += [lead, table(("magnitude", *queries), _lines(row, queries))]
    return "\n\n".join(parts) or NO_ROWS


def _lines(row: Row, queries: Sequence[str]) -> Iterator[list[str]]:
    for magnitude, found in row.at("magnitudes").items():
        cells = [found.get(query) for query in queries]
        yield [
            magnitude,
            *(
                NOTHING
                if cell is None
                else f"{cell['percentile']:g} ({cell['first']}), {cell['seconds']:.2f} s"
                for cell in cells
            ),
        ]
