"""What requests about rows of a person hold, and their answers: the same keys as `lineage erase --plan --json`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from lineage_query.erasure.finding import ROWS_MAX, SUBJECTS_MAX, SubjectQuery, Subjects
from lineage_query.erasure.keeping import KeptKind
from lineage_query.erasure.plan import Purpose
from lineage_query.erasure.reached import Kind
from lineage_query.erasure.source_rows import SourceForm
from lineage_query_api.answer_models import NotQueriedModel
from lineage_query_api.models import (
    NO_NUL,
    PLACE_MAX,
    ConditionText,
    FrozenModel,
    RequestModel,
    StandingText,
)

COLUMNS_MAX = 1_000
ROW_MAX = 10**18 - 1
SOURCE = r"^((/|[A-Za-z][A-Za-z0-9+.-]*://)[^\x00]*|[^/\\:\x00]+)$"
"""A whole path, a URL, or a name without signs of a path."""
ColumnText = Annotated[str, StringConstraints(min_length=1, max_length=1_000, pattern=NO_NUL)]
KeyText = Annotated[str, StringConstraints(min_length=1, max_length=PLACE_MAX, pattern=NO_NUL)]
RowNumber = Annotated[int, Field(ge=0, le=ROW_MAX)]


class SubjectsModel(RequestModel):
    """Persons by keys: texts of values in some columns of the source."""

    columns: list[ColumnText] = Field(min_length=1, max_length=COLUMNS_MAX)
    keys: list[list[KeyText]] = Field(
        min_length=1, max_length=SUBJECTS_MAX, description="each with one value for each column"
    )


class SubjectRequest(RequestModel):
    """Which rows of a source are a person's: by one of ``where``, ``rows`` and ``subjects``."""

    source: Annotated[
        str, StringConstraints(min_length=1, max_length=PLACE_MAX, pattern=SOURCE)
    ] = Field(
        description="a file or folder by its whole path or its URL, or a table by the name that a captured program gave it, below LINEAGE_API_ROOTS",
        examples=["/data/customers.csv"],
    )
    where: ConditionText | None = Field(None, examples=["id = 42"])
    rows: list[RowNumber] = Field(
        default=[],
        max_length=ROWS_MAX,
        description="lines of one file from 1, or records of Parquet from 0",
    )
    subjects: SubjectsModel | None = None
    format: Literal["csv", "json", "text", "parquet"] | None = Field(
        None, description="how the source is read; null: by the names of files"
    )
    columns: list[ColumnText] = Field(
        default=[], max_length=COLUMNS_MAX, description="of CSV without a header"
    )
    separator: Annotated[str, StringConstraints(max_length=1, pattern=NO_NUL)] = Field(
        "", description="of CSV"
    )
    expect: int | None = Field(
        None, ge=1, le=ROWS_MAX, description="refuse unless just so many rows are found"
    )
    identity: list[ColumnText] = Field(
        default=[],
        max_length=COLUMNS_MAX,
        description="refuse unless all rows have one value in each of these columns",
    )


def subject_query(body: SubjectRequest) -> SubjectQuery:
    """The query of a request.

    Raises:
        SubjectError: a key has not one value for each column.
        ConditionError: the separator is none.
    """
    subjects = body.subjects
    return SubjectQuery(
        body.source,
        body.where or "",
        tuple(body.rows),
        Subjects() if subjects is None else Subjects.of(subjects.columns, subjects.keys),
        SourceForm(body.format or "", body.separator, tuple(body.columns)),
        body.expect,
        tuple(body.identity),
    )


class PlanRow(FrozenModel):
    """A row of an output that the subject's rows went into."""

    app: str
    node: str
    label: str
    what: str
    place: str | None = Field(
        description="where it is; null: in no file, in one that is gone, or at a place that is not known"
    )
    path: str | None = Field(description="of the output")
    status: StandingText = Field(description="its file compared with what the job wrote")
    exact: bool = Field(description="false: the subject's rows may have gone into it, or not")
    kept: bool = Field(description="lineage itself keeps it")
    text: str | None = Field(description="what it holds, in answers of access requests")
    kind: Kind = Field(
        description="carries the subject's rows; mixed: a value that others went into, too"
    )
    basis: str = Field(description="by which that is known")
    others: int | None = Field(
        description="other rows of the same source that went into it; null: not known"
    )
    at_least: bool = Field(description="or more than others")
    columns: list[str] = Field(description="of the subject's rows, whose values stand in it")
    there: bool = Field(description="it is where the job wrote it")


class KeptModel(FrozenModel):
    """Something that lineage itself keeps."""

    kind: KeptKind
    app: str
    where: str
    items: int
    holds: str


class PlanModel(FrozenModel):
    """Where a subject's rows are, and what they went into."""

    version: int
    digest: str = Field(description="equal plans have the same")
    purpose: Purpose
    source: str
    condition: str
    subject: list[str] = Field(description="places of the subject's rows")
    texts: list[str] = Field(description="what these hold, in answers of access requests")
    searched: int
    rows: list[PlanRow]
    kept: list[KeptModel]
    apps: list[str]
    exact: bool
    reasons: list[str]
    complete: bool = Field(description="no row is missing, as far as is known; gaps say why not")
    gaps: list[NotQueriedModel]
    notes: list[str]
    incomparable: dict[str, int] = Field(
        description="by column, rows whose values can't be compared with the condition's"
    )
    not_found: int = Field(description="keys of subjects that no row has")
    not_removed: list[str] = Field(description="what an erasure by this plan leaves")
