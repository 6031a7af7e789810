"""``lineage replay``: a job again on the rows that made some of its output's, or without some of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import typer

from lineage.frame_traces import spark_session
from lineage.options import EXIT_INCOMPLETE, print_json
from lineage.refusing_servers import refuse_server
from lineage.terminal import echo
from lineage_core.environment.private_files import ensure_private_folder, private_opener
from lineage_core.recipe.document import Recipe
from lineage_core.tracing.trace_result import TraceError
from lineage_dataframes.sandbox.starting import written_folder
from lineage_dataframes.sources.file_changes import local_path
from lineage_dataframes.sources.row_texts import json_of_row, text_of_row
from lineage_dataframes.trace.job_chains import JobChain, Upstream, Write
from lineage_dataframes.trace.output_changes import OutputChanges
from lineage_dataframes.trace.replay import STATE_TEXTS, Replay, Replayer
from lineage_dataframes.trace.requested_recipes import RequestedRecipe, requested_recipe
from lineage_dataframes.trace.source_rows import source_rows_at
from lineage_query.rows.reader import RowReader, reading_by
from lineage_query.showing import rows_text
from lineage_store.paths import open_file
from lineage_store.url import index_folder, open_store


def replay(
    url: str,
    places: Sequence[str],
    excluded: Sequence[str],
    to: str,
    app: str,
    where: str,
    *,
    all_jobs: bool = False,
    as_json: bool,
) -> None:
    """Replay rows, and print each as the job gave it and as the replay gives it.

    ``excluded``: rows of sources that are left out. ``to``: a new or empty folder for the rows of the replay; none: they are
    shown alone. ``all_jobs``: replay the jobs, too, that wrote what the job read. Ends with `EXIT_INCOMPLETE` where a replay on all witnesses does
    not give the job's rows.

    Raises:
        LineageError: there are no such rows, or they can't be replayed.
        OSError: the folder can't be written.
    """
    refuse_server(url, "rows are replayed")
    with open_store(url) as store:
        reader = RowReader(index_folder(url))
        requested = requested_recipe(store, reader, places, app or None, where)
        folder = Path(to).absolute() if to else None
        if folder is not None:
            check_new_folder(folder, paths_of_recipe(requested.recipe))
        with spark_session() as spark, reading_by(reader):
            chain = JobChain(spark, store, reader)
            before = (
                chain.without(requested, excluded)
                if all_jobs and excluded
                else Upstream(source_rows_at(spark, requested.recipe, excluded))
            )
            replayer = Replayer(spark, requested.recipe, requested.output(spark))
            parent = os.path.realpath(written_folder() or tempfile.gettempdir())
            with tempfile.TemporaryDirectory(prefix="lineage-replay-", dir=parent) as scratch:
                written = None if folder is None else Path(scratch, "rows")
                outcome = replayer.replay(before.left_out, written, before.added)
                replays: list[tuple[Write, Replay]] = []
                if all_jobs and not excluded:
                    replays = list(chain.replays_before(requested, replayer.witnesses))
                if folder is not None and written is not None:
                    for write, _ in (*before.changes, *replays):
                        check_new_folder(folder, paths_of_recipe(write.recipe))
                    copy_rows(written, folder)
            uncertain = (*before.uncertain, *chain.uncertain, *outcome.uncertain)
            outcome = replace(outcome, uncertain=tuple(dict.fromkeys(uncertain)))
    for warning in requested.warnings:
        echo(f"lineage: {warning}", err=True)
    if as_json:
        jobs = {"jobs": _jobs_to_json(before.changes, replays)} if all_jobs else {}
        print_json(_to_json(requested, outcome, to) | jobs)
    else:
        for reason in () if excluded else chain.uncertain:
            echo(f"lineage: {reason}", err=True)
        _show_jobs(before.changes, replays)
        _show(outcome, to, _heading(outcome, before) if all_jobs and excluded else "")
    if not excluded and not all(one.reproduced for one in (outcome, *(r for _, r in replays))):
        raise typer.Exit(EXIT_INCOMPLETE)


def copy_rows(written: Path, folder: Path) -> None:
    """Copy the files that Spark wrote, a folder by its canonical path, into a new or empty one.

    Functions of the recipe, which run confined, may write there too: links are not followed, and what is there is not changed.

    Raises:
        TraceError: something there is no file.
        OSError: the folder can't be written.
    """
    ensure_private_folder(folder)
    for name in sorted(os.listdir(written)):
        try:
            source = open_file(str(written / name), links=False)
        except OSError as problem:
            raise TraceError(
                f"{name} among the rows of the replay is no file of Spark's: {problem}"
            ) from problem
        with source, open(folder / name, "xb", opener=private_opener) as copy:
            shutil.copyfileobj(source, copy)


def check_new_folder(folder: Path, own: Iterable[Path]) -> None:
    """See that rows may be written to a folder: it is new or empty, and no part of what the job read or wrote.

    ``own``: what that is, by real paths.

    Raises:
        TraceError: they may not.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TraceError(f"{folder} is there: name a new folder, or an empty one")
    real = folder.resolve()
    for path in own:
        if path == real or path in real.parents:
            raise TraceError(f"{folder} lies in {path}, which the job read or wrote: name another")


def paths_of_recipe(recipe: Recipe) -> Iterator[Path]:
    """What a job read and wrote on this machine, by real paths."""
    paths = [path for source in recipe.sources for path in source.paths]
    paths += [file.path for source in recipe.sources for file in source.files]
    paths += [recipe.output.path or "", *(file.path for file in recipe.output.files)]
    for path in filter(None, paths):
        local = local_path(path)
        if local is not None:
            yield local.resolve()


def _to_json(requested: RequestedRecipe, outcome: Replay, to: str) -> dict[str, Any]:
    row = partial(json_of_row, outcome.columns)
    return {
        "app": requested.app,
        "node": requested.node,
        "columns": list(outcome.columns),
        "rows": [
            {"before": row(one.before), "after": row(one.after), "state": one.state}
            for one in outcome.rows
        ],
        "new": [row(values) for values in outcome.new],
        "witnesses": outcome.witnesses,
        "left_out": outcome.left_out,
        "unused": outcome.unused,
        "read": "all other rows" if outcome.reads_all_rows else "witnesses",
        "reproduced": None if outcome.left_out else outcome.reproduced,
        "reasons": list(outcome.reasons),
        "uncertain": list(outcome.uncertain),
        "to": to or None,
    }


def _jobs_to_json(
    changes: Sequence[tuple[Write, OutputChanges]], replays: Sequence[tuple[Write, Replay]]
) -> list[dict[str, Any]]:
    """Of the jobs before, from the first one on, what became of their outputs; of replays on witnesses, from the last one on, what came out as it was."""
    named = [
        {"app": write.node.app, "node": write.node.node, "output": write.name}
        for write, _ in (*changes, *replays)
    ]
    counts: list[dict[str, Any]] = [
        {"changed": of.changed, "gone": of.gone, "new": of.new} for _, of in changes
    ]
    counts += [
        {
            "rows": len(of.rows),
            "witnesses": of.witnesses,
            "reproduced": of.reproduced,
            "reasons": [*of.reasons, *of.uncertain],
        }
        for _, of in replays
    ]
    return [name | count for name, count in zip(named, counts, strict=True)]


def _show_jobs(
    changes: Sequence[tuple[Write, OutputChanges]], replays: Sequence[tuple[Write, Replay]]
) -> None:
    for write, of in changes:
        echo(
            f"{write.name}: without these rows {rows_text(of.changed)} otherwise, {rows_text(of.gone)} not at all, {of.new:,} new"
        )
    for write, replay_of in replays:
        same = sum(row.state == "same" for row in replay_of.rows)
        echo(
            f"{write.name}: {same:,} of {rows_text(len(replay_of.rows))} came out as the job gave them, of {rows_text(replay_of.witnesses)} of its sources"
        )


def _heading(outcome: Replay, before: Upstream) -> str:
    """What a replay without rows of the jobs before read."""
    if before.changes:
        return "replayed over what the jobs before it give without these rows"
    return "" if outcome.left_out else "what the job read is the same without these rows"


def _show(outcome: Replay, to: str, heading: str) -> None:
    is_of_chain = bool(heading)
    echo(heading or outcome.heading, fg=typer.colors.CYAN)
    for row in outcome.rows:
        echo(f"before  {text_of_row(outcome.columns, row.before)}", bold=True)
        after = "" if row.after is None else text_of_row(outcome.columns, row.after)
        echo(f"after   {STATE_TEXTS.get(row.state, after)}")
    for values in outcome.new:
        echo(f"new     {text_of_row(outcome.columns, values)}")
    if outcome.unused and not is_of_chain:
        echo(
            f"lineage: {outcome.unused:,} of the rows that were left out did not make the requested rows",
            err=True,
        )
    if to:
        echo(f"written to {to}")
    if outcome.reads_all_rows:
        _list(
            "read all other rows of the sources, as the output's rows depend on more:",
            outcome.reasons,
        )
    elif not outcome.left_out and not is_of_chain and not outcome.reproduced:
        _list("differs from the job's:", outcome.differences)
    if outcome.left_out or is_of_chain:
        _list("not certain:", outcome.uncertain)


def _list(heading: str, reasons: Sequence[str]) -> None:
    if not reasons:
        return
    echo("")
    echo(heading, fg=typer.colors.YELLOW)
    for reason in reasons:
        echo(f"  {reason}")
