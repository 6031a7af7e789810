"""The graph of jobs and datasets: which job writes what which other job reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lineage_query.finding import NotFoundError
from lineage_query.flowchart import quoted
from lineage_query.jobs import Datasets


@dataclass(frozen=True, slots=True)
class JobGraph:
    """Jobs and datasets by name, and which of them are linked.

    Datasets have their full names. ``reads``: pairs of a dataset and a job that reads it. ``writes``: pairs of a job and a
    dataset that it writes. Other fields as those of :class:`lineage_query.jobs.Datasets`.
    """

    jobs: tuple[str, ...]
    datasets: tuple[str, ...]
    reads: tuple[tuple[str, str], ...]
    writes: tuple[tuple[str, str], ...]
    runs: int
    runs_total: int
    runs_withheld: int = 0


def build_job_graph(found: Datasets, around: str = "") -> JobGraph:
    """The graph of datasets and the jobs that write and read them.

    Args:
        found: all datasets.
        around: full name of a dataset, or name of a job: what leads to it and what it leads to, over any number of jobs.
            Empty: all.

    Raises:
        NotFoundError: there is no such dataset or job.
    """
    graph = _graph(found)
    if not around:
        return graph
    if around not in {*graph.jobs, *graph.datasets}:
        raise NotFoundError(
            f"there is no job or dataset {around!r:.200}; `lineage jobs` and `lineage datasets` list them"
        )
    start = [("job", around)] * (around in graph.jobs) + [("dataset", around)] * (
        around in graph.datasets
    )
    forward: dict[tuple[str, str], list[tuple[str, str]]] = {}
    backward: dict[tuple[str, str], list[tuple[str, str]]] = {}
    links = [
        *((("dataset", dataset), ("job", job)) for dataset, job in graph.reads),
        *((("job", job), ("dataset", dataset)) for job, dataset in graph.writes),
    ]
    for origin, target in links:
        forward.setdefault(origin, []).append(target)
        backward.setdefault(target, []).append(origin)
    reached = _reached(start, forward) | _reached(start, backward)
    return JobGraph(
        tuple(job for job in graph.jobs if ("job", job) in reached),
        tuple(dataset for dataset in graph.datasets if ("dataset", dataset) in reached),
        tuple(pair for pair in graph.reads if {("dataset", pair[0]), ("job", pair[1])} <= reached),
        tuple(pair for pair in graph.writes if {("job", pair[0]), ("dataset", pair[1])} <= reached),
        graph.runs,
        graph.runs_total,
        graph.runs_withheld,
    )


def _graph(found: Datasets) -> JobGraph:
    jobs: dict[str, None] = {}
    names: list[str] = []
    reads: list[tuple[str, str]] = []
    writes: list[tuple[str, str]] = []
    for dataset in found.items:
        names.append(dataset.full_name)
        writes += ((job, dataset.full_name) for job in dataset.writers)
        reads += ((dataset.full_name, job) for job in dataset.readers)
        jobs |= dict.fromkeys((*dataset.writers, *dataset.readers))
    totals = found.runs, found.runs_total, found.runs_withheld
    return JobGraph(tuple(sorted(jobs)), tuple(names), tuple(reads), tuple(writes), *totals)


def _reached(
    start: Iterable[tuple[str, str]], links: Mapping[tuple[str, str], Iterable[tuple[str, str]]]
) -> set[tuple[str, str]]:
    reached = set(start)
    pending = list(reached)
    while pending:
        for target in links.get(pending.pop(), ()):
            if target not in reached:
                reached.add(target)
                pending.append(target)
    return reached


def job_graph_mermaid(graph: JobGraph) -> str:
    """The graph as a Mermaid flowchart: jobs as boxes, datasets as cylinders."""
    jobs = {job: f"j{at}" for at, job in enumerate(graph.jobs)}
    datasets = {dataset: f"d{at}" for at, dataset in enumerate(graph.datasets)}
    lines = ["flowchart LR"]
    lines += (f'    {node}["{quoted(job)}"]' for job, node in jobs.items())
    lines += (f'    {node}[("{quoted(dataset)}")]' for dataset, node in datasets.items())
    lines += (f"    {datasets[dataset]} --> {jobs[job]}" for dataset, job in graph.reads)
    lines += (f"    {jobs[job]} --> {datasets[dataset]}" for job, dataset in graph.writes)
    return "\n".join(lines) + "\n"
