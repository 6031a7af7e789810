"""What replays and searches of a frame's rows give to the program that has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lineage_query.showing import ItemGroup, NotebookDisplay, Showing, rows_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lineage_dataframes.trace.replay import Replay, ReplayedRow
    from lineage_dataframes.trace.sifting import Sifted
    from lineage_emitter.dataframes.traced_frames import FrameRows


class ReplayedRows(NotebookDisplay):
    """Rows of a frame as it gave them (``before``), and as a replay of its plan gives them (``after``; None: it does not), each with its ``state``.

    ``new``: rows that the frame did not give. ``reasons``: why rows may depend on others than their witnesses. ``uncertain``:
    why they may come out otherwise in any case.
    """

    def __init__(self, found: Replay) -> None:
        self.found = found

    @property
    def columns(self) -> tuple[str, ...]:
        return self.found.columns

    @property
    def rows(self) -> tuple[ReplayedRow, ...]:
        return self.found.rows

    @property
    def new(self) -> tuple[tuple[Any, ...], ...]:
        return self.found.new

    @property
    def reproduced(self) -> bool:
        """Whether each row came out with the very values that the frame gave."""
        return self.found.reproduced

    @property
    def reasons(self) -> tuple[str, ...]:
        return self.found.reasons

    @property
    def uncertain(self) -> tuple[str, ...]:
        return self.found.uncertain

    def __repr__(self) -> str:
        states = [row.state for row in self.rows]
        counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        return f"<ReplayedRows: {counts or 'no row'}, {len(self.new)} new>"

    def _showing(self, limit: int) -> Showing:
        from lineage_dataframes.sources.row_texts import text_of_row
        from lineage_dataframes.trace.replay import STATE_TEXTS

        found, listed = self.found, list[tuple[str, str | None]]()
        for row in found.rows[:limit]:
            after = "" if row.after is None else text_of_row(found.columns, row.after)
            listed.append(("before", text_of_row(found.columns, row.before)))
            listed.append(("after", STATE_TEXTS.get(row.state, after)))
        hidden = len(found.rows[limit:])
        groups = [ItemGroup(found.heading, listed, hidden)]
        if found.new:
            new = [("new", text_of_row(found.columns, values)) for values in found.new[:limit]]
            groups.append(ItemGroup("rows that were not there", new, len(found.new) - len(new)))
        warnings: Iterable[str] = found.uncertain
        if found.reads_all_rows:
            read = "read all other rows of the sources, as the rows depend on more"
            warnings = (*(f"{read}: {reason}" for reason in found.reasons), *found.uncertain)
        elif not found.left_out and not found.reproduced:
            warnings = (f"differs from the frame's: {reason}" for reason in found.differences)
        return Showing(groups, (), (), tuple(warnings), is_trace=False)


class SmallestRows(NotebookDisplay):
    """The smallest set of rows of sources that still gives a row which fails a test.

    ``outcome``: the rows that the plan gives of them alone, as dictionaries. ``one_minimal``: without any single one of the set no row fails;
    else the search was ``stopped``, and that says why. ``witnesses``: how many rows were searched; ``runs`` of the plan, over ``rows_run`` rows.
    """

    def __init__(self, found: Sifted, rows: FrameRows, places: Sequence[tuple[str, str]]) -> None:
        """``rows``: the set; ``places``: where each of them is, and its text."""
        self.found = found
        self._rows = rows
        self.places = tuple(place for place, _ in places)
        """Where the rows are, as a trace names rows."""
        self._texts = places

    @property
    def count(self) -> int:
        return len(self.found.found.rows)

    @property
    def outcome(self) -> tuple[Mapping[str, Any], ...]:
        return self.found.outcome

    @property
    def one_minimal(self) -> bool:
        return self.found.found.one_minimal

    @property
    def stopped(self) -> str:
        return self.found.found.stopped

    @property
    def witnesses(self) -> int:
        return self.found.witnesses

    @property
    def runs(self) -> int:
        return self.found.found.runs

    @property
    def rows_run(self) -> int:
        return self.found.found.rows_run

    @property
    def paths(self) -> list[str]:
        """The sources that have some of the rows: paths or tables."""
        return self._rows.paths

    def rows(self, path: str | None = None) -> DataFrame:
        """The rows of one source as a frame, as those of a trace back.

        Raises:
            TracingError: there are several sources (none), or none of that path.
        """
        return self._rows.rows(path)

    def __repr__(self) -> str:
        ends = "one-minimal" if self.one_minimal else f"stopped: {self.stopped}"
        return f"<SmallestRows: {self.count:,} of {self.witnesses:,}, {ends}>"

    def _showing(self, limit: int) -> Showing:
        from lineage_dataframes.sources.row_texts import text_of_row

        searched = f"{rows_text(self.witnesses)} that it is made from"
        shown = list(self._texts[:limit])
        notes = [
            f"alone they give {text_of_row(list(row), list(row.values()))}" for row in self.outcome
        ]
        runs = "1 run" if self.runs == 1 else f"{self.runs:,} runs"
        notes.append(f"{runs} over {self.rows_run:,} rows")
        heading = self.found.found.summary(searched)
        group = ItemGroup(heading, shown, len(self._texts) - len(shown), notes)
        return Showing([group], (), (), (), is_trace=False)
