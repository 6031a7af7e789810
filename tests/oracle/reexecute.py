"""A row made again from its witness rows alone.

In the interpreter every row can be checked: rows that are no witnesses are masked right after
their source, while partitions, ordinals and random draws stay those of the full run, and rows that
only exist because others are absent (an outer join's lone side) are dropped: absence is not lineage.

On Spark itself the sources are rewritten to the witness rows, which moves rows to other places, so
it is asked only of programs whose results depend on rows alone (``depends_on_rows_alone``).
"""

from __future__ import annotations

from dataclasses import replace

from tests.oracle.brute import Evaluation, Rec, Witnesses
from tests.oracle.layout import lines_of, records_of
from tests.oracle.model import OUTER_JOINS, Program, Source

BY_PLACE = ("glom", "sample", "zip", "zipWithIndex", "zipWithUniqueId", "mapPartitionsWithIndex")
BY_COMPANY = ("running", "total")


def rerun(full: Evaluation, step: int, row: Rec) -> Evaluation:
    """The run up to ``step`` on the witnesses of ``row`` alone; it counts what it ``dropped``."""
    masked = Evaluation(full.sources, keep=row.witnesses, like=full)
    for here in full.steps[: step + 1]:
        masked.add(here)
    return masked


def reexecute(full: Evaluation, step: int, row: Rec) -> Rec | None:
    """``row`` of ``step`` as a run on its witnesses alone makes it.

    None: that run does not make the row, or makes another value of it.
    """
    found = [
        again for again in rerun(full, step, row).bags[step].rows if again.origin == row.origin
    ]
    return found[0] if found else None


def depends_on_rows_alone(program: Program, step: int) -> bool:
    """No operator behind ``step`` looks at places, draws, company in a partition or absence."""
    behind = [program.steps[i] for i in program.ancestors(step)]
    return not any(
        here.op in BY_PLACE or here.op in OUTER_JOINS or here.function in BY_COMPANY
        for here in behind
    )


def cut_down(program: Program, keep: Witnesses) -> Program:
    """The program with its sources rewritten to the rows of ``keep``."""
    return replace(program, sources=tuple(_only(source, keep) for source in program.sources))


def _only(source: Source, keep: Witnesses) -> Source:
    if source.kind == "list":
        rows = tuple(x for row, x in enumerate(source.rows) if (source.name, row) in keep)
        return replace(source, rows=rows)
    if source.kind == "whole":
        return replace(source, files=tuple(one for one in source.files if (one[0], 0) in keep))
    if source.kind == "bytes":
        ((file, content),) = source.files
        kept = [one for row, one in enumerate(records_of(content)) if (file, row) in keep]
        return replace(source, files=((file, b"".join(kept)),))
    files = tuple(
        (
            name,
            "".join(
                f"{text}\n"
                for row, (_, text) in enumerate(lines_of(content))
                if (name, row) in keep
            ).encode("utf-8"),
        )
        for name, content in source.files
    )
    return replace(source, files=files)
