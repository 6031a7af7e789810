"""Jobs, their runs, and the datasets that they read and wrote."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from http import HTTPStatus
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Depends, Query

from lineage_core.tracing.budget import current_budget
from lineage_query.dataset_index import FRESH_S
from lineage_query.finding import find_application
from lineage_query.job_neighbours import GraphName, GraphSide, find_neighbours
from lineage_query.jobs import (
    Dataset,
    DatasetRun,
    DatasetRuns,
    Datasets,
    find_dataset_runs,
    find_datasets,
    job_of,
    job_of_run,
    jobs_of,
    runs_in_full,
    runs_of_job,
)
from lineage_query_api.dependencies import CallerScope, PageSize
from lineage_query_api.entity_tags import NOT_MODIFIED, TaggedRoute
from lineage_query_api.errors import ProblemError
from lineage_query_api.granted_runs import GrantedRuns
from lineage_query_api.models import (
    DatasetPage,
    DatasetRunPage,
    JobGraphModel,
    JobPage,
    NameText,
    NodeText,
    RunPage,
    SearchText,
)
from lineage_query_api.paging import page_of
from lineage_store.materialised import whose_rows

router = APIRouter(prefix="/v1", tags=["jobs"], route_class=TaggedRoute)
RUNS_READ = 1_000
DATASET_NAMES = 3
"""How many times a dataset in a list has its name, in full and not."""
DEPTH_MAX = 20
READ_S = 10.0
READ_MAX_S = 60.0
ListCursor = Annotated[str | None, Query(max_length=512, description="next of the page before")]
Runs = Annotated[
    int, Query(ge=1, le=100_000, description="the latest runs that are looked at for datasets")
]


_GraphStart: TypeAlias = GraphName | str
"""A job or dataset, or the id of a run of a job."""


async def _graph_start(
    app: Annotated[NodeText | None, Query(description="start at the job of this run")] = None,
    job: Annotated[NameText | None, Query(description="start at the job of this name")] = None,
    namespace: Annotated[
        NameText | None, Query(description="start at a dataset: with name")
    ] = None,
    name: Annotated[NameText | None, Query(description="of the dataset, such as /data/out")] = None,
) -> _GraphStart:
    if name is not None and namespace is not None and app is job is None:
        return GraphName(namespace, name)
    if name is namespace is None and (app is None) != (job is None):
        return app or GraphName(None, job or "")
    raise ProblemError(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "the graph needs one start",
        hint="give one of app, job, or namespace and name",
    )


@router.get("/jobs", responses=NOT_MODIFIED)
def list_jobs(scope: CallerScope, limit: PageSize = 50, cursor: ListCursor = None) -> JobPage:
    """Jobs with their last runs, those that ran latest first. A job is all applications of one name."""
    runs = GrantedRuns(scope)
    jobs = list(jobs_of(runs).values())
    page, following = page_of(jobs, lambda records: records[0].app, limit, cursor, "these jobs")
    items = [job_of(runs, records) for records in page]
    return JobPage(items=items, next=following, total=len(jobs))


@router.get("/jobs/graph", responses=NOT_MODIFIED)
def show_neighbours(
    scope: CallerScope,
    start: Annotated[_GraphStart, Depends(_graph_start)],
    side: Annotated[GraphSide, Query(description="what is followed from the start")] = (
        GraphSide.BOTH
    ),
    depth: Annotated[int, Query(ge=1, le=DEPTH_MAX, description="links from the start")] = 1,
    limit: Annotated[int, Query(ge=1, le=1_000, description="nodes, the nearest first")] = 100,
    read_s: Annotated[
        float,
        Query(ge=0, le=READ_MAX_S, description="seconds for runs that were not looked at yet"),
    ] = READ_S,
) -> JobGraphModel:
    """The jobs and datasets around one of them: the writers and readers of a dataset, what a job reads and writes."""
    index = scope.listed.dataset_index
    # Who sees a part of the store sees it as it is now: an id may have been given to another run.
    sees_all = scope.listed.store is scope.listed.unrestricted_store
    fresh_s = FRESH_S if sees_all else 0.0
    if isinstance(start, str):
        run = find_application(scope.listed.store, start)
        run = whose_rows(run, scope.listed.store.application_ids()) or run
        with index.reading():
            record = index.records.get(run) if sees_all else None
        start = GraphName(None, job_of_run(record or scope.listed.application(run)))
    job = start.name if start.namespace is None else None
    with scope.listed.turn():
        index.update(
            min(read_s, current_budget().left_s / 2),
            lambda record: job_of_run(record) == job,
            fresh_s=fresh_s,
        )
        visible = GrantedRuns(scope).visible_revisions()
        listed = scope.listed.store.application_ids()
        found = find_neighbours(
            index,
            start,
            listed,
            visible,
            revisions=None if sees_all else scope.listed.unrestricted_store.revisions(listed),
            side=side,
            depth=depth,
            limit=limit,
        )
    return JobGraphModel(
        nodes=list(found.nodes),
        links=list(found.links),
        truncated=found.truncated,
        runs=found.runs,
        runs_total=found.runs_total,
        runs_withheld=found.runs_withheld,
    )


@router.get("/runs", responses=NOT_MODIFIED)
def list_runs(
    scope: CallerScope,
    job: Annotated[NameText, Query(description="the name of the job")],
    limit: PageSize = 50,
    cursor: ListCursor = None,
) -> RunPage:
    """Runs of a job, the latest first, with what they read and wrote, and how much."""
    runs = GrantedRuns(scope)
    records = runs_of_job(runs, job)
    page, following = page_of(records, lambda run: run.app, limit, cursor, "these runs")
    return RunPage(items=runs_in_full(runs, page), next=following, total=len(records))


@router.get("/datasets", responses=NOT_MODIFIED)
def list_datasets(
    scope: CallerScope,
    search: Annotated[
        SearchText, Query(description="part of namespace and name, or NAME@VERSION of a table")
    ] = "",
    runs: Runs = RUNS_READ,
    limit: PageSize = 50,
    cursor: ListCursor = None,
) -> DatasetPage:
    """Datasets that the latest runs read and wrote, by name."""
    with scope.listed.turn():
        listed = find_datasets(GrantedRuns(scope), search, runs)
    page = page_of(listed.items, _key, limit, cursor, "these datasets")
    for dataset in page[0]:
        # Each may have all jobs.
        current_budget().count_text(sum(map(len, (*dataset.writers, *dataset.readers))))
        current_budget().count_name(dataset.name, DATASET_NAMES)
    return DatasetPage(**_fields(listed, *page))


@router.get("/datasets/runs", responses=NOT_MODIFIED)
def list_dataset_runs(
    scope: CallerScope,
    namespace: Annotated[NameText, Query(description="of the dataset, such as file")],
    name: Annotated[NameText, Query(description="of the dataset, such as /data/out")],
    runs: Runs = RUNS_READ,
    limit: PageSize = 50,
    cursor: ListCursor = None,
) -> DatasetRunPage:
    """The runs that read or wrote a dataset, the latest first."""
    with scope.listed.turn():
        listed = find_dataset_runs(GrantedRuns(scope), namespace, name, runs)
    page = page_of(listed.items, _run_key, limit, cursor, "the runs of this dataset")
    for run in page[0]:
        current_budget().count_name(run.use.name, DATASET_NAMES)
    return DatasetRunPage(**_fields(listed, *page))


def _fields(
    listed: Datasets | DatasetRuns, items: Sequence[object], following: str | None
) -> dict[str, Any]:
    """The fields of a page: its items, and how many runs they are of."""
    return {
        "items": list(items),
        "next": following,
        "total": len(listed.items),
        "runs": listed.runs,
        "runs_total": listed.runs_total,
        "runs_withheld": listed.runs_withheld,
    }


def _run_key(run: DatasetRun) -> str:
    return _hashed(run.app, str(run.wrote), run.use.namespace, run.use.name)


def _key(dataset: Dataset) -> str:
    return _hashed(dataset.namespace, dataset.name)


def _hashed(*names: str) -> str:
    """A cursor: names may be longer than a query takes."""
    return sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()
