"""Jobs, runs and datasets as tables and JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rich.filesize import decimal

from lineage.access import Access
from lineage.json_values import json_value
from lineage.options import print_json
from lineage.tables import console, moment_text, table_of
from lineage.terminal import echo
from lineage_openlineage.datasets import dataset_name
from lineage_query.job_graph import JobGraph, build_job_graph, job_graph_mermaid
from lineage_query.jobs import Dataset, DatasetName, DatasetRuns, Datasets, DatasetUse, Job, Run
from lineage_query.run_amounts import Amount
from lineage_query.showing import names_text

MOMENT = "%Y-%m-%d %H:%M"
WITHHELD = "?"
NAMES_SHOWN = 3


def show_jobs(jobs: Sequence[Job], *, as_json: bool) -> None:
    """One line for each job."""
    if as_json:
        print_json(json_value(list[Job], jobs))
        return
    table = table_of("job", "runs", "last run", "status", "lineage", "reads", "writes")
    table.columns[1].justify = "right"
    for job in jobs:
        run = job.last_run
        table.add_row(
            job.name,
            f"{job.runs:,}",
            moment_text(run.started_at, MOMENT),
            run.status,
            _lineage(run),
            *_content(run),
        )
    console().print(table)


def show_runs(runs: Sequence[Run], *, as_json: bool) -> None:
    """One line for each run."""
    if as_json:
        print_json([json_value(Run, run) | {"duration_s": run.duration_s} for run in runs])
        return
    columns = ("application", "started", "seconds", "status", "lineage", "reads", "writes")
    table = table_of(*columns, "amount read", "amount written")
    table.columns[2].justify = "right"
    for run in runs:
        table.add_row(
            run.app,
            moment_text(run.started_at, MOMENT),
            "" if run.duration_s is None else f"{run.duration_s:,.1f}",
            run.status,
            _lineage(run),
            *_content(run),
            *_amounts(run),
        )
    console().print(table)


def show_datasets(datasets: Datasets, *, as_json: bool) -> None:
    """One line for each dataset."""
    if as_json:
        print_json(json_value(Datasets, datasets))
        return
    with_versions = any(
        one.last_write and one.last_write.use.table_versions for one in datasets.items
    )
    columns = ("dataset", "written by", "read by", "last write")
    table = table_of(*columns, *(("table version",) if with_versions else ()))
    for dataset in datasets.items:
        written = dataset.last_write
        table.add_row(
            dataset.full_name,
            names_text(dataset.writers, NAMES_SHOWN),
            names_text(dataset.readers, NAMES_SHOWN),
            "" if written is None else moment_text(written.started_at, MOMENT),
            *([] if not with_versions else [""] if written is None else [_versions(written.use)]),
        )
    console().print(table)
    _show_left_out(datasets)


def show_dataset_runs(namespace: str, name: str, runs: DatasetRuns, *, as_json: bool) -> None:
    """One line for each run that read or wrote a dataset."""
    if as_json:
        document = json_value(DatasetRuns, runs)
        print_json({"namespace": namespace, "name": name, **document})
        return
    with_versions = any(run.use.table_versions for run in runs.items)
    columns = ("started", "job", "application", "status", "did", "files", "versions")
    table = table_of(*columns, *(("table version",) if with_versions else ()), "as")
    for column in (5, 6):
        table.columns[column].justify = "right"
    for run in runs.items:
        same = (run.use.namespace, run.use.name) == (namespace, name)
        table.add_row(
            moment_text(run.started_at, MOMENT),
            run.job,
            run.app,
            run.status,
            "write" if run.wrote else "read",
            f"{run.use.files:,}",
            f"{run.use.versions:,}",
            *([_versions(run.use)] if with_versions else []),
            "" if same else run.use.full_name,
        )
    console().print(table)
    _show_left_out(runs)


def print_job_graph(access: Access, around: str, *, mermaid: bool, as_json: bool) -> None:
    """Jobs and datasets with their links; ``around``: a job or a dataset, by its name or as a path of this machine."""
    found = access.datasets("")
    names = {dataset.full_name for dataset in found.items}
    jobs = {job for dataset in found.items for job in (*dataset.writers, *dataset.readers)}
    if around and around not in names | jobs:
        name = dataset_named(access, found.items, around)
        around = next(
            (one.full_name for one in found.items if (one.namespace, one.name) == name), around
        )
    graph = build_job_graph(found, around)
    if as_json:
        print_json(json_value(JobGraph, graph))
    elif mermaid:
        echo(job_graph_mermaid(graph), nl=False)
    else:
        reads: dict[str, list[str]] = {}
        writes: dict[str, list[str]] = {}
        for dataset, job in graph.reads:
            reads.setdefault(job, []).append(dataset)
        for job, dataset in graph.writes:
            writes.setdefault(job, []).append(dataset)
        table = table_of("reads", "job", "writes")
        for job in graph.jobs:
            table.add_row("\n".join(reads.get(job, ())), job, "\n".join(writes.get(job, ())))
        console().print(table)
        _show_left_out(graph)


def _show_left_out(found: Datasets | DatasetRuns | JobGraph) -> None:
    """Say which runs the list leaves out."""
    if found.runs < found.runs_total:
        echo(f"of the latest {found.runs:,} of {found.runs_total:,} runs")
    if found.runs_withheld:
        echo(f"{found.runs_withheld:,} runs do not say here what they read and wrote")


def dataset_named(access: Access, datasets: Sequence[Dataset], text: str) -> DatasetName | None:
    """The dataset whose whole name a text is, or that it is the path of; None: there is none, or several.

    Names with their namespace come first: only these mean one dataset wherever it is. ``datasets``: those whose names
    hold the text.
    """
    path = dataset_name(os.path.abspath(text))
    matching = (
        [dataset for dataset in datasets if dataset.full_name == text]
        or [dataset for dataset in datasets if dataset.name == text]
        or [
            dataset
            for dataset in access.datasets(path[1]).items
            if (dataset.namespace, dataset.name) == path
        ]
    )
    return (matching[0].namespace, matching[0].name) if len(matching) == 1 else None


def _lineage(run: Run) -> str:
    """How complete and exact the lineage of a run is."""
    if run.complete is None:
        return WITHHELD
    if not run.complete:
        return "incomplete"
    return "complete" if run.exact is None else "exact" if run.exact else "superset"


def _content(run: Run) -> tuple[str, str]:
    """What a run read and wrote."""
    if run.content is None:
        return WITHHELD, WITHHELD
    content = run.content
    return (
        _used(content.reads, content.reads_without_files),
        _used(content.writes, content.writes_without_files),
    )


def _amounts(run: Run) -> tuple[str, str]:
    """How much a run read and wrote."""
    if run.content is None:
        return WITHHELD, WITHHELD
    content = run.content
    return (
        amount_text(content.read, is_none=not (content.reads or content.reads_without_files)),
        amount_text(content.written, is_none=not (content.writes or content.writes_without_files)),
    )


def amount_text(amount: Amount, *, is_none: bool) -> str:
    """Bytes and rows, as far as they are known. ``is_none``: nothing is known to have been read, or written."""
    if is_none:
        return ""
    parts = [] if amount.rows is None else [f"{amount.rows:,} row{'s' * (amount.rows != 1)}"]
    parts += [] if amount.bytes is None else [decimal(amount.bytes)]
    return ", ".join(parts) or "not known"


def _used(uses: Sequence[DatasetUse], others: Sequence[str]) -> str:
    return names_text([*(use.full_name for use in uses), *others], NAMES_SHOWN)


def _versions(use: DatasetUse) -> str:
    """The versions of a table that a run used, the latest first."""
    return names_text(use.table_versions[::-1], NAMES_SHOWN)
