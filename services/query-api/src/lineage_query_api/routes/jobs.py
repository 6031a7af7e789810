"""Jobs, their runs, and the datasets that they read and wrote."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated, Any

from fastapi import APIRouter, Query

from lineage_query.jobs import (
    Dataset,
    DatasetRun,
    DatasetRuns,
    Datasets,
    find_dataset_runs,
    find_datasets,
    job_of,
    jobs_of,
    run_of,
    runs_of_job,
)
from lineage_query_api.dependencies import CallerScope, PageSize
from lineage_query_api.entity_tags import NOT_MODIFIED, TaggedRoute
from lineage_query_api.granted_runs import GrantedRuns
from lineage_query_api.models import (
    DatasetPage,
    DatasetRunPage,
    JobPage,
    NameText,
    RunPage,
    SearchText,
)
from lineage_query_api.paging import page_of

router = APIRouter(prefix="/v1", tags=["jobs"], route_class=TaggedRoute)
RUNS_READ = 1_000
ListCursor = Annotated[str | None, Query(max_length=512, description="next of the page before")]
Runs = Annotated[
    int, Query(ge=1, le=100_000, description="the latest runs that are looked at for datasets")
]


@router.get("/jobs", responses=NOT_MODIFIED)
def list_jobs(scope: CallerScope, limit: PageSize = 50, cursor: ListCursor = None) -> JobPage:
    """Jobs with their last runs, those that ran latest first. A job is all applications of one name."""
    runs = GrantedRuns(scope)
    jobs = list(jobs_of(runs).values())
    page, following = page_of(jobs, lambda records: records[0].app, limit, cursor, "these jobs")
    items = [job_of(runs, records) for records in page]
    return JobPage(items=items, next=following, total=len(jobs))


@router.get("/runs", responses=NOT_MODIFIED)
def list_runs(
    scope: CallerScope,
    job: Annotated[NameText, Query(description="the name of the job")],
    limit: PageSize = 50,
    cursor: ListCursor = None,
) -> RunPage:
    """Runs of a job, the latest first, with what they read and wrote."""
    runs = GrantedRuns(scope)
    records = runs_of_job(runs, job)
    page, following = page_of(records, lambda run: run.app, limit, cursor, "these runs")
    items = [run_of(runs, record) for record in page]
    return RunPage(items=items, next=following, total=len(records))


@router.get("/datasets", responses=NOT_MODIFIED)
def list_datasets(
    scope: CallerScope,
    search: Annotated[SearchText, Query(description="part of namespace and name")] = "",
    runs: Runs = RUNS_READ,
    limit: PageSize = 50,
    cursor: ListCursor = None,
) -> DatasetPage:
    """Datasets that the latest runs read and wrote, by name."""
    with scope.listed.turn():
        listed = find_datasets(GrantedRuns(scope), search, runs)
    page = page_of(listed.items, _key, limit, cursor, "these datasets")
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
