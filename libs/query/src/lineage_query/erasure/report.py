"""A plan as lines for people, and as one file of HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lineage_core.html_parts import block, code, heading, note, table, text
from lineage_query.erasure.plan import Plan
from lineage_query.erasure.reached import KEPT_TEXT, KIND_TEXTS, Kind, ReachedRow

SHOWN_MAX = 20
"""Rows of an output that people see; JSON and the HTML have all."""
_KINDS: Sequence[Kind] = ("carries", "mixed", "unknown")
_PAGE = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    "<title>{title}</title><style>:root{{color-scheme:light dark}}"
    "body{{font-family:system-ui,sans-serif;margin:1.5em auto;padding:0 1em;max-width:80em;line-height:1.4}}"
    "h1{{font-size:1.4em}}h2{{font-size:1.15em;margin:1.5em 0 0.3em}}</style></head><body>{body}</body></html>\n"
)


def others_text(row: ReachedRow) -> str:
    """With how many other rows of its source it was made."""
    if row.others is None:
        return "with an unknown number of others"
    if row.others == 0:
        return ""
    least = "at least " if row.at_least else ""
    return f"with {least}{row.others:,} other row{'s' if row.others != 1 else ''}"


def row_detail(row: ReachedRow) -> str:
    """What is known of a row, in brackets."""
    parts = [
        others_text(row) if row.kind != "unknown" else "",
        row.basis,
        "" if row.exact else "superset: perhaps not the subject's",
    ]
    return "; ".join(part for part in parts if part)


def summary(plan: Plan) -> str:
    """One sentence about a plan."""
    rows = f"{len(plan.places):,} row{'s' if len(plan.places) != 1 else ''} of {plan.source}"
    outputs = len({(row.app, row.node) for row in plan.rows})
    return (
        f"{rows} ({plan.condition}; {plan.searched:,} read) went into {len(plan.rows):,} rows of {outputs:,} outputs "
        f"of {len(plan.apps):,} applications"
    )


def lines_of(plan: Plan, limit: int | None = SHOWN_MAX) -> Iterator[str]:
    """A plan as lines. ``limit``: of rows for each output."""
    yield summary(plan)
    for place, row_text in _subject(plan)[:limit]:
        yield f"  {place}" + (f": {row_text}" if row_text else "")
    for kind in _KINDS:
        rows = plan.of_kind(kind)
        if rows:
            yield ""
            yield f"{len(rows):,} row{'s' * (len(rows) != 1)}: {KIND_TEXTS[kind]}"
            for output, of_output in _by_output(rows):
                yield f"  {output}"
                for row in of_output[:limit]:
                    yield f"    {_row_line(row)} [{row_detail(row)}]"
                yield from _more(len(of_output), limit)
    if plan.elsewhere:
        yield ""
        yield f"{len(plan.elsewhere):,} {_not_there(plan)}"
        for output, of_output in _by_output(plan.elsewhere):
            yield f"  {output}: {_where_text(of_output)}"
            with_text = [row for row in of_output if row.text]
            yield from (f"    {_row_line(row)}" for row in with_text[:limit])
            yield from _more(len(with_text), limit)
    if plan.kept_rows:
        yield ""
        yield f"{len(plan.kept_rows):,} row{'s' * (len(plan.kept_rows) != 1)}: {KEPT_TEXT}"
        for output, of_output in _by_output(plan.kept_rows):
            yield f"  {output}"
            yield from (f"    {_row_line(row)}" for row in of_output[:limit])
            yield from _more(len(of_output), limit)
    if plan.kept:
        yield ""
        yield "lineage itself keeps"
        for kept in plan.kept:
            number = f"{kept.items:,}, " if kept.items else ""
            yield f"  {kept.kind}{f' of {kept.app}' if kept.app else ''}: {number}{kept.where} ({kept.holds})"
    yield ""
    yield (
        "exact: each row was made of them"
        if plan.exact
        else "superset: some rows may not be made of them"
    )
    yield from (f"  {reason}" for reason in plan.reasons)
    yield (
        "complete: no row is missing, as far as lineage knows"
        if plan.complete
        else "not complete: rows may be missing"
    )
    yield from (f"  {gap.warning()}" for gap in plan.gaps)
    yield from (f"note: {line}" for line in _notes(plan))
    yield ""
    yield "What this does not remove"
    yield from (f"  {line}" for line in plan.not_removed)
    yield ""
    yield f"plan {plan.digest}"


def html_of(plan: Plan) -> str:
    """A plan as one file of HTML: without scripts, without anything that is loaded, and all texts escaped."""
    title = "Erasure plan" if plan.purpose == "erase" else "Access report"
    return _PAGE.format(title=text(title), body=f"<h1>{text(title)}</h1>" + "".join(_parts(plan)))


def _parts(plan: Plan) -> Iterator[str]:
    yield note(summary(plan))
    yield (
        note("exact", "each row was made of them", "good")
        if plan.exact
        else note("superset", "some rows may not be made of them", "doubtful")
    )
    yield from (note("superset", reason, "doubtful") for reason in plan.reasons)
    yield (
        note("complete", "no row is missing, as far as lineage knows", "good")
        if plan.complete
        else note("not complete", "rows may be missing", "bad")
    )
    yield from (note("gap", gap.warning(), "bad") for gap in plan.gaps)
    yield from (note("note", line) for line in _notes(plan))
    yield _section("The subject's rows")
    yield block(
        [table(("place", "text"), [(code(place), code(shown)) for place, shown in _subject(plan)])]
    )
    for kind in _KINDS:
        rows = plan.of_kind(kind)
        yield _section(f"Rows, {KIND_TEXTS[kind]}: {len(rows):,}")
        for output, of_output in _by_output(rows):
            cells = [
                (code(row.shown_place), code(row.text or ""), text(row_detail(row)))
                for row in of_output
            ]
            yield block([heading(output), table(("place", "text", "basis"), cells)])
    yield _section(f"Overwritten, gone, not known, or in no file: {len(plan.elsewhere):,}")
    cells_of_outputs = [
        (text(output), text(_where_text(rows))) for output, rows in _by_output(plan.elsewhere)
    ]
    yield block([table(("output", "rows"), cells_of_outputs)])
    yield from _texts_of(row for row in plan.elsewhere if row.text)
    yield _section(f"Rows, {KEPT_TEXT}: {len(plan.kept_rows):,}")
    yield from _texts_of(plan.kept_rows)
    yield _section("What lineage itself keeps")
    kept_cells = [
        (text(kept.kind), text(kept.app), code(kept.where), str(kept.items or ""), text(kept.holds))
        for kept in plan.kept
    ]
    yield block([table(("what", "application", "where", "number", "holds"), kept_cells)])
    yield _section("What this does not remove")
    yield from (note("", line, "doubtful") for line in plan.not_removed)
    yield f"<p>{code(plan.digest)}</p>"


def _texts_of(rows: Iterable[ReachedRow]) -> Iterator[str]:
    for output, of_output in _by_output(list(rows)):
        cells = [(code(row.shown_place), code(row.text or "")) for row in of_output]
        yield block([heading(output), table(("place", "text"), cells)])


def _section(title: str) -> str:
    return f"<h2>{text(title)}</h2>"


def _subject(plan: Plan) -> Sequence[tuple[str, str]]:
    texts = plan.texts or ("",) * len(plan.places)
    return list(zip(plan.places, texts, strict=True))


def _notes(plan: Plan) -> Iterator[str]:
    yield from plan.notes
    for column, count in plan.incomparable.items():
        yield f"{count:,} rows have values of another type, or that are not in UTF-8, in {column}: they do not fulfil the condition"
    if plan.not_found:
        yield f"{plan.not_found:,} subjects have no row"


def _by_output(rows: Sequence[ReachedRow]) -> Iterator[tuple[str, Sequence[ReachedRow]]]:
    outputs: dict[tuple[str, str], list[ReachedRow]] = {}
    for row in rows:
        outputs.setdefault((row.app, row.node), []).append(row)
    for (app, _), of_output in outputs.items():
        first = of_output[0]
        yield f"{first.path or first.what or 'node'} ({first.label}, {app})", of_output


def _row_line(row: ReachedRow) -> str:
    return f"{row.shown_place}{f': {row.text}' if row.text else ''}"


def _where_text(rows: Sequence[ReachedRow]) -> str:
    counts: dict[str, int] = {}
    for row in rows:
        where = _where(row)
        counts[where] = counts.get(where, 0) + 1
    return ", ".join(f"{count:,} {where}" for where, count in counts.items())


def _where(row: ReachedRow) -> str:
    if row.is_cell:
        return "in cells of an array"
    return row.status if row.place is not None or row.path is not None else "in the program alone"


def _not_there(plan: Plan) -> str:
    unseen = ", or may be in files that can't be looked at from here or compared" * bool(
        plan.unseen
    )
    if len(plan.elsewhere) == 1:
        return f"row is not where it was written any more, or was in no file{unseen}"
    return f"rows are not where they were written any more, or were in no file{unseen}"


def _more(count: int, limit: int | None) -> Iterator[str]:
    if limit is not None and count > limit:
        yield f"    ... and {count - limit:,} more (--json and --html list all)"
